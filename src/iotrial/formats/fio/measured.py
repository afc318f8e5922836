"""Jobs of fio, from whichever of its outputs → measurements: each job's own, and all together.

The numbers of several jobs (``all``) are sums for rates and bytes, means weighted by the number
of I/Os, and percentiles of the merged histograms; where there is no histogram for each of several
jobs, there is no percentile either.  Jobs of different groups ran one after another: their rates
are averaged over the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from iotrial.formats.fio.report import (
    LAST_BIN,
    OPERATIONS,
    STAGES,
    Direction,
    Job,
    Latency,
    censored,
)
from iotrial.formats.histogram import merged
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Bins


def measurements(jobs: Sequence[Job], raw: str) -> tuple[Measurement, ...]:
    """Those of ``all`` first, then job by job.

    Metrics per operation that moved something (read, write, trim, mixed): ``iops`` (1/s), ``bw``
    (bytes/s), ``bytes``; ``slat``, ``clat`` and ``lat`` with ``.mean`` and, where fio took them,
    ``.p50`` … ``.p99.99``, ``.max`` and ``.sd`` (s).  ``sync.lat`` is that of fsync, fdatasync
    and sync_file_range.  ``total.iops`` and ``total.bw`` are of all operations.  Per job:
    ``cpu.usr`` and ``cpu.sys`` (shares of one core), ``cpu.per_io`` (s).
    """
    return (*_together(jobs, raw), *(each for one in jobs for each in _alone(one, raw)))


def bins(jobs: Sequence[Job]) -> dict[str, Bins]:
    """The histogram of all jobs' I/Os by the latency's name, where each of them has one."""
    found: dict[str, Bins] = {}
    for name, parts in _shared(jobs):
        whole = _merged(parts)
        if whole is not None:
            found[name] = Bins(whole.tick, LAST_BIN[whole.tick], whole.bins)
    return found


def weights(jobs: Sequence[Job]) -> dict[str, float]:
    """What the means of all jobs are means over: I/Os, or seconds for the shares of CPU."""
    found = {f"{name}.mean": float(sum(o.count for o in each)) for name, each in _shared(jobs)}
    time = sum(one.seconds for one in jobs)
    if time:
        found |= {"cpu.usr": time, "cpu.sys": time}
    if ios := sum(one.ios for one in jobs):
        found["cpu.per_io"] = float(ios)
    return found


def _shared(jobs: Sequence[Job]) -> Iterator[tuple[str, list[Latency]]]:
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


def _alone(one: Job, raw: str) -> Iterator[Measurement]:
    for each in one.directions:
        rates = (each.iops, each.bw, each.bytes)
        yield from _rates(each.operation, rates, one.label, raw)
        for stage, latency in each.latencies.items():
            yield from _latencies(f"{each.operation}.{stage}", [latency], one.label, raw)
    if one.sync:
        yield from _latencies("sync.lat", [one.sync], one.label, raw)
    yield from _processor([one], one.label, raw)


def _together(jobs: Sequence[Job], raw: str) -> Iterator[Measurement]:
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


def _total(jobs: Sequence[Job], raw: str) -> Iterator[Measurement]:
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


def _summed(parts: Sequence[tuple[int, Direction]]) -> tuple[float, float]:
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


def _latencies(name: str, parts: Sequence[Latency], label: str, raw: str) -> Iterator[Measurement]:
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


def _spread(parts: Sequence[Latency], mean: float, count: int) -> float | None:
    """The standard deviation of all their I/Os together: within the parts and between them."""
    squares = 0.0
    for each in parts:
        if each.sd is None:
            return None
        squares += each.count * (each.sd**2 + (each.mean - mean) ** 2)
    return math.sqrt(squares / count)


def _merged(parts: Sequence[Latency]) -> Latency | None:
    """One latency with all their I/Os, or None where a histogram is missing."""
    if not all(each.bins for each in parts) or len({each.tick for each in parts}) > 1:
        return None
    return Latency(0, 0.0, parts[0].tick, merged(each.bins for each in parts), {})


def _processor(jobs: Sequence[Job], label: str, raw: str) -> Iterator[Measurement]:
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
