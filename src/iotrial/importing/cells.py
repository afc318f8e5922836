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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import PurePosixPath

from iotrial.errors import UsageError
from iotrial.importing.legend import Legend
from iotrial.model.doubt import Doubt
from iotrial.model.measurement import Measurement, split
from iotrial.model.recording import Recording
from iotrial.model.trial import Treatment
from iotrial.units import parse_bytes

UNKNOWN = "unknown"
"""The label where a run does not say; it is compared with nothing."""
_NOT_SAID = ("", UNKNOWN, "n/a", "na", "?", "-")
_REPEAT = re.compile(
    r"[-_. ]?(?:run|rep|repeat|iter|iteration|pass|trial|take|round|try)[-_. ]?\d+$"
)
_SWITCHES = {"false": 0, "off": 0, "no": 0, "stock": 0, "true": 1, "on": 1, "yes": 1}
_OPERATIONS = frozenset(
    (
        "read", "write", "rdwr", "rw", "readwrite", "randread", "randwrite", "randrw", "seqread",
        "seqwrite", "seqrw", "seq", "rand", "random", "sequential", "trim", "reread", "rewrite",
    )
)  # fmt: skip
FILE = "file"
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Original:
    """A file as it was given: its name (relative, ``/`` between folders), its format's name, and
    its runs."""

    file: str
    format: str
    recordings: tuple[Recording, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A recording in its place: ``treatment`` has every factor; ``block`` counts the cell's
    repeats from 1; ``properties`` is all that was said of it, factor or not."""

    file: str
    recording: Recording
    properties: Mapping[str, str]
    treatment: Treatment = ()
    block: int = 1

    @property
    def workload(self) -> str:
        return self.recording.workload

    @property
    def id(self) -> str:
        """Six hex digits that name this run of this file."""
        said = f"{self.file}\n{self.recording.line}\n{self.workload}\n{self.treatment}{self.block}"
        return sha256(said.encode()).hexdigest()[:6]


@dataclass(frozen=True, slots=True)
class Cells:
    """``factors`` are (name, labels in order)."""

    runs: tuple[Run, ...]
    factors: tuple[tuple[str, tuple[str, ...]], ...]
    doubts: tuple[Doubt, ...] = ()


def cells(originals: Sequence[Original], legend: Legend) -> Cells:
    """Put every run in its cell.  Raises UsageError for labels that are not one a run."""
    runs = _runs(originals, legend)
    doubts: list[Doubt] = []
    names = _independent(_varied(runs), runs, doubts)
    runs = [_placed(run, names) for run in runs]
    if not legend.files and (told := _by_file(runs)):
        names = [*names, FILE]
        runs = [_placed(_with(run, FILE, told[index]), names) for index, run in enumerate(runs)]
    kept = _repeats(runs, doubts)
    factors = [(name, _in_order({dict(run.treatment)[name] for run in kept}, kept, name))
               for name in names]  # fmt: skip
    return Cells(tuple(kept), tuple(factors), tuple(doubts))


def _runs(originals: Sequence[Original], legend: Legend) -> list[Run]:
    found = [(o.file, _with_rates(each)) for o in originals for each in o.recordings]
    for name, labels in legend.labels:
        if len(labels) not in (1, len(found)):
            raise UsageError(
                f"{name}: {len(labels)} labels for {len(found)} runs",
                advice="Give one label for each run, in the order of the files, or one for all.",
            )
    return [
        Run(
            file,
            recording,
            {
                **dict(legend.named(file)),
                **{name: labels[index % len(labels)] for name, labels in legend.labels},
                **dict(recording.treatment),
            },
        )
        for index, (file, recording) in enumerate(found)
    ]


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


def _with(run: Run, name: str, label: str) -> Run:
    return replace(run, properties={**run.properties, name: label})


def _placed(run: Run, names: Iterable[str]) -> Run:
    return replace(run, treatment=tuple((name, _label(run, name)) for name in names))


def _label(run: Run, name: str) -> str:
    label = run.properties.get(name, "")
    return UNKNOWN if label.lower() in _NOT_SAID else label


def _varied(runs: Sequence[Run]) -> list[str]:
    """The properties with several known labels within some workload, in order of appearance."""
    names = dict.fromkeys(name for run in runs for name in run.properties)
    labels: dict[tuple[str, str], set[str]] = defaultdict(set)
    for run in runs:
        for name in names:
            if (label := _label(run, name)) != UNKNOWN:
                labels[run.workload, name].add(label)
    several = {name for (_, name), found in labels.items() if len(found) > 1}
    return [name for name in names if name in several]


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
        said[_label(run, one)].add(_label(run, other))
        count[_label(run, one)] += 1
    sole = all(len(labels) == 1 for labels in said.values())
    return sole and (len(count) < len(runs) or len({*map(min, said.values())}) == len(count))


def _by_file(runs: Sequence[Run]) -> dict[int, str]:
    """A label for each run by its file, where files differ in nothing else; else nothing."""
    files: dict[tuple[str, Treatment], set[str]] = defaultdict(set)
    for run in runs:
        files[run.workload, run.treatment].add(run.file)
    if all(len(found) == 1 for found in files.values()):
        return {}
    of_workload: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        of_workload[run.workload].add(run.file)
    short = {workload: _shortened(found) for workload, found in of_workload.items()}
    told = {index: short[run.workload][run.file] for index, run in enumerate(runs)}
    several = len(set(told.values())) > 1
    return told if several else {}


def _shortened(files: set[str]) -> dict[str, str]:
    """What tells files apart: their names without what all begin or all end with."""
    names = {file: _REPEAT.sub("", _stem(file)) for file in files}
    split = {file: _words(name) for file, name in names.items()}
    lists = list(split.values())
    fewest = min(map(len, lists))
    head = next((i for i in range(fewest) if len({each[i] for each in lists}) > 1), fewest)
    rest = fewest - head
    tail = next((i for i in range(rest) if len({each[-1 - i] for each in lists}) > 1), rest)
    return {
        file: "-".join(each[head : len(each) - tail]) or "-".join(each)
        for file, each in split.items()
    }


def _words(name: str) -> list[str]:
    """The words of a name, without those that say the operation: the workload says it."""
    words = re.split(r"[-_./ ]+", name)
    return [word for word in words if word.lower() not in _OPERATIONS] or words


def _stem(file: str) -> str:
    path = PurePosixPath(file)
    return str(path.with_suffix("")) if path.suffix and not path.suffix[1:].isdigit() else file


def _repeats(runs: Sequence[Run], doubts: list[Doubt]) -> list[Run]:
    """The runs with their blocks; copies are left out."""
    seen: dict[tuple[str, Treatment], dict[object, Run]] = defaultdict(dict)
    kept: list[Run] = []
    copies: list[str] = []
    for run in runs:
        cell = seen[run.workload, run.treatment]
        numbers = _numbers(run)
        if numbers in cell:
            copies.append(f"{_place(run)} is {_place(cell[numbers])}")
            continue
        cell[numbers] = replace(run, block=len(cell) + 1)
        kept.append(cell[numbers])
    doubts += _perhaps_copied(kept)
    if copies:
        doubts.append(
            Doubt(
                "copies",
                f"{len(copies)} runs repeat another one of their cell number by number and count"
                f" once: {_some(copies)}",
                "A copy is no repeat: it says nothing about the noise.",
            )
        )
        conflicts = [cell for cell in seen.values() if len(cell) > 1]
        for cell in conflicts if len(conflicts) < len(copies) else []:
            where = ", ".join(map(_place, cell.values()))
            what = f"several values for one cell where others are copied without change: {where}"
            doubts.append(Doubt("conflict", what, "One of them may be a slip of the pen: look."))
    return kept


def _perhaps_copied(runs: Sequence[Run]) -> Iterator[Doubt]:
    """Runs with the same numbers in cells that may be one: a factor is unknown in one of them."""
    first: dict[object, Run] = {}
    alike = []
    for run in runs:
        other = first.setdefault((run.workload, _numbers(run)), run)
        if other is not run and _may_be_one(run.treatment, other.treatment):
            alike.append(f"{_place(run)} and {_place(other)}")
    if alike:
        yield Doubt(
            "maybe-copies",
            f"{len(alike)} runs have the numbers of one whose cell is not told wholly:"
            f" {_some(alike)}",
            "They count as two runs; they may be one, written down with less said.",
        )


def _may_be_one(one: Treatment, other: Treatment) -> bool:
    pairs = zip(one, other, strict=True)
    return all(a == b or UNKNOWN in (a[1], b[1]) for a, b in pairs)


def _numbers(run: Run) -> tuple[tuple[str, str, float], ...]:
    return tuple((m.metric, m.job, m.value) for m in run.recording.measurements)


def _place(run: Run) -> str:
    return f"{run.file}:{run.recording.line}" if run.recording.line else run.file


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more


def _in_order(labels: set[str], runs: Sequence[Run], name: str) -> tuple[str, ...]:
    """Numbers and sizes by their size, switches off first, other labels as they appear."""
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
    return (*known, *(labels & {UNKNOWN}))


def _size(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return float(parse_bytes(label))
