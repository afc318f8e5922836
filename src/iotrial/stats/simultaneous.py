"""Two-sided simultaneous critical values: how large max |T| gets when nothing differs.

The contrasts of one workload are jointly normal and divided by one pooled standard deviation.
Contrasts fall into groups that do not correlate with one another (the factors of a complete
factorial do).  In a group with correlations of the form λi·λj (all treatments against one
baseline: Dunnett) the contrasts are independent given one common normal variable, so that the
probability is a double integral, done by quadrature: exact.  Any other group (cells missing here
and there) is treated as if its contrasts were independent: Šidák's inequality says that this can
only make the critical value too large, never too small.

Workloads are measured in different trials, hence independent: a workload with m_w of the study's
m comparisons gets the confidence C^(m_w/m), whose product over the workloads is C.  (Were they
dependent, the errors would add up to hardly more than 1 - C: 5.13 % instead of 5 % at worst.)

References:
    C. W. Dunnett (1955), A multiple comparison procedure for comparing several treatments with a
    control, JASA 50, 1096-1121; (1964), New tables …, Biometrics 20, 482-491 (product structure).
    Z. Šidák (1967), Rectangular confidence regions for the means of multivariate normal
    distributions, JASA 62, 626-633 (independence is the worst case, for two-sided intervals).
    M. R. Stoline and H. K. Ury (1979), Tables of the studentized maximum modulus distribution,
    Technometrics 21, 87-93 (that worst case with a common estimate of the variance).
    J. C. Hsu (1996), *Multiple Comparisons*, chapters 3 and 7 and appendix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.sparse.csgraph import connected_components
from scipy.special import gammainccinv, gammaincinv, gammaln, ndtr, stdtrit

from iotrial.stats.blocks import Floats

Loadings = tuple[float, ...]
"""λ of each contrast of a group; all zero: independent."""

ROUNDING = 1e-9
PAIR = 2
STEEP = 0.95
"""Above this the inner integrand is too steep for the fixed quadrature; the bound takes over."""


@dataclass(frozen=True, slots=True)
class Critical:
    """``value`` of |t|, and how it was found: ``t`` (one comparison), ``Dunnett`` (exact) or
    ``Šidák`` (an upper bound)."""

    value: float
    method: Literal["t", "Dunnett", "Šidák"]


def critical_value(correlation: Floats, df: int, confidence: float) -> Critical:
    """The c with P(all |T_i| <= c) = ``confidence`` (at least that where ``method`` is Šidák).

    ``correlation`` is (contrasts, contrasts), at least one; ``df`` >= 1.
    """
    if len(correlation) == 1:
        return Critical(single(df, confidence), "t")
    structures = [_loadings(correlation[np.ix_(group, group)]) for group in _groups(correlation)]
    exact = all(found is not None for found in structures)
    groups = tuple(
        found if found is not None else (0.0,) * size
        for found, size in zip(structures, map(len, _groups(correlation)), strict=True)
    )
    return Critical(_quantile(groups, df, confidence), "Dunnett" if exact else "Šidák")


def single(df: int, confidence: float) -> float:
    """The two-sided critical value of one comparison: Student's t."""
    return float(stdtrit(df, (1 + confidence) / 2))


def bound(comparisons: int, df: int, confidence: float) -> float:
    """The critical value that suffices whatever the correlations: the studentized maximum
    modulus of ``comparisons``."""
    if comparisons == 1:
        return single(df, confidence)
    return _quantile(((0.0,) * comparisons,), df, confidence)


def workload_confidence(confidence: float, comparisons: int, family: int) -> float:
    """The confidence that a workload with ``comparisons`` of the ``family`` must hold."""
    return float(confidence ** (comparisons / family))


def average_over_sd(df: int) -> tuple[Floats, Floats]:
    """Nodes and weights to average over s = (estimated / true standard deviation).

    Gauss-Legendre in log s, where the density of chi / sqrt(df) is smooth even for df = 1.
    """
    low = math.log(gammaincinv(df / 2, 1e-14) * 2 / df) / 2
    high = math.log(gammainccinv(df / 2, 1e-14) * 2 / df) / 2
    x, weights = _legendre(200, low, high)
    log_density = df * x - df * np.exp(2 * x) / 2 + df / 2 * math.log(df / 2) - gammaln(df / 2)
    weights = weights * np.exp(log_density)
    return np.exp(x), weights / weights.sum()


def _groups(correlation: Floats) -> list[list[int]]:
    count, label = connected_components(np.abs(correlation) > ROUNDING)
    return [np.flatnonzero(label == part).tolist() for part in range(count)]


def _loadings(correlation: Floats) -> Loadings | None:
    """|λ| with correlation[i, j] = λi·λj off the diagonal, or None where there are none.

    The signs do not matter to max |T| once the structure is known to hold with them.
    """
    size = len(correlation)
    if size == 1:
        return (0.0,)
    first = correlation[0]
    square = abs(first[1]) if size == PAIR else _ratio(first[1] * first[2], correlation[1, 2])
    if not 0 < square < STEEP**2:
        return None
    loadings = first / math.sqrt(square)
    loadings[0] = math.sqrt(square)
    fitted = np.outer(loadings, loadings)
    np.fill_diagonal(fitted, 1.0)
    if np.abs(fitted - correlation).max() > ROUNDING or np.abs(loadings).max() > STEEP:
        return None
    return tuple(sorted(np.round(np.abs(loadings), 12).tolist()))


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom else 0.0


@lru_cache(maxsize=1024)
def _quantile(groups: tuple[Loadings, ...], df: int, confidence: float) -> float:
    """Between one comparison's t and Bonferroni's, where the coverage is ``confidence``."""
    comparisons = sum(map(len, groups))
    low = single(df, confidence) * 0.999
    high = single(df, 1 - (1 - confidence) / comparisons) * 1.001
    found = brentq(lambda c: _coverage(c, groups, df) - confidence, low, high, xtol=1e-7)
    return float(found)


def _coverage(c: float, groups: tuple[Loadings, ...], df: int) -> float:
    """P(max |T| <= c): independent groups under one common standard deviation."""
    s, weights = average_over_sd(df)
    inside = np.ones_like(s)
    for loadings in groups:
        inside *= _group_coverage(c * s, loadings)
    return float(weights @ inside)


def _group_coverage(z: Floats, loadings: Loadings) -> Floats:
    """P(max |Z_i| <= z) of one group for each z, Z_i = λi·U + sqrt(1 - λi²)·E_i."""
    if not any(loadings):
        return np.asarray((2 * ndtr(z) - 1) ** len(loadings))
    u, weights = _legendre(64, 0.0, 8.5)  # the integrand is even in U: twice its upper half
    weights = weights * 2 * np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)
    inside = np.ones((len(z), len(u)))
    for loading, count in zip(*np.unique(loadings, return_counts=True), strict=True):
        rest = math.sqrt(1 - loading**2)
        upper, lower = np.add.outer(z, loading * u), np.add.outer(-z, loading * u)
        inside *= (ndtr(upper / rest) - ndtr(lower / rest)) ** count
    return np.asarray(inside @ weights)


def _legendre(count: int, low: float, high: float) -> tuple[Floats, Floats]:
    nodes, weights = _unit_legendre(count)
    half = (high - low) / 2
    return low + half * (nodes + 1), weights * half


@lru_cache(maxsize=8)
def _unit_legendre(count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights
