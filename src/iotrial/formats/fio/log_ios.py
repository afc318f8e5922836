"""Logs of every I/O of fio: counts, bytes, latencies and the I/Os of each second, added up.

A rate is what was done over the time from the start to the last line.  The start is 0 (fio counts
from the job's start, or from the end of its ramp), or, where times are of the epoch or nothing
happened for long, as much before the first line as lines are apart.

The value of a bandwidth log of I/Os is each I/O's own bandwidth (1000 bytes/s, not KiB/s): its
mean is no bandwidth of anything.  What is reported is bytes over time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from iotrial.formats.fio.bins import MOST, Ints, histogram
from iotrial.formats.fio.log_layout import Layout
from iotrial.formats.fio.log_rows import Refused
from iotrial.formats.fio.log_unit import QUICK

_MOST_SECONDS = 1_000_000  # eleven days; what is longer has no spread over seconds
_LARGE = 2**40  # 2^22 values below it add up to less than 2^63
FALL = 1000
"""Milliseconds: workers of one job may log in another order than they finished."""
BEGINNING = 5000
"""Milliseconds after the first line of a log in which the first line of each job is expected."""
SLACK = 2  # ms: times are rounded down


@dataclass
class Tally:
    """One direction: ``count`` I/Os of ``size`` bytes in all, values and what fell in each second
    (second → I/Os, bytes)."""

    count: int = 0
    size: int = 0
    total: int = 0
    least: int = 2**63
    most: int = 0
    smallest: int = 2**63
    largest: int = 0
    bins: Ints = field(default_factory=lambda: np.zeros(MOST, np.int64))
    seconds: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        self.count += other.count
        self.size += other.size
        self.total += other.total
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)
        self.smallest = min(self.smallest, other.smallest)
        self.largest = max(self.largest, other.largest)
        self.bins += other.bins
        for second, (ios, size) in other.seconds.items():
            if len(self.seconds) <= _MOST_SECONDS:
                mine = self.seconds.get(second, (0, 0))
                self.seconds[second] = (mine[0] + ios, mine[1] + size)


@dataclass
class Ios:
    """A log, or a block of one.  ``back`` counts the lines with an earlier time than the line
    before, and ``back_at`` is the row of the first; ``fall`` is the latest time that the log fell
    back to by more than a second, and its row; ``pause`` the longest time between two lines (ms);
    ``early`` and ``quick`` as in
    :class:`~iotrial.formats.fio.log_unit.Evidence`."""

    tallies: dict[int, Tally] = field(default_factory=dict)
    first: int = 0
    last: int = 0
    latest: int = 0
    earliest: int = 0
    back: int = 0
    back_at: int = -1
    fall: tuple[int, int] = (-1, 0)
    pause: int = 0
    early: int = 0
    quick: int = 0
    rows: int = 0

    def add(self, other: Ios) -> None:
        """Goes on with the next block."""
        if not self.rows:
            self.first, self.earliest = other.first, other.earliest
        elif other.first < self.last:
            self.back += 1
            self.back_at = self.rows if self.back_at < 0 else self.back_at
            if self.last - other.first > FALL:
                self.fall = max(self.fall, (other.first, self.rows))
        if other.back and self.back_at < 0:
            self.back_at = self.rows + other.back_at
        self.back += other.back
        self.fall = max(self.fall, (other.fall[0], self.rows + other.fall[1]))
        self.pause = max(self.pause, other.pause, (other.first - self.last) * bool(self.rows))
        self.last = other.last
        self.latest = max(self.latest, other.latest)
        self.earliest = min(self.earliest, other.earliest)
        self.early += other.early
        self.quick += other.quick
        self.rows += other.rows
        for direction, tally in other.tallies.items():
            self.tallies.setdefault(direction, Tally()).add(tally)

    @property
    def start(self) -> float:
        """When the first I/O can have begun, in ms."""
        apart = (self.latest - self.earliest) / max(1, self.rows - 1)
        return max(0.0, self.earliest - apart) if self.earliest > 10 * max(apart, 1.0) else 0.0

    @property
    def span(self) -> float:
        """Seconds from the start to the last line."""
        return (self.latest - self.start) / 1000


def digest(layout: Layout, kind: str, columns: list[Ints]) -> Ios:
    """A block's lines, added up.  Raises Refused for a line that no fio writes."""
    times, values, directions = (columns[layout.at(n)] for n in ("time", "value", "direction"))
    sizes = columns[layout.at("size")] if layout.at("size") >= 0 else None
    check(layout, columns)
    if kind == "iops" and not (values == 1).all():
        at = int(np.flatnonzero(values != 1)[0])
        raise Refused(at, f"value {values[at]}; the lines before count each I/O as 1")
    latency = kind not in ("iops", "bw")
    steps = np.diff(times)
    found = Ios(
        first=int(times[0]), last=int(times[-1]), latest=int(times.max()),
        earliest=int(times.min()), rows=times.size, back=int(np.count_nonzero(steps < 0)),
        pause=int(steps.max(initial=0)),
    )  # fmt: skip
    if found.back:
        found.back_at = int(np.flatnonzero(steps < 0)[0]) + 1
        falls = np.flatnonzero(steps < -FALL) + 1
        if falls.size:
            latest = int(falls[times[falls].argmax()])
            found.fall = (int(times[latest]), latest)
    if latency and not layout.recent:
        found.early = int(np.count_nonzero(values > (times + SLACK) * 1000))
        found.quick = int(np.count_nonzero(values < QUICK))
    low, high = int(directions.min()), int(directions.max())
    for direction in range(low, high + 1):
        if low == high:
            mine = (times, values, sizes)
        else:
            mask = directions == direction
            if not mask.any():
                continue
            mine = (times[mask], values[mask], None if sizes is None else sizes[mask])
        found.tallies[direction] = _tally(*mine, latency=latency, ordered=not found.back)
    return found


