"""Which runs belong together: recordings → workloads, factors, cells, repeats.  Pure.

What is varied is found, not asked: a property that has several values within one workload is a
factor.  One that another factor decides (3 hosts wherever there is 1 array) is none: its effect
cannot be told from the other's, and a doubt says so.  Runs of several files that differ in nothing
they say themselves differ by their files' names.

Two runs of a cell with the same numbers throughout are one run, written down twice.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from iotrial.errors import UsageError
from iotrial.model.measurement import Measurement, split
from iotrial.model.recording import FEW, Recording
from iotrial.model.trial import UNKNOWN, Doubt, Treatment
from iotrial.plan.problem import choices
from iotrial.units import parse_bytes
from iotrial_import.file_words import date_of, factors
from iotrial_import.legend import SESSION, Legend
from iotrial_import.run import Original, Run, some, varied
from iotrial_import.side_by_side import merged_over

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
class Cells:
    """``factors`` are (name, labels in order)."""

    runs: tuple[Run, ...]
    factors: tuple[tuple[str, tuple[str, ...]], ...]
    doubts: tuple[Doubt, ...] = ()


def cells(originals: Sequence[Original], legend: Legend, merge: str = "") -> Cells:
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
    return Cells(tuple(kept), tuple(levels), tuple(doubts))


def _check_session(legend: Legend, runs: Sequence[Run]) -> None:
    """That runs say what is to part them into sessions.  Raises UsageError."""
    known = list(dict.fromkeys(name for run in runs for name in run.properties))
    for name in legend.session:
        if name not in known and legend.session != (SESSION,):
            raise UsageError(
                f"{legend.file}: session: no run says {name!r}",
                advice=choices(name, known, "there are"),
            )


def _dated(runs: list[Run]) -> list[Run]:
    """With the dates in the files' names as sessions, where nobody says which they are, and not all
    runs say when they were."""
    dates = [date_of(run.file) for run in runs]
    timed = all(run.recording.started for run in runs)
    if timed or len(set(dates)) == 1 or any(SESSION in run.properties for run in runs):
        return runs
    return [run.with_label(SESSION, date) for run, date in zip(runs, dates, strict=True)]


def _labelled(legend: Legend) -> bool:
    """Whether a person says what tells the runs apart."""
    return any(
        name not in (_WORKLOAD, SESSION) and len(set(each)) > 1 for name, each in legend.labels
    )


def _new(found: Mapping[str, list[str]], runs: Sequence[Run]) -> dict[str, list[str]]:
    """Under names that no run has for something else."""
    taken = {name for run in runs for name in run.properties}
    return {f"{name}_name" if name in taken else name: labels for name, labels in found.items()}


def _runs(originals: Sequence[Original], legend: Legend) -> list[Run]:
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


def _run(original: Original, recording: Recording, said: dict[str, str]) -> Run:
    """What a person ``said`` of a run, and what the file says; of the workload the person."""
    workload = said.pop(_WORKLOAD, "") or recording.workload
    properties = {**said, **dict(recording.treatment)}
    known = replace(recording, workload=workload)
    return Run(original.file, known, properties, parts=original.parts)


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


def _named(original: Original, legend: Legend) -> dict[str, str]:
    """What the name of a file says; of several files, what the names of all say."""
    every = [dict(legend.named(file)) for file in original.files or (original.file,)]
    return {
        name: label
        for name, label in every[0].items()
        if all(each.get(name) == label for each in every)
    }


def _independent(names: list[str], runs: Sequence[Run], doubts: list[Doubt]) -> list[str]:
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
            advice = f"What {other} does and what {name} does cannot be told apart by these runs."
            doubts.append(Doubt("confounded", what, advice))
            break
    return kept


def _decides(one: str, other: str, runs: Sequence[Run]) -> bool:
    """Whether the label of ``one`` says that of ``other``, for more than a run or two."""
    said: dict[str, set[str]] = defaultdict(set)
    count: Counter[str] = Counter()
    for run in runs:
        said[run.label(one)].add(run.label(other))
        count[run.label(one)] += 1
    sole = all(len(labels) == 1 for labels in said.values())
    return sole and (len(count) < len(runs) or len({*map(min, said.values())}) == len(count))


def _repeats(runs: Sequence[Run], legend: Legend, doubts: list[Doubt]) -> list[Run]:
    """The runs with their blocks; copies are left out.  Rounded numbers may be the same on another
    day, or at another moment."""
    seen: dict[tuple[str, Treatment], dict[object, Run]] = defaultdict(dict)
    kept: list[Run] = []
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
                "A copy is no repeat: it says nothing about the noise.",
            )
        )
        conflicts = [cell for cell in seen.values() if len(cell) > 1]
        for cell in conflicts if len(conflicts) < len(copies) else []:
            where = ", ".join(each.place for each in cell.values())
            what = f"several values for one cell where others are copied without change: {where}"
            doubts.append(Doubt("conflict", what, "One of them may be a slip of the pen: look."))
    return kept


def _apart(run: Run) -> str:
    """The folder of a run with few numbers and no time: in the next one they may be the same."""
    few = not run.recording.started and len(run.numbers) < FEW
    return run.file.rpartition("/")[0] if few else ""


def _perhaps_copied(runs: Sequence[Run]) -> Iterator[Doubt]:
    """Runs with the same numbers in cells that may be one: a factor is unknown in one of them."""
    first: dict[object, Run] = {}
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


def _in_order(labels: set[str], runs: Sequence[Run], name: str) -> tuple[str, ...]:
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
