"""What a treatment gains and what it costs: throughput against latency and CPU per I/O.

A treatment is *beaten* when another was shown to be better in one of the two, their intervals
lying apart, and its mean is no worse in the other.  Those that are not beaten are all that anybody
could reasonably choose: Pareto's front, and what these trials cannot tell from it.  Each interval
is one treatment's own, for its mean with the blocks taken as they are, from the error pooled
within blocks.

References:
    V. Pareto (1906), *Manuale di economia politica*, chapter 6.
    K. Miettinen (1999), *Nonlinear Multiobjective Optimization*, chapter 2 (dominance).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrial.model.measurement import beside, of_section, sectioned
from iotrial.model.results import Results
from iotrial.model.trial import Treatment
from iotrial.stats.blocks import fit
from iotrial.stats.critical import single
from iotrial.stats.responses import responses_of

MOST = 200
"""Treatments beyond which the points cover one another."""


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A geometric mean in the metric's unit, with its interval (None: no residual df)."""

    middle: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class TradeoffPoint:
    """One treatment; ``front``: no other treatment beats it."""

    treatment: Treatment
    gain: MeanInterval
    cost: MeanInterval
    front: bool


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """``gain`` is the workload's primary metric, ``cost`` another; the points are in the study's
    order."""

    workload: str
    gain: str
    cost: str
    points: tuple[TradeoffPoint, ...]


def tradeoffs(results: Results) -> tuple[Tradeoff, ...]:
    """For each workload its primary metric against 99th percentile latency and CPU per I/O, where
    at least two treatments have both."""
    found = []
    for workload, gain in results.study.decide.primary:
        for cost in (beside(gain, "clat.p99"), of_section("cpu.per_io", sectioned(gain)[1])):
            if cost == gain:
                continue
            points = _points(results, workload, gain, cost)
            if len(points) >= 2:  # noqa: PLR2004  one point dominates nothing
                found.append(Tradeoff(workload, gain, cost, points))
    return tuple(found)


def beaten(
    own: tuple[MeanInterval, MeanInterval],
    other: tuple[MeanInterval, MeanInterval],
    ways: Sequence[bool],
) -> bool:
    """Whether ``other`` was shown to be better in one thing, and is no worse in the other.
    ``ways``: in which of the two more is better."""
    return any(
        _apart(other[one], own[one], more=ways[one])
        and not _behind(other[two], own[two], more=ways[two])
        for one, two in ((0, 1), (1, 0))
    )


def _apart(better: MeanInterval, worse: MeanInterval, *, more: bool) -> bool:
    if better.low is None or better.high is None or worse.low is None or worse.high is None:
        return False
    return better.low > worse.high if more else better.high < worse.low


def _behind(one: MeanInterval, other: MeanInterval, *, more: bool) -> bool:
    return one.middle < other.middle if more else one.middle > other.middle


def _points(results: Results, workload: str, gain: str, cost: str) -> tuple[TradeoffPoint, ...]:
    gains, costs = (extents(results, workload, name) for name in (gain, cost))
    both = {cell: (gains[cell], costs[cell]) for cell in gains if cell in costs}
    if len(both) > MOST:
        return ()
    ways = tuple(results.study.metrics.higher(name) is True for name in (gain, cost))
    return tuple(
        TradeoffPoint(cell, *own, not any(beaten(own, other, ways) for other in both.values()))
        for cell, own in both.items()
    )


def extents(results: Results, workload: str, name: str) -> dict[Treatment, MeanInterval]:
    """The mean of every treatment in one metric, with its own interval."""
    data = responses_of(results, workload, name)
    if not data.trials:
        return {}
    got = fit(data.layout, data.logs, np.zeros((0, len(data.cells))))
    critical = single(got.df, results.study.decide.confidence) if got.df else 0.0
    found = {}
    for place, cell in enumerate(data.cells):
        logs = data.logs[data.layout.cell == place]
        middle = float(logs.mean())
        if not got.df:
            found[cell] = MeanInterval(math.exp(middle), None, None)
            continue
        half = critical * float(got.sd) / math.sqrt(len(logs))
        found[cell] = MeanInterval(*(math.exp(middle + side) for side in (0.0, -half, half)))
    return found
