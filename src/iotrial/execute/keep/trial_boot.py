"""A trial period of boot parameters: hosts booted once with them, and back into their own boot.

The boot loader is not told until ``confirm``: whatever happens before, the next boot of a host is
its own.  So the trial is a boot as a study's levels have it (:mod:`iotrial.execute.boot`), and what
can be set live is tried in that boot as ever (:func:`iotrial.execute.keep.keeping.begun`).
``confirm`` and ``undo`` both end with a boot into the host's own kernel and command line; after
``confirm`` that command line has the parameters, and is seen to boot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from iotrial.errors import HostError, Interrupted, RefusedError
from iotrial.execute.boot import FIRST_WITHIN, awaited, boot_with, bring_back, need_bootable
from iotrial.execute.interruption import Interruption
from iotrial.execute.keep.keeping import check_period, checked
from iotrial.execute.keep.kept import find, not_in_force
from iotrial.execute.keep.many_hosts import HostProfile
from iotrial.execute.settings.guard import locked
from iotrial.hosts.at_once import at_once, gravest
from iotrial.look.boots import METHODS, boot_debt
from iotrial.look.machine import BOOT_ID
from iotrial.model.host import Connect, Host
from iotrial.model.study import StudyHost
from iotrial.tunables.boot import is_boot

_GRACE = 120.0
"""Seconds that a host waits for the trial to begin, beyond its time: its units start meanwhile."""


@contextmanager
def booted_for_trial(
    reach: Connect,
    shares: Mapping[StudyHost, HostProfile],
    trial: float,
    *,
    said: Callable[[str], None],
    stop: Interruption,
) -> Iterator[None]:
    """Boot each host that has boot parameters with them, for ``trial`` seconds at least; an error,
    here or within the context, boots those back that were booted here, and no other.

    Raises RefusedError, before anything is changed on a host, where it cannot be booted or its
    share cannot be kept, and where the parameters are not in force after the boot; HostUnreachable
    where it does not come back in time, Interrupted.
    """
    check_period(trial)
    mine = {place: share for place, share in shares.items() if _booted(share)}
    boots = _TrialBoots(reach, trial, said, stop)
    try:
        boots.boot_all(mine)
        yield
    except BaseException as raised:
        under_way = isinstance(raised, Interrupted)
        armed = tuple(place for place in mine if place.name in boots.armed)
        left = brought_back(reach, armed, said=said, under_way=under_way)
        for name, error in left.items():
            said(f"{name} is not booted back yet ({error}): a unit there does it")
        raise


def _booted(share: HostProfile) -> list[tuple[str, str]]:
    entries = (entry for file in share.files if file.loader for entry in file.entries)
    return sorted((each.tunable, each.value) for each in entries)


@dataclass(frozen=True, slots=True)
class _TrialBoots:
    """``armed`` are the hosts that a boot was asked of: another may run a boot that is none of
    ours, as one that was refused for it."""

    reach: Connect
    trial: float
    said: Callable[[str], None]
    stop: Interruption
    armed: set[str] = field(default_factory=set)

    def boot_all(self, shares: Mapping[StudyHost, HostProfile]) -> None:
        jobs = {place.name: partial(self._boot, place, share) for place, share in shares.items()}
        if worst := gravest(at_once(jobs)[1]):
            raise worst

    def _boot(self, place: StudyHost, share: HostProfile) -> None:
        changes = tuple(_booted(share))
        asked = " ".join(f"{name}={value}" for name, value in changes)
        with self.reach(place) as host, locked(host):
            means = need_bootable(host, place, f"a trial period of {asked}", changes)
            checked(host, share.profile, share.files)
            if means.level or means.owed:
                raise RefusedError(
                    f"{host.name}: a boot of a study is still to be restored",
                    advice=f"First: iotrial restore -- '{place.way}'",
                )
            former = host.read(BOOT_ID).decode().strip()
            self.said(f"{place.name}: booting with {asked}, by {METHODS[means.method]}")
            own = (means.release, means.command_line)
            self.armed.add(place.name)
            mark, why = boot_with(host, means, own, changes, self.trial + _GRACE)
            if why:
                raise HostError(f"{place.name} cannot boot with {asked}: {why}")
        _, up = awaited(self.reach, place, former, FIRST_WITHIN, self.stop)
        if mark not in up.command_line.split():
            raise HostError(
                f"{place.name} did not come up with {asked}, but with its own boot",
                advice="Look at its console for the reason; no setting was kept.",
            )
        with self.reach(place) as host:
            if other := not_in_force(host, share.profile.entries):
                told = ", ".join(f"{each} is {now or 'not there'}" for each, now in other)
                raise RefusedError(
                    f"{place.name} was booted with {asked}, and is not as asked for: {told}",
                    advice="The kernel or the driver refuses the value: see dmesg in such a boot.",
                )


def in_trial_boot(host: Host, name: str) -> bool:
    """Whether the host runs a boot for the trial period of this profile."""
    there = find(host, name)
    if there is None or not there.pending:
        return False
    booted = any(is_boot(each.tunable) for each in there.profile.entries)
    return booted and bool(boot_debt(host))


@contextmanager
def booted_back(
    reach: Connect, places: Sequence[StudyHost], name: str, *, said: Callable[[str], None]
) -> Iterator[list[str]]:
    """Whoever confirms or undoes within says which hosts run a boot for the trial period of this
    profile.  Those that no longer try it are booted into their own boot afterwards.

    Raises HostUnreachable where one does not come back in time, HostError where its own boot has
    not what is kept.
    """
    tried: list[str] = []
    try:
        yield tried
    except BaseException:
        for called, error in _over(reach, places, tried, name, said).items():
            said(f"{called} is not booted back yet ({error}): a unit there does it")
        raise
    if worst := gravest(_over(reach, places, tried, name, said)):
        raise worst


def _over(
    reach: Connect,
    places: Sequence[StudyHost],
    tried: Sequence[str],
    name: str,
    said: Callable[[str], None],
) -> dict[str, Exception]:
    mine = tuple(place for place in places if place.name in tried)
    return brought_back(reach, mine, said=said, name=name)


def brought_back(
    reach: Connect,
    places: Sequence[StudyHost],
    *,
    said: Callable[[str], None],
    name: str = "",
    under_way: bool = False,
) -> dict[str, Exception]:
    """Boot these hosts into their own, where they run another, and do not try the profile ``name``
    any more; what is kept by that name is in force then.  ``under_way``: they may be booting, and
    are waited for.  Gives back why one is not in its own boot, by name."""

    def back(place: StudyHost) -> None:
        if not under_way:
            with reach(place) as host:
                if not boot_debt(host) or in_trial_boot(host, name):
                    return
        how = "waiting for" if under_way else "booting into"
        said(f"{place.name}: {how} its own kernel and command line")
        bring_back(reach, place, within=FIRST_WITHIN, under_way=under_way)
        with reach(place) as host:
            there = find(host, name)
            other = not_in_force(host, there.profile.entries) if there else ()
        if other:
            told = ", ".join(f"{each} is {now or 'not there'}" for each, now in other)
            raise HostError(
                f"{place.name} was booted into its own, and what is kept is not in force: {told}",
                advice=f"See which entry its boot loader takes, or: iotrial keep {name} undo",
            )

    return at_once({place.name: partial(back, place) for place in places})[1]
