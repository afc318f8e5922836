"""fio's logs of bandwidth, IOPS and latencies (``write_bw_log`` …) → measurements.

The file's name says what was logged (``x_clat.1.log``); :mod:`~iotrial.formats.fio.log`
has the columns of each version.  A log of every I/O gives what fio itself counts: I/Os, bytes,
rates, the latency's mean and its percentiles from fio's own bins.  A log of averages gives means
over time.  Memory is flat for logs of every I/O: 100 million lines take a few hundred MiB.

A log of averages has a line for each window of time (``log_avg_msec``, or before fio 2.10 each half
second of a bandwidth or IOPS log) and direction.  A window in which nothing was done has no line,
and counts as 0.  What a line stands for, by the sources of fio (``stat.c``):

- With ``log_avg_msec``: its own window (:data:`Manner` ``own``).  Before 3.1 all directions shared
  the window's beginning, and the first window of the others is in their next line (``shifted``).
- Lines of bandwidth and IOPS with a block size are of fio before 2.10 and stand for the time since
  the sample before: of any direction since 2.0.4, where one sample writes a line for each
  (``sampled``); of its own before (``since``).

A rate is averaged over time.  A latency can only be averaged over time too, though it should be
over I/Os: how many there were is not written.  Hence there are no percentiles either.

A log has no version, and does not say whether its latencies are micro- or nanoseconds.  fio counts
microseconds before 2.99 and nanoseconds since; a log with a priority is of 3.18 or later.  The
others are decided by this rule, the first that holds:

1. An I/O cannot have lasted longer than its job had run.  Where lines would say so in
   microseconds, and more of them than could have been in flight when a ramp ended, the unit is
   nanoseconds.
2. A hundredth of the values are below 40: no device answers in 40 ns.  Microseconds.
3. The latencies added up and divided by the time are the I/Os in flight.  More than 256 in
   microseconds: nanoseconds; else microseconds.  Of averages, where nobody knows how many I/Os
   they stand for: a mean of 20,000 or more is nanoseconds.  A doubt says that this was judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from iotrial.errors import FormatError
from iotrial.formats.fio import log as fio_course
from iotrial.formats.fio.bins import Ints, counted
from iotrial.formats.fio.bins import measured as percentiles_of
from iotrial.formats.fio.log import OPERATIONS, LogLayout, LogWindows, job_of, kind_of, layout_of
from iotrial.formats.fio.log_rows import AGAIN, LogTable, extent, rows, wrong
from iotrial.formats.fio.report import LAST_BIN
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Buffer, LatencyHistogram, Recording
from iotrial.model.trial import Doubt
from iotrial_import.formats import fio_log_ios
from iotrial_import.formats.fio_log_ios import IOCounts, IOLog

MOST_AVERAGES = 5_000_000
_LATE = 1.5  # windows of the usual length are at most this much longer
_SHORT = 0.1  # of the times between lines is a window and no gap
_ENDED = 2.5  # a direction without a line for so many windows at the end did nothing
_MISSING = 0.9  # of a window: as good as a whole one
Manner = Literal["since", "sampled", "shifted", "own"]
"""What a line stands for: the time since the direction's line before, since the line before of any
direction, its window, with the first line for the window before too where that was another
direction's, or its window alone."""


@dataclass(frozen=True, slots=True)
class _Average:
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


def usual_step(log: LogWindows) -> float:
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


def sections_of(log: LogWindows, raw: str) -> list[slice]:
    """Where the times begin anew: jobs that wrote into one file, one after another.

    Raises FormatError where the times go back to something else than the beginning."""
    cuts = (np.flatnonzero(np.diff(log.times) < 0) + 1).tolist()
    window = usual_step(log)
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


def span_of(log: LogWindows) -> tuple[float, float]:
    """Start and end of the log in ms: the first window began a window before its line."""
    first = float(log.times.min())
    return max(0.0, first - usual_step(log)), float(log.times.max())


def manner_of(log: LogWindows, *, older: bool, recent: bool) -> Manner:
    """What the lines of a log stand for: ``older`` than 2.10, where they have a block size, or
    ``recent``, with a priority."""
    if not older:
        return "own" if recent else "shifted"
    each = [set(log.times[log.directions == d].tolist()) for d in np.unique(log.directions)]
    fewest = min(each, key=len)
    alike = len(fewest & set.union(*(every for every in each if every is not fewest), set()))
    return "sampled" if 2 * alike > len(fewest) else "since"


