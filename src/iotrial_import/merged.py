"""Recordings of one run, of its jobs or hosts side by side → one recording.  Pure.

What is counted adds up: I/Os, bytes, IOPS, bandwidths.  A mean is weighted by what it is a mean
over.  A percentile comes from the histograms of all parts, added up bin by bin; where one part has
none, or has other bins, there is no percentile: an average of percentiles is the percentile of
nothing.  Spreads over intervals (``iops.sd``, ``iops.min``) cannot be had from those of parts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from iotrial.formats import histogram
from iotrial.model.measurement import Measurement, split
from iotrial.model.recording import Bins, Recording
from iotrial.model.trial import Doubt, Treatment

_SUMS = frozenset(("iops", "bw", "rate", "bytes", "ios", "retransmits", "bw.sent", "bw.received"))
_LARGEST = frozenset(("seconds", "bw.max", "lat.max", "clat.max", "slat.max"))
_LEAST = frozenset(("bw.min", "bytes.min", "lat.min", "clat.min", "slat.min"))
_SPREADS = frozenset(("iops.min", "iops.max", "iops.sd", "bw.sd", "rate.sd"))
_PERCENTILE = re.compile(r"[sc]?lat\.p[\d.]+")
_MORE = re.compile(r" \(and (\d+) more like it\)$")
_ORDER = ("read", "write", "trim")
_UNLIKE = 0.9
_CLOCKS = 2.0  # s by which clocks of two hosts, and starts of their jobs, may differ
_SHOWN = 6
Side = Literal["", "high", "low"]


@dataclass(frozen=True, slots=True)
class Part:
    """A recording, and what tells it from the others: ``1``, ``box7``."""

    label: str
    recording: Recording


def merged(parts: Sequence[Part], raw: str) -> Recording:
    """All parts as one run.  Its own numbers (job ``all``) name ``raw``; those of a part have its
    label as job, and those of a part's jobs ``label/job``."""
    recordings = [part.recording for part in parts]
    known = [_Known(each, _values(each)) for each in recordings]
    bins = dict(_bins(known))
    together = tuple(_together(known, bins, raw))
    apart = tuple(
        _as_job(each, part.label) for part in parts for each in part.recording.measurements
    )
    doubts = (
        *doubts_of(recordings),
        *_lacking(known, {each.metric for each in together}),
        *_timing(parts),
    )
    return replace(
        recordings[0],
        workload=workload_of(recordings),
        version="+".join(dict.fromkeys(each.version for each in recordings if each.version)),
        measurements=(*together, *apart),
        line=0,
        treatment=joined([each.treatment for each in recordings]),
        doubts=doubts,
        started=min((each.started for each in recordings if each.started), default=0.0),
        seconds=max(each.seconds for each in recordings),
        bins=bins,
        weights=dict(_weights(known)),
    )


def joined(parts: Sequence[Treatment]) -> Treatment:
    """What the parts were run with; where they differ, all labels: ``4k+64k``, ``4k+-`` where
    some do not say."""
    said = [dict(part) for part in parts]
    names = dict.fromkeys(name for part in said for name in part)
    return tuple(
        (name, "+".join(dict.fromkeys(part.get(name, "-") for part in said))) for name in names
    )


def workload_of(parts: Sequence[Recording]) -> str:
    """``read+write`` of parts that read and parts that write."""
    every = dict.fromkeys(each.workload for each in parts)
    if len(every) == 1:
        return parts[0].workload
    words = dict.fromkeys(word for each in every for word in each.split("+"))
    order = {word: _ORDER.index(word) if word in _ORDER else len(_ORDER) for word in words}
    return "+".join(sorted(words, key=lambda word: order[word]))


def _as_job(each: Measurement, label: str) -> Measurement:
    return replace(each, job=label if each.job == "all" else f"{label}/{each.job}")


def _values(part: Recording) -> dict[str, Measurement]:
    return {each.metric: each for each in part.measurements if each.job == "all"}


class _Known:
    """A recording, its own values by metric, and the operations they are of."""

    def __init__(self, recording: Recording, values: dict[str, Measurement]) -> None:
        self.recording = recording
        self.values = values
        self.operations = {split(metric)[0] for metric in values}


def _concerned(parts: Sequence[_Known], name: str) -> list[_Known]:
    """The parts that did what a metric is about; CPU is used by all."""
    operation = split(name)[0]
    return [part for part in parts if operation == "cpu" or operation in part.operations]


def _together(parts: Sequence[_Known], bins: Mapping[str, Bins], raw: str) -> Iterator[Measurement]:
    for name in dict.fromkeys(metric for part in parts for metric in part.values):
        if _PERCENTILE.fullmatch(split(name)[1]) and name.partition(".p")[0] in bins:
            continue
        mine = _concerned(parts, name)
        found = [part.values.get(name) for part in mine]
        known = [each for each in found if each is not None]
        if len(known) == len(found):
            yield from _one(name, known, mine, raw)
    for name, each in bins.items():
        for p, value in histogram.percentiles(each.counts).items():
            side: Side = "high" if value >= each.last else ""
            yield Measurement(f"{name}.p{p:g}", value * each.tick, "s", "all", raw, side)


