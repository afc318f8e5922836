"""One trial: hold its settings, read them back, load, read them again, keep everything, commit."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iotrial.errors import FormatError
from iotrial.execute import cgroups, machine
from iotrial.execute.bench import Bench
from iotrial.execute.hands import Hands
from iotrial.execute.interruption import Interruption
from iotrial.execute.load import Ended, Watch, execute_load
from iotrial.execute.rules import rules
from iotrial.execute.sampler import Sampler
from iotrial.execute.targets import same
from iotrial.model.doubt import Doubt
from iotrial.model.target import Aim
from iotrial.model.tool import Aimed, Load, Parsed, Tool
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
    """What a trial lives under: who watches, who may stop it, the numbers options may use, and
    the hands that set what only a person can."""

    watcher: Watcher
    interruption: Interruption
    facts: Mapping[str, float]
    hands: Hands


def execute_trial(bench: Bench, store: Store, trial: Trial, limits: Limits) -> TrialRecord:
    """Do one planned trial once and commit its folder.

    Raises Interrupted when told to stop (nothing is committed: the trial is done again at the
    next run), SettingRefused or SettingLost when its settings cannot be held.
    """
    limits.hands.take(trial)
    began, started = bench.host.clock(), time.time()
    partial = store.begin(trial)
    aim = bench.aims[trial.target]
    same(bench.host, aim)
    bench.hold(settings_of(bench.study, trial, bench.topologies))
    before = (*bench.observed(), *limits.hands.observed())
    at_first = machine.writers(bench.host)
    bench.host.sleep(bench.study.design.settle)
    limits.interruption.check()
    driver = tool(bench.study.workload(trial.workload).tool)
    load, ended = _load(bench, trial, driver, partial, limits)
    after = (*bench.observed(), *limits.hands.observed())
    writers = (at_first, machine.writers(bench.host))
    state, error, parsed = _read(driver, partial, ended)
    doubts = (*parsed.doubts, *_drift(bench, before, after, writers))
    if state == "valid" and any(doubt.invalid for doubt in doubts):
        state = "invalid"
    record = TrialRecord(
        trial=trial,
        state=state,
        started=started,
        seconds=bench.host.clock() - began,
        load_seconds=ended.seconds,
        tool=driver.name,
        command=load.argv,
        before=_triples(before),
        after=_triples(after),
        writers=writers,
        doubts=doubts,
        error=error,
        measurements=parsed.measurements,
    )
    store.commit(partial, record)
    return record


def _load(
    bench: Bench, trial: Trial, driver: Tool, partial: Path, limits: Limits
) -> tuple[Load, Ended]:
    """Execute the tool in the trial's folder, sampling; what it was told and said stays there."""
    aim = bench.aims[trial.target]
    workload = workload_of(bench.study, trial)
    aimed = aimed_at(aim)
    load = driver.command(workload, aimed, limits.facts)
    for name, content in load.files:
        (partial / name).write_bytes(content)
    (partial / "command").write_text(shlex.join(load.argv) + "\n", encoding="utf-8")
    with Sampler(bench.host, aim.device, partial / "telemetry.jsonl") as sampler:

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
        return "failed", f"{driver.name}: {_last_words(folder, ended)}", nothing
    try:
        return "valid", "", driver.parse(folder)
    except FormatError as error:
        return "failed", error.message, nothing


def _last_words(folder: Path, ended: Ended) -> str:
    for name in ("stderr", "stdout"):
        path = folder / name
        text = path.read_text("utf-8", "replace") if path.exists() else ""
        lines = [line for line in text.splitlines() if line.strip()]
        if lines:
            return f"{lines[-1].strip()} (exit status {ended.exit}; see {name})"
    return f"exit status {ended.exit}"


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
    now = {(setting.device, setting.tunable): setting.value for setting in after}
    changed = [
        f"{s.tunable} on {s.device or 'the host'} went from {s.value} to "
        f"{now.get((s.device, s.tunable), 'absent')}"
        for s in before
        if now.get((s.device, s.tunable)) != s.value
    ]
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
