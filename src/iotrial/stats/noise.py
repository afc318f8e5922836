"""Noise: between trials of one treatment, within a trial, and how long a trial should be for it.

*The noise floor* is what differs between trials of one and the same treatment.  From an A/A study,
whose arms are identical, so that block + error is the whole model of a log response.  Per workload:
the standard deviation of a trial within its block (what decides how many blocks a comparison needs)
and of blocks (which cancels), drift over time, likeness of neighbours, and whether the first trial
was an odd one.  It is for planning.  No verdict uses it: each study measures its own noise.

*Within a trial*: a rate over time, when it has settled, and how much its own mean is worth.  The
series of several trials of one treatment are averaged point by point (Welch), each divided by its
own level, so that what all begin with stands out from the noise.  A weighted CUSUM test says
whether the level changed at all; MSER-5 says from where on the rest gives the mean best.  The test
comes first because MSER alone cuts something off most series that need no cut.  Its errors need the
autocorrelation of the noise, of which one short series knows little: all trials together know it
better (:func:`unrest`).  Neighbouring seconds are alike, so that a series of n points says less
than n independent ones: n divided by the integrated autocorrelation time, by Geyer's initial
monotone sequence.  What is slower than a trial is not seen within it, but between trials.

*How long*: the shortest hours for a given precision.  The variance of a trial's mean has a part
that stays however long the trial is (``between``: what differs from trial to trial) and one that
longer measuring reduces (``within / t``).  A trial costs ``overhead + warm-up + t``.  With n trials
the variance is (between + within / t) / n, so that the hours for a given precision grow with

    (between + within / t) · (overhead + warm-up + t),

which is least at t* = sqrt(within · (overhead + warm-up) / between).  Seconds beyond it are better
spent on another trial; seconds short of it are lost to overhead.  Where trials shorter than t* are
already so precise that the fewest blocks anybody does are enough, these are the best.  ``within``
is measured in the trials' own series, the sum of both from trial to trial, so that ``between`` is
what is left, with all that is slower than a trial.

References:
    W. G. Cochran and G. M. Cox (1957), *Experimental Designs*, 2nd ed., 4.2 (blocks).
    J. S. Williams (1962), A confidence interval for variance components, Biometrika 49, 278-281
    (between blocks; n0 of unequal blocks as in S. R. Searle (1971), *Linear Models*, 10.3).
    N. R. Draper and H. Smith (1998), *Applied Regression Analysis*, 3rd ed., 1.4 (slope).
    The chi-square interval of a variance is in any textbook; it needs normal logarithms.
    Rank test and autocorrelation as in :mod:`iotrial.stats.responses`.
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
    W. G. Cochran (1977), *Sampling Techniques*, 3rd ed., 10.6 (two-stage sampling, the optimum
    size of the subsample for a linear cost).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, fdtri, stdtr, stdtrit

from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.model.trial import Doubt
from iotrial.stats.blocks import ARITHMETIC, Floats
from iotrial.stats.power import blocks_needed, resolvable
from iotrial.stats.responses import (
    Responses,
    asked,
    autocorrelation,
    responses_of,
    spearman,
)

CONFIDENCE = 0.95
DIFFERENCES = (0.01, 0.02, 0.05, 0.10)
"""What people ask about: 1, 2, 5 and 10 %."""
FEWEST_BLOCKS = 3
"""Of a study that anybody should believe."""
FEWEST = 4
"""Trials below which drift, neighbours and the first trial are not spoken of."""
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class StandardDeviation:
    """A standard deviation on the log scale with its 95 % interval, and its degrees of freedom."""

    sd: float
    low: float
    high: float
    df: int


@dataclass(frozen=True, slots=True)
class DriftEstimate:
    """Change of the log response per hour with its 95 % interval, seen over ``hours``; Spearman's
    ``rho`` with the order of execution and its ``p``."""

    hourly: float
    low: float
    high: float
    hours: float
    rho: float
    p: float


@dataclass(frozen=True, slots=True)
class _FirstTrial:
    """The first trial: how many times the others' mean it is, and ``p`` that one of them is so
    far off."""

    ratio: float
    p: float


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The noise of one workload's primary metric.  ``between`` is None for one block, ``drift``,
    ``lag`` (autocorrelation of what the drift leaves, and its p) and ``first`` where there are
    too few trials.  ``seconds`` is the usual wall time of one trial."""

    workload: str
    metric: str
    trials: int
    blocks: int
    seconds: float
    within: StandardDeviation
    between: StandardDeviation | None = None
    drift: DriftEstimate | None = None
    lag: tuple[float, float] | None = None
    first: _FirstTrial | None = None