def average_of(log: LogWindows, parts: list[slice], direction: int, manner_of: Manner) -> _Average:
    """The lines of one direction, weighted by the time that each stands for, and added up over
    the parts."""
    start, end = span_of(log)
    window = usual_step(log)
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
        if manner_of == "sampled":
            every = np.unique(log.times[part])
            weight = np.diff(every, prepend=start)[np.searchsorted(every, times)]
        elif manner_of != "since":
            first = min(weight[0], 2 * window)
            weight = np.where(weight > _LATE * window, window, weight)
            if manner_of == "shifted" and log.times[part].min() < times[0]:
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
    return _Average(
        mean=mean if len(parts) == 1 else float((weight * value).sum()) / (end - start),
        busy_mean=float((weight * value).sum()) / known,
        sd=math.sqrt(squares / lasted * value.size / max(1, value.size - 1)),
        least=float(value.min()),
        most=float(value.max()),
        idle=1 - known / lasted,
        gap=lasted - known > _MISSING * window,
        top=None if log.top is None else int(log.top[chosen].max()),
    )


MICRO, NANO = 1e-6, 1e-9
UNIT = "fio-log-unit"
_SHARE = 0.01
_FLIGHT = 256
_PROOF = 4096
_MEAN = 20_000
_SUBMIT = 500


@dataclass(frozen=True, slots=True)
class UnitEvidence:
    """``early``: lines that in µs would have begun before their job; ``quick``: values below
    :data:`~iotrial_import.formats.fio_log_ios.QUICK`; ``total``: the sum of all ``count`` values;
    ``seconds``: the log's time."""

    count: int
    total: int
    early: int
    quick: int
    seconds: float
    averages: bool
    kind: str

    @property
    def flight(self) -> float:
        """I/Os in flight, if the values are microseconds."""
        return self.total * MICRO / max(self.seconds, 0.001)


def tick_of(seen: UnitEvidence) -> tuple[float, tuple[Doubt, ...]]:
    """The unit of the values in seconds, and a doubt where it was judged."""
    if seen.averages:
        if seen.early:
            return NANO, ()
        judged = NANO if seen.total >= _MEAN * seen.count else MICRO
    elif seen.early and seen.flight > _PROOF:
        return NANO, ()
    elif seen.quick >= max(1.0, seen.count * _SHARE):
        return MICRO, ()
    elif seen.kind == "slat":  # submitting keeps no queue: half a microsecond or half a millisecond
        judged = NANO if seen.total >= _SUBMIT * seen.count else MICRO
    elif seen.flight > _FLIGHT:
        judged = NANO
        if seen.early:
            return judged, ()
    else:
        judged = MICRO if not seen.early or seen.flight < 1 else NANO
    return judged, (judged_doubt(judged, "its latencies"),)


def judged_doubt(tick: float, whose: str) -> Doubt:
    """That the unit of a log's latencies was judged."""
    unit, other = ("nano", "micro") if tick == NANO else ("micro", "nano")
    return Doubt(
        UNIT,
        f"the log has no unit; {whose} are taken for {unit}seconds, and would be"
        f" {'1000 times' if tick == NANO else 'a thousandth of'} what is said, were they"
        f" {other}seconds",
        "compare with fio's own output of the run: fio counts microseconds before 2.99, "
        "nanoseconds since",
    )


_HEAD = 65536
EPOCH = 10**11  # ms: 1973; no job lasts three years
_SHORTEST = 0.1  # seconds; fio's times are whole milliseconds
_BRIEF = 1.0
_RARE = 50  # ms between windows; fio's bandwidth logs before 2.10 have 500
_KIB = 1024
_FEW = 3


class FioLog:
    """The format ``fio-log``."""

    name = "fio-log"
    title = "fio, log of bandwidth, IOPS or latency"

    def recognises(self, head: bytes, name: str) -> int:
        if name.endswith(".log.fz") and head[:1] == b"\x78":
            return 2
        shaped = layout_of(_lines(head)[:100]) is not None
        return (1 + 2 * bool(kind_of(name))) if shaped else 0

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        kind, layout = kind_of(raw), _layout(data, raw)
        if not kind:
            raise FormatError(
                f"{raw}: the name does not identify the log: bw, iops, lat, clat or slat",
                advice="Name it as fio does: job_clat.1.log",
            )
        head = _lines(bytes(data[:_HEAD]))
        how = _manner(layout, kind, head)
        torn = extent(data, raw)[1]
        made = _ios(data, raw, layout, kind) if how == "ios" else None
        log = made or _windows(data, raw, layout, older=how == "older")
        tick, judged = _unit(log, layout, kind)
        found = _Read(layout, kind, raw, how == "older", tuple(torn_doubts(raw, torn=torn)))
        if not judged:
            known = 0.0 if kind in ("bw", "iops") else tick
            return (replace(_recording(log, found, tick), tick=known),)
        other = _recording(log, found, MICRO if tick == NANO else NANO)
        mine = _recording(log, found, tick)
        return (replace(mine, doubts=(*mine.doubts, *judged), tick=tick, other=other),)


