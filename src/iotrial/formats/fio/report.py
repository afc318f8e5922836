"""One report of fio, from whichever of its outputs: its jobs, what they measured, what is doubtful.

Of each job there are its directions and the latencies of each.  Units are base units here already.
What differs between versions is settled here:

* fio 3 counts latencies in nanoseconds (``clat_ns``), fio 2 in microseconds (``clat``);
* ``io_bytes`` is bytes since fio 3 (which added ``io_kbytes``) and KiB before it;
* ``bw`` is KiB/s everywhere; ``bw_bytes`` (fio 3) is used where it is there;
* fio 2.1 has neither ``total_ios`` nor a fractional ``iops``, and no version before 2.2 says how
  many I/Os a latency stands for (``N``).

The numbers of several jobs (``all``) are sums for rates and bytes, means weighted by the number
of I/Os, and percentiles of the merged histograms; where there is no histogram for each of several
jobs, there is no percentile either.  Jobs of different groups ran one after another: their rates
are averaged over the time.

fio exits 0 in most cases that are doubted here.  Whether it kept its queue as deep as it was told
is ``iodepth_level`` against ``iodepth``: fio says what share of its I/Os it submitted with how many
in flight: ``1``, ``2``, ``4`` … ``32`` and ``>=64``, where ``16`` stands for 16 to 31.  With a
synchronous engine (``psync``) it is always 1, whatever ``iodepth`` says: a common mistake, and a
silent one.  A job that is to be slow (``rate``, ``thinktime``) is not to fill its queue.

Sources: HOWTO of fio ("JSON+ output", "IO depths"), outputs of the versions named; stat.c,
``io_u_map`` (levels are powers of two).
"""

from __future__ import annotations

import errno
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats.fio.bins import PERCENTILES, added_up, middle, percentiles
from iotrial.model.measurement import Measurement, of_section
from iotrial.model.recording import LatencyHistogram
from iotrial.model.trial import Doubt
from iotrial.units import format_value

OPERATIONS = ("read", "write", "trim", "mixed")
STAGES = ("slat", "clat", "lat")
_LARGEST = 2.0**64  # fio's counters have 64 bits: more is not a number fio wrote

# The last bin of fio's histogram.  A latency beyond it is counted in it, so a percentile there
# only says "at least this": 29 groups of 64 bins in ns (fio 3), 19 groups in µs (fio 2).
LAST_BIN = {1e-9: 17_112_760_320, 1e-6: 16_711_680}


def censored(value: int, tick: float) -> bool:
    """Whether a percentile of ``value`` ticks only says "at least this"."""
    if tick == 1e-9:  # noqa: PLR2004
        return value >= LAST_BIN[tick]
    # The terse output of fio 3 is in µs too; its bins are those of fio 3.
    return value == LAST_BIN[1e-6] or value >= LAST_BIN[1e-9] // 1000


@dataclass(frozen=True, slots=True)
class FioLatency:
    """One stage (slat, clat, lat) of one direction.  ``tick`` is the unit of ``bins`` and
    ``listed`` in seconds; ``listed`` are the percentiles fio printed itself.  ``most`` and ``sd``
    (the standard deviation) are in seconds, None where this output does not say them."""

    count: int
    mean: float
    tick: float
    bins: Mapping[int, int]
    listed: Mapping[float, int]
    most: float | None = None
    sd: float | None = None

    def percentiles(self) -> Mapping[float, int]:
        return percentiles(self.bins) if self.bins else self.listed


_NO_LATENCY = FioLatency(0, 0.0, 1e-9, {}, {})


@dataclass(frozen=True, slots=True)
class FioDirection:
    """Reads, writes or trims of one job.  ``seconds`` is how long fio says they took."""

    operation: str
    ios: int
    bytes: float
    seconds: float
    iops: float
    bw: float
    incomplete: int
    latencies: Mapping[str, FioLatency]


@dataclass(frozen=True, slots=True)
class FioOfferedRate:
    """What a job offers: ``rate`` (1/s) by all its ``clients``; and the ``bound`` in seconds of a
    ``percentile`` of the response time."""

    rate: float
    clients: int
    percentile: float
    bound: float


