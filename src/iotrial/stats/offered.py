"""The highest offered rate within a latency bound, from the latencies at several rates.

A load of ``clients`` that each wait for their I/O cannot start one while the one before it is on
its way.  Its latencies are counted from the submission, so what an I/O waits for its client is left
out, and most where the storage is slowest: coordinated omission.  Where the I/Os of a client are to
start at the moments of a Poisson process, this wait follows from the latencies themselves: a client
is a queue with one server whose service times they are (M/G/1), and the wait has the distribution
of Pollaczek and Khinchine, a geometric number of residual service times.  It is computed on a grid
by Panjer's recursion.  The response time from the intended start is the wait and the latency
together.  Of a client that is always busy the wait grows until the load ends.

Independence of the latencies of one client is assumed only where two waits follow each other: that
an arrival meets a busy client, and for how long, is exact for any (Poisson arrivals see time
averages).  So the fewer I/Os meet a busy client, the less is computed and the more is measured.

Between two rates the bound is met where a straight line in logarithms of rate and response meets
it, after the responses were made to rise with the rate (isotonic regression of their logarithms).

References: Kleinrock 1975, Queueing Systems I, 5.6 to 5.7 (M/G/1); Wolff 1982 (PASTA); Panjer 1981;
Barlow et al. 1972 (isotonic regression, pool adjacent violators).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Literal

SERVED = 0.98
"""Of the I/Os that a rate comes to: fewer, and it was not reached."""
_CHANCE = 3.0
"""Standard deviations by which a Poisson number may fall short."""
_STEPS = 200
"""Of the grid, up to the percentile without any wait."""
_MOST = 2000
"""Points of a grid, from which on it gets twice as coarse."""


@dataclass(frozen=True, slots=True)
class OfferedLevel:
    """One rate: ``rate`` offered (1/s), ``response`` in seconds (the percentile that is bounded,
    from the intended start), and whether the load reached the rate."""

    rate: float
    response: float
    served: bool


@dataclass(frozen=True, slots=True)
class FoundRate:
    """The highest rate within the bound (1/s).  ``beyond``: it lies outside of the rates that were
    offered, and ``rate`` is the nearest of them: above the highest, or below the lowest."""

    rate: float
    beyond: Literal["", "above", "below"] = ""


def level(
    latencies: Mapping[float, int], *, rate: float, clients: int, share: float, seconds: float
) -> OfferedLevel:
    """What ``clients`` that offer ``rate`` together for ``seconds`` came to: ``latencies`` (seconds
    → I/Os) from the submission; ``share`` is the percentile as a fraction.

    Each client begins with an I/O, and has a Poisson number of others.  Where fewer were done, but
    for chance, the load fell behind by what is missing, the last I/O most.
    """
    ios, expected = sum(latencies.values()), rate * seconds + clients
    if ios >= SERVED * expected - _CHANCE * math.sqrt(expected):
        late = response(latencies, rate / clients, share, seconds)
        return OfferedLevel(rate, late, served=True)
    behind = seconds * (1 - ios / expected)
    return OfferedLevel(rate, _quantile(latencies, share * ios) + share * behind, served=False)


def response(latencies: Mapping[float, int], rate: float, share: float, seconds: float) -> float:
    """The ``share`` quantile of the response time from the intended start, of clients that start
    ``rate`` I/Os a second each for ``seconds``, whose ``latencies`` (seconds → I/Os) from the
    submission are these; ``seconds`` at most beyond the latency itself."""
    total = sum(latencies.values())
    own = _quantile(latencies, share * total)
    busy = rate * sum(value * count for value, count in latencies.items()) / total
    if busy >= 1:
        return own + share * seconds * (1 - 1 / busy)
    step = own / _STEPS
    while step * _MOST < own + seconds:
        found = _on_grid(latencies, busy, share, step)
        if found is not None:
            return max(own, found)
        step *= 2
    return own + share * seconds


def _quantile(values: Mapping[float, int], rank: float) -> float:
    upto = 0
    for value in sorted(values):
        upto += values[value]
        if upto >= rank:
            return value
    return math.inf


def _on_grid(
    latencies: Mapping[float, int], busy: float, share: float, step: float
) -> float | None:
    """The quantile of wait and latency; None where it is beyond the grid."""
    total = sum(latencies.values())
    held = [0] * (_MOST + 1)
    steps = 0
    for value, count in latencies.items():
        place = round(value / step)
        held[min(place, _MOST)] += count
        steps += place * count
    if not steps:
        return 0.0
    below = [count / total for count in accumulate(held)]  # P(latency ≤ n steps)
    residual = [(1 - each) * total / steps for each in below]
    first = 1 - busy * residual[0]
    wait = [(1 - busy) / first]
    for n in range(_MOST):
        if n:
            back = sum(map(mul, residual[1 : n + 1], reversed(wait)))
            wait.append(busy / first * back)
        if sum(map(mul, below[: n + 1], reversed(wait))) >= share:
            return n * step
    return None


def within(levels: Sequence[OfferedLevel], bound: float) -> FoundRate:
    """The rate at which the response meets the bound.  No rate above one that was not reached
    counts; ``levels`` are in any order, one at least."""
    rising = sorted(levels, key=lambda level: level.rate)
    upto = next((at for at, level in enumerate(rising) if not level.served), len(rising))
    logs = _isotonic([math.log(level.response) for level in rising[:upto]])
    if upto < len(rising):
        missed = rising[upto].response
        logs.append(math.log(missed) if missed > bound else math.inf)
    most = math.log(bound)
    above = next((at for at, value in enumerate(logs) if value > most), None)
    if above is None:
        return FoundRate(rising[-1].rate, "above")
    if not above:
        return FoundRate(rising[0].rate, "below")
    (low, high), rates = logs[above - 1 : above + 1], rising[above - 1 : above + 1]
    part = 0.0 if math.isinf(high) else (most - low) / (high - low)
    first, second = (math.log(level.rate) for level in rates)
    return FoundRate(math.exp(first + part * (second - first)))


def _isotonic(values: Sequence[float]) -> list[float]:
    """The nearest values that never fall (least squares)."""
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [_mean(pool) for pool in pools for _ in pool]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
