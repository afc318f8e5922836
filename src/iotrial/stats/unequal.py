"""Intervals that hold whichever treatment is noisier than the others, and by how much.

A standard deviation pooled over all treatments is the most precise one where they are equally
noisy.  Where one is noisier, what is said of it is too sure: with four treatments of which the
baseline is five times as noisy, 13 % of studies of eight blocks claim a difference that is none,
where 5 % may.
The differences of two treatments within blocks have the noise of just these two, whatever it is.
But they are as few as the blocks, and their standard deviation is poorly known.

So a contrast gets the *larger* of two standard errors: that of its own values in the blocks, and
a share (:data:`iotrial.stats.blocks.SHARE`) of that by the pooled noise.  A small spread by chance
claims nothing, for the pooled noise stands below it; a treatment that is really noisier is seen in
its own differences.
The critical value is the least that keeps the error under the worst of the ways in which the noise
of treatments can differ.  It is no formula: it was found once by simulation, for so many treatments
and blocks and levels (``unequal.csv``; ``./dev bench unequal`` makes it again), and is interpolated
between them.  Four treatments, five blocks, 95 %: 3.26, where Dunnett's for equal noise is 2.68,
and Bonferroni's for the differences alone 3.96.

The same values serve every family of contrasts that share a baseline: main effects of a factorial,
and interactions, which are as many as one less than the treatments they are looked up for.

*At every look*: where a study is looked at after each block, the error of this block's look takes
the place of the level: what so many independent comparisons would err by at the nominal tail that
:mod:`iotrial.stats.critical` spends on it.

*Interpolation* is on the number of comparisons that Student's t with one degree of freedom less
than there are blocks would have to be corrected for.  It changes slowly: from about 1 (few blocks:
what happens is that the one treatment that is noisier has a small spread by chance) to what the
range of the means of many blocks has (Dunnett, Tukey).

References:
    G. E. P. Box (1954), Some theorems on quadratic forms applied in the study of analysis of
    variance problems II, Annals of Mathematical Statistics 25, 484-498 (what unequal variances do
    to blocked designs).
    C. W. Dunnett (1980), Pairwise multiple comparisons in the unequal variance case, JASA 75,
    796-800.
    R. J. Boik (1981), A priori tests in repeated measures designs: effects of nonsphericity,
    Psychometrika 46, 241-255 (why each contrast needs an error of its own).
    V. G. Tusher, R. Tibshirani and G. Chu (2001), PNAS 98, 5116-5121 (a floor under a variance that
    few values estimate).
    M. S. Bartlett (1933), On the theory of statistical regression, Proc. Royal Society of Edinburgh
    53, 260-283 (how draws of the Wishart distribution are made).
"""

from __future__ import annotations

import csv
import math
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import stdtr, stdtrit

from iotrial.stats.blocks import Floats, Indices
from iotrial.stats.critical import NEAR, Look, tails_at
from iotrial.stats.verdict import LAST

Kind: TypeAlias = Literal["one", "pairs"]
"""All treatments against one of them, or each against each."""
KINDS: tuple[Kind, ...] = ("one", "pairs")
TREATMENTS = (3, 4, 6, 8, 12, 16, 32)
BLOCKS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 256)
LEVELS = (0.3, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 3e-4, 1e-4, 2e-5)
TABLE = Path(__file__).with_suffix(".csv")
LOOSE = 1.3
"""Of several comparisons looked at again and again fewer cross than of as many independent ones
would, and their small values are those of few blocks.  So many times the level is asked for;
``./dev bench honesty`` and the tests have what studies then err by."""
MOST = 0.5
PAIR = 2
NOTHING = 1e-15


def comparisons(kind: Kind, treatments: int) -> int:
    """How many contrasts the family has."""
    return treatments - 1 if kind == "one" else treatments * (treatments - 1) // 2


def critical(kind: Kind, treatments: int, df: Floats, level: Floats | float) -> Floats:
    """The values of |t| that the largest of a family exceeds with the probability ``level``.

    ``df`` are those of the contrasts' own standard errors: blocks - 1, where all are whole.  Has
    the shape of both together; infinite where ``df`` is below 1 or nothing may be spent.
    """
    known = np.maximum(np.asarray(df, dtype=np.float64), 1.0)
    may = np.maximum(level, NOTHING)
    value = -stdtrit(known, may / _multiplicity(kind, treatments, known + 1, may) / 2)
    return np.where((np.asarray(df) < 1) | (may <= NOTHING), np.inf, value)


