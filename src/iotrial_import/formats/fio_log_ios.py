"""Logs of every I/O of fio: counts, bytes, latencies and the I/Os of each second, added up.

A rate is what was done over the time from the start to the last line.  The start is 0 (fio counts
from the job's start, or from the end of its ramp), or, where times are of the epoch or nothing
happened for long, as much before the first line as lines are apart.

The value of a bandwidth log of I/Os is each I/O's own bandwidth (1000 bytes/s, not KiB/s): its
mean is no bandwidth of anything.  What is reported is bytes over time.

Of large logs a compiled reader adds up in one pass over a block's bytes what :func:`digest` adds up
of its columns.  It takes regular lines only: plain decimal numbers of at most 15 digits, as many as
on every line, a comma and at most one space between them, ``\\n`` at the end.  Blocks with anything
else are left to :mod:`~iotrial.formats.fio.log_rows`, which knows every error.  What it gives is
equal, to the last bit.

Most lines begin with the time of the line before (``1234, ``) and end as that one did
(``, 0, 4096, 0``): both are compared eight bytes at a time, and only the value between them is
read.  Eight digits are made a number by three multiplications, the pairs of digits first (Daniel
Lemire, "Quickly parsing eight digits", lemire.me, October 2018; the end of the digits as in
"Determine if a word has a byte greater than n", Sean Anderson, Bit Twiddling Hacks, 2005).

Numba compiles the functions here when :func:`load` is called; without it they are not used.  They
are written for 64-bit words: NumPy's unsigned integers everywhere, since numba makes a float of a
signed and an unsigned one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from iotrial.formats.fio.bins import MOST, Ints, histogram
from iotrial.formats.fio.log import LogLayout, check
from iotrial.formats.fio.log_rows import RowError
from iotrial.model.recording import Buffer

_MOST_SECONDS = 1_000_000  # eleven days; what is longer has no spread over seconds
_LARGE = 2**40  # 2^22 values below it add up to less than 2^63
QUICK = 40
"""Ticks: no device answers in so few nanoseconds."""
FALL = 1000
"""Milliseconds: workers of one job may log in another order than they finished."""
BEGINNING = 5000
"""Milliseconds after the first line of a log in which the first line of each job is expected."""
SLACK = 2  # ms: times are rounded down


@dataclass
class IOCounts:
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

    def add(self, other: IOCounts) -> None:
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
class IOLog:
    """A log, or a block of one.  ``back`` counts the lines with an earlier time than the line
    before, and ``back_at`` is the row of the first; ``fall`` is the latest time that the log fell
    back to by more than a second, and its row; ``pause`` the longest time between two lines (ms);
    ``early`` and ``quick`` as in
    :class:`~iotrial_import.formats.fio_log.UnitEvidence`."""

    tallies: dict[int, IOCounts] = field(default_factory=dict)
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

    def add(self, other: IOLog) -> None:
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
            self.tallies.setdefault(direction, IOCounts()).add(tally)

    @property
    def start(self) -> float:
        """When the first I/O can have begun, in ms."""
        apart = (self.latest - self.earliest) / max(1, self.rows - 1)
        return max(0.0, self.earliest - apart) if self.earliest > 10 * max(apart, 1.0) else 0.0

    @property
    def span(self) -> float:
        """Seconds from the start to the last line."""
        return (self.latest - self.start) / 1000


def digest(layout: LogLayout, kind: str, columns: list[Ints]) -> IOLog:
    """A block's lines, added up.  Raises Refused for a line that no fio writes."""
    times, values, directions = (columns[layout.at(n)] for n in ("time", "value", "direction"))
    sizes = columns[layout.at("size")] if layout.at("size") >= 0 else None
    check(layout, columns)
    if kind == "iops" and not (values == 1).all():
        at = int(np.flatnonzero(values != 1)[0])
        raise RowError(at, f"value {values[at]}; the lines before count each I/O as 1")
    latency = kind not in ("iops", "bw")
    steps = np.diff(times)
    found = IOLog(
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


def _tally(
    times: Ints, values: Ints, sizes: Ints | None, *, latency: bool, ordered: bool
) -> IOCounts:
    made = IOCounts(count=times.size)
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


def spreads(tally: IOCounts, log: IOLog) -> Iterator[tuple[str, float]]:
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


Word = np.uint64
Words = NDArray[np.uint64]
Kernel = Callable[..., tuple[int, ...]]
Reader = Callable[[Buffer, int, int], tuple[int, IOLog] | None]

WORTH = 3 * 2**29
"""Bytes.  Loading takes about 2.3 s, as long as the usual way needs for 1.1 GB, and the kernel
saves six sevenths of that way (two cores of an AMD EPYC, November 2026)."""
PAD = 256
"""Bytes that can be read after a block: more than the longest regular line has."""
SECONDS = 4096
"""A block's times are at most so many seconds apart; at 4 MiB, others are of hardly any I/Os."""

_0, _1, _3, _7, _8, _16, _32, _56, _64 = (Word(n) for n in (0, 1, 3, 7, 8, 16, 32, 56, 64))
_10, _100, _1000, _10000 = (Word(10**n) for n in range(1, 5))
_ALL = Word(2**64 - 1)
_BYTE, _SPACE, _COMMA, _END = (Word(n) for n in (255, ord(" "), ord(","), ord("\n")))
_ZEROS = Word(0x3030303030303030)
_ABOVE = Word(0x7676767676767676)  # added to a byte above 9, sets its highest bit
_HIGHEST = Word(0x8080808080808080)
_PLACES = Word(0x0008101820283038)  # times 2^8k: 8k, in the highest byte
_PAIRS, _FOURS, _EIGHTS = Word(0x00FF00FF00FF00FF), Word(0x0000FFFF0000FFFF), Word(0xFFFFFFFF)
_POWERS = np.array([10**n for n in range(8)], Word)
_EARLIER = Word(SECONDS // 4)
_SECONDS = Word(SECONDS)
_FALL, _SLACK, _QUICK = Word(FALL), Word(SLACK), Word(QUICK)
_DIRECTIONS = 3
_TRIM, _REAL_TIME = Word(2), Word(1)  # the largest direction and priority
_LARGE_VALUE = Word(2**40)  # the values of a block of smaller ones add up to less than 2^63
_LARGE_SIZE = Word(2**32)  # the sizes to less than 2^53, which digest adds up as doubles
_EXACT = Word(128)  # as in bins
_ONE = np.int64(1)
_GROUP = np.int64(46)
_EXPONENT = np.int64((1023 + 5) << 6)
_LAST_BIN = np.int64(MOST - 1)
_WRONG = (_0,) * 12
_COUNT, _SIZE, _TOTAL, _LEAST, _MOST, _SMALLEST, _LARGEST = range(7)


def reader(layout: LogLayout, kind: str, size: int) -> Reader | None:
    """What reads a block of a log of ``size`` bytes; None where the usual way is as good: the log
    is not worth loading the kernel and it is not loaded, there is no numba, or priorities are
    hexadecimal.

    A reader is given a file's bytes, where a block of whole lines begins and where it ends.  It
    gives back how many lines there were and what they add up to, or None: some are not regular.
    """
    if layout.hexadecimal >= 0 or not (size >= WORTH or load.cache_info().currsize):
        return None
    kernel = load()
    return kernel and (lambda *place: _read(kernel, layout, kind, place))


@cache
def load() -> Kernel | None:
    """Imports numba and compiles, once in a process: about two seconds.  None without numba (the
    extra ``fast``), and on machines whose words begin with the highest byte."""
    try:
        import numba  # noqa: PLC0415  optional, and slow to import
        from numba.extending import register_jitable  # noqa: PLC0415
    except (ImportError, OSError):  # OSError: its compiler's library is not there
        return None
    if sys.byteorder != "little" or numba.config.DISABLE_JIT:
        return None
    for function in (_number, _value, _mask, _after, _ending, _bin):
        register_jitable(function)
    int64, word = numba.types.int64, numba.types.uint64
    signature = numba.types.UniTuple(int64, 12)(
        numba.types.Array(word, 1, "A", readonly=True, aligned=False), word,
        numba.types.UniTuple(int64, 4), word[:, ::1], int64[:, ::1], word[:, :, ::1],
    )  # fmt: skip
    try:
        return cast("Kernel", numba.njit(signature, nogil=True)(_tally_bytes))
    except numba.core.errors.NumbaError:  # another numba, which would have it written otherwise
        return None


def _read(
    kernel: Kernel, layout: LogLayout, kind: str, place: tuple[Buffer, int, int]
) -> tuple[int, IOLog] | None:
    data, begin, end = place
    if end + PAD > len(data):
        data, begin, end = data[begin:end] + bytes(PAD), 0, end - begin
    # A word begins at each byte.  Nothing is copied, and the view ends with this call: a mapped
    # file can be closed then.
    words: Words = np.ndarray((end - begin + PAD - 7,), Word, data, begin, strides=(1,))
    sums = np.zeros((_DIRECTIONS, 7), Word)
    sums[:, (_LEAST, _SMALLEST)] = 2**63
    bins = np.zeros((_DIRECTIONS, MOST), np.int64)
    seconds = np.zeros((_DIRECTIONS, SECONDS, 2), Word)
    at = (len(layout.names), *(layout.at(name) for name in ("direction", "size", "priority")))
    totals = kernel(words, Word(end - begin), at, sums, bins, seconds)
    if not totals[0]:
        return None
    used = sums[sums[:, _COUNT] > 0]
    if kind == "iops" and ((used[:, _LEAST] != 1).any() or (used[:, _MOST] != 1).any()):
        return None
    return totals[0], _found(layout, kind, totals, (sums, bins, seconds))


def _found(
    layout: LogLayout, kind: str, totals: tuple[int, ...], arrays: tuple[Words, Ints, Words]
) -> IOLog:
    """As ``digest`` would have said it."""
    latency = kind not in ("iops", "bw")
    rows, first, last, latest, earliest, back, back_at, fall, fall_at, pause, early, quick = totals
    found = IOLog(
        first=first, last=last, latest=latest, earliest=earliest, back=back, back_at=back_at,
        fall=(fall, fall_at), pause=pause, rows=rows,
    )  # fmt: skip
    if latency and not layout.recent:
        found.early, found.quick = early, quick
    sums, bins, seconds = arrays
    base = _base(first)
    for direction, each in enumerate(sums.tolist()):
        if not each[_COUNT]:
            continue
        made = found.tallies[direction] = IOCounts(count=each[_COUNT], size=each[_SIZE])
        if latency:
            made.total, made.least, made.most = each[_TOTAL], each[_LEAST], each[_MOST]
            made.bins = bins[direction]
        if layout.at("size") >= 0:
            made.smallest, made.largest = each[_SMALLEST], each[_LARGEST]
        mine = seconds[direction]
        held = np.flatnonzero(mine[:, 0])
        made.seconds = {
            base + second: (ios, size)
            for second, (ios, size) in zip(held.tolist(), mine[held].tolist(), strict=True)
        }
    return found


def _base(first: int) -> int:
    """The second at which a block's begin: some before its first line, for times that go back."""
    return max(0, first // 1000 - SECONDS // 4)


# What follows is compiled.  Each function is inlined where it is called.


def _number(words: Words, at: Word) -> tuple[Word, Word]:
    """The number at a byte, and how many digits it has; (0, 0): none, or more than 15."""
    digits = words[at] ^ _ZEROS  # a digit's byte is 0 to 9 then, any other's is larger
    ends = ((digits + _ABOVE) | digits) & _HIGHEST
    if ends:
        bits = (((ends & (_0 - ends)) >> _7) * _PLACES) >> _56
        if not bits:
            return _0, _0
        return _value(digits << (_64 - bits)), bits >> _3
    high, digits = _value(digits), words[at + _8] ^ _ZEROS
    ends = ((digits + _ABOVE) | digits) & _HIGHEST
    if not ends:
        return _0, _0
    bits = (((ends & (_0 - ends)) >> _7) * _PLACES) >> _56
    if not bits:
        return high, _8
    count = bits >> _3
    return high * _POWERS[count] + _value(digits << (_64 - bits)), _8 + count


def _value(digits: Word) -> Word:
    """Eight digits, a byte each, the first in the lowest byte."""
    digits = (digits * _10 + (digits >> _8)) & _PAIRS
    digits = (digits * _100 + (digits >> _16)) & _FOURS
    return (digits * _10000 + (digits >> _32)) & _EIGHTS


def _mask(count: Word) -> Word:
    """The first bytes of a word."""
    return _ALL if count >= _8 else (_1 << (count << _3)) - _1


def _after(words: Words, at: Word) -> Word:
    """Where the next number begins; 0 where there is no comma."""
    if words[at] & _BYTE != _COMMA:
        return _0
    at += _1
    return at + _1 if words[at] & _BYTE == _SPACE else at


def _ending(words: Words, at: Word, columns: tuple[int, int, int, int]) -> tuple[Word, Word, Word]:
    """A line from its third number on: direction, size (0 without one), and where the next line
    begins: 0 where this is no regular line."""
    width, direction_at, size_at, priority_at = columns
    direction = size = _0
    for column in range(2, width):
        at = _after(words, at)
        number, count = _number(words, at)
        if not at or not count:
            return _0, _0, _0
        at += count
        if column == direction_at:
            direction = number
        elif column == size_at:
            size = number
        elif column == priority_at and number > _REAL_TIME:
            return _0, _0, _0
    if words[at] & _BYTE != _END or direction > _TRIM or size >= _LARGE_SIZE:
        return _0, _0, _0
    return direction, size, at + _1


def _bin(value: Word) -> np.int64:
    """The latency's bin, as :func:`iotrial.formats.fio.bins.bins_of` finds it."""
    if value < _EXACT:
        return np.int64(value)
    found = (np.float64(value).view(np.int64) >> _GROUP) - _EXPONENT
    return min(found, _LAST_BIN)


def _tally_bytes(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  one loop over bytes, its state in registers
    words: Words, end: Word, columns: tuple[int, int, int, int],
    sums: Words, bins: Ints, seconds: Words,
) -> tuple[np.uint64 | np.int64, ...]:  # fmt: skip
    """Reads the block, a run at a time: lines of the same time and the same ending.

    Adds to ``sums`` (direction × count …), ``bins`` (direction × bin) and ``seconds`` (direction ×
    second × I/Os and bytes).  Gives back the other numbers of ``IOLog``, rows first: 0 where a line
    is not regular.
    """
    at = first = last = latest = pause = base = _0
    earliest = _ALL
    rows = back = fall_at = early = quick = np.int64(0)
    back_at = fall = np.int64(-1)
    while at < end:
        time, count = _number(words, at)
        value_at = _after(words, at + count)
        value, count_value = _number(words, value_at)
        ending_at = value_at + count_value
        direction, size, line_end = _ending(words, ending_at, columns)
        if not count or not value_at or not count_value or not line_end:
            return _WRONG
        if not rows:
            first = time
            second = time // _1000
            base = second - _EARLIER if second > _EARLIER else _0
        elif time < last:
            back += _ONE
            back_at = rows if back_at < 0 else back_at
            if last - time > _FALL and np.int64(time) > fall:
                fall, fall_at = np.int64(time), rows
        else:
            pause = max(pause, time - last)
        last, latest, earliest = time, max(latest, time), min(earliest, time)
        second = time // _1000 - base
        if second >= _SECONDS:
            return _WRONG
        head, tail = value_at - at, line_end - ending_at
        alike = head <= _16 and tail <= _16
        head_0, head_1, tail_0, tail_1 = (
            words[at], words[at + _8], words[ending_at], words[ending_at + _8]
        )  # fmt: skip
        mask_0, mask_2 = _mask(head), _mask(tail)
        mask_1 = _mask(head - _8) if head > _8 else _0
        mask_3 = _mask(tail - _8) if tail > _8 else _0
        began = (time + _SLACK) * _1000
        run = total = most = _0
        least = _ALL
        mine = bins[direction]
        while True:
            run += _1
            total += value
            least, most = min(least, value), max(most, value)
            early += np.int64(value > began)
            quick += np.int64(value < _QUICK)
            mine[_bin(value)] += 1
            at = line_end
            if not alike or at >= end:
                break
            if ((words[at] ^ head_0) & mask_0) | ((words[at + _8] ^ head_1) & mask_1):
                break
            value, count = _number(words, at + head)
            ending_at = at + head + count
            other = (words[ending_at] ^ tail_0) & mask_2
            if other | ((words[ending_at + _8] ^ tail_1) & mask_3) or not count:
                break
            line_end = ending_at + tail
        if most >= _LARGE_VALUE:
            return _WRONG
        rows += np.int64(run)
        moved, each = run * size, sums[direction]
        each[_COUNT] += run
        each[_SIZE] += moved
        each[_TOTAL] += total
        each[_LEAST], each[_MOST] = min(each[_LEAST], least), max(each[_MOST], most)
        each[_SMALLEST], each[_LARGEST] = min(each[_SMALLEST], size), max(each[_LARGEST], size)
        seconds[direction, second, 0] += run
        seconds[direction, second, 1] += moved
    if at != end:
        return _WRONG
    return (
        rows, first, last, latest, earliest, back, back_at, fall, fall_at, pause, early, quick
    )  # fmt: skip
