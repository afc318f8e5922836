"""A rate over time, within one trial: when it has settled, and how much its own mean is worth.

*Warm-up.*  The series of several trials of one treatment are averaged point by point (Welch), each
divided by its own level, so that what all begin with stands out from the noise.  A weighted CUSUM
test says whether the level changed at all; MSER-5 says from where on the rest gives the mean best.
The test comes first because MSER alone cuts something off most series that need no cut.  Its
errors need the autocorrelation of the noise, of which one short series knows little: all trials
together know it better (:func:`unrest`).

*Worth.*  Neighbouring seconds are alike, so that a series of n points says less than n independent
ones: n divided by the integrated autocorrelation time, by Geyer's initial monotone sequence.

What is slower than a trial is not seen within it.  It shows as difference between trials, where
:mod:`iotrial.stats.duration` puts it.

References:
    P. D. Welch (1983), The statistical analysis of simulation results, in S. S. Lavenberg (ed.),
    *Computer Performance Modeling Handbook*, 268-328 (averaging over replications).
    K. P. White (1997), An effective truncation heuristic for bias reduction in simulation output,
    Simulation 69, 323-334; K. P. White, M. J. Cobb, S. C. Spratt (2000), A comparison of five
    steady-state truncation heuristics, Winter Simulation Conference, 755-760 (MSER, MSER-5).
    E. S. Page (1954), Continuous inspection schemes, Biometrika 41, 100-115 (CUSUM); E. Gombay
    and L. Horváth (1996), On the rate of approximations for maximum likelihood tests in change-
    point models, J. Multivariate Analysis 56, 120-152 (weighted so that early changes are seen as
    well as late ones: its tail); M. Csörgő and L. Horváth (1997), *Limit Theorems in Change-Point
    Analysis*, 4.1 (dependent noise: the long-run variance takes the place of the variance).
    M. S. Bartlett (1946), On the theoretical specification … of autocorrelated time-series, JRSS
    Suppl. 8, 27-41 (the bias of short series).
    C. J. Geyer (1992), Practical Markov chain Monte Carlo, Statistical Science 7, 473-483, 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrial.stats.blocks import ARITHMETIC, Floats

LEVEL = 0.01
"""The share of level series that are said to have a warm-up."""
FEWEST = 10
"""Points below which nothing is said."""
_BATCH = 5
_TRIM = 3
"""Points at each end that are not split off: one or two say nothing of a level."""
TOGETHER = 4
"""Series that are needed to tell noise from what they have in common."""
_MISSING = 2 / 3
"""The share of a long-run variance that is ever made up for."""
_BATCHES = 10
"""Batches that must remain: a short series is cut into smaller ones."""


@dataclass(frozen=True, slots=True)
class Change:
    """Where a series most likely changes its level: before point ``at``; ``p`` that a level series
    looks so changed."""

    at: int
    p: float


@dataclass(frozen=True, slots=True)
class Warmup:
    """The first ``points`` of a series are not like the rest, whose mean they are ``ratio`` times.
    ``settled``: the rest is level, and at least half of the series.  ``p`` of the test of the
    whole series."""

    points: int
    ratio: float
    settled: bool
    p: float


def averaged(series: Sequence[Floats]) -> Floats:
    """The mean of several series point by point, each divided by its own mean, as long as the
    shortest of them; empty where there is none."""
    scaled = _scaled(series)
    return np.asarray(np.mean(scaled, axis=0)) if scaled else np.zeros(0)


def _scaled(series: Sequence[Floats]) -> list[Floats]:
    known = [each for each in series if len(each) and each.mean() > 0]
    least = min(map(len, known), default=0)
    return [np.asarray(each[:least] / each[:least].mean()) for each in known]


def unrest(series: Sequence[Floats]) -> float:
    """The long-run variance of the noise in what :func:`averaged` makes of several series; 0 where
    they are too few or too short to tell.

    Noise is what each series has beside their common course, so that a warm-up is none of it.
    """
    scaled = _scaled(series)
    if len(scaled) < TOGETHER or len(scaled[0]) < FEWEST:
        return 0.0
    course = np.mean(scaled, axis=0)
    return long_run_variance([each - course for each in scaled]) / (len(scaled) - 1)


def warmup(values: Floats, noise: float = 0.0) -> Warmup:
    """What of a series is warm-up.  ``noise`` is the long-run variance of what is not, where it is
    known (:func:`unrest`)."""
    changed = change(values, noise)
    if changed.p >= LEVEL:
        return Warmup(0, 1.0, settled=True, p=changed.p)
    points, most = mser(values)
    rest = values[points:]
    mean = float(rest.mean())
    ratio = float(values[:points].mean()) / mean if points and mean else 1.0
    settled = points < most and change(rest, noise).p >= LEVEL
    return Warmup(points, ratio, settled=settled, p=changed.p)


def mser(values: Floats) -> tuple[int, int]:
    """The number of points that MSER-5 cuts off, and the most it may: half of the series.

    Least squared error of the mean of what remains, over batches of 5 points (of fewer where the
    series is short).
    """
    size = min(_BATCH, max(1, len(values) // (2 * _BATCHES)))
    count = len(values) // size
    batches = values[: count * size].reshape(count, size).mean(axis=1)
    most = count // 2
    if not most:
        return 0, 0
    errors = [float(batches[d:].var()) / (count - d) for d in range(most + 1)]
    return int(np.argmin(errors)) * size, most * size


def change(values: Floats, noise: float = 0.0) -> Change:
    """The most likely single change of level, and how surprising it is.

    The largest of the differences between what is before and what is after a point, each in units
    of its standard error.  The noise is as ``noise`` says, or else what is left when the two levels
    are taken out, with its autocorrelation.
    """
    n = len(values)
    if n < FEWEST:
        return Change(0, 1.0)
    before = np.arange(_TRIM, n - _TRIM + 1)
    path = np.cumsum(values - values.mean())[before - 1]
    steps = np.abs(path) / np.sqrt(before * (1 - before / n))
    at = int(before[int(np.argmax(steps))])
    if steps.max() <= ARITHMETIC * float(np.abs(values).max()):
        return Change(0, 1.0)
    rest = np.concatenate([values[:at] - values[:at].mean(), values[at:] - values[at:].mean()])
    spread = math.sqrt(noise or long_run_variance([rest]))
    return Change(at, _surprise(float(steps.max()) / spread, n) if spread else 0.0)


def _surprise(largest: float, n: int) -> float:
    """P(that a level series of ``n`` points has so large a step somewhere): Gombay and Horváth,
    which is right for small probabilities and is not asked for others."""
    if largest < 2:  # noqa: PLR2004 (more likely than not, for any length)
        return 1.0
    area = 2 * math.log((n - _TRIM) / _TRIM)
    square = largest**2
    density = largest * math.exp(-square / 2) / math.sqrt(2 * math.pi)
    return min(1.0, density * (area - area / square + 4 / square))


def long_run_variance(series: Sequence[Floats]) -> float:
    """n times the variance of the mean of n points, n large: the sum of all autocovariances.

    Of several series together, each about its own mean; those too short are left out, and 0 is
    given back where none is left.  Never less than the variance of independent points: that
    neighbours compensate each other is not believed.
    """
    covariance = autocovariance(series)
    if not len(covariance):
        return 0.0
    pairs = len(covariance) // 2
    sums = covariance[: 2 * pairs].reshape(pairs, 2).sum(axis=1)
    negative = np.flatnonzero(sums <= 0)
    kept = sums[: negative[0]] if len(negative) else sums
    total = 2 * float(np.minimum.accumulate(kept).sum()) - float(covariance[0])
    # About its own mean a series of n points shows each autocovariance too small by about
    # (long-run variance) / n (Bartlett 1946): much, where n is small.
    least = min(len(each) for each in series if len(each) >= FEWEST)
    missing = min((4 * len(kept) - 1) / least, _MISSING)
    return max(total / (1 - missing), float(covariance[0]))


def effective_size(series: Sequence[Floats]) -> float:
    """How many independent points say as much about the mean as all points of all series."""
    known = [each for each in series if len(each) >= FEWEST]
    points = float(sum(map(len, known)))
    variance = long_run_variance(known)
    return points * float(autocovariance(known)[0]) / variance if variance else points


def autocovariance(series: Sequence[Floats]) -> Floats:
    """By lag, from 0 to half of the shortest series; averaged over the series, by their lengths."""
    known = [each for each in series if len(each) >= FEWEST]
    if not known:
        return np.zeros(0)
    lags = min(map(len, known)) // 2
    found = np.zeros(lags)
    for each in known:
        centred = each - each.mean()
        size = 2 ** math.ceil(math.log2(2 * len(each)))
        power = np.abs(np.fft.rfft(centred, size)) ** 2
        found += np.fft.irfft(power, size)[:lags]
    return np.asarray(found / sum(len(each) - 1 for each in known))