@dataclass(frozen=True, slots=True)
class _Read:
    """What is known of a log beside its lines; ``older`` than fio 2.10."""

    layout: LogLayout
    kind: str
    raw: str
    older: bool
    torn: tuple[Doubt, ...]


def _unit(log: IOLog | LogWindows, layout: LogLayout, kind: str) -> tuple[float, tuple[Doubt, ...]]:
    """The unit of its latencies, and a doubt where it was judged."""
    if kind in ("bw", "iops") or layout.recent:
        return NANO, ()
    if isinstance(log, LogWindows):
        return tick_of(_evidence(log, kind))
    total = sum(each.total for each in log.tallies.values())
    return tick_of(
        UnitEvidence(log.rows, total, log.early, log.quick, log.span, averages=False, kind=kind)
    )


def _recording(log: IOLog | LogWindows, found: _Read, tick: float) -> Recording:
    """What the log says, its latencies being in units of ``tick`` seconds."""
    bins: dict[str, LatencyHistogram] = {}
    if isinstance(log, IOLog):
        measured, doubts, bins = _of_ios(log, found, tick)
        seconds, first = log.span, log.earliest
        directions = sorted(log.tallies)
    else:
        measured, doubts, seconds = _of_windows(log, found, tick)
        first, directions = int(log.times.min()), sorted(set(log.directions.tolist()))
    return Recording(
        tool="fio",
        workload="+".join(OPERATIONS[each] for each in directions),
        measurements=tuple(measured),
        name=job_of(found.raw),
        line=1,
        treatment=_treatment(log) if isinstance(log, IOLog) else (),
        doubts=(*doubts, *found.torn),
        started=first / 1000 if first > EPOCH else 0.0,
        seconds=seconds,
        bins=bins,
        weights={f"{name}.mean": float(sum(e.counts.values())) for name, e in bins.items()},
    )


FORMAT = FioLog()


def _lines(head: bytes) -> list[bytes]:
    """The whole lines of a head; of a head that is one line, that line."""
    lines = head.split(b"\n")
    return lines[:-1] if len(lines) > 1 else lines


def _layout(data: Buffer, raw: str) -> LogLayout:
    """Raises FormatError with the line that is none of a log."""
    if data[:1] == b"\x78" and raw.endswith(".fz"):
        advice = "Unpack it with the fio that wrote it: fio --inflate-log=FILE > NAME_clat.1.log"
        raise FormatError(f"{raw}: byte 0: a compressed log (log_store_compressed)", advice=advice)
    end, _ = extent(data, raw)
    lines = _lines(bytes(data[: min(end, _HEAD)]))
    if found := layout_of(lines):
        return found
    words = [word.strip() for word in lines[0].split(b",")]
    prefixed = [number for number, word in enumerate(words) if word.startswith(b"0x")]
    for number, line in enumerate(lines, 1):
        if why := wrong(line, len(words), prefixed[0] if prefixed else -1):
            raise FormatError(f"{raw}: line {number}: {why}", advice=AGAIN)
    good, bad = 0, len(lines)
    while bad - good > 1:
        half = (good + bad) // 2
        good, bad = (half, bad) if layout_of(lines[:half]) else (good, half)
    shown = lines[bad - 1][:60].decode("latin-1")
    message = f"{raw}: line {bad}: {shown!r} is not what fio logs there, in any version"
    raise FormatError(message, advice=AGAIN)


def _manner(layout: LogLayout, kind: str, head: list[bytes]) -> str:
    """``ios``: a line for each I/O; ``averages``: one for each window; ``older``: the same before
    fio 2.10, where bandwidth and IOPS were always averages and lines have a block size."""
    table = [[word.strip() for word in line.split(b",")] for line in head]
    size, value, offset = (layout.at(name) for name in ("size", "value", "offset"))
    if size < 0:
        return "ios" if kind not in ("bw", "iops") else "older"
    if all(row[size].strip(b"0") == b"" for row in table):
        return "averages"
    if layout.recent or kind not in ("bw", "iops"):
        return "ios"
    if kind == "iops":
        return "ios" if all(row[value] == b"1" for row in table) else "older"
    if offset >= 0 and any(row[offset].strip(b"0") for row in table):
        return "ios"  # averages have no offset
    times: dict[bytes, list[int]] = {}
    for row in table:
        times.setdefault(row[layout.at("direction")], []).append(int(row[0]))
    apart = [b - a for each in times.values() for a, b in pairwise(each)]
    return "older" if all(each < 0 or each >= _RARE for each in apart) else "ios"