@dataclass(frozen=True, slots=True)
class FioJob:
    """One job of a report.  ``label`` is its name and ordinal; ``group`` the number of the set of
    jobs it ran with; ``usr`` and ``sys`` shares of one core; ``attained`` None where no steady
    state was asked for; ``offer`` of a job of offered rates."""

    label: str
    group: int
    error: int
    seconds: float
    usr: float
    sys: float
    attained: bool | None
    directions: tuple[FioDirection, ...]
    sync: FioLatency | None = None
    offer: FioOfferedRate | None = None

    @property
    def ios(self) -> int:
        """I/Os of every kind, each counted once (``mixed`` repeats the others)."""
        apart = [each.ios for each in self.directions if each.operation != "mixed"]
        return sum(apart) if apart else sum(each.ios for each in self.directions)

    @property
    def measured(self) -> float:
        """The longest time any of its directions was measured, in seconds."""
        return max((each.seconds for each in self.directions), default=0.0)


def mapping(value: object, where: str) -> Mapping[str, Any]:
    """``value`` if it is a JSON object.  Raises :class:`FormatError`."""
    if not isinstance(value, dict):
        raise FormatError(f"{where} is not a JSON object")
    return value


def _number(record: Mapping[str, Any], key: str, where: str) -> float | None:
    """A finite number ≥ 0; None where there is none, or where fio divided by zero (nan)."""
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"{where}.{key} is a {type(value).__name__}, not a number")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not 0 <= value <= _LARGEST:
        raise FormatError(f"{where}.{key} is {str(value)[:40]}: outside what fio can count")
    return float(value)


def _count(record: Mapping[str, Any], key: str, where: str) -> int | None:
    value = _number(record, key, where)
    return None if value is None else int(value)


def _histogram(raw: object, where: str) -> dict[int, int]:
    """Bin value → count.  Other names among the bins, or other sizes than known: the histogram
    is left out rather than guessed at."""
    bins: dict[int, int] = {}
    indexed = "FIO_IO_U_PLAT_BITS" in mapping(raw, where)
    for key, count in mapping(raw, where).items():
        if indexed and key in _OF_INDEXED:
            if count != _OF_INDEXED[key]:
                return {}
            continue
        if not (key.isascii() and key.isdigit()):
            return {}
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _LARGEST:
            raise FormatError(f"{where}.{key[:40]} is not a number of I/Os")
        if len(key) > 20:  # noqa: PLR2004 (digits of 2^64)
            raise FormatError(f"{where}.{key[:40]} is outside what fio can count")
        if count or not indexed:
            value = int(key)
            bins[
                middle(value) if indexed and value < _OF_INDEXED["FIO_IO_U_PLAT_NR"] else value
            ] = count
    return bins


# What the json+ of fio 2.6 … 2.16 says of bins that it names by number, not by value.
_OF_INDEXED = {"FIO_IO_U_PLAT_BITS": 6, "FIO_IO_U_PLAT_VAL": 64, "FIO_IO_U_PLAT_NR": 1216}


def _listed(raw: object, where: str) -> dict[float, int]:
    record = mapping(raw, where)
    found: dict[float, int] = {}
    for p in PERCENTILES:
        value = _count(record, f"{p:.6f}", where)
        if value is None:  # fio 2.0
            value = _count(record, f"{p:.2f}", where)
        if value is not None:
            found[p] = value
    return found


def _latency(record: Mapping[str, Any], stage: str, ios: int, where: str) -> FioLatency | None:
    """The stage, or None where fio took no such times (``gtod_reduce``, synchronous engines)."""
    key, tick = (f"{stage}_ns", 1e-9) if f"{stage}_ns" in record else (stage, 1e-6)
    if key not in record:
        return None
    at = f"{where}.{key}"
    raw = mapping(record[key], at)
    mean = _number(raw, "mean", at)
    count = _count(raw, "N", at)
    if count is None:  # fio 2: every I/O had its times taken, or none had
        count = ios if mean else 0
    if mean is None or not count:
        return None
    least, most = _number(raw, "min", at), _number(raw, "max", at)
    if least is not None and most is not None and not least - 1 <= mean <= most + 1:
        raise FormatError(f"{at}: mean {mean:g} does not lie between {least:g} and {most:g}")
    bins = _histogram(raw.get("bins", {}), f"{at}.bins")
    listed = _listed(raw.get("percentile", {}), f"{at}.percentile")
    spread = _number(raw, "stddev", at)
    return FioLatency(
        count, mean * tick, tick, bins, listed,
        most=None if most is None else most * tick,
        sd=None if spread is None else spread * tick,
    )  # fmt: skip


