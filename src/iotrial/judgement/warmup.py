"""Whether trials measured their own warm-up, by the telemetry that every trial keeps.

The device's bytes per second, of all valid trials of a workload together: what they all begin with
stands out, what one of them met by chance does not.  Only loads that last a given time are looked
at, since those that end by size have no ramp time that could be longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from iotrial.model.doubt import Doubt
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord
from iotrial.model.workload import Workload
from iotrial.stats.blocks import Floats
from iotrial.stats.series import FEWEST, LEVEL, TOGETHER, averaged, unrest, warmup
from iotrial.units import format_seconds, parse_seconds

MOST = 100
"""Trials of a workload that are read: more make the average no clearer that counts."""
STARTS = 0.5
"""Seconds of a load before it does its first I/O, at most."""
HARMLESS = 0.001
"""A mean that is off by less is not worth a word."""


def warmup_doubts(results: Results) -> tuple[Doubt, ...]:
    """A doubt about the whole study for each workload whose rate had not settled when its
    ``ramp_time`` was over; none is invalid."""
    timed = [each for each in results.study.workloads if seconds(each, "runtime")]
    level = LEVEL / max(1, len(timed))
    return tuple(doubt for each in timed for doubt in _doubts(results, each, level))


def _doubts(results: Results, workload: Workload, level: float) -> Iterator[Doubt]:
    records = [r for r in results.valid if r.trial.workload == workload.name]
    step, series = _measured(results, records, seconds(workload, "ramp_time"))
    course = averaged(series)
    if len(course) < FEWEST or len(series) < TOGETHER:
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
        f"{workload.name}: in the first {format_seconds(more)} that count, the rate of the device "
        f"is {(found.ratio - 1) * 100:+.1f} % against what follows (p = {found.p:.1g}, "
        f"{len(series)} trials): means are off by about {bias * 100:+.1f} %",
        f"warm-up is longer than the ramp_time of {format_seconds(ramp)}: "
        f"ramp_time = {math.ceil(ramp + more)}s leaves it out; `iotrial run --aa` says how long a"
        " trial should be",
    )


def _unsettled(workload: Workload, trials: int, p: float) -> Doubt:
    return Doubt(
        "warm-up",
        f"{workload.name}: the rate of the device still changes in the latter half of what counts, "
        f"alike in all trials (p = {p:.1g}, {trials} trials): the mean depends on the runtime",
        "look at telemetry.jsonl of a trial for what fills up or empties (a cache, free blocks); "
        "precondition, give a longer ramp_time, or measure longer than it takes",
    )


def _measured(
    results: Results, records: Sequence[TrialRecord], ramp: float
) -> tuple[float, list[Floats]]:
    """Seconds between two points, and each trial's rate from where its ramp time was over."""
    courses = []
    for record in records[:: math.ceil(len(records) / MOST) or 1]:
        course = results.traces.of_device(record)
        if course is not None and len(course.values) >= FEWEST:
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