def _ios(data: Buffer, raw: str, layout: LogLayout, kind: str) -> IOLog:
    made = IOLog()
    take = partial(fio_log_ios.digest, layout, kind)
    swift = fio_log_ios.reader(layout, kind, len(data))
    for block in rows(data, raw, LogTable(len(layout.names), take, layout.hexadecimal, swift)):
        made.add(block.digested)
    time, row = made.fall
    if time > made.first + fio_log_ios.BEGINNING:
        message = (
            f"{raw}: line {row + 1}: the time goes back to {time} ms, and not to the beginning"
        )
        raise FormatError(message, advice=AGAIN)
    return made


def _windows(data: Buffer, raw: str, layout: LogLayout, *, older: bool) -> LogWindows:
    take = partial(fio_course.windows_of, layout, older=older)
    parts = []
    for block in rows(data, raw, LogTable(len(layout.names), take, layout.hexadecimal)):
        parts.append(block.digested)
        most = MOST_AVERAGES
        if block.line + block.count > most:
            message = f"{raw}: line {block.line}: more than {most} averages"
            raise FormatError(message, advice="Give a part of it.")
    return fio_course.joined(parts)


def _of_ios(
    log: IOLog, found: _Read, tick: float
) -> tuple[list[Measurement], list[Doubt], dict[str, LatencyHistogram]]:
    kind, raw = found.kind, found.raw
    measured: list[Measurement] = []
    bins: dict[str, LatencyHistogram] = {}
    doubts = [*_disorder(log, raw), *_pause(log.pause / 1000, log.span, log.rows, raw)]
    if log.span < _BRIEF:
        doubts.append(
            Doubt(
                "fio-log-short",
                f"{raw}: {log.rows} I/Os in {log.span:g} s, by a clock of whole milliseconds"
                + ("" if log.span >= _SHORTEST else ": no rates are given"),
                "run it longer",
            )
        )
    for direction, tally in sorted(log.tallies.items()):
        operation = OPERATIONS[direction]
        for name, value, unit in _counted(tally, log):
            measured.append(Measurement(f"{operation}.{name}", value, unit, raw=raw))
        if kind not in ("bw", "iops"):
            histogram = LatencyHistogram(tick, LAST_BIN[tick], counted(tally.bins, tick))
            bins[f"{operation}.{kind}"] = histogram
            measured += _latencies(tally, f"{operation}.{kind}", histogram, raw)
    return measured, doubts, bins


def _counted(tally: IOCounts, log: IOLog) -> Iterator[tuple[str, float, str]]:
    yield "ios", float(tally.count), ""
    if tally.largest:
        yield "bytes", float(tally.size), "bytes"
    if log.span < _SHORTEST:
        return
    yield "iops", tally.count / log.span, "1/s"
    if tally.largest:
        yield "bw", tally.size / log.span, "bytes/s"
    for name, value in fio_log_ios.spreads(tally, log):
        yield name, value, "1/s" if name.startswith("iops") else "bytes/s"


def _latencies(
    tally: IOCounts, name: str, bins: LatencyHistogram, raw: str
) -> Iterator[Measurement]:
    tick = bins.tick
    yield Measurement(f"{name}.mean", tally.total / tally.count * tick, "s", raw=raw)
    yield Measurement(f"{name}.max", tally.most * tick, "s", raw=raw)
    yield from percentiles_of(name, bins, raw)


def _disorder(log: IOLog, raw: str) -> Iterator[Doubt]:
    if log.back:
        yield Doubt(
            "fio-log-jobs",
            f"{raw}: line {log.back_at + 1}: the time goes back, there and {log.back - 1} times "
            "more: several jobs in one file; taken as side by side, their rates added up",
            "were they runs one after another, the rates are too high: give a file for each "
            "(per_job_logs=1)",
        )


def _pause(longest: float, seconds: float, rows: int, raw: str) -> Iterator[Doubt]:
    if longest > seconds / 2 and longest > _BRIEF and rows > _FEW:
        yield Doubt(
            "fio-log-pause",
            f"{raw}: no line for {longest:g} of {seconds:g} s: a device that hung, or a wrong time",
            "check the times around it; the rates include this time",
        )


