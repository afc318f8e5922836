"""fio's JSON output → measurements and doubts.

One file may hold text before, between and after JSON documents (messages, ``--output-format=
normal,json+``), and one document per ``--status-interval``: the last whole one counts.  With
``--client`` the jobs are under ``client_stats``, followed by an entry "All clients" that has no
percentiles: it is left out, and made again from the jobs.

The trial's own numbers (job ``all``) are sums for rates and bytes, means weighted by the number
of I/Os, and percentiles of the merged histograms; where there is no histogram for each of several
jobs, there is no percentile either.  Jobs of different groups ran one after another: their rates
are averaged over the time, and a doubt says so.

Source of the fields: HOWTO of fio, section "JSON output"; ``tests/data/fio`` has recordings.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats.fio_doubts import doubts_about
from iotrial.formats.fio_report import LAST_BIN, OPERATIONS, STAGES, Direction, Job, Latency, job
from iotrial.formats.fio_report import mapping as as_mapping
from iotrial.formats.histogram import merged
from iotrial.model.measurement import Measurement
from iotrial.model.tool import Parsed

_START = re.compile(r"^\{", re.MULTILINE)
_NAN = re.compile(r"(?<=[:\s])-?(?:nan|inf)(?=\s*[,}\]])")
_AGAIN = "repeat the trial: fio did not end by itself, or the disk with the results is full"


def parse(data: bytes, raw: str) -> Parsed:
    """Measurements and doubts of the last whole report in ``data``; ``raw`` names the file.

    Metrics per operation that moved something (read, write, trim, mixed): ``iops`` (1/s), ``bw``
    (bytes/s), ``bytes``; ``slat``, ``clat`` and ``lat`` with ``.mean`` and, where fio took them,
    ``.p50`` … ``.p99.99`` (s).  Per job: ``cpu.usr`` and ``cpu.sys`` (shares of one core),
    ``cpu.per_io`` (s).  Raises :class:`~iotrial.errors.FormatError` with the byte offset.
    """
    text = data.decode("utf-8", "surrogateescape")
    report, said, repeated = _last_report(text, raw)
    jobs = _jobs(report, raw)
    measured = [*_together(jobs, raw), *(each for one in jobs for each in _alone(one, raw))]
    return Parsed(tuple(measured), doubts_about(jobs, said, repeated))


def _last_report(text: str, raw: str) -> tuple[Mapping[str, Any], tuple[str, ...], frozenset[str]]:
    """The last whole report, what fio said around it, and the keys it gives two values."""
    starts = [match.start() for match in _START.finditer(text)] or [max(text.find("{"), 0)]
    broken: tuple[int, str] | None = None
    for start in reversed(starts):
        try:
            report, end, repeated = _decode(text, start)
        except (ValueError, RecursionError) as error:
            broken = (getattr(error, "pos", start), getattr(error, "msg", "nested too deeply"))
            continue
        if isinstance(report, dict) and "fio version" in report:
            said = [text[: starts[0]], text[end:]]
            if broken:
                said.append("fio: the last report is not whole")
            return report, tuple(_lines("\n".join(said))), repeated
    if broken is None:
        raise FormatError(f"{raw}: JSON, but not a report of fio: it has no 'fio version'")
    place, what = broken
    offset = len(text[:place].encode("utf-8", "surrogateescape"))
    line = text.count("\n", 0, place) + 1
    message = f"{raw}: no whole report of fio: {what} at byte {offset} (line {line})"
    raise FormatError(message, advice=_AGAIN)


def _decode(text: str, start: int) -> tuple[object, int, frozenset[str]]:
    """One JSON value, where it ends, and its repeated keys.  Raises ValueError, RecursionError."""
    repeated: set[str] = set()

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) != len(pairs):
            repeated.update(_contradictions(pairs))
        return record

    decoder = json.JSONDecoder(object_pairs_hook=unique)
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        # printf("%f") of 0/0: bare nan, which no JSON parser takes.  NaN of the same length is.
        if not re.match(r"-?(?:nan|inf)\b", text[error.pos : error.pos + 5]):
            raise
        repeated.clear()
        healed = _NAN.sub(lambda match: "NaN".rjust(len(match[0])), text)
        value, end = decoder.raw_decode(healed, start)
    return value, end, frozenset(repeated)


def _contradictions(pairs: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Keys with two different values.  Strings are the options of a job, where ``filename`` may
    well be there many times."""
    first: dict[str, Any] = {}
    for key, value in pairs:
        if first.setdefault(key, value) != value and not isinstance(value, str):
            yield key


def _lines(text: str) -> Iterator[str]:
    """fio's own messages in the text around a report."""
    for line in text.splitlines():
        if line.startswith(("fio: ", "note: ")):
            yield _clean(line[:200])


def _clean(text: str) -> str:
    """Text that can be written anywhere: no lone surrogates, no control characters."""
    return "".join(
        char if char.isprintable() else "?" for char in text.encode("utf-8", "replace").decode()
    )


def _jobs(report: Mapping[str, Any], raw: str) -> tuple[Job, ...]:
    key = "jobs" if "jobs" in report else "client_stats"
    entries = report.get(key)
    if not isinstance(entries, list) or not entries:
        raise FormatError(f"{raw}: a report of fio without jobs", advice=_AGAIN)
    records = [as_mapping(entry, f"{raw}: {key}[{i}]") for i, entry in enumerate(entries)]
    if key == "client_stats" and len(records) > 1:
        records = [each for each in records if each.get("jobname") != "All clients"]
    seen: Counter[str] = Counter()
    jobs = []
    for index, record in enumerate(records):
        name = record.get("jobname")
        if not isinstance(name, str):
            raise FormatError(f"{raw}: {key}[{index}].jobname is not a text")
        name = _clean(name)
        seen[name] += 1
        jobs.append(job(record, f"{name}#{seen[name]}", f"{raw}: {key}[{index}]"))
    return tuple(jobs)


def _alone(one: Job, raw: str) -> Iterator[Measurement]:
    for each in one.directions:
        rates = (each.iops, each.bw, each.bytes)
        yield from _rates(each.operation, rates, one.label, raw)
        for stage, latency in each.latencies.items():
            yield from _latencies(f"{each.operation}.{stage}", [latency], one.label, raw)
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
    yield from _processor(jobs, "all", raw)


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
    whole = parts[0] if len(parts) == 1 else _merged(parts)
    if whole is None:
        return
    for p, value in whole.percentiles().items():
        beyond = value >= LAST_BIN[whole.tick]
        seconds = value * whole.tick
        yield Measurement(f"{name}.p{p:g}", seconds, "s", label, raw, "high" if beyond else "")


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
