"""Boots: a host booted once with a level's kernel and command line, and back into its own.

``boot.sh`` is what is executed on the host; what it leaves there outlives a boot, and brings the
host back where we do not (``docs/decisions/0051``).  Here it is told what to boot, waited for, and
what came up is looked at.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from iotrial.errors import (
    HostError,
    HostUnreachable,
    IotrialError,
    OwedError,
    RefusedError,
    TrialError,
)
from iotrial.execute.interruption import Interruption
from iotrial.execute.settings.guard import locked
from iotrial.hosts.at_once import at_once
from iotrial.hosts.places import lock_path
from iotrial.look import reading
from iotrial.look.boots import METHODS, NAME, SHORT, BootMeans, boot_debt, boot_means, script
from iotrial.look.machine import BOOT_ID, same_kernel
from iotrial.model.host import Connect, Host
from iotrial.model.results import BootRecord
from iotrial.model.study import Study, StudyHost
from iotrial.model.trial import Trial
from iotrial.plan.boots import Changes, boot_factors, command_line, kernel, wanted
from iotrial.plan.parts import needed_by
from iotrial.plan.problem import choices
from iotrial.store import note_boot
from iotrial.tunables.boot import FAMILY, KERNEL, MARK

FIRST_WITHIN = 900.0
"""Seconds that a boot may take where none was seen yet: firmware of servers takes minutes."""
_MORE, _FACTOR = 60.0, 3.0
"""Later ones may take so many times the longest that was seen, and so many seconds more."""
_ASK = 1.0
_STARTED_WITHIN = 300.0
_POWER_WITHIN = 300.0


def _boot_id(host: Host) -> str:
    return reading.text(host, BOOT_ID).strip()


def _did(host: Host, *words: str) -> str:
    """Why a verb of the script was refused; '' where it was not."""
    done = host.run(["sh", "-c", script(), NAME, *words], timeout=SHORT)
    return done.complaint if done.exit else ""


def _gone(host: Host) -> str:
    """Have a host that is armed go down; why it does not, after which it is no longer armed."""
    with suppress(HostUnreachable):  # that is how it goes
        if why := _did(host, "go"):
            _did(host, "disarm")
            return why
    return ""


def boot_with(
    host: Host, means: BootMeans, own: tuple[str, str], changes: Changes, patience: float
) -> tuple[str, str]:
    """Have the host go down for one boot with these changes of its ``own`` release and command
    line; the mark of that boot, and why the host does not go down ('': it does).  A unit there
    boots it back once nobody has held its lock for ``patience`` seconds."""
    token = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
    release, words = kernel(changes, own[0]), command_line(own[1], changes, token)
    boot = (token, means.method, release, words, str(round(patience)), lock_path(host), script())
    return f"{MARK}={token}", _did(host, "arm", *boot) or _gone(host)


class BootFailed(TrialError):
    """A level that does not come up: its trials fail, and the study goes on."""


def check_boots(host: Host, place: StudyHost, study: Study) -> None:
    """Raise RefusedError where the host cannot be booted for this study, before anything is
    changed: it is the machine that iotrial runs on, has no method, or not what a level names."""
    factors = boot_factors(study)
    if not factors:
        return
    names = ", ".join(factor.name for factor in factors)
    if by_hand := next((each.name for each in study.factors if each.kind == "manual"), ""):
        raise RefusedError(
            f"{names} takes boots, and {by_hand} is set manually: a boot may undo that",
            advice="Make two studies of them.",
        )
    levels = [level for factor in factors for level in factor.levels]
    need_bootable(host, place, names, [pair for level in levels for pair in level.settings])


def need_bootable(
    host: Host, place: StudyHost, what: str, asked: Iterable[tuple[str, str]]
) -> BootMeans:
    """What the host boots with.  Raises RefusedError where it cannot be booted with what is
    ``asked`` for, (tunable, value) pairs; ``what`` is what they are called."""
    if not place.ssh or same_kernel(host):
        here = not place.way or same_kernel(host)
        why = "it is the machine that iotrial runs on" if here else f"{place.way} ends with a boot"
        raise RefusedError(
            f"{host.name}: {what} takes boots, and {why}",
            advice="Do it from another machine: [hosts.NAME] ssh = … of a study, or --on of `keep`,"
            " names this one.",
        )
    means = boot_means(host)
    if not means.method:
        why = "; ".join(f"{METHODS[name]}: {why}" for name, why in means.methods.items())
        raise RefusedError(
            f"{host.name}: {what} takes boots, and no method can be used here: {why}",
            advice="Least is asked of a host by kexec; on Debian and Ubuntu: apt-get install"
            " kexec-tools. docs/boots.md says what each needs.",
        )
    pairs = dict.fromkeys(asked)
    for name, value in pairs:
        if name == KERNEL and value not in means.kernels:
            raise RefusedError(
                f"{host.name}: kernel {value} is not installed",
                advice=f"Installed are: {', '.join(means.kernels) or 'none in /boot'}",
            )
    releases = dict.fromkeys([means.release, *(v for name, v in pairs if name == KERNEL)])
    for name in dict.fromkeys(name for name, _ in pairs if name.count(".") > 1):
        _need_parameter(host, name, list(releases))
    return means


def _need_parameter(host: Host, name: str, releases: Sequence[str]) -> None:
    """A parameter that a module does not have would be on the command line, and do nothing."""
    module, _, parameter = name.removeprefix(f"{FAMILY}.").partition(".")
    for release in releases:
        done = host.run(["sh", "-c", script(), NAME, "parameters", module, release])
        known = done.text.split()
        if known and parameter.replace("-", "_") not in known:
            raise RefusedError(
                f"{host.name}: module {module} of kernel {release} has no parameter {parameter}",
                advice=choices(parameter, known, "it has"),
            )


@dataclass
class _BootedHost:
    """A host that is not in its own boot: ``plot`` is what it was booted for (None: it is not
    known), ``boot_id`` which boot that is, ``own`` its own kernel and command line."""

    place: StudyHost
    own: tuple[str, str]
    plot: tuple[int, Changes] | None = None
    boot_id: str = ""
    failed: tuple[int, Changes] | None = None
    why: str = ""


@dataclass
class Boots:
    """The boots of a run.  ``took`` are seconds by host, of those that were seen."""

    reach: Connect
    results: Path
    said: Callable[[str], None] = lambda _text: None
    interruption: Interruption | None = None
    in_turn: bool = False
    took: dict[str, list[float]] = field(default_factory=dict)
    hosts: dict[str, _BootedHost] = field(default_factory=dict)

    def due(self, study: Study, trial: Trial) -> dict[str, Changes]:
        """The hosts that must be booted before a trial, each with what."""
        if not boot_factors(study):
            return {}
        found = {}
        for name in sorted(needed_by(study, trial)):
            changes = wanted(study, trial, name)
            known = self.hosts.get(name)
            if known is None or (trial.block, changes) not in (known.plot, known.failed):
                found[name] = changes
        return found

    def look_again(self, places: Iterable[StudyHost]) -> None:
        """Hosts that were lost may have left their boot meanwhile, by the unit there or the power:
        such a one is due again."""
        for place in places:
            known = self.hosts.get(place.name)
            if known is None or known.plot is None:
                continue
            with suppress(HostUnreachable), self.reach(place) as host:
                if _boot_id(host) != known.boot_id:
                    known.plot = None
                    self.said(f"{place.name} has left the boot that it was measured in")

    def problem(self, study: Study, trial: Trial) -> str:
        """Why a trial's hosts are not in its boot, where they could not be; '' where they are."""
        names = sorted(needed_by(study, trial)) if boot_factors(study) else []
        for name in names:
            known = self.hosts.get(name)
            if known and known.failed == (trial.block, wanted(study, trial, name)):
                return known.why
        return ""

    def problems(self, names: Iterable[str]) -> dict[str, str]:
        """Why hosts are not in the boot that was last asked for, by name."""
        known = {name: self.hosts[name] for name in names if name in self.hosts}
        return {name: each.why for name, each in known.items() if each.failed}

    def fail(self, name: str, why: str) -> str:
        """A host came up, and is not what the study needs there: the trials of this boot fail."""
        known = self.hosts[name]
        known.failed, known.plot = known.plot or known.failed, None
        known.why = f"in this boot {why}"
        return known.why

    def booted(self, name: str) -> bool:
        """Whether the host is, or may be, in another boot than its own."""
        return name in self.hosts

    def begin(self, places: Sequence[StudyHost], check: Callable[[Host], None]) -> None:
        """Bring hosts back that an earlier run left in a level's boot, and that ``check`` does not
        refuse.  Raises as it and :meth:`back`."""
        jobs = {place.name: partial(self._settled, place, check) for place in places if place.ssh}
        _, errors = at_once(jobs, in_turn=self.in_turn)
        for error in errors.values():
            if not isinstance(error, HostUnreachable):  # the run says so itself
                raise error

    def _settled(self, place: StudyHost, check: Callable[[Host], None]) -> None:
        with self.reach(place) as host:
            if level := boot_means(host).level:
                check(host)
        if level:
            self.said(f"{place.name} still runs a boot of an earlier run; booting it back")
            bring_back(self.reach, place, within=self._within(place.name), stop=self.interruption)

    def boot(
        self, places: Mapping[str, StudyHost], block: int, due: Mapping[str, Changes]
    ) -> dict[str, HostUnreachable]:
        """Boot these hosts, at the same time; gives back those that do not come back.  Why one is
        not in its boot, :meth:`problems` says."""
        jobs = {name: partial(self._one, places[name], block, due[name]) for name in due}
        _, errors = at_once(jobs, in_turn=self.in_turn)
        lost = {n: e for n, e in errors.items() if isinstance(e, HostUnreachable)}
        for error in errors.values():
            if not isinstance(error, HostUnreachable):
                raise error
        return lost

    def _one(self, place: StudyHost, block: int, changes: Changes) -> None:
        started, began = time.time(), time.monotonic()
        plot = (block, changes)
        asked = " ".join(f"{name}={value}" for name, value in changes) or "its own"
        with self.reach(place) as host, locked(host):
            former, means = _boot_id(host), boot_means(host)
            known = self.hosts.setdefault(
                place.name, _BootedHost(place, (means.release, means.command_line))
            )
            known.plot = known.failed = None
            method = means.method
            self.said(f"{place.name}: booting with {asked}, by {METHODS.get(method, 'no method')}")
            mark, why = boot_with(host, means, known.own, changes, 2 * place.lease + 30)
            if why:
                known.failed = plot
                known.why = f"{place.name} cannot boot with {asked}: {why}"
                return
        try:
            host_id, up = self._up(place, former)
        except HostUnreachable:
            if not power_on(self.said, place):
                raise
            host_id, up = self._up(place, former)
        took = time.monotonic() - began
        came = mark in up.command_line.split()
        if came:
            known.plot, known.boot_id = plot, host_id
            self.took.setdefault(place.name, []).append(took)
        else:
            known.failed = plot
            known.why = f"{place.name} did not come up with {asked}, but with its own boot"
        problem = "" if came else known.why
        record = BootRecord(
            *(place.name, method, started, took, block, changes, up.release, up.command_line),
            boot_id=host_id,
            problem=problem,
        )
        note_boot(self.results, asdict(record))

    def _up(self, place: StudyHost, former: str) -> tuple[str, BootMeans]:
        return awaited(self.reach, place, former, self._within(place.name), self.interruption)

    def _within(self, name: str) -> float:
        seen = [each for took in self.took.values() for each in took]
        return max(self.took.get(name, seen)) * _FACTOR + _MORE if seen else FIRST_WITHIN

    def back(self) -> dict[str, Exception]:
        """Boot every host back into its own; gives back why one is not in it, by name."""
        jobs = {name: partial(self._back, each) for name, each in self.hosts.items()}
        found, errors = at_once(jobs, in_turn=self.in_turn)
        for name in found:
            del self.hosts[name]
        return errors

    def _back(self, each: _BootedHost) -> None:
        within = self._within(each.place.name)
        # A boot that was interrupted is waited for; a host that did not come back in time is not
        # waited for again.
        stopped = self.interruption is not None and bool(self.interruption.signal)
        under_way = stopped and each.plot is None and each.failed is None
        try:
            self.said(f"{each.place.name}: booting into its own kernel and command line")
            means = bring_back(self.reach, each.place, within=within, under_way=under_way)
        except (HostUnreachable, HostError) as error:
            if not power_on(self.said, each.place):
                raise _owed(each.place, error) from error
            try:
                means = bring_back(self.reach, each.place, within=within)
            except HostError as again:
                raise _owed(each.place, again) from again
        now = (means.release, means.command_line)
        if now != each.own:
            raise OwedError(
                f"{each.place.name} is in another boot than before the study:",
                owed=[f"kernel {each.own[0]}, command line {each.own[1]}"],
                advice=f"It runs {now[0]}, {now[1]}. See whether somebody changed its boot loader.",
            )


