"""What several claims may err by together, and at every look.

*Together*: the critical values of one workload's comparisons are those of
:mod:`iotrial.stats.unequal`.
Workloads are measured in different trials, hence independent: a workload with m_w of the study's
m comparisons gets the confidence C^(m_w/m), whose product over the workloads is C.  (Were they
dependent, the errors would add up to hardly more than 1 - C: 5.13 % instead of 5 % at worst.)

*At every look*: what a look after each block may spend, and what it costs.  Of an error probability
``level`` the part 1 - 1.74/sqrt(n) may have been spent after n blocks, from the seventh on; before,
where few degrees of freedom make a small level dear, 1 - (4/n)^0.75, and next to nothing of it
after three and four.  So early looks at a large difference and late looks at a small one are both
near what they could be.  The values come from the exact recursion for a random walk of
known variance; where the variance is estimated the same nominal tail is asked of Student's t
("significance-level approach").  The t-tests of successive blocks depend on one another a little
less than the walk does; the tests of this module simulate what is left of the level then.

Several treatments: the tail of as many independent comparisons (Šidák), or in a race that of the
studentized range, takes the place of ``level``; simulation shows that they keep the level at all
looks together.  With ``look`` 0 the number of blocks was fixed beforehand, and the one-look value
itself counts.

References:
    C. W. Dunnett (1955), A multiple comparison procedure for comparing several treatments with a
    control, JASA 50, 1096-1121.
    Z. Šidák (1967), Rectangular confidence regions for the means of multivariate normal
    distributions, JASA 62, 626-633 (independence is the worst case, for two-sided intervals).
    T. R. Chandrupatla (1997), A new hybrid quadratic/bisection algorithm for finding the zero of a
    nonlinear function without using derivatives, Advances in Engineering Software 28, 145-149.
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

import numpy as np
import numpy.typing as npt
from scipy.special import gammainccinv, gammaincinv, gammaln, ndtr, stdtrit

from iotrial.stats.blocks import Floats
from iotrial.stats.verdict import LAST

PAIR = 2
HALF = 0.5


def single(df: int, confidence: float) -> float:
    """The two-sided critical value of one comparison: Student's t."""
    return float(stdtrit(df, (1 + confidence) / 2))


def workload_confidence(confidence: float, comparisons: int, family: int) -> float:
    """The confidence that a workload with ``comparisons`` of the ``family`` must hold."""
    return float(confidence ** (comparisons / family))


def average_over_sd(df: float, nodes: int = 200) -> tuple[Floats, Floats]:
    """Nodes and weights to average over s = (estimated / true standard deviation).

    Gauss-Legendre in log s, where the density of chi / sqrt(df) is smooth even for df = 1.
    """
    low = math.log(gammaincinv(df / 2, 1e-14) * 2 / df) / 2
    high = math.log(gammainccinv(df / 2, 1e-14) * 2 / df) / 2
    x, weights = _legendre(nodes, low, high)
    log_density = df * x - df * np.exp(2 * x) / 2 + df / 2 * math.log(df / 2) - gammaln(df / 2)
    weights = weights * np.exp(log_density)
    return np.exp(x), weights / weights.sum()


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


def _legendre(count: int, low: float, high: float) -> tuple[Floats, Floats]:
    nodes, weights = _unit_legendre(count)
    half = (high - low) / 2
    return low + half * (nodes + 1), weights * half


@lru_cache(maxsize=8)
def _unit_legendre(count: int) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


# -- at every look: what each may spend -----------------------------------------------------------

FIRST = 3
"""The first look: one block says nothing of the noise, and two let one slow trial decide."""
NEAR = 256
"""Most studies end before this look, and what comes after takes longest to reckon."""
_GRID = np.linspace(-10.0, 8.0, 1441)


EARLY = {3: 0.03, 4: 0.08}
"""Of an error, what may be spent so soon: enough for what is dozens of times the noise.  More would
be lost, for with two or three degrees of freedom a critical value hardly falls for it."""
BEND = 7
"""Up to so many blocks the noise is still being learnt, and more of the error pays."""


PLANNED = 0.8
"""Of its error, what a study that may end early spends over the blocks that it was to have; the
rest is for those by which it is extended."""


@dataclass(frozen=True, slots=True)
class Look:
    """``block`` is the one after which a study is looked at (0: once, as planned), ``planned`` how
    many blocks it was to have at most when it began (0: as many as it takes)."""

    block: int = 0
    planned: int = 0


ONCE = Look()


def spent(blocks: int, planned: int = 0) -> float:
    """The share of an error probability that may have been spent after ``blocks`` blocks, of a
    study that was to have ``planned`` at most (0: as many as it takes)."""
    share = _spent(blocks)
    if not planned:
        return share
    known = _spent(max(planned, FIRST))
    if blocks <= planned:
        return PLANNED * share / known
    return PLANNED + (1 - PLANNED) * (share - known) / (1 - known)


def _spent(blocks: int) -> float:
    if blocks in EARLY:
        return EARLY[blocks]
    left: float = (4 / min(max(blocks, 4), BEND)) ** 0.75
    return 1 - left * math.sqrt(BEND / max(blocks, BEND))


def tails_at(level: float, looks: npt.NDArray[np.intp], planned: int = 0) -> Floats:
    """:func:`tails` for the given looks; the far ones are reckoned when they are met."""
    return tails(level, NEAR if looks.max(initial=0) <= NEAR else LAST, planned)[looks]


@lru_cache(maxsize=1024)
def tails(level: float, last: int = LAST, planned: int = 0) -> Floats:
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
        allowed = level * spent(n, planned) - used
        beyond = (np.cumsum(density[::-1])[::-1] - density / 2) * step
        place = int(np.searchsorted(-beyond, -allowed))
        if 0 < place < len(_GRID):
            above, below = float(beyond[place - 1]), float(beyond[place])
            critical[n] = _GRID[place - 1] + step * (above - allowed) / max(above - below, 1e-300)
            used += allowed
            # Of the cell that the boundary parts, what lies below it goes on.
            density = density * np.clip((critical[n] - _GRID) / step + HALF, 0.0, 1.0)
    return np.asarray(ndtr(-critical))


def _advanced(density: Floats, n: int, step: float) -> Floats:
    """The density of the standardised walk one block later."""
    shrunk, sd = math.sqrt((n - 1) / n), 1 / math.sqrt(n)
    carried = np.interp(_GRID / shrunk, _GRID, density, left=0.0, right=0.0) / shrunk
    reach = int(6 * sd / step) + 1
    kernel = np.exp(-((np.arange(-reach, reach + 1) * step / sd) ** 2) / 2)
    return np.convolve(carried, kernel / kernel.sum(), mode="same")


def quantile_at(tail: float, look: int, df: int) -> float:
    """The critical value of one one-sided test at the level ``tail``."""
    if not look:
        return float(stdtrit(df, 1 - tail))
    return -float(
        stdtrit(df, tails(tail, NEAR if look <= NEAR else LAST)[min(max(look, FIRST), LAST)])
    )