def direction_from(record: Mapping[str, Any], operation: str, where: str) -> FioDirection | None:
    """One direction of a job; None where it moved nothing.  Raises :class:`FormatError`."""
    runtime = (_number(record, "runtime", where) or 0.0) / 1000
    iops = _number(record, "iops", where) or 0.0
    ios = _count(record, "total_ios", where)
    if ios is None:
        ios = round(iops * runtime)
    if not ios:
        return None
    scale = 1 if "io_kbytes" in record else 1024
    bw = _number(record, "bw_bytes", where)
    if bw is None:
        bw = (_number(record, "bw", where) or 0.0) * 1024
    found = {stage: _latency(record, stage, ios, where) for stage in STAGES}
    short = (_count(record, "short_ios", where) or 0) + (_count(record, "drop_ios", where) or 0)
    return FioDirection(
        operation=operation,
        ios=ios,
        bytes=(_number(record, "io_bytes", where) or 0.0) * scale,
        seconds=runtime,
        iops=iops,
        bw=bw,
        incomplete=short,
        latencies={stage: each for stage, each in found.items() if each},
    )


def job_from(record: Mapping[str, Any], label: str, where: str) -> FioJob:
    """One entry of ``jobs`` or ``client_stats``.  Raises :class:`FormatError`."""
    found = [
        direction_from(mapping(record[operation], f"{where}.{operation}"), operation,
                  f"{where}.{operation}")
        for operation in OPERATIONS
        if operation in record
    ]  # fmt: skip
    directions = tuple(each for each in found if each)
    longest = max((each.seconds for each in directions), default=0.0)
    seconds = _number(record, "job_runtime", where)
    return FioJob(
        label=label,
        group=_count(record, "groupid", where) or 0,
        error=_count(record, "error", where) or 0,
        seconds=longest if seconds is None else seconds / 1000,
        usr=(_number(record, "usr_cpu", where) or 0.0) / 100,
        sys=(_number(record, "sys_cpu", where) or 0.0) / 100,
        attained=_attained(record, where),
        directions=directions,
        sync=_sync(record, where),
        offer=_offer(record),
    )


_OFFER = re.compile(r"offered rates: response p(\d{1,2}(?:\.\d+)?) within (\d+(?:\.\d+)?) us")


def offer_text(percentile: float, bound: float) -> str:
    """The ``description`` of a job of offered rates, by which its output is known as such."""
    return f"offered rates: response p{percentile:g} within {bound * 1e6:.10g} us"


def _offer(record: Mapping[str, Any]) -> FioOfferedRate | None:
    options = _options(record.get("job options"))
    told = _OFFER.fullmatch(str(record.get("desc", "")))
    rate, count = str(options.get("rate_iops", "")), str(options.get("numjobs", "1"))
    if not (told and rate.isdecimal() and count.isdecimal()):
        return None
    return FioOfferedRate(
        float(rate) * int(count), int(count), float(told[1]), float(told[2]) / 1e6
    )


def latency_of(parts: Sequence[FioDirection]) -> dict[float, int] | None:
    """All I/Os by their latency in seconds, from the submission on; None without a histogram."""
    whole = _merged([each.latencies.get("lat", _NO_LATENCY) for each in parts])
    return {value * whole.tick: n for value, n in whole.bins.items() if n} if whole else None


def _sync(record: Mapping[str, Any], where: str) -> FioLatency | None:
    """fio 3 (3.3 and later) has ``sync.lat_ns`` and ``sync.total_ios`` beside read and write."""
    said = record.get("sync")
    if not isinstance(said, dict):
        return None
    at = f"{where}.sync"
    count = _count(said, "total_ios", at) or 0
    return _latency(said, "lat", count, at) if count else None


