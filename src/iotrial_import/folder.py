"""Imported runs → a results folder, with the files they came from.

::

    study.toml           what was varied, as found; question, baselines and [decide] may be edited
    plan.jsonl           a head line (``recorded``, doubts, merged latencies), then one run a line
    measurements.jsonl   one line a run
    originals/           the files as they were given
    originals.json       of each: its name, bytes, SHA-256, format, and how many runs it has
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrial import files
from iotrial.errors import UsageError
from iotrial.model.results import ORIGINALS, Latency
from iotrial.model.study import Decide
from iotrial.model.trial import Doubt, Trial, TrialRecord
from iotrial.plan import recorded
from iotrial.store import Store
from iotrial_import import plausible
from iotrial_import.bounds import bounds
from iotrial_import.cells import Cells
from iotrial_import.identities import impossible
from iotrial_import.legend import Legend
from iotrial_import.repeats import latencies
from iotrial_import.run import Original, Run


def study_text(cells: Cells, legend: Legend, name: str) -> str:
    """The study of these cells.  Raises UsageError for a baseline that is no level, and for a
    primary metric that no run has."""
    labels = dict(cells.factors)
    for factor, label in legend.baselines:
        if label not in labels.get(factor, ()):
            if factor not in labels:
                there = f"There are: {', '.join(labels) or 'none'}"
                raise UsageError(f"baselines.{factor}: there is no such factor", advice=there)
            known = f"Its levels: {', '.join(labels[factor])}"
            raise UsageError(f"baselines.{factor}: no such level {label!r}", advice=known)
    by_workload: dict[str, list[Run]] = defaultdict(list)
    for run in cells.runs:
        by_workload[run.workload].append(run)
    measured = ((run.workload, run.recording.measurements) for run in cells.runs)
    recorded.check_primary(legend.primary, measured, recorded.Key(legend.file, "primary"))
    return recorded.text(
        question=legend.question or f"What do the results of {name} say?",
        workloads=[
            (name, runs[-1].recording.tool, _alike(runs, labels))
            for name, runs in by_workload.items()
        ],
        factors=cells.factors,
        baselines=dict(legend.baselines),
        decide=Decide(legend.primary, legend.margin, legend.confidence),
    )


def _alike(runs: Sequence[Run], factors: Container[str]) -> dict[str, str]:
    """What all runs of a workload say alike, and is no factor."""
    first = runs[0].properties
    return {
        name: label
        for name, label in first.items()
        if name not in factors and all(run.properties.get(name) == label for run in runs)
    }


def records(cells: Cells, legend: Legend, in_flight: float) -> list[TrialRecord]:
    """Every run as a trial that is done, with what is doubtful about it."""
    doubts = plausible.of_runs(cells.runs, legend, in_flight)
    return [
        _record(number, run, doubts.get(run.id, ()), _session(run, legend))
        for number, run in enumerate(cells.runs, 1)
    ]


@dataclass(frozen=True, slots=True)
class Imported:
    """What goes into a folder: the study's ``text``, the runs, the files they came from (by name:
    where each lies, and what was read), doubts about all of it, and merged latencies."""

    text: str
    records: Sequence[TrialRecord]
    originals: Mapping[str, tuple[Path, Original]]
    doubts: Sequence[Doubt]
    latencies: Sequence[Latency]


def merged(cells: Cells, found: Sequence[TrialRecord]) -> list[Latency]:
    """The latencies of each treatment over those of its runs that count."""
    pairs = zip(cells.runs, found, strict=True)
    return list(latencies([run for run, record in pairs if record.state == "valid"]))


def _session(run: Run, legend: Legend) -> str:
    """What says which session it was of; empty where nothing does."""
    told = [run.properties.get(name, "") for name in legend.session]
    return " / ".join(told) if any(told) else ""


def _record(number: int, run: Run, doubts: Sequence[Doubt], session: str) -> TrialRecord:
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


def keep(folder: Path, what: Imported) -> None:
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


def _kept(folder: Path, name: str, path: Path, original: Original) -> dict[str, object]:
    to = folder / name
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)
    with to.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "file": name,
        "bytes": to.stat().st_size,
        "sha256": digest,
        "format": original.format,
        "runs": len(original.recordings),
    }