def check(layout: Layout, columns: list[Ints]) -> None:
    """Directions and priorities are what fio writes.  Raises Refused."""
    limits = {"direction": 2}
    if layout.hexadecimal < 0 and layout.recent:
        limits["priority"] = 1
    for name, limit in limits.items():
        column = columns[layout.at(name)]
        if int(column.max()) > limit:
            at = int(np.flatnonzero(column > limit)[0])
            raise Refused(at, f"{name} {column[at]}: fio writes 0 to {limit} there")


def _tally(times: Ints, values: Ints, sizes: Ints | None, *, latency: bool, ordered: bool) -> Tally:
    made = Tally(count=times.size)
    if latency:
        made.least, made.most = int(values.min()), int(values.max())
        made.total = added(values, made.most)
        made.bins = histogram(values)
    if sizes is not None:
        made.smallest, made.largest = int(sizes.min()), int(sizes.max())
        made.size = added(sizes, made.largest)
    same = sizes is None or made.smallest == made.largest
    first, last = int(times.min()) // 1000, int(times.max()) // 1000
    if not ordered or last - first > times.size:
        by = np.argsort(times, kind="stable")
        times, sizes = times[by], sizes if same or sizes is None else sizes[by]
        seconds, begins = np.unique(times // 1000, return_index=True)
    else:
        seconds = np.arange(first, last + 1)
        begins = np.searchsorted(times, seconds * 1000)
    ends = np.append(begins[1:], times.size)
    counts = (ends - begins).tolist()
    if same or sizes is None:
        each = made.largest
        moved = [count * each for count in counts]
    else:
        running = np.concatenate(([0], np.cumsum(sizes.astype(np.float64))))
        moved = [int(size) for size in running[ends] - running[begins]]
    made.seconds = {
        second: (count, size)
        for second, count, size in zip(seconds.tolist(), counts, moved, strict=True)
        if count
    }
    return made


def added(values: Ints, most: int) -> int:
    """The exact sum, however large the values are."""
    if most < _LARGE:
        return int(values.sum())
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def spreads(tally: Tally, log: Ios) -> Iterator[tuple[str, float]]:
    """``iops.min``, ``iops.max``, ``iops.sd`` and ``bw.sd`` over the whole seconds of the log, of
    which there must be two.  A second without an I/O counts as 0."""
    first, end = math.ceil(log.start / 1000), log.latest // 1000
    count = end - first
    if count < 2 or len(tally.seconds) > _MOST_SECONDS:  # noqa: PLR2004
        return
    whole: Mapping[int, tuple[int, int]] = {
        second: each for second, each in tally.seconds.items() if first <= second < end
    }
    ios = [each[0] for each in whole.values()]
    yield "iops.min", float(min(ios)) if len(ios) == count else 0.0
    yield "iops.max", float(max(ios, default=0))
    yield "iops.sd", _sd(ios, count)
    if tally.largest:
        yield "bw.sd", _sd([each[1] for each in whole.values()], count)


def _sd(values: list[int], count: int) -> float:
    """Of ``count`` numbers, of which those that are not in ``values`` are 0."""
    mean = sum(values) / count
    squares = sum((value - mean) ** 2 for value in values) + (count - len(values)) * mean**2
    return math.sqrt(squares / (count - 1))