def _owed(place: StudyHost, error: IotrialError) -> OwedError:
    return OwedError(
        f"{error.message}; the boot into its own kernel and command line is still to come:",
        owed=[f"{place.name}: a boot into its own kernel and command line"],
        advice="Where it runs a level's boot, a unit there boots it back by itself; where it does"
        " not run, its next boot is its own (by GRUB or systemd-boot perhaps the second). Check:"
        " iotrial status"
        f" {'-- ' if place.way.startswith('-') else ''}'{place.way}'",
    )


def power_on(said: Callable[[str], None], place: StudyHost) -> bool:
    """Execute what the study says for a host that is not back; False where it says nothing."""
    if not place.power:
        return False
    from iotrial.hosts.local import LocalHost  # noqa: PLC0415  it is executed on this machine

    said(f"{place.name} is not back in time: {' '.join(place.power)}")
    try:
        done = LocalHost().run(place.power, timeout=_POWER_WITHIN)
        why = done.complaint if done.exit else ""
    except HostError as error:  # it hangs
        why = error.message
    if why:
        said(f"{place.name}: {place.power[0]}: {why}")
    return True


def awaited(
    reach: Connect,
    place: StudyHost,
    former: str,
    within: float,
    stop: Interruption | None = None,
) -> tuple[str, BootMeans]:
    """The boot id of a host that is up again, all its units started, and what it says of its boot.

    Raises HostUnreachable where it is not within so many seconds, Interrupted."""
    began = time.monotonic()
    why = "it does not go down"
    while True:
        try:
            with reach(place) as host:
                now = _boot_id(host)
                if now != former:
                    host.run(["systemctl", "is-system-running", "--wait"], timeout=_STARTED_WITHIN)
                    return now, boot_means(host)
        except HostUnreachable as error:
            why = error.message
        except HostError:
            pass  # on its way down
        if time.monotonic() - began > within:
            raise HostUnreachable(
                f"{place.name} is not back {within:.0f} s after a boot was asked for: {why}",
                advice="Look at its console. Its next boot is its own, or a unit there leaves it.",
            )
        if stop is not None:
            stop.check()
        time.sleep(_ASK)


