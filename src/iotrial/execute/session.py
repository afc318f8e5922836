"""A session on a host: the host made ready for a study, and everything it will be owed.

Inside the context the targets exist, the group of every device is in the journal, and treatments
can be held.  Leaving it pays the journal, by the same code that ``iotrial restore`` uses.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iotrial.errors import HostUnreachable, OwedError
from iotrial.execute.load.load import TOKEN
from iotrial.execute.load.sealed import SandboxSupport
from iotrial.execute.settings.debris import file_debt
from iotrial.execute.settings.guard import guarded, lease_of
from iotrial.execute.settings.journal import (
    Journal,
    ResourceUndo,
    SettingsUndo,
    journal_path,
    open_journal,
)
from iotrial.execute.settings.restore import WAY_OUT, RestoreReport, boot_id, pay
from iotrial.execute.settings.tuning import (
    SettingsGroup,
    changes,
    hold,
    read_back_and,
    release,
    scope_of,
    snapshots,
)
from iotrial.execute.targets.loops import LoopInUse, make_loop, plan_loop
from iotrial.execute.targets.making import TargetSite, lay_out, make, on_filesystem
from iotrial.hosts.places import journal_folder, lock_path
from iotrial.look.identity import BLOCK, identify
from iotrial.look.kernels import KernelIdentity
from iotrial.look.reach import reach_of, within
from iotrial.look.targets import doubts, ready
from iotrial.look.topology import topology
from iotrial.model.host import Host
from iotrial.model.step import Probe
from iotrial.model.study import Study, StudyHost
from iotrial.model.target import DeviceIdentity, PreparedTarget, Target, Topology
from iotrial.model.trial import Doubt
from iotrial.model.tunable import Setting
from iotrial.tunables import catalogue_of, written
from iotrial.tunables.boot import is_boot

NO_KERNEL = KernelIdentity("", ())

_MOST_SAMPLED = 64
TRIES = 5
"""How many numbers are tried for a loop device."""


@dataclass
class HostSession:
    """A host at work for a study, its targets ready.  ``payment`` collects what is given back at
    the end.  ``aims`` and ``topologies`` are by target, ``groups`` by
    device name; ``group`` is the control group that the load runs in ('': none); ``held`` are the
    settings in force now beyond the former state; ``gone_with`` names the devices and mount
    points that exist only as long as this session; ``left`` what loads leave, by path, with what
    removes it (None: it was there before us); ``laid`` the targets whose file was not there before
    us; ``inodes`` what the folders of tools are known by (:mod:`iotrial.look.inodes`);
    ``means`` what loads are sealed with here (None: nobody asked yet); ``began`` when the first
    load did, by the host's clock in seconds since the epoch; ``kernel`` which one it is, where
    several hosts may share one; ``numbers`` are those that options of workloads may use."""

    host: Host
    study: Study
    journal: Journal
    payment: RestoreReport = field(default_factory=RestoreReport)
    aims: dict[str, PreparedTarget] = field(default_factory=dict)
    topologies: dict[str, Topology] = field(default_factory=dict)
    groups: dict[str, SettingsGroup] = field(default_factory=dict)
    group: str = ""
    doubts: list[Doubt] = field(default_factory=list)
    held: tuple[Setting, ...] = ()
    gone_with: set[str] = field(default_factory=set)
    left: dict[str, ResourceUndo | None] = field(default_factory=dict)
    laid: set[str] = field(default_factory=set)
    inodes: dict[str, str] = field(default_factory=dict)
    means: SandboxSupport | None = None
    began: int = 0
    kernel: KernelIdentity = NO_KERNEL
    numbers: dict[str, float] = field(default_factory=dict)

    @property
    def place(self) -> StudyHost:
        return self.study.place

    @property
    def name(self) -> str:
        return self.place.name

    def in_force(self) -> dict[tuple[str, str], str]:
        """(device, tunable) → value, as it was before iotrial changed anything."""
        return {
            (setting.device, setting.tunable): setting.value
            for group in self.groups.values()
            for setting in group.values
        }

    def own_groups(self, wanted: Mapping[str, Sequence[str]]) -> None:
        """Read the groups of these tunables (device → names), and owe them before anything is
        written.

        A device that iotrial made owes nothing but its own removal, and its settings go with it:
        owed, they would be looked for on a device that a half-done removal has emptied.
        """
        groups = snapshots(self.host, wanted, catalogue_of(self.study))
        mine = [group for group in groups if group.device not in self.gone_with]
        identities = {g.device: self._identity(g) for g in mine}
        self.journal.owe_all(
            SettingsUndo(g.device, identities[g.device], g.owed, g.witnesses) for g in mine
        )
        self.groups |= {group.device: group for group in groups}

    def _identity(self, group: SettingsGroup) -> DeviceIdentity | None:
        """Who the device of a group is; None where the group is not a block device's."""
        if scope_of(group) not in BLOCK:
            return None
        known = (aim.identity for aim in self.aims.values() if aim.device == group.device)
        return next(filter(None, known), None) or identify(self.host, f"/dev/{group.device}")

    @property
    def token(self) -> str:
        """Names the target that is made now, in this session."""
        return f"{self.journal.token}-{len(self.aims)}"

    def hold(self, settings: Sequence[Setting]) -> None:
        """Make a treatment's settings be in force, starting from the former state, so that what
        is in force depends on the treatment alone and not on the one before it.  What only a boot
        changes is not set here (:mod:`iotrial.execute.boot`)."""
        wanted = tuple(each for each in settings if not is_boot(each.tunable))
        if wanted == self.held and self.observed() == self._observed_held:
            return
        self.held = wanted
        self._observed_held = hold(
            self.host, tuple(self.groups.values()), wanted, catalogue_of(self.study)
        )

    _observed_held: tuple[Setting, ...] = ()

    def observed(self) -> tuple[Setting, ...]:
        """Every value of every group, read now.  Raises OwedError where the journal that says what
        was there before is not what was written."""
        seen, answer = read_back_and(self.host, self.groups.values(), self.journal.look)
        self.journal.check(answer)
        return seen

    def displaced(self, now: Sequence[Setting]) -> tuple[str, ...]:
        """What the study varies and is not in ``now`` as the last :meth:`hold` read it, in words:
        ``queue.read_ahead_kb on sdb went from 128 to 512``.  Of the rest of a group a chore may
        set what it likes, alike for all treatments."""
        held = tuple(each for each in self._observed_held if each.tunable in self._varied)
        return tuple(changes(held, now))

    def sampled(self) -> tuple[tuple[str, str, Probe], ...]:
        """What the study varies, (device, tunable, where it is read), of that what is a file: a
        program once a second would be a load of its own."""
        found = (
            (group.device, knob.name, knob.probe(group.device))
            for group in self.groups.values()
            for knob in group.tunables
            if knob.name in self._varied
        )
        return tuple(each for each in found if each[2].path)[:_MOST_SAMPLED]

    @property
    def _varied(self) -> frozenset[str]:
        """The tunables that any level of the study sets."""
        known = catalogue_of(self.study)
        return frozenset(
            written(known.tunable(name).name)
            for factor in self.study.factors
            for level in factor.levels
            for name, _ in level.settings
        )

    def release(self) -> None:
        """Back to the former state.  Raises OwedError when a value does not go back."""
        self.held = ()
        self._observed_held = ()
        release(self.host, self.groups.values())


