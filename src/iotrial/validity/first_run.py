"""First run: the first trial of each treatment differs from its later ones.

What the first block pays alone: blocks written for the first time, cold caches of array and
drive, a clock that rises, an allocator that is empty.  For each treatment the logarithm of its
first trial is held against the mean of its later ones; the mean of these differences over
treatments is held against what the later trials scatter by.  Blocks keep it out of comparisons
between treatments; it is in the absolute numbers, and it says that later trials were not yet
alike either, perhaps.

Reference: Student (1908), The probable error of a mean, Biometrika 6, 1-25.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log, sqrt
from statistics import fmean

from iotrial.model.doubt import Doubt
from iotrial.model.results import Results
from iotrial.model.validity import Check
from iotrial.units import format_change
from iotrial.validity import trials

ERRORS = 4.0
"""Standard errors: with 6 degrees of freedom and more, by chance in less than 0.8 % of studies."""
LEAST_DF = 6
_FEWEST = 3
"""Trials of a treatment: one first, and two that scatter."""


def study(results: Results) -> Iterator[Doubt]:
    for workload in results.study.workloads:
        metric = trials.primary(results, workload.name)
        rows = [
            [log(value) for record in records if (value := record.value(metric)) and value > 0]
            for records in trials.grouped(results, workload.name).values()
        ]
        effect, errors = first_against_later([row for row in rows if len(row) >= _FEWEST])
        if errors >= ERRORS and abs(effect) > results.study.decide.margin:
            what = (
                f"{workload.name}: the first trial of each treatment differs from its later ones"
                f" by {format_change(exp(effect))} in {metric}"
            )
            yield CHECK.doubt(what)


def first_against_later(rows: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The mean difference of each row's first value to the mean of its others, and how many
    standard errors that is; (0, 0) where there are too few."""
    freedom = sum(len(row) - 2 for row in rows)
    if freedom < LEAST_DF:
        return 0.0, 0.0
    effect = fmean(row[0] - fmean(row[1:]) for row in rows)
    squares = sum((value - fmean(row[1:])) ** 2 for row in rows for value in row[1:])
    weight = sum(1 + 1 / (len(row) - 1) for row in rows) / len(rows) ** 2
    error = sqrt(squares / freedom * weight)
    if not error:
        return effect, ERRORS if effect else 0.0
    return effect, abs(effect) / error


CHECK = Check(
    name="first-run",
    title="the first trial of each treatment is unlike the others",
    looks_at="the valid trials of the study, in their order",
    limit="more than the margin, and four standard errors, over treatments with three trials and"
    " more, 6 degrees of freedom together",
    remedy="Warm up first (`prepare` for each study: precondition, lay out), and do not quote"
    " absolute numbers of the first block.",
    source="Student's t on logarithms, as the module says",
    study=study,
)