def bring_back(
    reach: Connect,
    place: StudyHost,
    *,
    within: float,
    stop: Interruption | None = None,
    under_way: bool = False,
) -> BootMeans:
    """Have a host be in its own boot, with nothing of a boot of ours left; what it says then.
    ``under_way``: it may be booting, and is waited for.

    Raises HostUnreachable where it is not back in time, HostError where something is left."""
    until = time.monotonic() + within * under_way
    while True:
        try:
            former, means = _sent_back(reach, place)
            break
        except HostUnreachable:
            if time.monotonic() >= until:
                raise
            time.sleep(_ASK)
    if means.level:
        awaited(reach, place, former, within, stop)
    with reach(place) as host, locked(host):
        return cleared(host)


def _sent_back(reach: Connect, place: StudyHost) -> tuple[str, BootMeans]:
    with reach(place) as host, locked(host):
        former, means = _boot_id(host), boot_means(host)
        if means.level:
            with suppress(HostUnreachable):
                if why := _did(host, "back"):
                    raise HostError(f"{place.name} cannot be booted back: {why}")
    return former, means


def cleared(host: Host) -> BootMeans:
    """Remove what is left of a boot, where the host's own runs.  Raises HostError."""
    means = boot_means(host)
    if means.level:
        raise HostError(f"{host.name} still runs a boot of a study")
    if means.owed and (why := _did(host, "clear")):
        raise HostError(f"{host.name}: {why}")
    return means


def need_own_boot(host: Host) -> list[str]:
    """Have nothing of a boot of an earlier run be left on a host that runs its own; says what was
    done.  Raises OwedError where such a boot runs."""
    owed = boot_debt(host)
    if not owed:
        return []
    if boot_means(host).level:
        raise OwedError(
            f"{host.name} runs a boot of a study that has ended:",
            owed=owed,
            advice="Its own unit boots it back within minutes; or at once, from another machine:"
            " iotrial restore HOST; or on it: systemctl reboot",
        )
    cleared(host)
    return ["removed what an armed boot had left"]
