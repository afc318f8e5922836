"""Logs of averages of fio: a line for each window of time (``log_avg_msec``, or before fio 2.10
each half second of a bandwidth or IOPS log) and direction.

A window in which nothing was done has no line, and counts as 0.  What a line stands for, by the
sources of fio (``stat.c``):

- With ``log_avg_msec``: its own window (:data:`Manner` ``own``).  Before 3.1 all directions shared
  the window's beginning, and the first window of the others is in their next line (``shifted``).
- Lines of bandwidth and IOPS with a block size are of fio before 2.10 and stand for the time since
  the sample before: of any direction since 2.0.4, where one sample writes a line for each
  (``sampled``); of its own before (``since``).

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
_SHORT = 0.1  # of the times between lines is a window and no gap
_ENDED = 2.5  # a direction without a line for so many windows at the end did nothing
_MISSING = 0.9  # of a window: as good as a whole one
Manner = Literal["since", "sampled", "shifted", "own"]
"""What a line stands for: the time since the direction's line before, since the line before of any
direction, its window, with the first line for the window before too where that was another
direction's, or its window alone."""


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
    """The time between two windows of one direction, in ms: of the direction that had the fewest
    windows without a line, and of its times the short ones."""
    found = [_apart(log.times[log.directions == d]) for d in np.unique(log.directions)]
    return min(filter(None, found), default=0.0) or float(log.times[0]) or 1.0


def _apart(times: Ints) -> float:
    """0 where there is no second line.  The last window may have ended early, with its job."""
    apart = np.diff(times)
    apart = apart[apart > 0]
    apart = apart[:-1] if apart.size > 1 else apart
    if not apart.size:
        return 0.0
    shortest = np.quantile(apart, _SHORT, method="lower")
    return float(np.median(apart[apart <= _LATE * shortest]))


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


def manner(log: Windows, *, older: bool, recent: bool) -> Manner:
    """What the lines of a log stand for: ``older`` than 2.10, where they have a block size, or
    ``recent``, with a priority."""
    if not older:
        return "own" if recent else "shifted"
    each = [set(log.times[log.directions == d].tolist()) for d in np.unique(log.directions)]
    fewest = min(each, key=len)
    alike = len(fewest & set.union(*(every for every in each if every is not fewest), set()))
    return "sampled" if 2 * alike > len(fewest) else "since"


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
        if manner == "sampled":
            every = np.unique(log.times[part])
            weight = np.diff(every, prepend=start)[np.searchsorted(every, times)]
        elif manner != "since":
            first = min(weight[0], 2 * window)
            weight = np.where(weight > _LATE * window, window, weight)
            if manner == "shifted" and log.times[part].min() < times[0]:
                weight[0] = first
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