def critical_at(
    look: Indices | Look, kind: Kind, treatments: int, df: Floats, level: float
) -> Floats:
    """:func:`critical` where the study is looked at after every block, now after this one; an
    array is of looks at a study that may have as many blocks as it takes."""
    if isinstance(look, Look):
        if not look.block:
            return critical(kind, treatments, df, level)
        now = level_at(np.array(look.block), kind, treatments, level, look.planned)
        return critical(kind, treatments, df, now)
    blocks = np.asarray(look)
    if blocks.shape == df.shape and (df == blocks - 1).all():  # nothing was lost
        last = NEAR if blocks.max(initial=0) <= NEAR else LAST
        return np.asarray(_of_whole_blocks(kind, treatments, level, last)[blocks])
    return critical(kind, treatments, df, level_at(look, kind, treatments, level))


@lru_cache(maxsize=256)
def _of_whole_blocks(kind: Kind, treatments: int, level: float, last: int) -> Floats:
    """:func:`critical_at` every look up to the ``last``, (last + 1,)."""
    blocks = np.arange(last + 1)
    now = level_at(blocks, kind, treatments, level)
    return critical(kind, treatments, np.asarray(blocks - 1.0), now)


def level_at(look: Indices, kind: Kind, treatments: int, level: float, planned: int = 0) -> Floats:
    """What the look after so many blocks may err by, so that all looks err by ``level``."""
    many = comparisons(kind, treatments)
    # Where few looks are planned nearly all of it may be spent at one of them.
    loose = min(LOOSE * level, MOST) if many > 1 and not planned else level
    tail = -math.expm1(math.log1p(-loose) / many) / 2
    return np.asarray(-np.expm1(many * np.log1p(-2 * tails_at(tail, look, planned))))


def _multiplicity(kind: Kind, treatments: int, blocks: Floats, level: Floats) -> Floats:
    """For how many comparisons Student's t would have to be corrected."""
    if treatments <= PAIR:
        return np.ones_like(blocks)
    table = _of_treatments(kind, treatments)
    row = np.interp(-1 / blocks, -1 / np.array(BLOCKS), np.arange(len(BLOCKS)))
    column = np.interp(-np.log(level), -np.log(LEVELS), np.arange(len(LEVELS)))
    row, column = np.broadcast_arrays(row, column)
    up, right = (
        np.minimum(at.astype(np.intp), size - 2)
        for at, size in ((row, len(BLOCKS)), (column, len(LEVELS)))
    )
    down, left = row - up, column - right
    return np.asarray(
        np.exp(
            (1 - down) * ((1 - left) * table[up, right] + left * table[up, right + 1])
            + down * ((1 - left) * table[up + 1, right] + left * table[up + 1, right + 1])
        )
    )


@lru_cache(maxsize=256)
def _of_treatments(kind: Kind, treatments: int) -> Floats:
    """Logarithms of the multiplicities, (blocks, levels)."""
    at = np.interp(math.log(treatments), np.log(TREATMENTS), np.arange(len(TREATMENTS)))
    low = min(int(at), len(TREATMENTS) - 2)
    share = float(at) - low
    table = (1 - share) * _table()[kind][low] + share * _table()[kind][low + 1]
    # Of more treatments than the table has, as if all further comparisons were independent.
    more = comparisons(kind, treatments) / comparisons(kind, TREATMENTS[-1])
    return np.asarray(table + math.log(max(1.0, more)))


@lru_cache(maxsize=1)
def _table() -> dict[str, Floats]:
    """Logarithms of the multiplicities, (treatments, blocks, levels) of each kind."""
    size = len(TREATMENTS), len(BLOCKS), len(LEVELS)
    found: dict[str, Floats] = {kind: np.zeros(size) for kind in KINDS}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            treatments, blocks = int(row["treatments"]), int(row["blocks"])
            level, value = float(row["level"]), float(row["critical"])
            at = TREATMENTS.index(treatments), BLOCKS.index(blocks), LEVELS.index(level)
            found[row["kind"]][at] = math.log(level / (2 * stdtr(blocks - 1, -value)))
    return found
