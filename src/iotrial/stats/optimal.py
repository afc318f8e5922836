"""D-optimal subsets: which of the possible treatments tell the most about a linear model.

Of the candidates a subset is chosen that makes det X'X large, X being the subset's rows of the
model: the ellipsoid of the estimates is then small.  Rows are exchanged one for another as long
as that helps by more than rounding (Cook and Nachtsheim's form of Fedorov's algorithm: each row
of the subset in turn for its best exchange), from several seeded beginnings.  Effects are coded
orthogonally and of equal length, so that the choice does not depend on which level comes first.

Where an orthogonal design of the size exists the exchange often finds it, but nothing promises
that: what is partly mixed with what is to be read from the alias matrix
(:mod:`iotrial.stats.alias`).

References:
    V. V. Fedorov (1972), *Theory of Optimal Experiments*, chapter 3.
    R. D. Cook and C. J. Nachtsheim (1980), A comparison of algorithms for constructing exact
    D-optimal designs, Technometrics 22, 315-324.
    A. C. Atkinson, A. N. Donev and R. D. Tobias (2007), *Optimum Experimental Designs, with SAS*,
    chapters 11 and 12.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np

from iotrial.stats.blocks import Floats, Indices

STARTS = 60
"""Beginnings at most; fewer where each takes long."""
_WORK = 4e9
"""Multiplications that all beginnings may take together: a second or two."""
_PASSES = 12
_GAIN = 1e-6
"""Of the determinant: a smaller gain is rounding, and would choose by the machine's arithmetic."""
_RIDGE = 1e-6


def coded(levels: int) -> Floats:
    """(levels, levels - 1): orthogonal contrasts of squared length ``levels``, summing to 0."""
    table = np.zeros((levels, levels - 1))
    for column in range(levels - 1):
        table[: column + 1, column] = -1.0
        table[column + 1, column] = column + 1
    return np.asarray(table * np.sqrt(levels / (table**2).sum(axis=0)))


def model(cells: Sequence[Sequence[int]], levels: Sequence[int], order: int) -> Floats:
    """The rows of ``cells`` (places of their levels) in the model with all effects of up to
    ``order`` factors (0: the mean alone): (cells, parameters)."""
    parts = [np.ones((len(cells), 1))]
    for size in range(1, order + 1):
        effects = itertools.combinations(range(len(levels)), size)
        parts += [block(cells, levels, factors) for factors in effects]
    return np.hstack(parts)


def block(cells: Sequence[Sequence[int]], levels: Sequence[int], factors: Sequence[int]) -> Floats:
    """The columns of one effect: of one factor, or of the interaction of several."""
    places = np.asarray(cells, dtype=np.intp).reshape(len(cells), len(levels))
    columns = np.ones((len(cells), 1))
    for factor in factors:
        own = coded(levels[factor])[places[:, factor]]
        columns = (columns[:, :, None] * own[:, None, :]).reshape(len(cells), -1)
    return columns


def parameters(levels: Sequence[int], order: int) -> int:
    """How many parameters the model has: the fewest treatments that can tell them apart."""
    total = 1
    for size in range(1, order + 1):
        for factors in itertools.combinations(levels, size):
            product = 1
            for count in factors:
                product *= count - 1
            total += product
    return total


def subset(rows: Floats, size: int, first: int = 0) -> tuple[int, ...] | None:
    """The places of ``size`` different rows with a large det X'X, in ascending order.

    ``first`` is a row that must be among them (the treatment in force).  Seeded: the same rows
    give the same subset.  None where no subset of this size tells all parameters apart.
    """
    if size >= len(rows):
        everything = tuple(range(len(rows)))
        return everything if _full_rank(rows) else None
    best: tuple[float, tuple[int, ...]] | None = None
    pass_work = 4 * size * len(rows) * rows.shape[1] ** 2
    for start in range(max(1, min(STARTS, int(_WORK / pass_work)))):
        # Seeded on purpose: a choice that can be had again, not a secret.
        chance = random.Random(f"{size}:{start}")
        others = [place for place in range(len(rows)) if place != first]
        chosen = np.array([first, *chance.sample(others, size - 1)], dtype=np.intp)
        value = _exchange(rows, chosen)
        if best is None or value > best[0] + _GAIN:
            best = value, tuple(sorted(chosen.tolist()))
    if best is None or not _full_rank(rows[list(best[1])]):
        return None
    return best[1]


def _full_rank(rows: Floats) -> bool:
    return bool(np.linalg.matrix_rank(rows) == rows.shape[1])


def _exchange(rows: Floats, chosen: Indices) -> float:
    """Improve ``chosen`` in place; the logarithm of the determinant reached."""
    ridge = _RIDGE * np.eye(rows.shape[1])
    for _ in range(_PASSES):
        improved = False
        for at in range(1, len(chosen)):
            spread = np.asarray(np.linalg.inv(rows[chosen].T @ rows[chosen] + ridge), np.float64)
            gain = _gains(rows, spread, rows[chosen[at]])
            gain[chosen] = 1.0
            best = int(np.argmax(np.round(gain, 6)))
            if gain[best] > 1 + _GAIN * 10:
                chosen[at] = best
                improved = True
        if not improved:
            break
    return round(float(np.linalg.slogdet(rows[chosen].T @ rows[chosen] + ridge)[1]), 6)


def _gains(rows: Floats, spread: Floats, out: Floats) -> Floats:
    """By what the determinant is multiplied when row ``out`` gives way to each row (Fedorov's
    delta, plus 1)."""
    d_in = np.einsum("ij,jk,ik->i", rows, spread, rows, optimize=True)
    d_out = float(out @ spread @ out)
    d_both = rows @ spread @ out
    return np.asarray((1 + d_in) * (1 - d_out) + d_both**2)