def _attained(record: Mapping[str, Any], where: str) -> bool | None:
    if "steadystate" not in record:
        return None
    state = mapping(record["steadystate"], f"{where}.steadystate")
    return bool(_count(state, "attained", f"{where}.steadystate"))


def measurements(jobs: Sequence[FioJob], raw: str) -> tuple[Measurement, ...]:
    """Those of ``all`` first, then job by job.

    Metrics per operation that moved something (read, write, trim, mixed): ``iops`` (1/s), ``bw``
    (bytes/s), ``bytes``; ``slat``, ``clat`` and ``lat`` with ``.mean`` and, where fio took them,
    ``.p50`` … ``.p99.99``, ``.max`` and ``.sd`` (s).  ``sync.lat`` is that of fsync, fdatasync
    and sync_file_range.  ``total.iops`` and ``total.bw`` are of all operations.  Per job:
    ``cpu.usr`` and ``cpu.sys`` (shares of one core), ``cpu.per_io`` (s).
    """
    return (*_together(jobs, raw), *(each for one in jobs for each in _alone(one, raw)))


ONE_AFTER_ANOTHER = "one-after-another"
"""The doubt about numbers of all jobs, where some began when others had ended."""


def of_sections(jobs: Sequence[FioJob], raw: str) -> Iterator[Measurement]:
    """The same of each section of a job file that has several: over its jobs, its name in
    brackets (``read.iops[4k-read]``)."""
    by_section: dict[tuple[str, int], list[FioJob]] = {}
    for one in jobs:
        by_section.setdefault((one.label.rpartition("#")[0], one.group), []).append(one)
    names = section_names(by_section)
    for name, own in zip(names, by_section.values(), strict=True) if len(names) > 1 else ():
        for each in _together(own, raw):
            yield replace(each, metric=of_section(each.metric, name))


def section_names(sections: Iterable[tuple[str, int]]) -> list[str]:
    """What sections are called, by their names and groups: ``mixed``, and ``mixed(2)`` for one
    that has the name of an earlier one, and begins when that has ended."""
    seen: Counter[str] = Counter()
    found = []
    for name, _ in sections:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}({seen[name]})")
    return found


def bins(jobs: Sequence[FioJob]) -> dict[str, LatencyHistogram]:
    """The histogram of all jobs' I/Os by the latency's name, where each of them has one."""
    found: dict[str, LatencyHistogram] = {}
    for name, parts in _shared(jobs):
        whole = _merged(parts)
        if whole is not None:
            found[name] = LatencyHistogram(whole.tick, LAST_BIN[whole.tick], whole.bins)
    return found


def weights(jobs: Sequence[FioJob]) -> dict[str, float]:
    """What the means of all jobs are means over: I/Os, or seconds for the shares of CPU."""
    found = {f"{name}.mean": float(sum(o.count for o in each)) for name, each in _shared(jobs)}
    time = sum(one.seconds for one in jobs)
    if time:
        found |= {"cpu.usr": time, "cpu.sys": time}
    if ios := sum(one.ios for one in jobs):
        found["cpu.per_io"] = float(ios)
    return found


def _shared(jobs: Sequence[FioJob]) -> Iterator[tuple[str, list[FioLatency]]]:
    """The latencies that every job with the operation has, by name."""
    for operation in OPERATIONS:
        parts = [each for one in jobs for each in one.directions if each.operation == operation]
        for stage in STAGES:
            found = [each.latencies[stage] for each in parts if stage in each.latencies]
            if found and len(found) == len(parts):
                yield f"{operation}.{stage}", found
    synced = [one.sync for one in jobs if one.sync]
    if synced:
        yield "sync.lat", synced


def _alone(one: FioJob, raw: str) -> Iterator[Measurement]:
    for each in one.directions:
        rates = (each.iops, each.bw, each.bytes)
        yield from _rates(each.operation, rates, one.label, raw)
        for stage, latency in each.latencies.items():
            yield from _latencies(f"{each.operation}.{stage}", [latency], one.label, raw)
    if one.sync:
        yield from _latencies("sync.lat", [one.sync], one.label, raw)
    yield from _processor([one], one.label, raw)


