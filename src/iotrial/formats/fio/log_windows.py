"""Logs of averages of fio: a line for each window of time (``log_avg_msec``, or before fio 2.10
each half second of a bandwidth or IOPS log) and direction.

A window in which nothing was done has no line.  In logs with a priority (fio 3.18 and later) a
line after such a gap stands for one window, and the gap counts as 0.  Lines of bandwidth and IOPS
with a block size are of fio before 2.10 and stand for all the time since the one before.  Logs
with neither may be of either kind, and in them a direction without a line may have been put into
its next one, where the other direction closed the window: only a time without any line counts as
0, and a doubt says so.

A rate is averaged over time.  A latency can only be averaged over time too, though it should be
over I/Os: how many there were is not written.  Hence there are no percentiles either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from iotrial.errors import FormatError
from iotrial.formats.fio.bins import Ints
from iotrial.formats.fio.log_ios import check
from iotrial.formats.fio.log_layout import Layout
from iotrial.formats.fio.log_rows import AGAIN, Refused

MOST = 5_000_000
_LATE = 1.5  # windows of the usual length are at most this much longer
_ENDED = 2.5  # a direction without a line for so many windows at the end did nothing
_MISSING = 0.9  # of a window: as good as a whole one
Manner = Literal["since", "shared", "own"]
"""What a line stands for: the time since the one before, the same less the time in which no
direction had a line, or one window."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The lines of a log, in its order; ``top`` the second values, where there are some."""

    times: Ints
    directions: Ints
    values: Ints
    top: Ints | None


@dataclass(frozen=True, slots=True)
class Average:
    """One direction over the log's time: weighted mean, spread, extremes; ``idle`` the share of
    the time that had no line, and ``gap`` whether a whole window had none; ``top`` the largest
    second value."""

    mean: float
    busy_mean: float
    sd: float
    least: float
    most: float
    idle: float
    gap: bool
    top: int | None


def digest(layout: Layout, columns: list[Ints], *, older: bool) -> Windows:
    """A block's lines.  Raises Refused for a line that no fio writes."""
    check(layout, columns)
    if layout.at("size") >= 0 and not older:
        sizes = columns[layout.at("size")]
        if sizes.any():
            at = int(np.flatnonzero(sizes)[0])
            raise Refused(at, f"block size {sizes[at]}; the lines before are averages and have 0")
    top = columns[layout.at("top")] if layout.at("top") >= 0 else None
    times, directions, values = (columns[layout.at(n)] for n in ("time", "direction", "value"))
    return Windows(times, directions, values, top)


def joined(parts: list[Windows]) -> Windows:
    """All blocks as one."""
    times, directions, values = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("times", "directions", "values")
    )
    top = (
        None
        if parts[0].top is None
        else np.concatenate([p.top for p in parts if p.top is not None])
    )
    return Windows(times, directions, values, top)


def usual(log: Windows) -> float:
    """The usual time between two windows of one direction, in ms."""
    found = [_apart(log.times[log.directions == d]) for d in np.unique(log.directions)]
    return max(found) or float(log.times[0]) or 1.0


def _apart(times: Ints) -> float:
    apart = np.diff(times)
    apart = apart[apart > 0]
    return float(np.median(apart)) if apart.size else 0.0


def sections(log: Windows, raw: str) -> list[slice]:
    """Where the times begin anew: jobs that wrote into one file, one after another.

    Raises FormatError where the times go back to something else than the beginning."""
    cuts = (np.flatnonzero(np.diff(log.times) < 0) + 1).tolist()
    window = usual(log)
    begin, found = 0, []
    for cut in cuts:
        if log.times[cut] > log.times[begin] + window:
            raise FormatError(
                f"{raw}: line {cut + 1}: the time goes back from {log.times[cut - 1]} to "
                f"{log.times[cut]} ms, and not to where it began",
                advice=AGAIN,
            )
        found.append(slice(begin, cut))
        begin = cut
    return [*found, slice(begin, log.times.size)]


def span(log: Windows) -> tuple[float, float]:
    """Start and end of the log in ms: the first window began a window before its line."""
    first = float(log.times.min())
    return max(0.0, first - usual(log)), float(log.times.max())


def average(log: Windows, parts: list[slice], direction: int, manner: Manner) -> Average:
    """The lines of one direction, weighted by the time that each stands for, and added up over
    the parts."""
    start, end = span(log)
    window = usual(log)
    weights: list[NDArray[np.float64]] = []
    lasted = 0.0
    chosen = np.zeros(log.times.size, np.bool_)
    for part in parts:
        mine = log.directions[part] == direction
        if not mine.any():
            continue
        chosen[part] = mine
        times = log.times[part][mine]
        weight = np.diff(times, prepend=start).astype(np.float64)
        if manner == "own":
            weight = np.where(weight > _LATE * window, window, weight)
        elif manner == "shared":
            weight -= _silence(log.times[part], times, start, window)
        weights.append(weight)
        missing = float(log.times[part][-1] - times[-1])
        lasted += float(times[-1]) - start + (missing if missing > _ENDED * window else 0.0)
    weight, value = np.concatenate(weights), log.values[chosen].astype(np.float64)
    known = float(weight.sum())
    if known <= 0:  # one line, or all at one time
        weight, known, start, end = np.ones_like(weight), float(weight.size), 0.0, 1.0
        lasted = known
    lasted = max(lasted, known)
    mean = float((weight * value).sum()) / lasted
    squares = float((weight * (value - mean) ** 2).sum()) + (lasted - known) * mean**2
    return Average(
        mean=mean if len(parts) == 1 else float((weight * value).sum()) / (end - start),
        busy_mean=float((weight * value).sum()) / known,
        sd=math.sqrt(squares / lasted * value.size / max(1, value.size - 1)),
        least=float(value.min()),
        most=float(value.max()),
        idle=1 - known / lasted,
        gap=lasted - known > _MISSING * window,
        top=None if log.top is None else int(log.top[chosen].max()),
    )


def _silence(log: Ints, times: Ints, start: float, window: float) -> NDArray[np.float64]:
    """For each of a direction's times, how long before it, since the one before, there was no
    line of any direction where there should have been one."""
    every = np.unique(log)
    apart = np.diff(every, prepend=start)
    missing = np.cumsum(np.where(apart > _LATE * window, apart - window, 0.0))
    return np.diff(missing[np.searchsorted(every, times)], prepend=0.0)
