"""One trial: hold its settings, read them back, load, read them again, keep everything, commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from iotrial.execute.boot import BootFailed
from iotrial.execute.hosts import Hosts, HostsUnreachable
from iotrial.execute.load import start
from iotrial.execute.load.chores import ChoreRunner
from iotrial.execute.load.drain import drain, due
from iotrial.execute.load.part import (
    TrialPart,
    by_host,
    gathered,
    keep_strain,
    strained,
    trial_parts,
)
from iotrial.execute.manual import TrialLimits
from iotrial.execute.session import HostSession
from iotrial.execute.settings.tuning import changes
from iotrial.look import machine
from iotrial.look.machine import rules
from iotrial.look.targets import same
from iotrial.model.event import SettingsInForce
from iotrial.model.measurement import Measurement
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import (
    HOST_LOST,
    Doubt,
    DrainRecord,
    Trial,
    TrialRecord,
    TrialState,
)
from iotrial.model.tunable import Setting
from iotrial.plan.aa import detour
from iotrial.plan.boots import boot_factors, wanted
from iotrial.plan.design import settings as settings_of
from iotrial.plan.parts import needed_by
from iotrial.store import Store
from iotrial.tools import tool
from iotrial.tools.results import merged, of_neighbour

T = TypeVar("T")
Came = Sequence[tuple[TrialPart, TrialState, str, ParsedOutput]]

__all__ = ["changed_back", "drift", "execute_trial"]

_BACK = "The trial is repeated at the end if the host is reachable then."


@dataclass(frozen=True, slots=True)
class _Came:
    """What a trial came to, beside what was in force; settings read back and other writers are
    pairs, before and after the load; ``starts`` by part, in seconds after the common moment."""

    state: TrialState = "failed"
    error: str = ""
    command: tuple[str, ...] = ()
    load_seconds: float = 0.0
    settings: tuple[tuple[Setting, ...], tuple[Setting, ...]] = ((), ())
    writers: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    doubts: tuple[Doubt, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    starts: tuple[tuple[str, float], ...] = ()
    clocks: tuple[tuple[str, float, float], ...] = ()
    parts: tuple[str, ...] = ()
    beside: tuple[str, str, str] | tuple[()] = ()


def execute_trial(hosts: Hosts, store: Store, trial: Trial, limits: TrialLimits) -> TrialRecord:
    """Do one planned trial once and commit its folder.

    Raises Interrupted when told to stop (nothing is committed: the trial is done again at the
    next run), SettingRefused or SettingLost when its settings cannot be held.
    """
    limits.hands.take(trial)
    clock = hosts.first.host.clock if hosts.sessions else time.monotonic
    began, started = clock(), time.time()
    partial = store.begin(trial)
    upkeep, booting = _Upkept(store.records), bool(boot_factors(hosts.study))
    try:
        try:
            hosts.need(trial)
        finally:
            upkeep.took += clock() - began if booting else 0.0
        came = _worked(hosts, trial, trial_parts(hosts, trial, partial), (partial, limits, upkeep))
    except BootFailed as failed:
        came = _Came(error=failed.message)
    except HostsUnreachable as lost:
        hosts.lose(lost.lost)
        came = _lost(lost)
        upkeep.clean(hosts)
    record = TrialRecord(
        trial=trial,
        state=came.state,
        started=started,
        seconds=clock() - began - upkeep.took,
        load_seconds=came.load_seconds,
        tool=tool(hosts.study.workload(trial.workload).tool).name,
        command=came.command,
        before=_triples(came.settings[0]),
        after=_triples(came.settings[1]),
        writers=came.writers,
        doubts=came.doubts,
        error=came.error,
        prepared=upkeep.took,
        measurements=came.measurements,
        parts=came.parts or _names(hosts, trial),
        starts=came.starts,
        clocks=came.clocks,
        beside=came.beside,
        drained=upkeep.drained,
    )
    store.commit(partial, record)
    return record


def _names(hosts: Hosts, trial: Trial) -> tuple[str, ...]:
    """The parts of a trial that came to nothing."""
    return tuple(part.name for part in hosts.parts(trial)) if hosts.several else ()


def _lost(lost: HostsUnreachable) -> _Came:
    what = "; ".join(f"{name}: {error.message}" for name, error in lost.lost.items())
    names = ", ".join(lost.lost)
    return _Came(
        error=f"{names} became unreachable: {what}",
        doubts=(Doubt(HOST_LOST, f"{names} became unreachable during the trial", _BACK),),
    )


@dataclass
class _Upkept:
    """The chores around a trial: ``took`` seconds, and at which parts they were begun;
    ``drained`` is what its load did before it, after the trials that are ``done``."""

    done: Sequence[TrialRecord] = ()
    took: float = 0.0
    begun: tuple[TrialPart, ...] = ()
    drained: DrainRecord | None = None

    def drain(self, hosts: Hosts, trial: Trial, folder: Path, limits: TrialLimits) -> str:
        """Use burst credits up, where that is due; gives back what is wrong, or ''."""
        if not due(hosts, trial):
            return ""
        clock = hosts.first.host.clock
        began = clock()
        problem, self.drained = drain(hosts, trial, folder, limits, self.done)
        self.took += clock() - began
        return problem

    def begin(self, hosts: Hosts, parts: tuple[TrialPart, ...]) -> str:
        """What is due of the study and the block; gives back the first problem, or ''."""
        mine, took = by_host(parts), dict.fromkeys(by_host(parts), 0.0)
        self.begun = parts

        def do(session: HostSession) -> str:
            problems, upkeep = [], hosts.upkeep[session.name]
            for part in mine[session.name]:
                same(session.host, part.aim)
                problems.append(part.words(upkeep.begin(part.trial, part.folder)))
                took[session.name] += upkeep.took
            return next(filter(None, problems), "")

        problem = _first(hosts.each(do, list(mine)).values())
        self.took += max(took.values())
        return problem

    def prepare(self, hosts: Hosts) -> str:
        """The chores before this trial."""
        return self._all(hosts, lambda mine, part: mine.prepare(part.trial, part.folder))

    def clean(self, hosts: Hosts) -> str:
        """The chores after this trial, on the hosts that are at hand."""
        return self._all(hosts, lambda mine, part: mine.clean(part.trial, part.folder))

    def _all(self, hosts: Hosts, do: Callable[[ChoreRunner, TrialPart], str]) -> str:
        mine = {name: each for name, each in by_host(self.begun).items() if name in hosts.sessions}

        def every(session: HostSession) -> str:
            upkeep = hosts.upkeep[session.name]
            return _first([part.words(do(upkeep, part)) for part in mine[session.name]])

        return _first(hosts.each(every, list(mine)).values()) if mine else ""


def _first(problems: Iterable[str]) -> str:
    return next(filter(None, problems), "")


def _worked(
    hosts: Hosts,
    trial: Trial,
    parts: tuple[TrialPart, ...],
    within: tuple[Path, TrialLimits, _Upkept],
) -> _Came:
    """The trial on all its parts, with its chores around it.  Raises HostLost."""
    folder, limits, upkeep = within
    problem = upkeep.begin(hosts, parts)
    hosts.loaded = hosts.first.host.clock() if upkeep.took else hosts.loaded
    other = hosts.wanted(trial, aside)
    if any(other.values()):
        hosts.hold(other)
    hosts.hold(hosts.wanted(trial))
    problem = problem or upkeep.drain(hosts, trial, folder, limits)
    problem = problem or upkeep.prepare(hosts)
    came = _Came(error=problem) if problem else _measured(hosts, parts, within)
    if problem := upkeep.clean(hosts):
        came = replace(came, state="failed", error=came.error or problem, measurements=())
    mine = by_host(parts)

    def settle(session: HostSession) -> None:
        for part in mine[session.name]:
            part.settle()

    hosts.each(settle, list(mine))
    hosts.loaded = hosts.first.host.clock()
    return came


def _measured(
    hosts: Hosts, parts: tuple[TrialPart, ...], within: tuple[Path, TrialLimits, _Upkept]
) -> _Came:
    """The load between two looks at the settings, and what is known of it then."""
    folder, limits, _ = within
    mine = by_host(parts)
    names = list(mine)

    def every(do: Callable[[TrialPart], T]) -> dict[str, list[T]]:
        return hosts.each(lambda session: [do(part) for part in mine[session.name]], names)

    if problem := _first(chain(*every(lambda part: part.ready()).values())):
        return _Came(error=problem)
    held = hosts.observed()
    before = (*hosts.named(held), *limits.hands.observed())
    for name, seen in held.items():
        told = (*seen, *limits.hands.observed()) if name == hosts.first.name else seen
        limits.tell(SettingsInForce(hosts.sessions[name].host.name, told))
    at_first = _writers(hosts)
    hosts.first.host.sleep(hosts.study.design.settle)
    limits.interruption.check()
    every(lambda part: part.look())
    shared = start.load(hosts, parts, limits, folder)
    every(lambda part: part.look())
    at_last = hosts.observed()
    after = (*hosts.named(at_last), *limits.hands.observed())
    writers = (at_first, _writers(hosts))
    every(lambda part: part.gather(limits.interruption))
    for name, own_parts in mine.items():
        own_parts[0].doubts += changed_back(held[name], own_parts[0].sampled, at_last[name])
    came = [(part, *part.read()) for part in parts]
    error = _first(_failures(came, shared))
    state: TrialState = "failed" if error else "valid"
    driver = parts[0].driver
    own = [(part, told) for part, _, _, told in came if not part.beside]
    others = [(part, told) for part, _, _, told in came if part.beside]
    parsed = merged(driver, [(part.name, told) for part, told in own])
    for part, output in others:
        parsed += of_neighbour(part.beside, output, part.name)
    several = len(own) > 1 or hosts.several
    doubts = [
        (part.name if several else "", doubt)
        for part, output in own
        for doubt in (*output.doubts, *part.doubts, *part.decide(output))
    ]
    doubts += [
        (part.beside, doubt) for part, output in others for doubt in (*output.doubts, *part.doubts)
    ]
    keep_strain(folder, strained(own))
    own_parts = [part for part, _ in own]
    began = start.starts(own_parts, shared) if several else {}
    seconds = max(part.ended.seconds for part in own_parts)
    # One that starts late ends late: its delay is no part of its time.
    longest = max(part.ended.seconds - began.get(part.name, 0.0) for part in own_parts)
    drifted = (*_early(hosts, held), *_drift(hosts, before, after, writers))
    every_doubt = (
        *gathered(doubts),
        *_booted(hosts, parts[0].trial, held),
        *drifted,
        *start.skewed(began, shared, longest),
    )
    if state == "valid" and any(doubt.invalid for doubt in every_doubt):
        state = "invalid"
    return _Came(
        state,
        error,
        parts[0].load.argv,
        seconds,
        (before, after),
        writers,
        every_doubt,
        parsed if state != "failed" else (),
        tuple(began.items()),
        tuple((name, each.seconds, each.within) for name, each in shared.offsets.items()),
        tuple(part.name for part in own_parts) if several or others else (),
        (others[0][0].beside, others[0][0].driver.name, others[0][0].name) if others else (),
    )


def _failures(came: Came, shared: start.StartBarrier) -> Iterator[str]:
    """Why loads failed; first those of the host whose failure ended the others."""
    if shared.failed:
        yield from (error for part, _, error, _ in came if part.session.name == shared.failed)
    yield from (error for _, _, error, _ in came)


def _writers(hosts: Hosts) -> tuple[str, ...]:
    found = hosts.each(lambda session: machine.writers(session.host))
    if len(found) == 1:
        return next(iter(found.values()))
    return tuple(f"{name}: {writer}" for name, writers in found.items() for writer in writers)


def _early(hosts: Hosts, held: Mapping[str, tuple[Setting, ...]]) -> tuple[Doubt, ...]:
    """What a treatment set must be in force when its load begins; what a chore changes has failed
    the trial already (:meth:`iotrial.execute.load.chores.ChoreRunner.prepare`)."""
    changed = [
        f"{name}: {what}" if len(hosts.study.places) > 1 else what
        for name, seen in held.items()
        for what in hosts.sessions[name].displaced(seen)
    ]
    if not changed:
        return ()
    return (
        Doubt(
            "drift",
            "a setting of the treatment changed before the load started: " + "; ".join(changed),
            "Find the process that sets it: a remount (cache), tuned, a udev rule, another"
            " administrator.",
            invalid=True,
        ),
    )


def _booted(hosts: Hosts, trial: Trial, held: Mapping[str, tuple[Setting, ...]]) -> Iterator[Doubt]:
    """The kernel and the parameters that a host was booted with must be those that run."""
    needed = needed_by(hosts.study, trial) if boot_factors(hosts.study) else ()
    for name, seen in held.items() if needed else ():
        if name not in needed:
            continue
        found = {each.tunable: each.value for each in seen}
        for tunable, value in wanted(hosts.study, trial, name):
            if found.get(tunable) != value:
                yield Doubt(
                    "boot",
                    f"{name} was booted with {tunable}={value}, and {found.get(tunable, 'nothing')}"
                    " is in force",
                    "The kernel, or the module, takes another value: `dmesg` of the host may say"
                    " why. Remove the level.",
                    invalid=True,
                )


def _drift(
    hosts: Hosts,
    before: tuple[Setting, ...],
    after: tuple[Setting, ...],
    writers: tuple[tuple[str, ...], tuple[str, ...]],
) -> tuple[Doubt, ...]:
    """:func:`drift`, and whoever may have done it: only then are the rules of udev read."""
    if not drift(before, after):
        return ()
    seen = [*dict.fromkeys(name for names in writers for name in names)]
    for session in hosts.sessions.values():
        if machine.udev(session.host):
            seen += [f"udev by {rule}" for rule in rules(session.host)]
    return drift(before, after, seen)


def drift(
    before: tuple[Setting, ...], after: tuple[Setting, ...], seen: Sequence[str] = ()
) -> tuple[Doubt, ...]:
    """A setting that changed under the load makes the trial INVALID.  ``seen`` are other writers
    at work meanwhile."""
    changed = list(changes(before, after))
    if not changed:
        return ()
    suspects = f"; active then: {', '.join(seen)}" if seen else ""
    return (
        Doubt(
            "drift",
            "a setting changed during the measurement: " + "; ".join(changed) + suspects,
            "Find the process that sets it (tuned, a udev rule, another administrator) and stop"
            " it.",
            invalid=True,
        ),
    )


def changed_back(
    before: tuple[Setting, ...],
    sampled: Mapping[tuple[str, str], Sequence[tuple[float, str]]],
    after: tuple[Setting, ...],
) -> list[Doubt]:
    """A doubt about settings that had another value for a part of the load, and are alike
    ``before`` and ``after`` it (:func:`drift` tells the others).  ``sampled`` are
    :attr:`iotrial.execute.load.sampler.Sampler.values`; the first of them may be the other one
    already."""
    told = []
    known = {(each.device, each.tunable): each.value for each in before}
    for each in after:
        value = known.get((each.device, each.tunable))
        seen = sampled.get((each.device, each.tunable), ())
        if value == each.value and any(other != value for _, other in seen):
            seen = seen[1:] if seen[0][1] == value else seen
            times = ", then ".join(f"{other} from about {t:.0f} s on" for t, other in seen[:4])
            told.append(f"{each.tunable} on {each.device or 'the host'} was {value}, then {times}")
    if not told:
        return []
    what = "a setting changed during the measurement, and back: " + "; ".join(told)
    advice = (
        "Find the process that sets it (tuned, a udev rule, another administrator) and stop it."
    )
    return [Doubt("drift", what, advice, invalid=True)]


def _triples(settings: tuple[Setting, ...]) -> tuple[tuple[str, str, str], ...]:
    return tuple((s.device, s.tunable, s.value) for s in settings)


def aside(session: HostSession, trial: Trial) -> tuple[Setting, ...]:
    """The settings that are held for a moment before a trial of an A/A study (:mod:`plan.aa`)."""
    other, aa = detour(session.study, trial), session.study.aa
    if not other or aa is None or aa.of is None:
        return ()
    return settings_of(aa.of, replace(trial, treatment=other), session.topologies)