def _together(jobs: Sequence[FioJob], raw: str) -> Iterator[Measurement]:
    for operation in OPERATIONS:
        mine = [
            (one.group, each)
            for one in jobs
            for each in one.directions
            if each.operation == operation
        ]
        if not mine:
            continue
        parts = [each for _, each in mine]
        rates = (*_summed(mine), sum(each.bytes for each in parts))
        yield from _rates(operation, rates, "all", raw)
        for stage in STAGES:
            found = [each.latencies[stage] for each in parts if stage in each.latencies]
            if len(found) == len(parts):
                yield from _latencies(f"{operation}.{stage}", found, "all", raw)
    if synced := [one.sync for one in jobs if one.sync]:
        yield from _latencies("sync.lat", synced, "all", raw)
    yield from _total(jobs, raw)
    yield from _processor(jobs, "all", raw)


def _total(jobs: Sequence[FioJob], raw: str) -> Iterator[Measurement]:
    """Of all operations (``mixed`` repeats them)."""
    mine = [(one.group, each) for one in jobs for each in one.directions]
    apart = [part for part in mine if part[1].operation != "mixed"] or mine
    if apart:
        iops, bw = _summed(apart)
        yield from (
            Measurement(f"total.{name}", value, unit, "all", raw)
            for name, value, unit in (("iops", iops, "1/s"), ("bw", bw, "bytes/s"))
            if value
        )


def _summed(parts: Sequence[tuple[int, FioDirection]]) -> tuple[float, float]:
    """IOPS and bandwidth: sums within a group, averages over time across groups (which ran one
    after another)."""
    groups = [
        [each for _, each in members]
        for _, members in groupby(sorted(parts, key=lambda part: part[0]), lambda part: part[0])
    ]
    spans = [max(each.seconds for each in group) for group in groups]
    total = sum(spans)
    if len(groups) == 1 or not total:
        spans, total = [1.0] * len(groups), 1.0
    iops = sum(sum(d.iops for d in g) * s for g, s in zip(groups, spans, strict=True)) / total
    bw = sum(sum(d.bw for d in g) * s for g, s in zip(groups, spans, strict=True)) / total
    return iops, bw


def _rates(
    operation: str, rates: tuple[float, float, float], label: str, raw: str
) -> Iterator[Measurement]:
    iops, bw, size = rates
    if iops:
        yield Measurement(f"{operation}.iops", iops, "1/s", label, raw)
    if bw:
        yield Measurement(f"{operation}.bw", bw, "bytes/s", label, raw)
    yield Measurement(f"{operation}.bytes", size, "bytes", label, raw)


def _latencies(
    name: str, parts: Sequence[FioLatency], label: str, raw: str
) -> Iterator[Measurement]:
    count = sum(each.count for each in parts)
    mean = sum(each.mean * each.count for each in parts) / count
    yield Measurement(f"{name}.mean", mean, "s", label, raw)
    most, spread = [each.most for each in parts], _spread(parts, mean, count)
    if all(each is not None for each in most):
        yield Measurement(f"{name}.max", max(filter(None, most), default=0.0), "s", label, raw)
    if spread is not None:
        yield Measurement(f"{name}.sd", spread, "s", label, raw)
    whole = parts[0] if len(parts) == 1 else _merged(parts)
    if whole is None:
        return
    for p, value in whole.percentiles().items():
        beyond = censored(value, whole.tick)
        seconds = value * whole.tick
        yield Measurement(f"{name}.p{p:g}", seconds, "s", label, raw, "high" if beyond else "")


def _spread(parts: Sequence[FioLatency], mean: float, count: int) -> float | None:
    """The standard deviation of all their I/Os together: within the parts and between them."""
    squares = 0.0
    for each in parts:
        if each.sd is None:
            return None
        squares += each.count * (each.sd**2 + (each.mean - mean) ** 2)
    return math.sqrt(squares / count)


def _merged(parts: Sequence[FioLatency]) -> FioLatency | None:
    """One latency with all their I/Os, or None where a histogram is missing."""
    if not all(each.bins for each in parts) or len({each.tick for each in parts}) > 1:
        return None
    return FioLatency(0, 0.0, parts[0].tick, added_up(each.bins for each in parts), {})


