"""What an A/A study says, as data: the noise floor of each workload, what can be told in how long,
and how long its trials should be; and of any study, whether trials measured their own warm-up.

For the latter the telemetry of every trial is looked at: the device's bytes per second, of all
valid trials of a workload together: what they all begin with stands out, what one of them met by
chance does not.  Only loads that last a given time are looked at, since those that end by size have
no ramp time that could be longer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iotrial.model.measurement import sectioned
from iotrial.model.results import Results, TrialTraces
from iotrial.model.tool import RateSeries
from iotrial.model.trial import Doubt, TrialRecord
from iotrial.model.workload import Workload
from iotrial.plan.design import cells
from iotrial.plan.estimate import comparisons
from iotrial.stats.blocks import Floats
from iotrial.stats.noise import (
    FEWEST_POINTS,
    LEVEL,
    TIMES,
    TOGETHER,
    NoiseFloor,
    SampleSize,
    StandardDeviation,
    TrialLength,
    Warmup,
    advised,
    averaged,
    efforts,
    enough,
    floors,
    long_run_variance,
    parts,
    unrest,
    warmup,
)
from iotrial.stats.responses import counted
from iotrial.units import format_seconds, format_wait, parse_seconds

MOST = 100
"""Trials of a workload that are read: more make the average no clearer that counts."""
STARTS = 0.5
"""Seconds of a load before it does its first I/O, at most."""
HARMLESS = 0.001
"""A mean that is off by less is not worth a word."""


def warmup_doubts(results: Results) -> tuple[Doubt, ...]:
    """A doubt about the whole study for each workload whose rate had not settled when its
    ``ramp_time`` was over; none is invalid.  Several offered rates are not to settle."""
    judged = [each for each in results.study.judged if not each.offered]
    timed = [each for each in judged if seconds(each, "runtime")]
    level = LEVEL / max(1, len(timed))
    return tuple(doubt for each in timed for doubt in _doubts(results, each, level))


def _doubts(results: Results, workload: Workload, level: float) -> Iterator[Doubt]:
    records = [r for r in results.valid if r.trial.workload == workload.name]
    step, series = _measured(results, records, seconds(workload, "ramp_time"))
    course = averaged(series)
    if len(course) < FEWEST_POINTS or len(series) < TOGETHER:
        return
    found = warmup(course, unrest(series))
    if found.p >= level:
        return
    if not found.settled:
        yield _unsettled(workload, len(series), found.p)
        return
    bias = float(course.mean() / course[found.points :].mean()) - 1
    if not found.points or abs(bias) < HARMLESS:
        return
    ramp, more = seconds(workload, "ramp_time"), step * found.points
    yield Doubt(
        "warm-up",
        f"{workload.name}: in the first {format_seconds(more)} measured, the rate of the device"
        f" is {(found.ratio - 1) * 100:+.1f} % against what follows (p = {found.p:.1g},"
        f" {len(series)} trials): means are off by about {bias * 100:+.1f} %",
        f"warm-up is longer than the ramp_time of {format_seconds(ramp)}: set ramp_time ="
        f" {math.ceil(ramp + more)}s; `iotrial run --aa` estimates the trial length",
    )


def _unsettled(workload: Workload, trials: int, p: float) -> Doubt:
    return Doubt(
        "warm-up",
        f"{workload.name}: the rate of the device still changes in the second half of the"
        f" measured time, in the same way in all trials (p = {p:.1g}, {trials} trials): the mean"
        " depends on the runtime",
        "check telemetry.jsonl of a trial for a cache or a pool of free blocks that fills or"
        " empties; precondition, or raise ramp_time or runtime beyond that time",
    )


def _measured(
    results: Results, records: Sequence[TrialRecord], ramp: float
) -> tuple[float, list[Floats]]:
    """Seconds between two points, and each trial's rate from where its ramp time was over."""
    courses = []
    for record in records[:: math.ceil(len(records) / MOST) or 1]:
        course = results.traces.of_device(record)
        if course is not None and len(course.values) >= FEWEST_POINTS:
            courses.append(course)
    if not courses:
        return 1.0, []
    step = float(np.median([course.step for course in courses]))
    begin = math.ceil((ramp + STARTS) / step)
    return step, [np.array(course.values[begin:]) for course in courses]