@dataclass(frozen=True, slots=True)
class SampleSize:
    """What it takes to tell ``difference``: ``blocks`` and ``seconds`` in all, with the noise as
    estimated; ``most`` blocks, with it as large as its interval allows (None: never)."""

    difference: float
    blocks: int | None
    most: int | None
    seconds: float


def floors(results: Results) -> tuple[NoiseFloor, ...]:
    """The noise floor of every workload whose blocks hold more than one trial of it."""
    times = {record.trial.number: record for record in results.records}
    found = []
    for workload, metric in asked(results.study):
        data = responses_of(results, workload, metric)
        spread = within(data)
        if spread is None:
            continue
        order = np.argsort([trial.number for trial in data.trials])
        records = [times[data.trials[at].number] for at in order]
        started = np.array([record.started for record in records])
        logs = data.logs[order]
        enough = len(logs) >= FEWEST and float(np.ptp(logs)) > ARITHMETIC
        found.append(
            NoiseFloor(
                workload=workload,
                metric=data.metric,
                trials=len(logs),
                blocks=int(data.layout.block.max()) + 1,
                seconds=float(np.median([record.seconds for record in records])),
                within=spread,
                between=between(data, spread),
                drift=drift(started, logs) if enough else None,
                lag=autocorrelation(_level(started, logs)) if enough else None,
                first=first(logs) if enough else None,
            )
        )
    return tuple(found)


def within(data: Responses) -> StandardDeviation | None:
    """Of trials within blocks; None where no block has two."""
    if not len(data.logs):
        return None
    counts = np.bincount(data.layout.block)
    means = np.bincount(data.layout.block, data.logs) / counts
    df = len(data.logs) - len(counts)
    if not df:
        return None
    squares = float(((data.logs - means[data.layout.block]) ** 2).sum())
    return spread(squares, df)


def spread(squares: float, df: int, confidence: float = CONFIDENCE) -> StandardDeviation:
    """From a sum of squares with ``df`` > 0 degrees of freedom, by chi-square."""
    tail = (1 - confidence) / 2
    low, high = (math.sqrt(squares / float(chdtri(df, at))) for at in (tail, 1 - tail))
    return StandardDeviation(math.sqrt(squares / df), low, high, df)


def between(data: Responses, inside: StandardDeviation) -> StandardDeviation | None:
    """Of blocks, what the trials within them explain taken off; None for one block."""
    counts = np.bincount(data.layout.block)
    df = len(counts) - 1
    if not df:
        return None
    means = np.bincount(data.layout.block, data.logs) / counts
    squares = float((counts * (means - data.logs.mean()) ** 2).sum())
    size = (len(data.logs) - float((counts**2).sum()) / len(data.logs)) / df
    error = inside.sd**2
    if error <= ARITHMETIC**2:
        plain = spread(squares / size, df)
        return StandardDeviation(plain.sd, plain.low, plain.high, df)
    ratio = squares / df / error
    tail = (1 - CONFIDENCE) / 2
    ends = []
    for at in (1 - tail, tail):
        explained = float(fdtri(df, inside.df, at)) / max(ratio, ARITHMETIC)
        scale = size * float(chdtri(df, 1 - at))
        ends.append(math.sqrt(max(0.0, squares * (1 - explained)) / scale))
    estimate = math.sqrt(max(0.0, squares / df - error) / size)
    return StandardDeviation(estimate, ends[0], ends[1], df)


def drift(started: Floats, logs: Floats) -> DriftEstimate:
    """Of ``logs`` in the order of execution, begun at ``started`` (seconds)."""
    n = len(logs)
    hours = (started - started.mean()) / _HOUR
    total = float(hours @ hours)
    rho, p = spearman(logs)
    lasted = float(np.ptp(hours))
    if not total:
        return DriftEstimate(0.0, -math.inf, math.inf, lasted, rho, p)
    slope = float(hours @ logs) / total
    rest = _level(started, logs)
    error = math.sqrt(float(rest @ rest) / (n - 2) / total)
    half = float(stdtrit(n - 2, (1 + CONFIDENCE) / 2)) * error
    return DriftEstimate(slope, slope - half, slope + half, lasted, rho, p)


