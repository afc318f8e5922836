"""What a design can resolve, before it is run: noise and size in, smallest effect out.

A difference is resolved when its simultaneous interval excludes 1; the smallest difference a
design resolves is the one for which that happens with the asked probability (power).  The
interval of one cell against another over b blocks has the standard error sd·sqrt(2/b) and
(b-1)(k-1) degrees of freedom.  The critical value is the one that suffices whatever the
comparisons' correlations, so the promise is slightly cautious.  A main effect of a factorial is
averaged over several pairs of cells and resolves less than this says.

References:
    J. Cohen (1988), *Statistical Power Analysis for the Behavioral Sciences*, 2nd ed., chapter 2.
    G. W. Oehlert (2000), *A First Course in Design and Analysis of Experiments*, chapter 7
    (noncentral t); the critical value as in :mod:`iotrial.stats.simultaneous`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammainccinv, nctdtr, ndtr

from iotrial.errors import UsageError
from iotrial.stats.simultaneous import average_over_sd, bound

POWER = 0.8
MOST_BLOCKS = 100_000
FAR = 1e4
"""Beyond this many standard errors only the error of the sd decides (and nctdtr gives up)."""


def resolvable(  # noqa: PLR0913, PLR0917  a power calculation has six terms
    noise_sd: float,
    blocks: int,
    cells: int,
    comparisons: int,
    confidence: float,
    power: float = POWER,
) -> float:
    """The smallest relative difference (0.053: one is 5.3 % above the other) the design resolves.

    ``noise_sd`` is the standard deviation of one trial on the log scale (0.05: about 5 %),
    ``cells`` the treatments of one workload, ``comparisons`` the primary comparisons of the
    whole study.  ``math.inf`` where nothing can ever be resolved: one block leaves no measure of
    noise, one cell nothing to compare.  Raises UsageError for terms out of range.
    """
    _check(noise_sd, confidence, power)
    df = (blocks - 1) * (cells - 1)
    if blocks < 2 or cells < 2 or comparisons < 1:  # noqa: PLR2004
        return math.inf
    critical = bound(comparisons, df, confidence)
    return detectable(noise_sd * math.sqrt(2 / blocks), critical, df, power)


def blocks_needed(  # noqa: PLR0913, PLR0917  a power calculation has six terms
    effect: float,
    noise_sd: float,
    cells: int,
    comparisons: int,
    confidence: float,
    power: float = POWER,
) -> int | None:
    """The fewest blocks that resolve a relative difference ``effect`` > 0; at least 2.

    None where no number of blocks up to 100,000 does.  Raises UsageError.
    """
    if not effect > 0:
        raise UsageError(f"an effect of {effect} cannot be resolved", advice="ask for one above 0")

    def enough(blocks: int) -> bool:
        return resolvable(noise_sd, blocks, cells, comparisons, confidence, power) <= effect

    low, high = 1, 2
    while not enough(high):
        low, high = high, high * 2
        if high > MOST_BLOCKS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def detectable(standard_error: float, critical: float, df: int, power: float = POWER) -> float:
    """The relative difference whose interval (estimate ± ``critical`` standard errors, log scale)
    excludes 1 with probability ``power``."""
    shift = brentq(lambda d: excludes(d, critical, df) - power, 0.0, _reach(critical, df))
    return math.expm1(min(float(shift) * standard_error, 700.0))


def excludes(shift: float, critical: float, df: int) -> float:
    """P(|T| > ``critical``) of a noncentral t: ``shift`` is the true effect in true standard
    errors."""
    if shift > FAR:
        return float(gammainc(df / 2, df / 2 * (shift / critical) ** 2))
    s, weights = average_over_sd(df)
    wrong_way = float(weights @ ndtr(-critical * s - shift))  # nctdtr gives nan this far out
    return 1 - float(nctdtr(df, shift, critical)) + wrong_way


def within(room: float, critical: float, df: int) -> float:
    """The power of *same*: the probability that the whole interval of two equals (estimate ±
    ``critical`` estimated standard errors) lies within ± ``room``, which is in true standard
    errors."""
    s, weights = average_over_sd(df)
    return float(weights @ np.clip(2 * ndtr(room - critical * s) - 1, 0.0, None))


def _reach(critical: float, df: int) -> float:
    """A shift that is surely seen: far beyond the critical value at the largest likely sd."""
    return critical * math.sqrt(gammainccinv(df / 2, 1e-9) * 2 / df) + 10.0


def _check(noise_sd: float, confidence: float, power: float) -> None:
    if not (noise_sd >= 0 and math.isfinite(noise_sd)):
        raise UsageError(f"a noise of {noise_sd} is no standard deviation", advice="0.05 is 5 %")
    if not 0 < confidence < 1:
        raise UsageError(f"a confidence of {confidence} is not between 0 and 1")
    if not 1 - confidence < power < 1:
        raise UsageError(f"a power of {power} is not between {1 - confidence:.3g} and 1")