def _processor(jobs: Sequence[FioJob], label: str, raw: str) -> Iterator[Measurement]:
    """CPU of the load itself, averaged over the jobs' time as fio's group reports are."""
    time = sum(one.seconds for one in jobs)
    if not time:
        return
    usr = sum(one.usr * one.seconds for one in jobs)
    system = sum(one.sys * one.seconds for one in jobs)
    yield Measurement("cpu.usr", usr / time, "fraction", label, raw)
    yield Measurement("cpu.sys", system / time, "fraction", label, raw)
    ios = sum(one.ios for one in jobs)
    if ios:
        yield Measurement("cpu.per_io", (usr + system) / ios, "s", label, raw)


_BUSY = 0.95  # share of one core above which a job waits for itself, not for the disk
_SHORT = 0.99  # a job asked for 1 s may report 0.999
_APART = 0.02  # tolerated difference between iops and total_ios / runtime
_COMMITS = 10  # times what a write takes
_UNEVEN = 0.10  # tolerated difference between the times jobs ran
# What a client says of a log that its server sent in pieces that do not decompress: the last line
# once for each log, the others only why (client.c, fio 3.33 and 3.42).
_LOST = "fio: failed converting IO log"
_WHY_LOST = ("fio: inflate error", "fio: failed decompressing log")


def doubts_about(
    jobs: Sequence[FioJob], said: Sequence[str], repeated: frozenset[str]
) -> tuple[Doubt, ...]:
    """Every doubt about a report: its ``jobs``, the messages fio printed around it (``said``),
    and the keys that its JSON gives two values (``repeated``)."""
    return (
        *_words(said),
        *_whole(jobs),
        *(doubt for one in jobs for doubt in _job(one)),
        *_in_concert(jobs),
        *_keys(repeated),
    )


def _words(said: Sequence[str]) -> Iterator[Doubt]:
    if lost := said.count(_LOST):
        what = f"{lost} of its jobs' logs did not survive the way from fio's server to its client"
        advice = 'its numbers are whole; without start = "server" (fio --client) logs are not sent'
        yield Doubt("fio-log-lost", what, advice)
    for line in dict.fromkeys(said):
        if line == _LOST or line.startswith(_WHY_LOST):
            continue
        if "terminating on signal" in line or "not whole" in line:
            advice = "repeat the trial: fio was stopped before it was done"
            yield Doubt("fio-cut-short", line, advice, invalid=True)
        else:
            yield Doubt("fio-said", line, "read fio's message: an option may not have worked")


def _whole(jobs: Sequence[FioJob]) -> Iterator[Doubt]:
    if not any(one.ios for one in jobs):
        advice = "check fio's stderr, ramp_time, runtime and size"
        yield Doubt("no-io", "fio measured no I/O at all", advice, invalid=True)
    elif not any(one.measured for one in jobs):
        advice = "give the load more time: runtime, or a larger size"
        yield Doubt("no-time", "fio measured zero seconds", advice, invalid=True)


def _job(one: FioJob) -> Iterator[Doubt]:
    if one.error:
        what = f"job {one.label} ended with error {one.error} ({_meaning(one.error)})"
        yield Doubt("fio-error", what, "check fio's stderr for the failing I/O", invalid=True)
    if one.attained is False:
        what = f"job {one.label} did not reach the steady state it was to reach"
        advice = "give it more runtime, or a wider steadystate limit"
        yield Doubt("steady-state", what, advice, invalid=True)
    if one.usr + one.sys > _BUSY:
        share = (one.usr + one.sys) * 100
        what = f"job {one.label} kept its core {share:.0f} % busy: it may not fill the queue"
        advice = "spread the load with numjobs, or expect this of a polling engine (hipri)"
        yield Doubt("generator-bound", what, advice)
    if 0 < one.measured < _SHORT:
        what = f"job {one.label} was measured for only {one.measured:.3f} s"
        yield Doubt("short", what, "give the load at least a second: runtime, or a larger size")
    yield from _synced(one)
    for each in one.directions:
        yield from _direction(each, one.label)


