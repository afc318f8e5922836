"""Intervals at every look under any noise: what bets on the signs of differences win.

``[decide] guarantee = "exact"``.  The order of treatments is drawn anew in each block.  Were the
ratio of two treatments constant, exp(δ), their responses of a block, one of them divided by it,
could as well have been the other way round: whatever the noise is like, and whatever the blocks
before it, d - δ has either sign with probability 1/2, where d is the difference of the two logs.
So no bet on that sign wins on average.  Who stakes the share tanh(u) of what he has on the sign of
d - δ multiplies it by 1 + tanh(u) or 1 - tanh(u).  What he has after n blocks, from 1 at the
beginning, is a nonnegative martingale, and reaches 1/ε at any look with probability ε at most
(Ville).  That is a proof, and no simulation: it needs no normal noise, no equal noise, no known or
constant variance, and no end that is set beforehand.

*The stake* grows with the difference: u = c (d - δ) / s.  s is a robust spread of the pair's
differences in the blocks *before* (the median absolute deviation), so that it says nothing of the
sign; |d - δ| / s counts for 1.5 at most, so that one wild trial never loses nearly all.  In the
first blocks nothing is known of the spread: it counts for 1.5 then.  Which c wins most depends on
the difference that there is, and so the money is divided over four at the beginning.  For normal
noise it wins what the likelihood ratio does, nearly: in small differences the logs agree in the
second order.

*The interval* is all δ against which the bets have not won 1/ε: those of d > δ end it below, those
of d < δ above.  Since s does not depend on δ, what they have won falls (rises) with δ in each
block, and so the ends are found by bisection, exactly.  At all looks together the truth is outside
with probability ε on each side; so an interval may be cut with all those before it.

*All pairs*: of K treatments there are K (K - 1) such bets, both sides of each pair.  Each gets the
same share of the error, which costs a factor in what has to be won, not in ε.  Then all intervals
hold together, and whatever is read from them: who is worse than whom, and who is within the margin.

A sign is worth at most a factor of 2: to win K (K - 1) / ε takes log2 of it blocks at least,
whatever the difference (four treatments at 95 %: 8, and with the money divided over four 10).

References:
    J. Ville (1939), *Étude critique de la notion de collectif*.
    V. H. de la Peña (1999), A general class of exponential inequalities for martingales and ratios,
    Annals of Probability 27, 537-564 (symmetric differences: exp(x) / cosh(x) = 1 + tanh(x)).
    A. Ramdas, J. Ruf, M. Larsson and W. M. Koolen (2020), Admissible anytime-valid sequential
    inference must rely on nonnegative martingales, arXiv:2009.03167 (symmetry, section 5).
    I. Waudby-Smith and A. Ramdas (2024), Estimating means of bounded random variables by betting,
    JRSS B 86, 1-27 (stakes that may depend on the past; confidence sequences).
    V. Vovk and R. Wang (2021), E-values: calibration, combination and applications, Annals of
    Statistics 49, 1736-1754.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from iotrial.stats import MAD_OF_NORMAL
from iotrial.stats.blocks import ARITHMETIC, Floats

_STAKES = np.array([0.15, 0.3, 0.6, 2.0])
"""c: the largest is for a difference that is beyond the noise, the least for a fifth of it."""
_COUNTS = 1.5
_FEWEST = 3
"""Differences from which a spread is taken."""
_WIDER = 2.0
"""Of n differences the spread is taken (1 + 2/n) times: few make it too small."""
_HALVINGS = 32


class SignBets:
    """The responses of ``size`` treatments, block by block."""

    def __init__(self, size: int) -> None:
        self._values = np.zeros((0, size))
        self._spreads = np.zeros((0, size, size))

    def add(self, here: list[int], values: Floats, least: float) -> None:
        """One more block: ``values`` are the log responses of the treatments ``here``; ``least`` is
        the noise of one that rounding alone makes."""
        size = self._values.shape[1]
        spread, row = np.zeros((size, size)), np.full(size, np.nan)
        spread[np.ix_(here, here)] = self._spread(here, least)
        row[here] = values
        self._values = np.vstack([self._values, row])
        self._spreads = np.concatenate([self._spreads, spread[None]])

    def _spread(self, here: list[int], least: float) -> Floats:
        """Of the differences of each two, up to now; 0 where too few are known."""
        before = self._values[:, here]
        if len(before) < _FEWEST:
            return np.zeros((len(here), len(here)))
        apart = before[:, :, None] - before[:, None, :]
        many = (~np.isnan(apart)).sum(axis=0)
        enough = many >= _FEWEST
        known = np.where(enough, apart, 0.0)
        # Looking past what is missing takes ten times as long.
        median = np.nanmedian if np.isnan(known).any() else np.median
        away = np.abs(known - median(known, axis=0))
        wide = median(away, axis=0) / MAD_OF_NORMAL * (1 + _WIDER / np.maximum(many, 1))
        return np.asarray(np.where(enough, np.maximum(wide, least), 0.0))

    def intervals(self, here: list[int], error: float) -> tuple[Floats, Floats]:
        """Ends of the differences of every two of ``here``, (here, here); infinite where the bets
        cannot tell.  Each end is wrong at any look with a probability of at most ``error``."""
        first, second = np.triu_indices(len(here), 1)
        one, other = (np.array(here, dtype=np.intp)[each] for each in (first, second))
        apart = self._values[:, one] - self._values[:, other]
        spread = self._spreads[:, one, other]
        ends = lower_ends(np.hstack([apart, -apart]), np.hstack([spread, spread]), -math.log(error))
        below, above = ends[: len(first)], -ends[len(first) :]
        low, high = np.zeros((2, len(here), len(here)))
        low[first, second], high[first, second] = below, above
        low[second, first], high[second, first] = -above, -below
        return low, high


def lower_ends(apart: Floats, spread: Floats, needed: float) -> Floats:
    """(pairs,): the largest δ below which bets on ``apart`` > δ have won exp(``needed``); minus
    infinity where there is none.  Both are (blocks, pairs); nan where a pair was not measured; a
    spread of 0 is not known."""
    low = np.nanmin(apart, axis=0) - _COUNTS * spread.max(axis=0) - 1.0
    high = np.nanmax(apart, axis=0)
    missing = np.isnan(apart)
    apart = np.where(missing, 0.0, apart)
    spread = np.where(missing, math.inf, np.where(spread > 0, spread, _UNKNOWN))
    never = _won(apart, spread, low) < needed
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = _won(apart, spread, middle) >= needed
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.where(never, -math.inf, low)


_UNKNOWN = 1e-12
"""So small a spread that every difference counts for its sign alone."""


def _won(apart: Floats, spread: Floats, shift: Floats) -> Floats:
    """(pairs,): the log of what the bets on ``apart`` > ``shift`` have now."""
    far = np.clip((apart - shift) / spread, -_COUNTS, _COUNTS)
    logs = np.log1p(np.tanh(np.multiply.outer(_STAKES, far))).sum(axis=1)
    most = logs.max(axis=0)
    return np.asarray(most + np.log(np.exp(logs - most).sum(axis=0) / len(_STAKES)))


@lru_cache(maxsize=8192)  # a race is replayed after each block, and asks for the same again
def interval(differences: tuple[float, ...], error: float) -> tuple[float, float]:
    """Of one pair's ``differences``, a number a block, in their order: the ends at which the bets
    stand now, each wrong at any look with a probability of at most ``error``."""
    bets = SignBets(2)
    for each in differences:
        bets.add([0, 1], np.array([each, 0.0]), ARITHMETIC)
    low, high = bets.intervals([0, 1], error)
    return float(low[0, 1]), float(high[0, 1])


def likely_blocks(away: float, needed: float) -> int:
    """About how many blocks it takes to win exp(``needed``) against a difference that is ``away``
    standard deviations of itself off: a forecast, for normal noise."""
    needed += 0.8 * math.log(len(_STAKES))
    least = math.ceil(needed / math.log(2))
    return max(least, math.ceil(min(_SLOWER * 2 * needed / max(away, 1e-6) ** 2, 1e9)))


_SLOWER = 1.15
"""Than the likelihood ratio, by simulation."""
