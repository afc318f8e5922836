"""Critical values of simultaneous intervals that hold at every look, not only at the last one.

The one-look procedure (:mod:`iotrial.stats.simultaneous`) says which tail each contrast may have;
:mod:`iotrial.stats.boundary` spreads that tail over the looks.  With ``look`` 0 the number of
blocks was fixed beforehand, and the one-look value itself counts.

References:
    C. Jennison and B. W. Turnbull (1984), Repeated confidence intervals for group sequential
    clinical trials, Controlled Clinical Trials 5, 33-45.
"""

from __future__ import annotations

from scipy.special import ndtr, stdtrit

from iotrial.stats.blocks import Floats
from iotrial.stats.boundary import FIRST, LAST, NEAR, tails
from iotrial.stats.simultaneous import Critical, bound, critical_value, single

MANY = 1_000_000
"""Degrees of freedom of a noise that is as good as known."""


def critical_at(look: int, correlation: Floats, df: int, confidence: float) -> Critical:
    """:func:`iotrial.stats.simultaneous.critical_value`, for intervals that are looked at after
    every block, now after block ``look`` (0: once, as planned)."""
    if not look:
        return critical_value(correlation, df, confidence)
    once = critical_value(correlation, MANY, confidence)
    return Critical(_spread(once.value, look, df), once.method)


def single_at(look: int, df: int, confidence: float) -> float:
    """:func:`iotrial.stats.simultaneous.single` for a comparison that is looked at after every
    block."""
    return _spread(single(MANY, confidence), look, df) if look else single(df, confidence)


def tail_of(correlation: Floats, confidence: float) -> float:
    """The one-sided error that each of several simultaneous intervals may make, at all looks
    together: what :func:`critical_at` spreads over the looks, for :func:`quantile_at`."""
    return float(ndtr(-critical_value(correlation, MANY, confidence).value))


def bound_at(comparisons: int, look: int, df: int, confidence: float) -> float:
    """:func:`iotrial.stats.simultaneous.bound` for comparisons that are looked at after every
    block."""
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
