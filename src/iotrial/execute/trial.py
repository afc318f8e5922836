"""One trial: hold its settings, read them back, load, read them again, keep everything, commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from iotrial.execute.hosts import Crew, HostLost, Member
from iotrial.execute.load import start, strained
from iotrial.execute.load.part import Post, by_host, gathered, station
from iotrial.execute.manual import Limits
from iotrial.execute.preflight import aside
from iotrial.execute.settings.tuning import changes
from iotrial.look import machine
from iotrial.look.machine import rules
from iotrial.look.targets import same
from iotrial.model.doubt import Doubt
from iotrial.model.event import Held
from iotrial.model.measurement import Measurement
from iotrial.model.tool import Parsed
from iotrial.model.trial import HOST_LOST, Trial, TrialRecord, TrialState
from iotrial.model.tunable import Setting
from iotrial.store import Store
from iotrial.tools import tool
from iotrial.tools.merging import merged

T = TypeVar("T")
Came = Sequence[tuple[Post, TrialState, str, Parsed]]

__all__ = ["drift", "execute_trial"]

_BACK = "It is tried again when all else is done, if the host is back by then."


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


def execute_trial(crew: Crew, store: Store, trial: Trial, limits: Limits) -> TrialRecord:
    """Do one planned trial once and commit its folder.

    Raises Interrupted when told to stop (nothing is committed: the trial is done again at the
    next run), SettingRefused or SettingLost when its settings cannot be held.
    """
    limits.hands.take(trial)
    clock = crew.chief.bench.host.clock
    began, started = clock(), time.time()
    partial = store.begin(trial)
    upkeep = _Upkept()
    try:
        crew.muster(trial)
        came = _worked(crew, trial, station(crew, trial, partial), (partial, limits, upkeep))
    except HostLost as lost:
        crew.lose(lost.lost)
        came = _lost(lost)
        upkeep.clean(crew)
    record = TrialRecord(
        trial=trial,
        state=came.state,
        started=started,
        seconds=clock() - began - upkeep.took,
        load_seconds=came.load_seconds,
        tool=tool(crew.study.workload(trial.workload).tool).name,
        command=came.command,
        before=_triples(came.settings[0]),
        after=_triples(came.settings[1]),
        writers=came.writers,
        doubts=came.doubts,
        error=came.error,
        prepared=upkeep.took,
        measurements=came.measurements,
        parts=tuple(part.name for part in crew.parts(trial)) if crew.several else (),
        starts=came.starts,
        clocks=came.clocks,
    )
    store.commit(partial, record)
    return record


def _lost(lost: HostLost) -> _Came:
    what = "; ".join(f"{name}: {error.message}" for name, error in lost.lost.items())
    names = ", ".join(lost.lost)
    return _Came(
        error=f"{names} went out of reach: {what}",
        doubts=(Doubt(HOST_LOST, f"{names} went out of reach during the trial", _BACK),),
    )


@dataclass
class _Upkept:
    """The chores around a trial: ``took`` seconds, and at which posts they were begun."""

    took: float = 0.0
    begun: tuple[Post, ...] = ()

    def begin(self, crew: Crew, posts: tuple[Post, ...]) -> str:
        """What is due of the study and the block; gives back the first problem, or ''."""
        mine, took = by_host(posts), dict.fromkeys(by_host(posts), 0.0)
        self.begun = posts

        def do(member: Member) -> str:
            problems = []
            for post in mine[member.name]:
                same(member.bench.host, post.aim)
                problems.append(post.words(member.upkeep.begin(post.trial, post.folder)))
                took[member.name] += member.upkeep.took
            return next(filter(None, problems), "")

        problem = _first(crew.each(do, list(mine)).values())
        self.took = max(took.values())
        return problem

    def prepare(self, crew: Crew) -> str:
        """The chores before this trial."""
        return self._all(crew, lambda post: post.member.upkeep.prepare(post.trial, post.folder))

    def clean(self, crew: Crew) -> str:
        """The chores after this trial, on the hosts that are at hand."""
        return self._all(crew, lambda post: post.member.upkeep.clean(post.trial, post.folder))

    def _all(self, crew: Crew, do: Callable[[Post], str]) -> str:
        mine = {name: each for name, each in by_host(self.begun).items() if name in crew.members}

        def every(member: Member) -> str:
            return _first([post.words(do(post)) for post in mine[member.name]])

        return _first(crew.each(every, list(mine)).values()) if mine else ""


def _first(problems: Iterable[str]) -> str:
    return next(filter(None, problems), "")


def _worked(
    crew: Crew,
    trial: Trial,
    posts: tuple[Post, ...],
    within: tuple[Path, Limits, _Upkept],
) -> _Came:
    """The trial on all its posts, with its chores around it.  Raises HostLost."""
    _, _, upkeep = within
    problem = upkeep.begin(crew, posts)
    other = crew.wanted(trial, aside)
    if any(other.values()):
        crew.hold(other)
    crew.hold(crew.wanted(trial))
    problem = problem or upkeep.prepare(crew)
    came = _Came(error=problem) if problem else _measured(crew, posts, within)
    if problem := upkeep.clean(crew):
        came = replace(came, state="failed", error=came.error or problem, measurements=())
    mine = by_host(posts)

    def settle(member: Member) -> None:
        for post in mine[member.name]:
            post.settle()

    crew.each(settle, list(mine))
    return came


def _measured(crew: Crew, posts: tuple[Post, ...], within: tuple[Path, Limits, _Upkept]) -> _Came:
    """The load between two looks at the settings, and what is known of it then."""
    folder, limits, _ = within
    mine = by_host(posts)
    names = list(mine)

    def every(do: Callable[[Post], T]) -> dict[str, list[T]]:
        return crew.each(lambda member: [do(post) for post in mine[member.name]], names)

    if problem := _first(chain(*every(lambda post: post.ready()).values())):
        return _Came(error=problem)
    held = crew.observed()
    before = (*crew.named(held), *limits.hands.observed())
    for name, seen in held.items():
        told = (*seen, *limits.hands.observed()) if name == crew.chief.name else seen
        limits.tell(Held(crew.members[name].bench.host.name, told))
    at_first = _writers(crew)
    crew.chief.bench.host.sleep(crew.study.design.settle)
    limits.interruption.check()
    every(lambda post: post.look())
    shared = start.load(crew, posts, limits, folder)
    every(lambda post: post.look())
    after = (*crew.named(crew.observed()), *limits.hands.observed())
    writers = (at_first, _writers(crew))
    every(lambda post: post.gather(limits.interruption))
    came = [(post, *post.read()) for post in posts]
    error = _first(_failures(came, shared))
    state: TrialState = "failed" if error else "valid"
    driver = posts[0].driver
    parsed = merged(driver, [(post.name, told) for post, _, _, told in came])
    doubts = [
        (post.name, doubt)
        for post, _, _, told in came
        for doubt in (*told.doubts, *post.doubts, *post.decide(told))
    ]
    strained.keep(folder, strained.strained([(post, told) for post, _, _, told in came]))
    began = start.starts(posts, shared)
    seconds = max(post.ended.seconds for post in posts)
    drifted = (*_early(crew, held), *_drift(crew, before, after, writers))
    every_doubt = (*gathered(doubts), *drifted, *start.skewed(began, shared, seconds))
    if state == "valid" and any(doubt.invalid for doubt in every_doubt):
        state = "invalid"
    return _Came(
        state,
        error,
        posts[0].load.argv,
        seconds,
        (before, after),
        writers,
        every_doubt,
        parsed if state != "failed" else (),
        tuple(began.items()),
        tuple((name, each.seconds, each.within) for name, each in shared.offsets.items()),
    )


def _failures(came: Came, shared: start.Together) -> Iterator[str]:
    """Why loads failed; first those of the host whose failure ended the others."""
    if shared.failed:
        yield from (error for post, _, error, _ in came if post.member.name == shared.failed)
    yield from (error for _, _, error, _ in came)


def _writers(crew: Crew) -> tuple[str, ...]:
    found = crew.each(lambda member: machine.writers(member.bench.host))
    if len(found) == 1:
        return next(iter(found.values()))
    return tuple(f"{name}: {writer}" for name, writers in found.items() for writer in writers)


def _early(crew: Crew, held: Mapping[str, tuple[Setting, ...]]) -> tuple[Doubt, ...]:
    """What a treatment set must be in force when its load begins; what a chore changes has failed
    the trial already (:meth:`iotrial.execute.load.upkeep.Upkeep.prepare`)."""
    changed = [
        f"{name}: {what}" if len(crew.study.places) > 1 else what
        for name, seen in held.items()
        for what in crew.members[name].bench.displaced(seen)
    ]
    if not changed:
        return ()
    return (
        Doubt(
            "drift",
            "a setting of the treatment changed before the load began: " + "; ".join(changed),
            "Find what else sets it: what meets the cache (a remount), tuned, a udev rule, another"
            " administrator.",
            invalid=True,
        ),
    )


def _drift(
    crew: Crew,
    before: tuple[Setting, ...],
    after: tuple[Setting, ...],
    writers: tuple[tuple[str, ...], tuple[str, ...]],
) -> tuple[Doubt, ...]:
    """:func:`drift`, and whoever may have done it: only then are the rules of udev read."""
    if not drift(before, after):
        return ()
    seen = [*dict.fromkeys(name for names in writers for name in names)]
    for member in crew.members.values():
        if machine.udev(member.bench.host):
            seen += [f"udev by {rule}" for rule in rules(member.bench.host)]
    return drift(before, after, seen)


def drift(
    before: tuple[Setting, ...], after: tuple[Setting, ...], seen: Sequence[str] = ()
) -> tuple[Doubt, ...]:
    """A setting that changed under the load makes the trial INVALID.  ``seen`` are other writers
    at work meanwhile."""
    changed = list(changes(before, after))
    if not changed:
        return ()
    suspects = f"; at work then: {', '.join(seen)}" if seen else ""
    return (
        Doubt(
            "drift",
            "a setting changed during the measurement: " + "; ".join(changed) + suspects,
            "Find who else sets it (tuned, a udev rule, another administrator) and stop them.",
            invalid=True,
        ),
    )


def _triples(settings: tuple[Setting, ...]) -> tuple[tuple[str, str, str], ...]:
    return tuple((s.device, s.tunable, s.value) for s in settings)
