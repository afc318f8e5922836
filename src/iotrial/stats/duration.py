"""How long a trial should be: the shortest hours for a given precision.

The variance of a trial's mean has a part that stays however long the trial is (``between``: what
differs from trial to trial) and one that longer measuring reduces (``within / t``).  A trial costs
``overhead + warm-up + t``.  With n trials the variance is (between + within / t) / n, so that the
hours for a given precision grow with

    (between + within / t) · (overhead + warm-up + t),

which is least at t* = sqrt(within · (overhead + warm-up) / between).  Seconds beyond it are better
spent on another trial; seconds short of it are lost to overhead.  Where trials shorter than t* are
already so precise that the fewest blocks anybody does are enough, these are the best.

``within`` is measured in the trials' own series, the sum of both from trial to trial, so that
``between`` is what is left.  Whatever is slower than a trial is counted there.

Reference:
    W. G. Cochran (1977), *Sampling Techniques*, 3rd ed., 10.6 (two-stage sampling, the optimum
    size of the subsample for a linear cost).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LEAST_SHARE = 0.05
"""Of a trial's variance, at least, that is taken to be between trials: less cannot be told."""
FARTHEST = 4.0
"""The longest trial advised, in lengths of those measured: beyond, nobody has looked."""
TIMES = 10
"""The shortest trial advised, in correlation times of its series: below, within / t is no law."""
SHORTEST = 1.0
"""Seconds: the shortest trial ever advised."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a trial's log variance is made of: ``between`` trials, and ``within`` (times seconds)
    trials.  ``told``: the former was told from nothing."""

    between: float
    within: float
    told: bool

    def variance(self, seconds: float) -> float:
        """Of a trial of so many seconds, warm-up left out."""
        return self.between + self.within / seconds


@dataclass(frozen=True, slots=True)
class Length:
    """``seconds`` to measure, after ``warmup`` seconds that do not count; ``hours`` how long a
    study then takes for the same answer, as a share of what it takes now."""

    seconds: float
    warmup: float
    hours: float


def parts(trial: tuple[float, float], within: float, seconds: float) -> Parts:
    """The two parts, from the standard deviation of trials of ``seconds`` (log scale; the estimate
    and the lower end of its interval), and from ``within``: the long-run variance of their series,
    relative to the squared mean, times the seconds between two points."""
    estimate, low = (sd**2 for sd in trial)
    # A series may vary by more than its trials do: what one window lacks, the next one has.
    inside = min(within / seconds, estimate)
    between = max(estimate - inside, LEAST_SHARE * estimate)
    return Parts(between, (estimate - between) * seconds, told=low > inside)


def optimum(found: Parts, overhead: float) -> float:
    """t*, in seconds, for trials that cost ``overhead`` seconds (warm-up included) beside it."""
    if not found.between:
        return 0.0
    return math.sqrt(found.within * overhead / found.between)


def advised(  # noqa: PLR0913 (an optimum has as many terms)
    found: Parts,
    *,
    overhead: float,
    warmup: tuple[float, float],
    seconds: float,
    shortest: float,
    enough: float = 0.0,
) -> Length:
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

    return Length(best, needed, hours(best, needed) / hours(seconds, former))


def rounded(seconds: float) -> float:
    """Up to 2 digits at most, in steps people use: tenths below 2 s, halves below 10 s, whole."""
    for limit, step in ((2.0, 0.1), (10.0, 0.5), (60.0, 1.0), (300.0, 5.0)):
        if seconds <= limit:
            return round(math.ceil(seconds / step - ARITHMETIC) * step, 1)
    return math.ceil(seconds / 30.0) * 30.0


ARITHMETIC = 1e-9
