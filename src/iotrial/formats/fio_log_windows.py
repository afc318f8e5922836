"""Logs of averages of fio: a line for each window of time (``log_avg_msec``, or before fio 2.10
each half second of a bandwidth or IOPS log) and direction.

A window in which nothing was done has no line.  Since fio 2.10 a line after such a gap stands for
one window only, and the gap counts as 0; before, the line stands for all the time since the one
before it.  Lines with a block size are of the older kind.  For those without a priority and a
block size nobody can say: the gap counts as 0, and a doubt says so.

A rate is averaged over time.  A latency can only be averaged over time too, though it should be
over I/Os: how many there were is not written.  Hence there are no percentiles either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iotrial.errors import FormatError
from iotrial.formats.fio_bins import Ints
from iotrial.formats.fio_log_ios import check
from iotrial.formats.fio_log_layout import Layout
from iotrial.formats.fio_log_rows import AGAIN, Refused

MOST = 5_000_000
_LATE = 1.5  # windows of the usual length are at most this much longer


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


def average(log: Windows, parts: list[slice], direction: int, *, older: bool) -> Average:
    """The lines of one direction, weighted by the time that each stands for, and added up over
    the parts."""
    start, end = span(log)
    window = usual(log)
    weights: list[NDArray[np.float64]] = []
    lasted = 0.0
    chosen = np.zeros(log.times.size, np.bool_)
    for part in parts:
        mine = log.directions[part] == direction
        chosen[part] = mine
        weight = np.diff(log.times[part][mine], prepend=start).astype(np.float64)
        weights.append(weight if older else np.where(weight > _LATE * window, window, weight))
        lasted += float(log.times[part][-1]) - start
    weight, value = np.concatenate(weights), log.values[chosen].astype(np.float64)
    if not weight.sum():  # one line, or all at one time
        weight = np.ones_like(weight)
        start, end, lasted = 0.0, float(weight.sum()), float(weight.sum())
    known = float(weight.sum())
    lasted = max(lasted, known)
    mean = float((weight * value).sum()) / lasted
    squares = float((weight * (value - mean) ** 2).sum()) + (lasted - known) * mean**2
    return Average(
        mean=float((weight * value).sum()) / max(end - start, known / len(parts)),
        busy_mean=float((weight * value).sum()) / known,
        sd=math.sqrt(squares / lasted * value.size / max(1, value.size - 1)),
        least=float(value.min()),
        most=float(value.max()),
        idle=1 - known / lasted,
        gap=lasted - known > _LATE * window,
        top=None if log.top is None else int(log.top[chosen].max()),
    )
