"""Critical values: of intervals that hold together, and that hold at every look.

*Together*: how large max |T| gets when nothing differs.  The contrasts of one workload are jointly
normal and divided by one pooled standard deviation.  They fall into groups that do not correlate
with one another (the factors of a complete factorial do).  In a group with correlations of the form
λi·λj (all treatments against one baseline: Dunnett) the contrasts are independent given one common
normal variable, so that the probability is a double integral, done by quadrature: exact.

Anything else (all pairs of levels, interactions, cells missing here and there) is a multivariate t
without such a structure.  Its contrasts are a length times a direction: given the direction, the
probability is that of an F distribution, so only directions are drawn, 2^15 of them, always the
same.  Three standard errors of their mean are taken off it: the critical value is the least that
covers as much as it must even so.  It is never above that of independent contrasts, which by
Šidák's inequality suffices; more than 200 contrasts get just that.

Workloads are measured in different trials, hence independent: a workload with m_w of the study's
m comparisons gets the confidence C^(m_w/m), whose product over the workloads is C.  (Were they
dependent, the errors would add up to hardly more than 1 - C: 5.13 % instead of 5 % at worst.)

*At every look*: what a look after each block may spend, and what it costs.  Of an error probability
``level`` the part 1 - 1/sqrt(n) may have been spent after n blocks.  Little is saved for a far end
and little is spent at once, so that early looks at a large difference and late looks at a small one
are both near what they could be.  The values come from the exact recursion for a random walk of
known variance; where the variance is estimated the same nominal tail is asked of Student's t
("significance-level approach").  The t-tests of successive blocks depend on one another a little
less than the walk does; the tests of this module simulate what is left of the level then.

Several treatments: the tail of the one-look procedure (Dunnett's, the studentized range, or the
multivariate t of other contrasts) takes the place of ``level``.  They are exact for one look, or
cover a little more; for many, simulation shows that they keep the level (looked at after each of
256 blocks, interactions 3 x 3 miss in 4.9 % of 40,000 studies, all pairs of 4 levels in 4.5 %).
With ``look`` 0 the number of blocks was fixed beforehand, and the one-look value itself counts.

References:
    C. W. Dunnett (1955), A multiple comparison procedure for comparing several treatments with a
    control, JASA 50, 1096-1121; (1964), New tables …, Biometrics 20, 482-491 (product structure).
    Z. Šidák (1967), Rectangular confidence regions for the means of multivariate normal
    distributions, JASA 62, 626-633 (independence is the worst case, for two-sided intervals).
    A. Genz and F. Bretz (2009), *Computation of Multivariate Normal and t Probabilities*, 4.1.1
    (spherical-radial: direction and length); I. Deák (1980), Three digit accurate multiple normal
    probabilities, Numerische Mathematik 35, 369-380 (the same for the normal distribution).
    D. Edwards and J. J. Berry (1987), The efficiency of simulation-based multiple comparisons,
    Biometrics 43, 913-928 (a simulated critical value, with its error on the safe side).
    T. R. Chandrupatla (1997), A new hybrid quadratic/bisection algorithm for finding the zero of a
    nonlinear function without using derivatives, Advances in Engineering Software 28, 145-149.
    T. Hothorn, F. Bretz and P. Westfall (2008), Simultaneous inference in general parametric
    models, Biometrical Journal 50, 346-363 (contrasts of a linear model are one multivariate t).
    M. R. Stoline and H. K. Ury (1979), Tables of the studentized maximum modulus distribution,
    Technometrics 21, 87-93 (that worst case with a common estimate of the variance).
    J. C. Hsu (1996), *Multiple Comparisons*, chapters 3 and 7 and appendix.
    J. W. Tukey (1953), The problem of multiple comparisons (the studentized range).
    P. Armitage, C. K. McPherson and B. C. Rowe (1969), Repeated significance tests on
    accumulating data, JRSS A 132, 235-244 (the recursion).
    K. K. G. Lan and D. L. DeMets (1983), Discrete sequential boundaries for clinical trials,
    Biometrika 70, 659-663 (spending).
    C. Jennison and B. W. Turnbull (1984), Repeated confidence intervals for group sequential
    clinical trials, Controlled Clinical Trials 5, 33-45; (2000), *Group Sequential Methods with
    Applications to Clinical Trials*, 2.6 and 11.4 (unknown variance by significance levels), 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components
from scipy.special import fdtr, gammainccinv, gammaincinv, gammaln, ndtr, stdtrit

from iotrial.stats.blocks import Floats
from iotrial.stats.verdict import LAST

Loadings = tuple[float, ...]
"""λ of each contrast of a group; all zero: independent."""

ROUNDING = 1e-9
PAIR = 2
HALF = 0.5
STEEP = 0.95
"""Above this the inner integrand is too steep for the fixed quadrature."""
MOST = 200
"""Contrasts.  Of so many, drawing takes half a second."""
DIRECTIONS = 2**15
OFF = 3.0
"""Standard errors of the mean over the directions that the coverage is taken to be too high by."""
NO_PIVOT = 1e-7


@dataclass(frozen=True, slots=True)
class CriticalValue:
    """``value`` of |t|, and how it was found: ``t`` (one comparison), ``Dunnett`` (exact),
    ``multivariate t`` (drawn, with the error on the safe side) or ``Šidák`` (an upper bound)."""

    value: float
    method: Literal["t", "Dunnett", "multivariate t", "Šidák"]


def critical_value(correlation: Floats, df: int, confidence: float) -> CriticalValue:
    """The c with P(all |T_i| <= c) = ``confidence`` (at least that where ``method`` is
    Šidák or multivariate t).

    ``correlation`` is (contrasts, contrasts), at least one; ``df`` >= 1.
    """
    if len(correlation) == 1:
        return CriticalValue(single(df, confidence), "t")
    parts = _groups(correlation)
    structures = [_loadings(correlation[np.ix_(part, part)]) for part in parts]
    groups = tuple(
        found or (0.0,) * len(part) for found, part in zip(structures, parts, strict=True)
    )
    highest = _quantile(groups, df, confidence)
    if all(structures):
        return CriticalValue(highest, "Dunnett")
    if len(correlation) <= MOST:
        drawn = _drawn(np.round(correlation, 9).tobytes(), df, confidence, highest)
        if drawn < highest:
            return CriticalValue(drawn, "multivariate t")
    return CriticalValue(highest, "Šidák")


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
    return root(lambda c: _coverage(c, groups, df) - confidence, low, high, within=1e-7)


def root(of: Callable[[float], float], low: float, high: float, *, within: float = 2e-12) -> float:
    """Where ``of`` crosses 0 between ``low`` and ``high``, at which it has different signs, to
    ``within``.  Raises ValueError where the signs are the same.

    Chandrupatla's method.  That of scipy.optimize is as good, and takes longer to import than a
    plan to make.
    """
    a, b, fa, fb = low, high, of(low), of(high)
    if fa * fb > 0:
        raise ValueError(f"no change of sign between {low} and {high}")
    share = HALF
    while True:
        at = a + share * (b - a)
        value = of(at)
        if (value > 0) is (fa > 0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = at, value
        least = within / (2 * abs(b - a))
        if not fa or least > HALF:
            return a if abs(fa) < abs(fb) else b
        near, level = (a - b) / (c - b), (fa - fb) / (fc - fb)
        share = HALF
        if level**2 < near and (1 - level) ** 2 < 1 - near:  # an inverse parabola stays inside
            share = fa / (fb - fa) * fc / (fb - fc)
            share += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        share = min(max(share, least), 1 - least)


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


@lru_cache(maxsize=1024)
def _drawn(correlation: bytes, df: int, confidence: float, highest: float) -> float:
    """The critical value over drawn directions; ``highest`` where it is not below that."""
    rank, squares = _directions(correlation)

    def short(c: float) -> float:
        inside = fdtr(rank, df, c * c / (rank * squares))
        return float(inside.mean() - OFF * inside.std() / math.sqrt(DIRECTIONS)) - confidence

    if short(highest) <= 0:
        return highest
    return root(short, single(df, confidence) * 0.999, highest, within=1e-7)


@lru_cache(maxsize=64)
def _directions(correlation: bytes) -> tuple[int, Floats]:
    """Of how many normal variables the contrasts are made, and the square of the largest contrast
    in each of the drawn directions."""
    flat = np.frombuffer(correlation)
    made_of = _factor(flat.reshape(math.isqrt(len(flat)), -1))
    normal = np.random.default_rng(1).standard_normal((DIRECTIONS, len(made_of)))
    lengths = (normal**2).sum(axis=1)
    return len(made_of), np.abs(normal @ made_of).max(axis=1) ** 2 / lengths


def _factor(correlation: Floats) -> Floats:
    """F (rank, contrasts) with F'F = ``correlation``: Cholesky's, which needs no full rank and,
    unlike one by eigenvectors, is the same on every machine."""
    rest, found = correlation.copy(), []
    for at in range(len(rest)):
        if rest[at, at] > NO_PIVOT:
            found.append(rest[at] / math.sqrt(rest[at, at]))
            rest -= np.outer(found[-1], found[-1])
    return np.array(found)


def _legendre(count: int, low: float, high: float) -> tuple[Floats, Floats]:
    nodes, weights = _unit_legendre(count)
    half = (high - low) / 2
    return low + half * (nodes + 1), weights * half


@lru_cache(maxsize=8)
def _unit_legendre(count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


# -- at every look: what each may spend -----------------------------------------------------------

FIRST = 2
"""The first look: one block says nothing of the noise."""
NEAR = 256
"""Most studies end before this look, and what comes after takes longest to reckon."""
_GRID = np.linspace(-10.0, 8.0, 1441)
_WIDE = np.linspace(-9.0, 9.0, 2001)
_DENSITY = np.exp(-(_WIDE**2) / 2) / math.sqrt(2 * math.pi) * (_WIDE[1] - _WIDE[0])


def spent(blocks: int) -> float:
    """The share of an error probability that may have been spent after ``blocks`` blocks."""
    return 1 - 1 / math.sqrt(blocks)


def tails_at(level: float, looks: npt.NDArray[np.intp]) -> Floats:
    """:func:`tails` for the given looks; the far ones are reckoned when they are met."""
    return tails(level, NEAR if looks.max(initial=0) <= NEAR else LAST)[looks]


@lru_cache(maxsize=1024)
def tails(level: float, last: int = LAST) -> Floats:
    """Nominal one-sided tails: index n is the tail to ask for at the look after n blocks.

    (``last`` + 1,); 0 before the first look.  A walk without drift crosses the boundary that they
    make, at any look, with probability at most ``level``.
    """
    step = float(_GRID[1] - _GRID[0])
    density = np.exp(-(_GRID**2) / 2) / math.sqrt(2 * math.pi)
    critical, used = np.full(last + 1, np.inf), 0.0
    for n in range(FIRST, last + 1):
        if n > FIRST:
            density = _advanced(density, n, step)
        allowed = level * spent(n) - used
        beyond = (np.cumsum(density[::-1])[::-1] - density / 2) * step
        place = int(np.searchsorted(-beyond, -allowed))
        if 0 < place < len(_GRID):
            above, below = float(beyond[place - 1]), float(beyond[place])
            critical[n] = _GRID[place - 1] + step * (above - allowed) / max(above - below, 1e-300)
            used += allowed
            density = np.where(critical[n] - step / 2 > _GRID, density, 0.0)
    return np.asarray(ndtr(-critical))


def _advanced(density: Floats, n: int, step: float) -> Floats:
    """The density of the standardised walk one block later."""
    shrunk, sd = math.sqrt((n - 1) / n), 1 / math.sqrt(n)
    carried = np.interp(_GRID / shrunk, _GRID, density, left=0.0, right=0.0) / shrunk
    reach = int(6 * sd / step) + 1
    kernel = np.exp(-((np.arange(-reach, reach + 1) * step / sd) ** 2) / 2)
    return np.convolve(carried, kernel / kernel.sum(), mode="same")


@lru_cache
def against_one(comparisons: int, level: float) -> float:
    """The one-sided tail of each of ``comparisons`` with one common control that makes all of
    them hold at ``level``: Dunnett, equal numbers, known variance."""
    if comparisons <= 1:
        return level

    def held(d: float) -> float:
        return float((_DENSITY * ndtr(_WIDE + d * math.sqrt(2)) ** comparisons).sum())

    return float(ndtr(-_solved(held, level)))


@lru_cache
def extremes(treatments: int, level: float) -> float:
    """The one-sided tail for the largest of ``treatments`` against the smallest that makes the
    probability of any difference among equals ``level``: the studentized range, known variance."""
    if treatments <= PAIR:
        return level / 2

    def held(d: float) -> float:
        below = ndtr(_WIDE) - ndtr(_WIDE - d * math.sqrt(2))
        return float(treatments * (_DENSITY * below ** (treatments - 1)).sum())

    return float(ndtr(-_solved(held, level)))


def _solved(held: Callable[[float], float], level: float) -> float:
    return root(lambda d: held(d) - (1 - level), 0.0, 12.0, within=2e-12)


# -- together and at every look -------------------------------------------------------------------

MANY = 1_000_000
"""Degrees of freedom of a noise that is as good as known."""


def critical_at(look: int, correlation: Floats, df: int, confidence: float) -> CriticalValue:
    """:func:`critical_value`, for intervals that are looked at after every block, now after
    block ``look`` (0: once, as planned)."""
    if not look:
        return critical_value(correlation, df, confidence)
    once = critical_value(correlation, MANY, confidence)
    return CriticalValue(_spread(once.value, look, df), once.method)


def single_at(look: int, df: int, confidence: float) -> float:
    """:func:`single` for a comparison that is looked at after every block."""
    return _spread(single(MANY, confidence), look, df) if look else single(df, confidence)


def tail_of(correlation: Floats, confidence: float) -> float:
    """The one-sided error that each of several simultaneous intervals may make, at all looks
    together: what :func:`critical_at` spreads over the looks, for :func:`quantile_at`."""
    return float(ndtr(-critical_value(correlation, MANY, confidence).value))


def bound_at(comparisons: int, look: int, df: int, confidence: float) -> float:
    """:func:`bound` for comparisons that are looked at after every block."""
    if not look:
        return bound(comparisons, df, confidence)
    return _spread(bound(comparisons, MANY, confidence), look, df)


def quantile_at(tail: float, look: int, df: int) -> float:
    """The critical value of one one-sided test at the level ``tail``."""
    if not look:
        return float(stdtrit(df, 1 - tail))
    return -float(
        stdtrit(df, tails(tail, NEAR if look <= NEAR else LAST)[min(max(look, FIRST), LAST)])
    )


def _spread(once: float, look: int, df: int) -> float:
    return quantile_at(float(ndtr(-once)), look, df)
