"""One trial: hold its settings, read them back, load, read them again, keep everything, commit."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iotrial.errors import FormatError, TrialError
from iotrial.execute import cgroups, machine, validity
from iotrial.execute.bench import Bench
from iotrial.execute.cache import meet_cache
from iotrial.execute.evidence import gather_evidence
from iotrial.execute.hands import Hands
from iotrial.execute.interruption import Interruption
from iotrial.execute.leaving import clear, lefts, own
from iotrial.execute.load import Ended, Watch, execute_load, last_words
from iotrial.execute.preflight import aside
from iotrial.execute.pulse import Pulse
from iotrial.execute.rules import rules
from iotrial.execute.sampler import Sampler
from iotrial.execute.targets import same
from iotrial.execute.tuning import changes
from iotrial.execute.upkeep import Upkeep
from iotrial.model.doubt import Doubt
from iotrial.model.measurement import Measurement
from iotrial.model.sample import Sample
from iotrial.model.target import Aim
from iotrial.model.tool import Aimed, Load, Parsed, Tool, Tracing
from iotrial.model.trial import Trial, TrialRecord, TrialState
from iotrial.model.tunable import Setting
from iotrial.plan.design import settings as settings_of
from iotrial.plan.design import workload_of
from iotrial.store import Store
from iotrial.tools import tool

if TYPE_CHECKING:
    from iotrial.execute.runner import Watcher

SLACK = 60.0
"""Seconds a load may take beyond twice what its options say, before it is ended."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a trial lives under: who watches, who may stop it, the numbers options may use, the
    hands that set what only a person can, and the upkeep of the targets."""

    watcher: Watcher
    interruption: Interruption
    facts: Mapping[str, float]
    hands: Hands
    upkeep: Upkeep


@dataclass(frozen=True, slots=True)
class _Came:
    """What a trial came to, beside what was in force; settings read back and other writers are
    pairs, before and after the load."""

    state: TrialState = "failed"
    error: str = ""
    command: tuple[str, ...] = ()
    load_seconds: float = 0.0
    settings: tuple[tuple[Setting, ...], tuple[Setting, ...]] = ((), ())
    writers: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    doubts: tuple[Doubt, ...] = ()
    measurements: tuple[Measurement, ...] = ()


def execute_trial(bench: Bench, store: Store, trial: Trial, limits: Limits) -> TrialRecord:
    """Do one planned trial once and commit its folder.

    Raises Interrupted when told to stop (nothing is committed: the trial is done again at the
    next run), SettingRefused or SettingLost when its settings cannot be held.
    """
    limits.hands.take(trial)
    began, started = bench.host.clock(), time.time()
    partial = store.begin(trial)
    same(bench.host, bench.aims[trial.target])
    problem = limits.upkeep.begin(trial, partial)
    if other := aside(bench, trial):
        bench.hold(other)
    bench.hold(settings_of(bench.study, trial, bench.topologies))
    problem = problem or limits.upkeep.prepare(trial, partial)
    came = _Came(error=problem) if problem else _measured(bench, trial, partial, limits)
    if problem := limits.upkeep.clean(trial, partial):
        came = replace(came, state="failed", error=came.error or problem, measurements=())
    record = TrialRecord(
        trial=trial,
        state=came.state,
        started=started,
        seconds=bench.host.clock() - began - limits.upkeep.took,
        load_seconds=came.load_seconds,
        tool=tool(bench.study.workload(trial.workload).tool).name,
        command=came.command,
        before=_triples(came.settings[0]),
        after=_triples(came.settings[1]),
        writers=came.writers,
        doubts=came.doubts,
        error=came.error,
        prepared=limits.upkeep.took,
        measurements=came.measurements,
    )
    store.commit(partial, record)
    return record


def _measured(bench: Bench, trial: Trial, partial: Path, limits: Limits) -> _Came:
    """The load between two looks at the settings, and what is known of it then."""
    driver = tool(bench.study.workload(trial.workload).tool)
    aim, workload = bench.aims[trial.target], workload_of(bench.study, trial)
    leaves = lefts(driver, workload, aimed_at(aim), limits.facts)
    try:
        own(bench, aim, leaves)
        cached = meet_cache(bench, trial)
    except TrialError as refused:
        return _Came(error=refused.message)
    before = (*bench.observed(), *limits.hands.observed())
    limits.watcher.held(trial, bench.host.name, before)
    at_first = machine.writers(bench.host)
    bench.host.sleep(bench.study.design.settle)
    limits.interruption.check()
    scene = validity.scene_of(bench, trial, limits.facts)
    begun = validity.take(bench.host, scene)
    load, ended = _load(bench, trial, driver, partial, limits)
    seen = (begun, validity.take(bench.host, scene))
    after = (*bench.observed(), *limits.hands.observed())
    writers = (at_first, machine.writers(bench.host))
    evidence = gather_evidence(
        bench.host,
        [
            tuple(word.replace("{target}", aimed_at(aim).path) for word in argv)
            for argv in workload.evidence
        ],
        partial,
        token=bench.journal.token,
        interruption=limits.interruption,
    )
    clear(bench, leaves)
    state, error, parsed = _read(driver, partial, ended)
    drifted = (*_early(bench, before), *_drift(bench, before, after, writers))
    doubts = (*parsed.doubts, *cached, *drifted, *evidence)
    doubts = (*doubts, *validity.decide(partial, scene, seen, (ended.seconds, parsed)))
    if state == "valid" and any(doubt.invalid for doubt in doubts):
        state = "invalid"
    return _Came(
        state,
        error,
        load.argv,
        ended.seconds,
        (before, after),
        writers,
        doubts,
        parsed.measurements,
    )


def _load(
    bench: Bench, trial: Trial, driver: Tool, partial: Path, limits: Limits
) -> tuple[Load, Ended]:
    """Execute the tool in the trial's folder, sampling; what it was told and said stays there."""
    aim = bench.aims[trial.target]
    workload = workload_of(bench.study, trial)
    aimed = aimed_at(aim)
    load = driver.command(workload, aimed, limits.facts)
    if bench.study.aa and isinstance(driver, Tracing):
        load = driver.traced(load, workload)
    for name, content in load.files:
        (partial / name).write_bytes(content)
    (partial / "command").write_text(shlex.join(load.argv) + "\n", encoding="utf-8")

    def tell(device: str, values: Mapping[str, Any]) -> None:
        limits.watcher.sampled(trial, Sample(bench.host.name, trial.target, device, values))

    with (
        Sampler(bench.host, aim.device, partial / "telemetry.jsonl", tell) as sampler,
        Pulse(bench.host, aim.device, partial),
    ):

        def tick(elapsed: float) -> None:
            sampler.sample(elapsed)
            limits.watcher.ticked(trial, elapsed)

        ended = execute_load(
            bench.host,
            cgroups.join(load.argv, bench.group),
            folder=partial,
            token=bench.journal.token,
            watch=Watch(2 * driver.seconds(workload, aimed) + SLACK, tick, limits.interruption),
        )
        sampler.sample(ended.seconds)
    (partial / "exitcode").write_text(f"{ended.exit}\n", encoding="utf-8")
    return load, ended


def aimed_at(aim: Aim) -> Aimed:
    """What a tool is told of a target."""
    if aim.target.filesystem:
        return Aimed(aim.path, "directory")
    return Aimed(aim.path, aim.target.under_load, aim.target.size)


def _read(driver: Tool, folder: Path, ended: Ended) -> tuple[TrialState, str, Parsed]:
    nothing = Parsed(())
    if ended.timed_out:
        return "failed", f"{driver.name} did not end within its limit and was ended", nothing
    if ended.exit != 0:
        return "failed", f"{driver.name}: {last_words(folder, ended)}", nothing
    try:
        return "valid", "", driver.parse(folder)
    except FormatError as error:
        return "failed", error.message, nothing


def _early(bench: Bench, before: tuple[Setting, ...]) -> tuple[Doubt, ...]:
    """What a treatment set must be in force when its load begins; what a chore changes has failed
    the trial already (:meth:`iotrial.execute.upkeep.Upkeep.prepare`)."""
    changed = bench.displaced(before)
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
    bench: Bench,
    before: tuple[Setting, ...],
    after: tuple[Setting, ...],
    writers: tuple[tuple[str, ...], tuple[str, ...]],
) -> tuple[Doubt, ...]:
    """:func:`drift`, and whoever may have done it: only then are the rules of udev read."""
    if not drift(before, after):
        return ()
    seen = [*dict.fromkeys(name for names in writers for name in names)]
    if machine.udev(bench.host):
        seen += [f"udev by {rule}" for rule in rules(bench.host)]
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