def seconds(workload: Workload, option: str) -> float:
    """An option in seconds; 0 where the workload, or its job file, has none that is a number."""
    said = workload.option(option)
    try:
        return 0.0 if workload.jobfile or said == "" else parse_seconds(str(said))
    except ValueError:
        return 0.0


# -- the noise floor ------------------------------------------------------------------------------

_WHOLE = 0.1
"""A share from which nobody asks for tenths of a per cent."""
_RATES = (".iops", ".bw")


@dataclass(frozen=True, slots=True)
class RateTrace:
    """What the rate over time of one workload's trials says.

    ``what`` it is the rate of, ``points`` of ``step`` seconds a trial.  ``ramp`` and ``runtime``
    are seconds of a trial now: left out by the tool itself, and measured.  ``settled`` after
    ``warmup`` seconds, of which the tool left out ``ramp``; ``alone`` is the part that it did not
    leave out, in which the rate was ``ratio`` times what it is later.  ``independent``
    points are worth as much as the measured ones.  ``between`` and ``within`` are the parts of
    the standard deviation of a trial (None: the metric is no rate), ``told`` whether the former
    was told from nothing, ``length`` what would do (None: nothing can be advised).
    """

    what: str
    points: int
    step: float
    ramp: float
    runtime: float
    warmup: float
    alone: float
    ratio: float
    settled: bool
    independent: float
    between: float | None = None
    within: float | None = None
    told: bool = False
    length: TrialLength | None = None


@dataclass(frozen=True, slots=True)
class WorkloadNoise:
    """One workload.  ``treatments`` and ``comparisons`` are those of the study the A/A study was
    made from, which ``efforts`` are for; ``options`` whether ramp_time and runtime are options of
    the workload; ``trace`` is None where no trial noted its rate over time."""

    floor: NoiseFloor
    treatments: int
    comparisons: int
    efforts: tuple[SampleSize, ...]
    options: bool
    trace: RateTrace | None


def noise(results: Results) -> tuple[WorkloadNoise, ...]:
    """Every workload of an A/A study whose noise shows; empty for any other study.

    Raises FormatError where a trial's log of rates is not one.
    """
    aa = results.study.aa
    if aa is None or aa.of is None:
        return ()
    records, asked = counted(results), comparisons(aa.of)
    found = []
    for floor in floors(results):
        workload, many = aa.of.workload(floor.workload), len(cells(aa.of, floor.workload))
        table = efforts(floor, cells=many, comparisons=asked, confidence=aa.of.decide.confidence)
        timed = not workload.jobfile and workload.option("runtime") != ""
        needed = enough(
            aa.of.decide.margin,
            cells=many,
            comparisons=asked,
            confidence=aa.of.decide.confidence,
        )
        traced = trace(results.traces, workload, records[floor.workload], (floor, needed))
        found.append(WorkloadNoise(floor, many, asked, table, timed, traced))
    return tuple(found)


def trace(
    traces: TrialTraces,
    workload: Workload,
    records: Sequence[TrialRecord],
    noise: tuple[NoiseFloor, float],
) -> RateTrace | None:
    """What the rates over time of a workload's trials say.  ``noise`` is their noise floor, and
    the standard deviation that is low enough."""
    floor, _ = noise
    ramp = seconds(workload, "ramp_time")
    device = list(_courses(records, traces.of_device))
    own = list(_courses(records, lambda record: traces.of_load(record, floor.metric)))
    courses = own or device
    if not courses:
        return None
    step = float(np.median([course.step for course in courses]))
    series = [np.array(course.values) for course in courses]
    course, unquiet = averaged(series), unrest(series)
    late = warmup(course, unquiet)
    rest = [_relative(each[late.points :]) for each in series]
    rest = [each for each in rest if len(each) >= FEWEST_POINTS]
    runtime = step * len(course)
    alone = step * late.points
    told = RateTrace(
        what=courses[0].what,
        points=len(course),
        step=step,
        ramp=ramp,
        runtime=seconds(workload, "runtime") or runtime,
        warmup=ramp + alone if alone or not own else _early(device, ramp),
        alone=alone,
        ratio=late.ratio,
        settled=late.settled,
        independent=float(len(course)),
    )
    if not rest:
        return told
    return _advised(told, rest, noise)


