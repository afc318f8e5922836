"""Critical values for looking after every block: what a look may spend, and what it costs.

An error probability ``level`` is spent over the looks: after n blocks the part 1 - 1/sqrt(n) of
it may have been spent.  Little is saved for a far end and little is spent at once, so that early
looks at a large difference and late looks at a small one are both near what they could be.  The
values come from the exact recursion for a random walk of known variance; where the variance is
estimated the same nominal tail is asked of Student's t ("significance-level approach").  The
t-tests of successive blocks depend on one another a little less than the walk does; the tests of
this module simulate what is left of the level then.

Several treatments: the tail of the one-look procedure (Dunnett's, or the studentized range)
takes the place of ``level``.  Both are exact for one look; for many, simulation shows that they
keep the level (their maxima over time are no more than those of independent comparisons).

References:
    P. Armitage, C. K. McPherson and B. C. Rowe (1969), Repeated significance tests on
    accumulating data, JRSS A 132, 235-244 (the recursion).
    K. K. G. Lan and D. L. DeMets (1983), Discrete sequential boundaries for clinical trials,
    Biometrika 70, 659-663 (spending).
    C. Jennison and B. W. Turnbull (2000), *Group Sequential Methods with Applications to Clinical
    Trials*, sections 2.6 and 11.4 (unknown variance by significance levels), 9 (repeated
    confidence intervals).
    C. W. Dunnett (1955), JASA 50, 1096-1121.  J. W. Tukey (1953), The problem of multiple
    comparisons (the studentized range).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtr

from iotrial.stats import looks
from iotrial.stats.blocks import Floats

FIRST = 2
"""The first look: one block says nothing of the noise."""
LAST = looks.LAST
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


PAIR = 2


def _solved(held: Callable[[float], float], level: float) -> float:
    return float(brentq(lambda d: held(d) - (1 - level), 0.0, 12.0))