@contextmanager
def open_session(
    host: Host, study: Study, *, results: Path, payment: RestoreReport
) -> Iterator[HostSession]:
    """Make every target of the study ready on ``host``; on the way out pay all that is owed.

    The caller holds the host's lock and has paid what earlier sessions owed.  Raises OwedError
    (exit 4) when something could not be given back, whatever else went wrong inside.
    """
    folder = journal_folder(host)
    token = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"
    lease = lease_of(host, study.place.lease)
    with guarded(host, journal_path(folder, token), lock_path(host), lease):
        journal = open_journal(host, folder, _header(host, study, results, token))
        host.mark({TOKEN: token})
        session = HostSession(host, study, journal, payment)
        try:
            for target in study.targets:
                session.aims[target.name] = _make_ready(session, target)
                session.topologies[target.name] = topology(host, session.aims[target.name])
            yield session
        finally:
            with _within_reach(session):
                host.mark({})
                pay_all(journal, payment)


def pay_all(journal: Journal, payment: RestoreReport) -> None:
    """Pay what this session owes, from memory.  Raises OwedError where something does not go back,
    and where the journal was not what was written: whoever did that may have done more."""
    host = journal.host
    with suppress(OwedError):
        journal.check(*host.batch([journal.look]))
    pay(host, journal.session(), payment)
    lost = f"{journal.path} {journal.lost} during this run; " if journal.lost else ""
    if payment.owed:
        raise OwedError(
            f"{host.name}: {lost}{len(payment.owed)} items could not be restored:",
            owed=payment.owed,
            advice=WAY_OUT,
        )
    if lost:
        raise OwedError(
            f"{host.name}: {lost}these were restored from memory and verified:",
            owed=journal.describe(),
            advice="Find the process or disk fault that removes or changes files there before"
            " the next run: only the journal allows settings to be restored after a"
            " crash. The trial in progress is excluded.",
        )