def _synced(one: FioJob) -> Iterator[Doubt]:
    """Writes into memory are quick; who waits for them waits for the fsync."""
    write = next((each for each in one.directions if each.operation == "write"), None)
    took = write and (write.latencies.get("lat") or write.latencies.get("clat"))
    if took and one.sync and one.sync.mean > _COMMITS * took.mean:
        what = (
            f"job {one.label}: a write took {format_value(took.mean, 's')}, and an fsync "
            f"{format_value(one.sync.mean, 's')}: the write's latency is not that of a commit"
        )
        advice = 'decide by the commits too: primary or guardrail "sync.lat.p99"'
        yield Doubt("sync-apart", what, advice)


def _meaning(error: int) -> str:
    return os.strerror(error) if error in errno.errorcode else "not an errno"


def _direction(each: FioDirection, label: str) -> Iterator[Doubt]:
    if each.incomplete:
        what = f"job {label}: {each.incomplete} {each.operation}s were short or dropped"
        yield Doubt("short-io", what, "the target ended early or failed: check size and dmesg")
    if not each.seconds:
        return
    counted = each.ios / each.seconds
    # fio's runtime has a resolution of 1 ms, and iops was a whole number until fio 2.1
    slack = counted * (_APART + 0.001 / each.seconds) + 1.0
    if abs(each.iops - counted) > slack:
        what = f"job {label}: {each.iops:.0f} {each.operation} IOPS, but {counted:.0f} by its count"
        yield Doubt("inconsistent", what, "do not use these numbers before you know why")
    moved = each.bytes / each.seconds
    if abs(each.bw - moved) > moved * (_APART + 0.001 / each.seconds) + 1024:
        what = (
            f"job {label}: {each.bw:.0f} bytes/s of {each.operation}s, but {moved:.0f} by its count"
        )
        yield Doubt("inconsistent", what, "do not use these numbers before you know why")


def _in_concert(jobs: Sequence[FioJob]) -> Iterator[Doubt]:
    groups = {one.group for one in jobs}
    if len(groups) > 1:
        what = f"{len(groups)} groups of jobs ran one after another: rates are averages over time"
        yield Doubt(ONE_AFTER_ANOTHER, what, "give each stage a workload of its own")
    for group in sorted(groups):
        spans = [one.measured for one in jobs if one.group == group and one.measured]
        if spans and min(spans) < max(spans) * (1 - _UNEVEN):
            what = f"jobs ran between {min(spans):.3f} s and {max(spans):.3f} s: not all together"
            yield Doubt("uneven", what, "give all jobs one runtime, with time_based")


def _keys(repeated: frozenset[str]) -> Iterator[Doubt]:
    if repeated:
        names = ", ".join(sorted(repeated)[:5])
        what = f"the JSON gives two values for {names}; the last one was taken"
        yield Doubt("two-values", what, "check the raw file")


SHARE = 0.5
"""Of the I/Os: so many with less than half the depth are no ramp at the ends."""


_SLOW = ("rate", "rate_iops", "thinktime", "latency_target")


def queue_doubts(report: Mapping[str, Any], entries: list[Any]) -> Iterator[Doubt]:
    """The doubt about each job of ``entries`` whose queue was seldom half full."""
    everywhere = report.get("global options")
    for entry in entries:
        options = {**_options(everywhere), **_options(entry.get("job options"))}
        asked, levels = _depth_asked(options.get("iodepth")), _options(entry.get("iodepth_level"))
        shallow = sum(
            _share(share) for level, share in levels.items() if _highest(level) < asked / 2
        )
        held_back = options.keys() & set(_SLOW)
        if asked > 1 and not held_back and shallow > SHARE * 100:
            engine = str(options.get("ioengine", "its default engine"))[:40]
            what = (
                f"job {str(entry.get('jobname'))[:80]!r} was to keep {asked} I/Os in flight, but"
                f" {shallow:.0f} % of them were submitted with less than half of that ({engine})"
            )
            advice = (
                "Take an asynchronous engine (io_uring, libaio) with direct I/O; with a"
                " synchronous one, numjobs is the depth."
            )
            yield Doubt("queue-not-filled", what, advice)


def _options(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _depth_asked(value: object) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 1  # noqa: PLR2004


def _share(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _highest(level: str) -> float:
    """The most I/Os in flight that a level stands for."""
    return 2 * int(level) - 1 if level.isascii() and level.isdigit() else float("inf")