def _one(
    name: str, values: Sequence[Measurement], parts: Sequence[_Known], raw: str
) -> Iterator[Measurement]:
    """One metric of all parts, where it can be had."""
    quantity = split(name)[1]
    sides = {each.censored for each in values}
    side: Side = "high" if "high" in sides else "low" if "low" in sides else ""
    if {"high", "low"} <= sides or len({each.unit for each in values}) > 1:
        return
    numbers = [each.value for each in values]
    if quantity in _SUMS:
        value = sum(numbers)
    elif quantity in _LARGEST:
        value = max(numbers)
    elif quantity in _LEAST:
        value = min(numbers)
    elif quantity.endswith("lat.sd"):
        pooled = _pooled(name, numbers, parts)
        if pooled is None:
            return
        value = pooled
    elif all(part.recording.weights.get(name) for part in parts):
        weights = [part.recording.weights[name] for part in parts]
        value = sum(v * w for v, w in zip(numbers, weights, strict=True)) / sum(weights)
    elif len(values) == 1 and split(name)[0] != "cpu":
        value = numbers[0]  # nobody else did this
    else:
        return
    yield Measurement(name, value, values[0].unit, "all", raw, side)


def _pooled(name: str, spreads: Sequence[float], parts: Sequence[_Known]) -> float | None:
    """The standard deviation of all I/Os together, within the parts and between them; None where
    some part does not say its mean or how many I/Os it is of."""
    mean_of = f"{name.removesuffix('sd')}mean"
    counts = [part.recording.weights.get(mean_of, 0.0) for part in parts]
    means = [part.values[mean_of].value for part in parts if mean_of in part.values]
    if not all(counts) or len(means) < len(parts):
        return None
    whole = sum(c * m for c, m in zip(counts, means, strict=True)) / sum(counts)
    squares = [
        c * (s**2 + (m - whole) ** 2) for c, s, m in zip(counts, spreads, means, strict=True)
    ]
    return math.sqrt(sum(squares) / sum(counts))


def _bins(parts: Sequence[_Known]) -> Iterator[tuple[str, Bins]]:
    """The latencies of which every part that did the operation has a histogram, of one scale."""
    for name in dict.fromkeys(each for part in parts for each in part.recording.bins):
        found = [part.recording.bins.get(name) for part in _concerned(parts, name)]
        known = [each for each in found if each is not None]
        scales = {(each.tick, each.last) for each in known}
        if known and len(known) == len(found) and len(scales) == 1:
            ((tick, last),) = scales
            yield name, Bins(tick, last, histogram.merged(each.counts for each in known))


def _weights(parts: Sequence[_Known]) -> Iterator[tuple[str, float]]:
    for name in dict.fromkeys(each for part in parts for each in part.recording.weights):
        found = [part.recording.weights.get(name, 0.0) for part in _concerned(parts, name)]
        if all(found):
            yield name, sum(found)


def doubts_of(parts: Sequence[Recording]) -> Iterator[Doubt]:
    """The doubts of all parts, one of each kind with how many more there are."""
    kinds: dict[str, dict[Doubt, None]] = {}
    for part in parts:
        for doubt in part.doubts:
            kinds.setdefault(doubt.check, {})[doubt] = None
    for found in kinds.values():
        worst = max(found, key=lambda each: each.invalid)
        said = [_MORE.search(each.what) for each in found]
        count = len(found) - 1 + sum(int(each[1]) for each in said if each)
        more = f" (and {count} more like it)" if count else ""
        yield replace(worst, what=_MORE.sub("", worst.what) + more)


def _lacking(parts: Sequence[_Known], had: set[str]) -> Iterator[Doubt]:
    every = dict.fromkeys(metric for part in parts for metric in part.values)
    lost = [each for each in every if each not in had and split(each)[1] not in _SPREADS]
    if lost:
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        yield Doubt(
            "merged-without",
            f"no {', '.join(lost[:_SHOWN])}{more} of all together: not every part has it in a form "
            "that can be put together",
            "for percentiles each part needs its histogram (fio: --output-format=json+), for means "
            "its I/Os; the parts' own values stand by themselves",
        )


def _timing(parts: Sequence[Part]) -> Iterator[Doubt]:
    """What is added up should have happened at the same time."""
    known = sorted((p for p in parts if p.recording.seconds), key=lambda p: p.recording.seconds)
    if known and known[0].recording.seconds < _UNLIKE * known[-1].recording.seconds:
        least, most = known[0], known[-1]
        yield Doubt(
            "merged-unlike",
            f"{least.label} took {least.recording.seconds:g} s and {most.label} "
            f"{most.recording.seconds:g} s: their rates added up were there only while all ran",
            "let all parts run for the same time",
        )
    dated = sorted((p for p in known if p.recording.started), key=lambda p: p.recording.started)
    if len(dated) < 2:  # noqa: PLR2004
        return
    first = min(dated, key=lambda p: p.recording.started + p.recording.seconds)
    last = dated[-1]
    gap = last.recording.started - first.recording.started - first.recording.seconds
    if gap > _CLOCKS:
        yield Doubt(
            "merged-apart",
            f"{last.label} began {gap:.1f} s after {first.label} had ended: "
            "the sum of their rates was never there",
            "merge only what ran at the same time; or set the hosts' clocks",
        )