def _level(started: Floats, logs: Floats) -> Floats:
    """What a straight line over time leaves."""
    hours = started - started.mean()
    centred = logs - logs.mean()
    total = float(hours @ hours)
    return np.asarray(centred - hours * (float(hours @ centred) / total) if total else centred)


def first(logs: Floats) -> _FirstTrial:
    """The first of them against the others: a prediction interval turned round."""
    rest = logs[1:]
    away = float(logs[0] - rest.mean())
    error = float(rest.std(ddof=1)) * math.sqrt(1 + 1 / len(rest))
    if error <= ARITHMETIC:
        return _FirstTrial(math.exp(away), 0.0 if abs(away) > ARITHMETIC else 1.0)
    return _FirstTrial(math.exp(away), float(2 * stdtr(len(rest) - 1, -abs(away) / error)))


def efforts(
    floor: NoiseFloor, *, cells: int, comparisons: int, confidence: float
) -> tuple[SampleSize, ...]:
    """What each of :data:`DIFFERENCES` takes in a study of ``cells`` treatments of this workload
    and ``comparisons`` in all; empty where nothing is compared."""
    if cells < 2 or not comparisons:  # noqa: PLR2004 (nothing to compare)
        return ()

    def blocks(difference: float, sd: float) -> int | None:
        return blocks_needed(difference, sd, cells, comparisons, confidence)

    found = []
    for each in DIFFERENCES:
        usual, most = blocks(each, floor.within.sd), blocks(each, floor.within.high)
        seconds = usual * cells * floor.seconds if usual else math.inf
        found.append(SampleSize(each, usual, most, seconds))
    return tuple(found)


def enough(margin: float, *, cells: int, comparisons: int, confidence: float) -> float:
    """The standard deviation of a trial with which :data:`FEWEST_BLOCKS` tell ``margin``; 0 where
    nothing is compared."""
    least = resolvable(margin, FEWEST_BLOCKS, cells, comparisons, confidence) if margin else 0.0
    # The difference is exp(sd times a factor) - 1.
    return margin * math.log1p(margin) / math.log1p(least) if least else 0.0


def arm_doubts(findings: tuple[Finding, ...], confidence: float) -> Iterator[Doubt]:
    """Arms of an A/A study that came out different: identical things cannot be."""
    for finding in findings:
        if finding.verdict in ("better", "worse"):
            change = f"{finding.ratio - 1:+.2%}"
            yield Doubt(
                "a-a-differs",
                f"{finding.workload}: {finding.level} and {finding.baseline} are identical arms,"
                f" but {finding.metric} is {finding.verdict} by {change}",
                f"expected by chance in {1 - confidence:.0%} of A/A studies: repeat it; if the"
                " difference persists, trials within a block are not comparable (order,"
                " carry-over, a device that changes), and no verdict on this host is reliable",
            )


# -- how long a trial should be -------------------------------------------------------------------

LEAST_SHARE = 0.05
"""Of a trial's variance, at least, that is taken to be between trials: less cannot be told."""
FARTHEST = 4.0
"""The longest trial advised, in lengths of those measured: beyond, nobody has looked."""
TIMES = 10
"""The shortest trial advised, in correlation times of its series: below, within / t is no law."""
SHORTEST = 1.0
"""Seconds: the shortest trial ever advised."""


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """What a trial's log variance is made of: ``between`` trials, and ``within`` (times seconds)
    trials.  ``told``: the former was told from nothing."""

    between: float
    within: float
    told: bool

    def variance(self, seconds: float) -> float:
        """Of a trial of so many seconds, warm-up left out."""
        return self.between + self.within / seconds


@dataclass(frozen=True, slots=True)
class TrialLength:
    """``seconds`` to measure, after ``warmup`` seconds that do not count; ``hours`` how long a
    study then takes for the same answer, as a share of what it takes now."""

    seconds: float
    warmup: float
    hours: float