def _advised(told: RateTrace, rest: Sequence[Floats], noise: tuple[NoiseFloor, float]) -> RateTrace:
    floor, low = noise
    size = float(np.mean([len(each) for each in rest]))
    long_run = long_run_variance(rest)
    plain = float(np.mean([each.var(ddof=1) for each in rest]))
    alike = max(1.0, long_run / plain) if plain else 1.0
    told = dataclasses.replace(told, independent=min(size, told.points) / alike)
    if not sectioned(floor.metric)[0].endswith(_RATES):
        return told
    lasted = told.step * size
    found = parts((floor.within.sd, floor.within.low), long_run * told.step, lasted)
    told = dataclasses.replace(
        told,
        between=math.sqrt(found.between),
        within=math.sqrt(found.within / lasted),
        told=found.told,
    )
    if not told.settled or not floor.within.sd:
        return told
    length = advised(
        found,
        overhead=max(0.0, floor.seconds - told.ramp - told.runtime),
        warmup=(told.warmup, told.ramp),
        seconds=told.runtime,
        # Ten correlation times make within / t a law; it was measured at the length of today.
        enough=low**2,
        shortest=min(max(TIMES * alike, FEWEST_POINTS) * told.step, told.runtime),
    )
    return dataclasses.replace(told, length=length)


def _early(device: Sequence[RateSeries], ramp: float) -> float:
    """How much of the ramp time is needed, by the bytes of the device: what the tool leaves out,
    nobody else sees.  All of it, where the samples are too few to tell."""
    series = [np.array(course.values) for course in device]
    course = averaged(series)
    if not ramp or len(course) < 2 * FEWEST_POINTS:
        return ramp
    seen: Warmup = warmup(course, unrest(series))
    step = float(np.median([course.step for course in device]))
    return min(ramp, step * seen.points) if seen.settled else ramp


def _relative(values: Floats) -> Floats:
    mean = float(values.mean()) if len(values) else 0.0
    return np.asarray(values / mean) if mean > 0 else np.zeros(0)


def _courses(
    records: Sequence[TrialRecord], read: Callable[[TrialRecord], RateSeries | None]
) -> Iterator[RateSeries]:
    for record in records:
        course = read(record)
        if course is not None and len(course.values) >= FEWEST_POINTS:
            yield course


def document(found: Sequence[WorkloadNoise]) -> list[dict[str, Any]]:
    """For JSON: what is infinite or not a number is null."""
    return [_plain(dataclasses.asdict(part)) for part in found]


def _plain(value: Any) -> Any:  # noqa: ANN401 (whatever a dataclass holds)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def spread_words(spread: StandardDeviation) -> str:
    """``1.2 % (0.9 to 1.8 %)``."""
    ends = f"{_percent(spread.low)} to {_percent(spread.high)} %"
    return f"{_percent(spread.sd)} % ({ends})"


def _percent(share: float) -> str:
    return f"{share * 100:.0f}" if share > _WHOLE else f"{share * 100:.2g}"


def answer(found: Sequence[WorkloadNoise]) -> str:
    """What an A/A study found, in a sentence a workload."""
    said = [
        f"One trial of {part.floor.workload} varies by {spread_words(part.floor.within)} within a "
        f"block{_least(part.efforts)}."
        for part in found
    ]
    return " ".join(["This is the noise floor: the study varied no factor.", *said])


def _least(table: Sequence[SampleSize]) -> str:
    told = [each for each in table if each.blocks]
    if not told:
        return ""
    best = min(told, key=lambda each: abs(each.difference - 0.02))
    return (
        f"; detecting {best.difference * 100:.0f} % needs {best.blocks} blocks,"
        f" {format_wait(best.seconds)}"
    )