@contextmanager
def _within_reach(session: HostSession) -> Iterator[None]:
    """A host that is out of reach is owed what it was owed; its guard pays."""
    try:
        yield
    except HostUnreachable as error:
        if not (owed := session.journal.describe()):
            raise
        place = session.study.place
        there = f"{'-- ' if place.way.startswith('-') else ''}'{place.way}'"
        raise OwedError(
            f"{error.message}; iotrial cannot restore its settings now:",
            owed=owed,
            advice=f"Its guard restores all settings within {place.lease:.0f} s of the loss."
            f" Check: iotrial status {there}; or restore: iotrial restore {there}",
        ) from error


def _header(host: Host, study: Study, results: Path, token: str) -> Mapping[str, Any]:
    return {
        "boot_id": boot_id(host),
        "token": token,
        "study": study.name,
        "results": str(results),
        "at": round(time.time(), 3),
    }


def _make_ready(session: HostSession, target: Target) -> PreparedTarget:
    """A target's aim; what has to be made for it is owed first."""
    reach = reach_of(session.study, target)
    site = TargetSite(session.host, session.journal.owe_made, session.token, session.gone_with)
    if target.kind == "loop":
        aim = _have_loop(session, target)
        if target.filesystem:
            return on_filesystem(site, aim, reach)
        within(session.host, aim, reach)
        return aim
    aim = make(site, target, reach) if target.made else ready(session.host, target, reach)
    if target.kind == "file":
        aim = _have_file(session, aim)
    session.doubts += doubts(session.host, aim)
    return aim


def _have_loop(session: HostSession, target: Target, tries: int = TRIES) -> PreparedTarget:
    """Make a loop device; where another program takes its number first, the next one."""
    plan = plan_loop(session.host, target, session.token)
    session.journal.owe_made(ResourceUndo("loop", plan.as_dict()))
    try:
        aim, seen = make_loop(session.host, plan, target)
    except LoopInUse:
        if tries == 1:
            raise
        return _have_loop(session, target, tries - 1)
    session.doubts += seen
    session.gone_with |= {aim.device, aim.identity.devno if aim.identity else aim.device}
    return aim


def _have_file(session: HostSession, aim: PreparedTarget) -> PreparedTarget:
    """Lay the file out where it is missing (then it is owed, and removed at the end) or shorter
    than asked (then the study has said that its content is worthless, and it stays)."""
    there = session.host.run(["stat", "-c", "%s", aim.path])
    if there.exit == 0 and int(there.text) >= aim.target.size:
        return aim
    if there.exit != 0:
        session.journal.owe_made(file_debt(session.host, aim.path, aim.target.mount))
        session.laid.add(aim.target.name)
    return lay_out(session.host, aim)
