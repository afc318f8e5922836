"""Imported runs → a results folder, with the files they came from.

::

    study.toml           what was varied, as found; question, baselines and [decide] may be edited
    plan.jsonl           a head line (``recorded``, doubts, merged latencies), then one run a line
    measurements.jsonl   one line a run
    originals/           the files as they were given
    originals.json       of each: its name, bytes, SHA-256, format, and how many runs it has

A percentile over repeats is that of all their I/Os: histograms are added up bin by bin.  Where one
run has none, or has other bins, there is no such percentile.

And what ``import`` says it found: as one document, and in words.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from iotrial import files
from iotrial.errors import UsageError
from iotrial.formats.fio.bins import percentiles, together
from iotrial.model.results import ORIGINALS, LatencyDistribution, Percentile
from iotrial.model.study import DecisionRule
from iotrial.model.trial import Doubt, Treatment, Trial, TrialRecord
from iotrial.plan import recorded
from iotrial.store import Store
from iotrial_import import plausible
from iotrial_import.cells import ImportCells
from iotrial_import.formats.table_columns import key as quoted
from iotrial_import.legend import ImportedRun, ImportMap, OriginalFile
from iotrial_import.plausible import bounds, impossible


def latencies(runs: Sequence[ImportedRun]) -> Iterator[LatencyDistribution]:
    """Of every workload and treatment in order; ``runs`` are those that count."""
    cells: dict[tuple[str, Treatment], list[ImportedRun]] = defaultdict(list)
    for run in runs:
        cells[run.workload, run.treatment].append(run)
    for (workload, treatment), mine in cells.items():
        for name in dict.fromkeys(name for run in mine for name in run.recording.bins):
            bins = together([run.recording.bins.get(name) for run in mine])
            if bins is None:
                continue
            shares = tuple(
                Percentile(p, value * bins.tick, value >= bins.last)
                for p, value in percentiles(bins.counts).items()
            )
            if shares:
                ios = sum(bins.counts.values())
                yield LatencyDistribution(workload, treatment, name, len(mine), ios, shares)


def study_text(cells: ImportCells, legend: ImportMap, name: str) -> str:
    """The study of these cells.  Raises UsageError for a baseline that is no level, and for a
    primary metric that no run has."""
    labels = dict(cells.factors)
    for factor, label in legend.baselines:
        if label not in labels.get(factor, ()):
            if factor not in labels:
                there = f"There are: {', '.join(labels) or 'none'}"
                raise UsageError(f"baselines.{factor}: unknown factor", advice=there)
            known = f"Its levels: {', '.join(labels[factor])}"
            raise UsageError(f"baselines.{factor}: no such level {label!r}", advice=known)
    by_workload: dict[str, list[ImportedRun]] = defaultdict(list)
    for run in cells.runs:
        by_workload[run.workload].append(run)
    measured = ((run.workload, run.recording.measurements) for run in cells.runs)
    recorded.check_primary(legend.primary, measured, recorded.FileKey(legend.file, "primary"))
    return recorded.text(
        question=legend.question or f"What do the results of {name} say?",
        workloads=[
            (name, runs[-1].recording.tool, _alike(runs, labels))
            for name, runs in by_workload.items()
        ],
        factors=cells.factors,
        baselines=dict(legend.baselines),
        decide=DecisionRule(legend.primary, legend.margin, legend.confidence),
    )


def _alike(runs: Sequence[ImportedRun], factors: Container[str]) -> dict[str, str]:
    """What all runs of a workload say alike, and is no factor."""
    first = runs[0].properties
    return {
        name: label
        for name, label in first.items()
        if name not in factors and all(run.properties.get(name) == label for run in runs)
    }


def records(cells: ImportCells, legend: ImportMap, in_flight: float) -> list[TrialRecord]:
    """Every run as a trial that is done, with what is doubtful about it."""
    doubts = plausible.of_runs(cells.runs, legend, in_flight)
    return [
        _record(number, run, doubts.get(run.id, ()), _session(run, legend))
        for number, run in enumerate(cells.runs, 1)
    ]


@dataclass(frozen=True, slots=True)
class ImportedFolder:
    """What goes into a folder: the study's ``text``, the runs, the files they came from (by name:
    where each lies, and what was read), doubts about all of it, and merged latencies."""

    text: str
    records: Sequence[TrialRecord]
    originals: Mapping[str, tuple[Path, OriginalFile]]
    doubts: Sequence[Doubt]
    latencies: Sequence[LatencyDistribution]


def merged(cells: ImportCells, found: Sequence[TrialRecord]) -> list[LatencyDistribution]:
    """The latencies of each treatment over those of its runs that count."""
    pairs = zip(cells.runs, found, strict=True)
    return list(latencies([run for run, record in pairs if record.state == "valid"]))


def _session(run: ImportedRun, legend: ImportMap) -> str:
    """What says which session it was of; empty where nothing does."""
    told = [run.properties.get(name, "") for name in legend.session]
    return " / ".join(told) if any(told) else ""


def _record(number: int, run: ImportedRun, doubts: Sequence[Doubt], session: str) -> TrialRecord:
    recording = run.recording
    trial = Trial(number, run.id, run.block, run.workload, run.treatment, "")
    every = [*recording.doubts, *impossible(run), *bounds(run), *doubts]
    line = f":{recording.line}" if recording.line else ""
    return TrialRecord(
        trial=trial,
        state="invalid" if any(doubt.invalid for doubt in every) else "valid",
        started=recording.started,
        seconds=recording.seconds,
        load_seconds=recording.seconds,
        tool=f"{recording.tool} {recording.version}".strip(),
        doubts=tuple(Doubt(d.check, d.what, d.advice, d.invalid, trial.folder) for d in every),
        measurements=recording.measurements,
        source=f"{ORIGINALS}/{run.file}{line}",
        session=session,
    )


def keep(folder: Path, what: ImportedFolder) -> None:
    """Write it all into ``folder``, which is not there yet, or is empty.  It is made under another
    name, and renamed when it is whole: a full disk or an interruption leaves none."""
    making = folder.with_name(f"{folder.name}.partial")
    if making.is_symlink():
        making.unlink()
    if making.exists():  # of an import that was killed
        shutil.rmtree(making)
    try:
        (making / ORIGINALS).mkdir(parents=True)
        rows = [_kept(making / ORIGINALS, name, *each) for name, each in what.originals.items()]
        listing = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
        files.write_text(making / "originals.json", listing)
        study = recorded.parse(what.text, str(folder / "study.toml"))
        Store(making, study).write_recorded(
            folder.name, list(what.records), what.doubts, what.latencies
        )
        making.replace(folder)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def _kept(folder: Path, name: str, path: Path, original: OriginalFile) -> dict[str, object]:
    to = folder / name
    to.parent.mkdir(parents=True, exist_ok=True)
    size, digest = _copied(path, to)
    return {
        "file": name,
        "bytes": size,
        "sha256": digest,
        "format": original.format,
        "runs": len(original.recordings),
    }


_PIECE = 2**20


def _copied(path: Path, to: Path) -> tuple[int, str]:
    """Copy a file; gives back its bytes and their SHA-256.  A piece is digested while it is
    written: one after the other, both take longer than reading the lines of a large log."""
    size, digest = 0, hashlib.sha256()
    with path.open("rb") as source, to.open("wb") as copy, ThreadPoolExecutor(1) as beside:
        while piece := source.read(_PIECE):
            digested = beside.submit(digest.update, piece)
            size += copy.write(piece)
            digested.result()
    return size, digest.hexdigest()


_SHOWN = 12
_UNUSED = ("note", "name")


def document(
    folder: Path,
    cells: ImportCells,
    found: Sequence[TrialRecord],
    originals: Mapping[str, tuple[Path, OriginalFile]],
    doubts: Sequence[Doubt],
) -> dict[str, object]:
    """What ``import --json`` says: a contract."""
    return {
        "results": str(folder),
        "files": [
            {
                "file": name,
                "format": each.format,
                "runs": len(each.recordings),
                **({"columns": _roles(each)} if each.columns else {}),
            }
            for name, (_, each) in originals.items()
        ],
        "factors": {name: list(labels) for name, labels in cells.factors},
        "measurements": [
            {
                "trial": record.trial.folder,
                "workload": record.trial.workload,
                "job": each.job,
                "treatment": dict(record.trial.treatment),
                "metric": each.metric,
                "value": each.value,
                "unit": each.unit,
                "censored": each.censored,
                "source": record.source,
            }
            for record in found
            for each in record.measurements
        ],
        "doubts": [
            {
                "trial": doubt.trial,
                "check": doubt.check,
                "what": doubt.what,
                "advice": doubt.advice,
                "invalid": doubt.invalid,
            }
            for doubt in (*doubts, *(d for record in found for d in record.doubts))
        ],
    }


def told(
    folder: Path,
    cells: ImportCells,
    found: Sequence[TrialRecord],
    originals: Mapping[str, tuple[Path, OriginalFile]],
    doubts: Sequence[Doubt],
) -> list[str]:
    """What ``import`` says to a person."""
    every_file = [each for _, each in originals.values()]
    lines = (
        [_file(each) for each in every_file] if len(every_file) <= _SHOWN else _files(every_file)
    )
    lines += [said for each in every_file if (said := _left_out(each))][:_SHOWN]
    lines.append("")
    workloads = list(dict.fromkeys(run.workload for run in cells.runs))
    lines.append(f"workloads: {_listed(workloads)}")
    for name, labels in cells.factors:
        lines.append(f"{name}: {_listed(labels)}")
    numbers = sum(len(record.measurements) for record in found)
    lines.append(f"{_count(len(found), 'run')}, {_count(numbers, 'measurement')}")
    every = [*doubts, *(d for record in found for d in record.doubts)]
    where = {record.trial.folder: record.source.partition("/")[2] for record in found}
    lines += [
        f"doubt {d.check} {where.get(d.trial, d.trial) or '(all)'}: {d.what}"
        for d in every[:_SHOWN]
    ]
    if len(every) > _SHOWN:
        lines.append(f"… and {_count(len(every) - _SHOWN, 'doubt')} more: iotrial report {folder}")
    lines += ["", f"results in {folder}; next: iotrial compare {folder}"]
    return lines


def _file(original: OriginalFile) -> str:
    return f"{original.file}: {original.format}, {_count(len(original.recordings), 'run')}"


def _left_out(original: OriginalFile) -> str:
    """The columns of a file's tables of which nothing is made; '' none."""
    names = [name for name, role in _roles(original).items() if role in _UNUSED and name]
    if not names:
        return ""
    example = f'{quoted(names[0])} = "factor"'
    what = f"{original.file}: ignored: {_listed(names)}"
    return f"{what} (where one is a factor: {example} below [columns] of a --map file)"


def _roles(original: OriginalFile) -> dict[str, str]:
    return {each.name: each.role for table in original.columns for each in table.columns}


def _files(originals: Sequence[OriginalFile]) -> list[str]:
    """Many files, a line a format."""
    lines = []
    for name in sorted({each.format for each in originals}):
        mine = [each for each in originals if each.format == name]
        runs = sum(len(each.recordings) for each in mine)
        lines.append(f"{name}: {_count(len(mine), 'file')}, {_count(runs, 'run')}")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _listed(names: Sequence[str]) -> str:
    more = f" … ({len(names)})" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