def parts(trial: tuple[float, float], within: float, seconds: float) -> VarianceComponents:
    """The two parts, from the standard deviation of trials of ``seconds`` (log scale; the estimate
    and the lower end of its interval), and from ``within``: the long-run variance of their series,
    relative to the squared mean, times the seconds between two points."""
    estimate, low = (sd**2 for sd in trial)
    # A series may vary by more than its trials do: what one window lacks, the next one has.
    inside = min(within / seconds, estimate)
    between = max(estimate - inside, LEAST_SHARE * estimate)
    return VarianceComponents(between, (estimate - between) * seconds, told=low > inside)


def optimum(found: VarianceComponents, overhead: float) -> float:
    """t*, in seconds, for trials that cost ``overhead`` seconds (warm-up included) beside it."""
    if not found.between:
        return 0.0
    return math.sqrt(found.within * overhead / found.between)


def advised(  # noqa: PLR0913 (an optimum has as many terms)
    found: VarianceComponents,
    *,
    overhead: float,
    warmup: tuple[float, float],
    seconds: float,
    shortest: float,
    enough: float = 0.0,
) -> TrialLength:
    """The length to use, rounded up to what a person would write.

    ``overhead`` and ``seconds`` are those of a trial now, without its warm-up; ``warmup`` is the
    one needed and the one now; ``shortest`` seconds are the least that give a sound mean;
    ``enough`` is the variance of a trial with which the fewest blocks do.
    """
    needed, former = warmup
    wanted = optimum(found, overhead + needed)
    if enough > found.between:
        wanted = min(wanted, found.within / (enough - found.between))
    best = rounded(min(max(wanted, shortest, SHORTEST), FARTHEST * seconds))

    def hours(length: float, lost: float) -> float:
        return max(found.variance(length), enough) * (overhead + lost + length)

    return TrialLength(best, needed, hours(best, needed) / hours(seconds, former))


def rounded(seconds: float) -> float:
    """Up to 2 digits at most, in steps people use: tenths below 2 s, halves below 10 s, whole."""
    for limit, step in ((2.0, 0.1), (10.0, 0.5), (60.0, 1.0), (300.0, 5.0)):
        if seconds <= limit:
            return round(math.ceil(seconds / step - ROUNDING) * step, 1)
    return math.ceil(seconds / 30.0) * 30.0


ROUNDING = 1e-9


# -- within a trial -------------------------------------------------------------------------------

LEVEL = 0.01
"""The share of level series that are said to have a warm-up."""
FEWEST_POINTS = 10
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
class ChangePoint:
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
    if len(scaled) < TOGETHER or len(scaled[0]) < FEWEST_POINTS:
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


def change(values: Floats, noise: float = 0.0) -> ChangePoint:
    """The most likely single change of level, and how surprising it is.

    The largest of the differences between what is before and what is after a point, each in units
    of its standard error.  The noise is as ``noise`` says, or else what is left when the two levels
    are taken out, with its autocorrelation.
    """
    n = len(values)
    if n < FEWEST_POINTS:
        return ChangePoint(0, 1.0)
    before = np.arange(_TRIM, n - _TRIM + 1)
    path = np.cumsum(values - values.mean())[before - 1]
    steps = np.abs(path) / np.sqrt(before * (1 - before / n))
    at = int(before[int(np.argmax(steps))])
    if steps.max() <= ARITHMETIC * float(np.abs(values).max()):
        return ChangePoint(0, 1.0)
    rest = np.concatenate([values[:at] - values[:at].mean(), values[at:] - values[at:].mean()])
    spread = math.sqrt(noise or long_run_variance([rest]))
    return ChangePoint(at, _surprise(float(steps.max()) / spread, n) if spread else 0.0)


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
    least = min(len(each) for each in series if len(each) >= FEWEST_POINTS)
    missing = min((4 * len(kept) - 1) / least, _MISSING)
    return max(total / (1 - missing), float(covariance[0]))


def effective_size(series: Sequence[Floats]) -> float:
    """How many independent points say as much about the mean as all points of all series."""
    known = [each for each in series if len(each) >= FEWEST_POINTS]
    points = float(sum(map(len, known)))
    variance = long_run_variance(known)
    return points * float(autocovariance(known)[0]) / variance if variance else points


def autocovariance(series: Sequence[Floats]) -> Floats:
    """By lag, from 0 to half of the shortest series; averaged over the series, by their lengths."""
    known = [each for each in series if len(each) >= FEWEST_POINTS]
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
