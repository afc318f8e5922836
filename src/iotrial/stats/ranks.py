"""Differences judged by their ranks: what heavy tails and single strange trials cannot move far.

References:
    F. Wilcoxon (1945), Individual comparisons by ranking methods, Biometrics Bulletin 1, 80-83
    (the signed-rank test).
    J. L. Hodges and E. L. Lehmann (1963), Estimates of location based on rank tests, Annals of
    Mathematical Statistics 34, 598-611 (the median of the means of all pairs).
    J. W. Pratt (1959), Remarks on zeros and ties in the Wilcoxon signed rank procedures, JASA 54,
    655-667 (zeros are ranked, and left out then).
    F. R. Hampel (1974), The influence curve and its role in robust estimation, JASA 69, 383-393
    (the median absolute deviation).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from iotrial.stats.blocks import Floats

EXACT = 60
"""Up to so many differences the distribution is counted out; beyond it is as good as normal."""
_MAD_OF_NORMAL = 0.6744897501960817


def hodges_lehmann(differences: Floats) -> float:
    """The middle of ``differences`` (n,): the median of the means of all pairs, each with itself
    too.  Up to 29 % of them may be anything without carrying it away."""
    first, second = np.triu_indices(len(differences))
    return float(np.median((differences[first] + differences[second]) / 2))


def signed_rank(differences: Floats) -> float:
    """The two-sided p-value of ``differences`` (n,) being symmetric around 0."""
    ranks = _ranks(np.abs(differences))
    kept = differences != 0
    ranks, positive = ranks[kept], (differences > 0)[kept]
    if not len(ranks):
        return 1.0
    total, whole = float(ranks[positive].sum()), float(ranks.sum())
    far = max(total, whole - total)
    if len(ranks) <= EXACT:
        # Ranks of ties are halves: twice a rank is whole.
        doubled = np.rint(2 * ranks).astype(int)
        chance = np.ones(1)
        for rank in doubled:
            longer = np.zeros(len(chance) + rank)
            longer[: len(chance)] += chance / 2
            longer[rank:] += chance / 2
            chance = longer
        tail = float(chance[round(2 * far) :].sum())
    else:
        spread = math.sqrt(float((ranks**2).sum()) / 4)
        tail = float(ndtr(-(far - whole / 2 - 0.5) / spread))
    return min(1.0, 2 * tail)


def robust_sd(differences: Floats) -> float:
    """A standard deviation that a quarter of strange values does not move: from the median
    absolute deviation."""
    away = np.abs(differences - np.median(differences))
    return float(np.median(away)) / _MAD_OF_NORMAL


def _ranks(values: Floats) -> Floats:
    """1 for the smallest; ties share their mean."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place], dtype=np.float64)
