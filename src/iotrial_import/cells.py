"""Which runs belong together: recordings → workloads, factors, cells, repeats.  Pure.

What is varied is found, not asked: a property that has several values within one workload is a
factor.  One that another factor decides (3 hosts wherever there is 1 array) is none: its effect
cannot be told from the other's, and a doubt says so.  Runs of several files that differ in nothing
they say themselves differ by their files' names.

Two runs of a cell with the same numbers throughout are one run, written down twice.

Recordings of jobs or hosts that ran side by side become one.  What is counted adds up: I/Os, bytes,
IOPS, bandwidths.  A mean is weighted by what it is a mean over.  A percentile comes from the
histograms of all parts, added up bin by bin; where one part has none, or has other bins, there is
no percentile: an average of percentiles is the percentile of nothing.  Spreads over intervals
(``iops.sd``, ``iops.min``) cannot be had from those of parts.

So do runs that differ in one factor alone (``import --merge host``): the first run of each host is
put together with the first of each other, the second with the second: repeats stay repeats.  What
differs in anything else stays apart.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from iotrial.errors import UsageError
from iotrial.formats.fio.bins import measured, together
from iotrial.model.measurement import Measurement, split
from iotrial.model.recording import FEW, LatencyHistogram, Recording
from iotrial.model.trial import UNKNOWN, Doubt, Treatment
from iotrial.plan.problem import choices
from iotrial.units import parse_bytes
from iotrial_import.copies import by_file, date_of, factors
from iotrial_import.legend import FILE, SESSION, ImportedRun, ImportMap, OriginalFile, some, varied

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
class LabelledRecording:
    """A recording, and what tells it from the others: ``1``, ``box7``."""

    label: str
    recording: Recording


def merged(parts: Sequence[LabelledRecording], raw: str) -> Recording:
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


def _together(
    parts: Sequence[_Known], bins: Mapping[str, LatencyHistogram], raw: str
) -> Iterator[Measurement]:
    for name in dict.fromkeys(metric for part in parts for metric in part.values):
        if _PERCENTILE.fullmatch(split(name)[1]) and name.partition(".p")[0] in bins:
            continue
        mine = _concerned(parts, name)
        found = [part.values.get(name) for part in mine]
        known = [each for each in found if each is not None]
        if len(known) == len(found):
            yield from _one(name, known, mine, raw)
    for name, each in bins.items():
        yield from measured(name, each, raw)


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


def _bins(parts: Sequence[_Known]) -> Iterator[tuple[str, LatencyHistogram]]:
    """The latencies of which every part that did the operation has a histogram, of one scale."""
    for name in dict.fromkeys(each for part in parts for each in part.recording.bins):
        found = [part.recording.bins.get(name) for part in _concerned(parts, name)]
        if whole := together(found):
            yield name, whole


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


def _timing(parts: Sequence[LabelledRecording]) -> Iterator[Doubt]:
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


def merged_over(factor: str, runs: Sequence[ImportedRun], doubts: list[Doubt]) -> list[ImportedRun]:
    """The runs that differ in one factor alone as one run, the first of each label with the first
    of the others, and so on."""
    others = [name for name in varied(runs) if name != factor]
    runs = [run.placed(others) for run in runs]
    if factor == FILE and not any(FILE in run.properties for run in runs):
        told = by_file(runs)
        runs = [run.with_label(FILE, told.get(index, run.file)) for index, run in enumerate(runs)]
    groups: dict[tuple[str, Treatment], dict[str, list[ImportedRun]]] = {}
    for run in runs:
        labels = groups.setdefault((run.workload, run.treatment), {})
        labels.setdefault(run.label(factor), []).append(run)
    if not any(len(labels) > 1 for labels in groups.values()):
        known = ", ".join(dict.fromkeys(name for run in runs for name in run.properties))
        raise UsageError(
            f"--merge {factor}: no two runs differ in {factor} alone",
            advice=f"What these runs say: {known or 'nothing'}.  --label or `files` of a map can"
            " say more.",
        )
    found: list[ImportedRun] = []
    fullest = max(map(len, groups.values()))
    for labels in groups.values():
        if len(labels) < fullest:
            where = ", ".join(run.place for each in labels.values() for run in each[:1])
            what = f"{len(labels)} of {fullest} labels of {factor} have this run: {where}"
            advice = "Its rates are sums of fewer: a file is missing, or differs in something else."
            doubts.append(Doubt("merged-fewer", what, advice))
        if len(labels) > 1:
            found += _side_by_side(factor, labels, doubts)
        else:
            found += [run for runs in labels.values() for run in runs]
    return found


def _side_by_side(
    factor: str, labels: Mapping[str, list[ImportedRun]], doubts: list[Doubt]
) -> Iterator[ImportedRun]:
    if len({len(runs) for runs in labels.values()}) > 1:
        counts = ", ".join(f"{label}: {len(runs)}" for label, runs in labels.items())
        raise UsageError(
            f"--merge {factor}: a run of each is put together with one of each other, and they"
            f" have unequal numbers ({counts})",
            advice=(
                "Remove the excess files, or give the differences of runs with `files` of a map."
            ),
        )
    for members in zip(*labels.values(), strict=True):
        if len({run.numbers for run in members}) < len(members):
            what = f"the same numbers twice: {', '.join(each.place for each in members)}"
            advice = "Give each file once: copies were added up."
            doubts.append(Doubt("merged-copies", what, advice))
        parts = [
            LabelledRecording(*each)
            for each in zip(labels, [run.recording for run in members], strict=True)
        ]
        properties = dict(joined([tuple(run.properties.items()) for run in members]))
        properties.pop(factor, None)
        raw = some([run.file for run in members]).replace("; ", " + ")
        yield replace(
            members[0],
            recording=merged(parts, raw),
            properties=properties,
            parts=sum(run.parts for run in members),
        )


_WORKLOAD = "workload"
"""What is said by this name is no factor."""
_SIZE = re.compile(r"\d{1,18}([kmgt](i?b)?)?")
_SWITCHES = {
    "0": 0,
    "1": 1,
    "false": 0,
    "off": 0,
    "no": 0,
    "stock": 0,
    "true": 1,
    "on": 1,
    "yes": 1,
}


_FORMER = ("before", "baseline", "base", "old", "stock", "default", "original", "reference")
"""Labels that others are held against."""


@dataclass(frozen=True, slots=True)
class ImportCells:
    """``factors`` are (name, labels in order)."""

    runs: tuple[ImportedRun, ...]
    factors: tuple[tuple[str, tuple[str, ...]], ...]
    doubts: tuple[Doubt, ...] = ()


def cells(originals: Sequence[OriginalFile], legend: ImportMap, merge: str = "") -> ImportCells:
    """Put every run in its cell; runs that differ in the factor ``merge`` alone become one.

    Raises UsageError for labels that are not one a run, and where nothing can be merged.
    """
    runs = _runs(originals, legend)
    _check_session(legend, runs)
    runs = _dated(runs)
    doubts = [doubt for each in originals for doubt in each.doubts]
    if merge:
        runs = merged_over(merge, runs, doubts)
    names = _independent(varied(runs), runs, doubts)
    runs = [run.placed(names) for run in runs]
    if not legend.files and not _labelled(legend):
        for name, labels in _new(factors(runs), runs).items():
            runs = [run.with_label(name, each) for run, each in zip(runs, labels, strict=True)]
            names = [*names, name]
        runs = [run.placed(names) for run in runs]
    kept = _repeats(runs, legend, doubts)
    levels = [(name, _in_order({dict(run.treatment)[name] for run in kept}, kept, name))
               for name in names]  # fmt: skip
    return ImportCells(tuple(kept), tuple(levels), tuple(doubts))


def _check_session(legend: ImportMap, runs: Sequence[ImportedRun]) -> None:
    """That runs say what is to part them into sessions.  Raises UsageError."""
    known = list(dict.fromkeys(name for run in runs for name in run.properties))
    for name in legend.session:
        if name not in known and legend.session != (SESSION,):
            raise UsageError(
                f"{legend.file}: session: no run says {name!r}",
                advice=choices(name, known, "there are"),
            )


def _dated(runs: list[ImportedRun]) -> list[ImportedRun]:
    """With the dates in the files' names as sessions, where nobody says which they are, and not all
    runs say when they were."""
    dates = [date_of(run.file) for run in runs]
    timed = all(run.recording.started for run in runs)
    if timed or len(set(dates)) == 1 or any(SESSION in run.properties for run in runs):
        return runs
    return [run.with_label(SESSION, date) for run, date in zip(runs, dates, strict=True)]


def _labelled(legend: ImportMap) -> bool:
    """Whether a person says what tells the runs apart."""
    return any(
        name not in (_WORKLOAD, SESSION) and len(set(each)) > 1 for name, each in legend.labels
    )


def _new(found: Mapping[str, list[str]], runs: Sequence[ImportedRun]) -> dict[str, list[str]]:
    """Under names that no run has for something else."""
    taken = {name for run in runs for name in run.properties}
    return {f"{name}_name" if name in taken else name: labels for name, labels in found.items()}


def _runs(originals: Sequence[OriginalFile], legend: ImportMap) -> list[ImportedRun]:
    found = [(o, _with_rates(each)) for o in originals for each in o.recordings]
    for name, labels in legend.labels:
        if len(labels) not in (1, len(found)):
            raise UsageError(
                f"{name}: {len(labels)} labels for {len(found)} runs",
                advice="Give one label for each run, in the order of the files, or one for all.",
            )
    runs = [
        _run(
            original,
            recording,
            {
                **_named(original, legend),
                **{name: labels[index % len(labels)] for name, labels in legend.labels},
            },
        )
        for index, (original, recording) in enumerate(found)
    ]
    first: dict[tuple[str, str], str] = {}
    return [
        replace(run, properties={
            name: first.setdefault((name, _meaning(label)), label)
            for name, label in run.properties.items()
        })
        for run in runs
    ]  # fmt: skip


def _meaning(label: str) -> str:
    """The same for labels that mean the same: ``01`` and ``1``, ``4k``, ``4K`` and ``4096``,
    ``true`` and ``on``."""
    plain = label.strip().lower()
    if plain in _SWITCHES and plain != "stock":
        return str(_SWITCHES[plain])
    if _SIZE.fullmatch(plain):
        with suppress(ValueError):
            return str(int(plain) if plain.isdecimal() else parse_bytes(plain))
    return plain


def _run(original: OriginalFile, recording: Recording, said: dict[str, str]) -> ImportedRun:
    """What a person ``said`` of a run, and what the file says; of the workload the person."""
    workload = said.pop(_WORKLOAD, "") or recording.workload
    properties = {**said, **dict(recording.treatment)}
    known = replace(recording, workload=workload)
    return ImportedRun(original.file, known, properties, parts=original.parts)


def _with_rates(recording: Recording) -> Recording:
    """With the bandwidth of what was moved and how long it took, where no rate is told: runs of
    different lengths cannot be compared by their time."""
    told = {m.metric: m for m in recording.measurements if m.job == "all" and not m.censored}
    more = []
    for name, size in told.items():
        operation, quantity = split(name)
        seconds = told.get(f"{operation}.seconds")
        rated = any(f"{operation}.{rate}" in told for rate in ("bw", "iops"))
        if quantity == "bytes" and seconds and seconds.value > 0 and not rated:
            bandwidth = size.value / seconds.value
            more.append(Measurement(f"{operation}.bw", bandwidth, "bytes/s", "all", size.raw))
    return replace(recording, measurements=(*recording.measurements, *more))


def _named(original: OriginalFile, legend: ImportMap) -> dict[str, str]:
    """What the name of a file says; of several files, what the names of all say."""
    every = [dict(legend.named(file)) for file in original.files or (original.file,)]
    return {
        name: label
        for name, label in every[0].items()
        if all(each.get(name) == label for each in every)
    }


def _independent(names: list[str], runs: Sequence[ImportedRun], doubts: list[Doubt]) -> list[str]:
    kept = list(names)
    for place, name in reversed(list(enumerate(names))):
        for other in kept:
            if other == name or not _decides(other, name, runs):
                continue
            mutual = _decides(name, other, runs)
            if mutual and names.index(other) > place:
                continue
            kept.remove(name)
            what = f"{name} changes with {other} alone; it is not taken as a factor of its own"
            advice = f"The effects of {other} and {name} are confounded in these runs."
            doubts.append(Doubt("confounded", what, advice))
            break
    return kept


def _decides(one: str, other: str, runs: Sequence[ImportedRun]) -> bool:
    """Whether the label of ``one`` says that of ``other``, for more than a run or two."""
    said: dict[str, set[str]] = defaultdict(set)
    count: Counter[str] = Counter()
    for run in runs:
        said[run.label(one)].add(run.label(other))
        count[run.label(one)] += 1
    sole = all(len(labels) == 1 for labels in said.values())
    return sole and (len(count) < len(runs) or len({*map(min, said.values())}) == len(count))


def _repeats(
    runs: Sequence[ImportedRun], legend: ImportMap, doubts: list[Doubt]
) -> list[ImportedRun]:
    """The runs with their blocks; copies are left out.  Rounded numbers may be the same on another
    day, or at another moment."""
    seen: dict[tuple[str, Treatment], dict[object, ImportedRun]] = defaultdict(dict)
    kept: list[ImportedRun] = []
    copies: list[str] = []
    for run in runs:
        cell = seen[run.workload, run.treatment]
        said = tuple(run.properties.get(name, "") for name in legend.session)
        itself = (run.numbers, run.recording.started, said, _apart(run))
        if itself in cell:
            copies.append(f"{run.place} is {cell[itself].place}")
            continue
        cell[itself] = replace(run, block=len(cell) + 1)
        kept.append(cell[itself])
    doubts += _perhaps_copied(kept)
    if copies:
        count = "1 run repeats" if len(copies) == 1 else f"{len(copies)} runs repeat"
        doubts.append(
            Doubt(
                "copies",
                f"{count} another one of their cell number by number, which counts"
                f" once: {some(copies)}",
                "A copy is not a repeat: it gives no estimate of the noise.",
            )
        )
        conflicts = [cell for cell in seen.values() if len(cell) > 1]
        for cell in conflicts if len(conflicts) < len(copies) else []:
            where = ", ".join(each.place for each in cell.values())
            what = f"several values for one cell where others are copied without change: {where}"
            doubts.append(Doubt("conflict", what, "One of them may be a slip of the pen: look."))
    return kept


def _apart(run: ImportedRun) -> str:
    """The folder of a run with few numbers and no time: in the next one they may be the same."""
    few = not run.recording.started and len(run.numbers) < FEW
    return run.file.rpartition("/")[0] if few else ""


def _perhaps_copied(runs: Sequence[ImportedRun]) -> Iterator[Doubt]:
    """Runs with the same numbers in cells that may be one: a factor is unknown in one of them."""
    first: dict[object, ImportedRun] = {}
    alike = []
    for run in runs:
        other = first.setdefault((run.workload, run.numbers), run)
        if other is not run and _may_be_one(run.treatment, other.treatment):
            alike.append(f"{run.place} and {other.place}")
    if alike:
        yield Doubt(
            "maybe-copies",
            f"{len(alike)} runs have the numbers of one whose cell is not told wholly:"
            f" {some(alike)}",
            "They count as two runs; they may be one, written down with less said.",
        )


def _may_be_one(one: Treatment, other: Treatment) -> bool:
    pairs = list(zip(one, other, strict=True))
    return one != other and all(a == b or UNKNOWN in (a[1], b[1]) for a, b in pairs)


def _in_order(labels: set[str], runs: Sequence[ImportedRun], name: str) -> tuple[str, ...]:
    """Numbers and sizes by their size, switches off first, other labels as they appear; what was
    before any change first of all."""
    first: dict[str, int] = {}
    for index, run in enumerate(runs):
        first.setdefault(dict(run.treatment)[name], index)
    known = sorted((label for label in labels if label != UNKNOWN), key=lambda each: first[each])
    for measure in (_size, lambda label: _SWITCHES[label.lower()]):
        try:
            known = sorted(known, key=measure)
            break
        except (ValueError, KeyError):
            continue
    known.sort(key=lambda label: label.lower() not in _FORMER)
    return (*known, *(labels & {UNKNOWN}))


def _size(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return float(parse_bytes(label))
