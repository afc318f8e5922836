"""Drain: has the rate of a load fallen and is it level, or are there still credits left?

A cloud volume serves a burst rate until its credits are used up, and many drives have a fast area
of single-level cells.  From one moment on the rate is a lower one, and stays there.  So a load that
runs before the first trial is over when

- the medians of the two halves of the last :data:`HOLD` seconds differ by no more than
  :data:`EVEN`, and
- the median of these seconds is lower, by :data:`FELL` or more, than the highest median of
  :data:`SPAN` neighbouring values before them, and it fell that long ago; or nothing more can fall,
  since it is where it fell to earlier (a study that was resumed), or another load of the target has
  just fallen.

Medians do not mind a second in which a load was started, or the device stalled.  Of 40 simulated
loads of ten minutes whose seconds differ by 5 or 10 % none is taken for fallen, by 15 % three, by
20 % five.

The moment of the fall is the first after the highest median from which on the values lie nearer to
the low rate than to the high one, on the log scale, in the median of :data:`SPAN` values.

References:
    SNIA (2020), *Solid State Storage Performance Test Specification* 2.0.2, section 2.1.24 (steady
    state: within a window the values lie near their average and have no slope).
    J. W. Tukey (1977), *Exploratory Data Analysis*, chapter 7 (running medians).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from iotrial.model.results import Results
from iotrial.model.trial import DrainRecord
from iotrial.stats import MAD_OF_NORMAL
from iotrial.units import format_bytes, format_value, format_wait

FELL = 0.2
"""Of the rate: what falls by less is noise, or left to the tests of drift."""
BEYOND = 3.0
"""And so many standard deviations of a second, on the log scale: the highest of many medians is
high by chance."""
HOLD = 30.0
"""Seconds for which the rate must be level."""
EVEN = 0.1
"""Of the rate, by which the halves of these seconds may differ."""
FEWEST = 5
"""Values in these seconds."""
SPAN = 9
"""Neighbouring values whose median is taken before them."""


@dataclass(frozen=True, slots=True)
class DrainPoint:
    """What the device did in one second, more or less: ``seconds`` since the drain began, at its
    end; bytes and I/Os a second; and all bytes ``moved`` until then."""

    seconds: float
    bandwidth: float
    iops: float
    moved: float


@dataclass(frozen=True, slots=True)
class DrainLevels:
    """The rates before and after a fall, each as (bytes a second, I/Os a second), and after how
    many ``seconds`` and bytes (``moved``) it fell.  Without a fall, ``high`` and ``low`` are one
    and ``moved`` is 0."""

    high: tuple[float, float]
    low: tuple[float, float]
    seconds: float = 0.0
    moved: float = 0.0

    @property
    def fell(self) -> bool:
        return self.high != self.low


def drained(points: Sequence[DrainPoint], known: float | None = None) -> DrainLevels | None:
    """Whether there is nothing left to be used up; None: not as far as is known.

    ``known`` is the bandwidth that the same load fell to earlier, 0 where it was another load of
    the target; None where nothing was drained so far.
    """
    if not points or points[-1].seconds - points[0].seconds < HOLD:
        return None
    since = points[-1].seconds - HOLD
    first = next(at for at, point in enumerate(points) if point.seconds > since)
    now = points[first:]
    if len(now) < FEWEST:
        return None
    rates = [point.bandwidth for point in now]
    half = len(rates) // 2
    one, other = median(rates[:half]), median(rates[half:])
    if abs(one - other) > EVEN * max(one, other):
        return None
    low = median(rates)
    high, at = max(_medians(points[:first]), default=(0.0, 0), key=lambda pair: pair[0])
    least = max(-math.log(1 - FELL), BEYOND * _noise(rates, low))
    if high > 0 and math.log(high / max(low, 1.0)) >= least:
        fall = _fall(points, at, (high, low), now)
        return fall if fall.seconds <= since else None
    if known is not None and (not known or low * (1 - FELL) <= known):
        same = (low, _iops(now))
        return DrainLevels(same, same)
    return None


def level(points: Sequence[DrainPoint]) -> tuple[float, float]:
    """The medians of bytes and I/Os a second in the last :data:`HOLD` seconds; 0 of none."""
    now = [point for point in points if point.seconds > points[-1].seconds - HOLD]
    return (median(point.bandwidth for point in now), _iops(now)) if now else (0.0, 0.0)


def _noise(rates: Sequence[float], middle: float) -> float:
    """The standard deviation of one second on the log scale, from the median deviation."""
    away = (abs(math.log(max(rate, 1.0) / max(middle, 1.0))) for rate in rates)
    return median(away) / MAD_OF_NORMAL


def _medians(points: Sequence[DrainPoint]) -> Iterator[tuple[float, int]]:
    """Of neighbouring values, each with the place of the first of them."""
    for at in range(len(points) - SPAN + 1):
        yield median(point.bandwidth for point in points[at : at + SPAN]), at


def _fall(
    points: Sequence[DrainPoint], at: int, levels: tuple[float, float], now: Sequence[DrainPoint]
) -> DrainLevels:
    high, low = levels
    middle = (high * max(low, 1.0)) ** 0.5
    steps = (place for value, place in _medians(points) if place >= at and value < middle)
    last = next(steps, len(points) - len(now)) + SPAN // 2 - 1
    before = points[max(0, last)]
    return DrainLevels(
        (high, _iops(points[at : at + SPAN])), (low, _iops(now)), before.seconds, before.moved
    )


def _iops(points: Sequence[DrainPoint]) -> float:
    return median(point.iops for point in points)


# -- in words -------------------------------------------------------------------------------------


def told(drain: DrainRecord) -> str:
    """What a drain came to: ``drained for 4m10s: 3,000 → 600 IOPS after 1.2 GiB``."""
    lasted = format_wait(drain.seconds)
    high, low = (format_value(rate[1], "IOPS") for rate in (drain.high, drain.low))
    if drain.state == "fell":
        first, then = (format_value(rate[0], "bytes/s") for rate in (drain.high, drain.low))
        moved = format_bytes(int(drain.moved))
        return f"drained for {lasted}: {high} → {low} ({first} → {then}) after {moved}"
    rate = f"{low} ({format_value(drain.low[0], 'bytes/s')})"
    if drain.state == "level":
        return f"ran for {lasted} without a fall from {rate}: what was drained has not come back"
    return f"ran for {lasted}, the longest allowed, without a fall by 20 % or more from {rate}"


def said(results: Results) -> str:
    """Of a study, a sentence for each."""
    return " ".join(
        f"Before trial {trial.number}, the load {trial.workload} on {trial.target}, unmeasured:"
        f" {told(record.drained)}."
        for record in results.records
        if (trial := record.trial) and record.drained
    )
