"""Phases: the stretches of a recording in which a load is the same kind of load.  Pure.

The I/Os of each operation are counted in windows.  A phase is a run of windows whose counts have
one rate for each operation; changes are placed so that the deviance of all windows and a price for
each change are least, which dynamic programming finds exactly.  Counts vary more than those of a
Poisson process where a load is bursty: deviances are divided by the dispersion, taken from
differences of neighbouring windows, which changes of phase hardly touch.  The price of a change is
that of its parameters by Schwarz's criterion, doubled; where more than :data:`MOST` phases were
found it is raised until there are no more.

References: B. Jackson et al. (2005), An algorithm for optimal partitioning of data on an interval,
IEEE Signal Processing Letters 12, 105-108; G. Schwarz (1978), Estimating the dimension of a model;
P. McCullagh and J. A. Nelder (1989), Generalized Linear Models, 9.2 (dispersion); J. von Neumann et
al. (1941), The mean square successive difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MOST = 20
_WINDOWS = 400
"""At most: the time is their number, squared."""
_SHORTEST = 3
"""Windows of a phase."""
_DEAR = 2.0
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """From ``begin`` to ``end`` in seconds; ``rates`` in 1/s, by operation."""

    begin: float
    end: float
    rates: Mapping[str, float]


def phases(counts: Mapping[str, npt.NDArray[np.int64]], step: float) -> tuple[LoadPhase, ...]:
    """``counts`` of I/Os in windows of ``step`` seconds, by operation, all as long."""
    length = max((len(each) for each in counts.values()), default=0)
    joined = max(1, math.ceil(length / _WINDOWS))
    whole = length // joined
    if whole < _SHORTEST:
        return ()
    names = [name for name, each in counts.items() if each[: whole * joined].any()]
    table = np.array([
        counts[name][: whole * joined].reshape(whole, joined).sum(axis=1) for name in names
    ]).reshape(len(names), whole).astype(np.float64)  # fmt: skip
    price = _DEAR * (len(names) + 1) * math.log(whole)
    while len(ends := _partition(table, price)) > MOST:
        price *= 1.5
    begins = [0, *ends[:-1]]
    return tuple(
        LoadPhase(
            begin * joined * step,
            end * joined * step,
            {
                name: float(table[row, begin:end].sum() / ((end - begin) * joined * step))
                for row, name in enumerate(names)
            },
        )
        for begin, end in zip(begins, ends, strict=True)
    )


def _partition(table: Floats, price: float) -> list[int]:
    """Where the phases end, the last at the end."""
    length = table.shape[1]
    sums = np.concatenate([np.zeros((len(table), 1)), np.cumsum(table, axis=1)], axis=1)
    spread = [_dispersion(row) for row in table]
    best = np.full(length + 1, np.inf)
    best[0] = -price
    before = np.zeros(length + 1, np.int64)
    for end in range(_SHORTEST, length + 1):
        starts = np.arange(end - _SHORTEST + 1)
        cost = np.zeros(len(starts))
        for row, by in zip(sums, spread, strict=True):
            cost += _deviance(row[end] - row[starts], end - starts) / by
        whole = best[starts] + cost + price
        at = int(np.argmin(whole))
        best[end], before[end] = whole[at], starts[at]
    ends, at = [], length
    while at > 0:
        ends.append(at)
        at = int(before[at])
    return ends[::-1]


def _deviance(counted: Floats, windows: npt.NDArray[np.int64]) -> Floats:
    """Of a run of windows with so many I/Os together, but for what no partition changes."""
    rate = np.maximum(counted, 1e-9) / windows
    return np.asarray(2 * (counted - counted * np.log(rate)))


def _dispersion(row: Floats) -> float:
    mean = float(row.mean())
    return max(1.0, float((np.diff(row) ** 2).mean()) / (2 * mean)) if mean else 1.0