def _treatment(log: IOLog) -> tuple[tuple[str, str], ...]:
    least = min(each.smallest for each in log.tallies.values())
    most = max(each.largest for each in log.tallies.values())
    if not most or least != most:
        return ()
    for unit, letter in ((2**20, "m"), (2**10, "k")):
        if most % unit == 0:
            return (("bs", f"{most // unit}{letter}"),)
    return (("bs", str(most)),)


def torn_doubts(raw: str, *, torn: bool) -> Iterator[Doubt]:
    if torn:
        yield Doubt(
            "fio-log-torn",
            f"{raw}: its last line does not end: it is left out, and more may be missing",
            "repeat the run: fio was killed, or the disk was full",
        )


def _of_windows(
    log: LogWindows, about: _Read, tick: float
) -> tuple[list[Measurement], list[Doubt], float]:
    layout, kind, raw, older = about.layout, about.kind, about.raw, about.older
    parts = sections_of(log, raw)
    manner: Manner = manner_of(log, older=older, recent=layout.recent)
    start, end = span_of(log)
    found = {
        direction: average_of(log, parts, direction, manner)
        for direction in sorted(set(log.directions.tolist()))
    }
    seconds = (end - start) / 1000
    pause = float(np.diff(np.sort(log.times)).max(initial=0)) / 1000
    doubts = [*_joined_jobs(parts, raw), *_pause(pause, seconds, log.times.size, raw)]
    if kind not in ("bw", "iops"):
        doubts.append(_LATENCY)
        return list(_window_latencies(found, kind, tick, raw)), doubts, seconds
    if kind == "iops" and not older and bool((log.values == 1).all()):
        doubts.append(_COMPRESSED)
        return [], doubts, seconds
    if not layout.recent and not older and any(each.idle > 0.01 for each in found.values()):  # noqa: PLR2004
        doubts.append(_GAPS)
    scale, unit = (_KIB, "bytes/s") if kind == "bw" else (1, "1/s")
    measured = []
    for direction, each in found.items():
        values = {kind: each.mean * scale}
        if len(parts) == 1 and log.times.size > 1:
            values[f"{kind}.sd"] = each.sd * scale
            if kind == "iops":
                values["iops.min"] = 0.0 if each.gap else each.least
                values["iops.max"] = each.most if each.top is None else float(each.top)
        measured += [
            Measurement(f"{OPERATIONS[direction]}.{name}", value, unit, raw=raw)
            for name, value in values.items()
        ]
    return measured, doubts, seconds


def _evidence(log: LogWindows, kind: str) -> UnitEvidence:
    early = log.values > (log.times + 2) * 1000
    total = sum(log.values.tolist())
    return UnitEvidence(
        log.values.size, total, int(early.sum()), 0, float(log.times.max()) / 1000,
        averages=True, kind=kind,
    )  # fmt: skip


def _window_latencies(
    found: dict[int, _Average], kind: str, tick: float, raw: str
) -> Iterator[Measurement]:
    for direction, each in found.items():
        name = f"{OPERATIONS[direction]}.{kind}"
        yield Measurement(f"{name}.mean", each.busy_mean * tick, "s", raw=raw)
        if each.top is not None:
            yield Measurement(f"{name}.max", each.top * tick, "s", raw=raw)


def _joined_jobs(parts: list[slice], raw: str) -> Iterator[Doubt]:
    if len(parts) > 1:
        yield Doubt(
            "fio-log-jobs",
            f"{raw}: line {parts[1].start + 1}: the time begins again, in all {len(parts)}"
            " times: several jobs in one file; taken as side by side, their rates added up",
            "were they runs one after another, the rates are too high: give a file for each",
        )


_LATENCY = Doubt(
    "fio-log-averages",
    "a log of averages (log_avg_msec): the mean latency is weighted by time, not by I/Os, and "
    "there are no percentiles; with log_max_value each line is a maximum, and the file does "
    "not say so",
    "log every I/O, or use json+ output or write_hist_log",
)
_GAPS = Doubt(
    "fio-log-gaps",
    "times without a line count as 0, as fio means them since 2.10; before, the line after a time "
    "without any I/O stood for that time too",
    "compare with fio's own output of the run",
)
_COMPRESSED = Doubt(
    "fio-log-ones",
    "every window says 1: with log_compression fio averages the ones of each I/O: no rate",
    "remove log_compression, or log_avg_msec",
)
