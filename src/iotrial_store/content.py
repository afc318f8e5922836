"""A results folder as the rows of a store's tables."""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from iotrial import __version__, files
from iotrial.judgement import Judged, judge
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord
from iotrial.report import evidence
from iotrial.report.document import document
from iotrial.report.words import visible
from iotrial.store import open_results

Integers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Row = tuple[object, ...]
STATES = ("valid", "invalid", "failed")
"""A trial's state, by the number that stands for it."""
_KEPT = (
    "study.toml", "plan.jsonl", "measurements.jsonl", "sessions.jsonl", "boots.jsonl",
    "inventory.json", "hosts/*.json", "jobfiles/*", "trials/*/strain.json",
)  # fmt: skip
_READ = 2**20
"""Bytes of a raw file that enter its digest: logs have gigabytes."""
_HEX = 16


@dataclass(frozen=True, slots=True)
class StoreCell:
    """What several trials have in common."""

    stage: int
    workload: str
    treatment: str
    target: str
    host: str
    tool: str


@dataclass(frozen=True, slots=True)
class StoreTrials:
    """Trials, one after the other: every array is (trials,).  ``cell`` and ``settings`` are places
    in the content's; ``state`` is one in :data:`STATES`; ``started`` is seconds since the epoch,
    nan where unknown.  ``ids``, ``raw`` and ``errors`` are theirs in the same order."""

    number: Integers
    cell: Integers
    block: Integers
    attempt: Integers
    state: Integers
    doubted: npt.NDArray[np.bool_]
    started: Floats
    seconds: Floats
    settings: Integers
    ids: Sequence[str]
    raw: Sequence[str]
    errors: Sequence[str]

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class StoreMeasurements:
    """What trials measured that measured the same: ``keys`` are (metric, job, unit, censored, raw
    file), ``rows`` (trials,) places of trials, ``values`` (trials, keys)."""

    keys: tuple[tuple[str, str, str, str, str], ...]
    rows: Integers
    values: Floats


@dataclass(frozen=True, slots=True)
class StoreContent:
    """Results as a store takes them.  ``result`` says which, ``content`` what is in them.
    ``plain`` are the rows of the views that are kept as they are, in the order of their columns;
    ``settings`` the different sets of (device, tunable, value)."""

    result: str
    content: str
    study: str
    plain: Mapping[str, Sequence[Row]]
    cells: Sequence[StoreCell]
    trials: StoreTrials
    measurements: Sequence[StoreMeasurements]
    settings: Sequence[tuple[tuple[str, str, str], ...]]
    pretended: bool = False


def content_of(folder: Path, tags: Sequence[str] = ()) -> StoreContent:
    """What a results folder holds.  Raises UsageError for no such folder, FormatError for content
    that is not what it should be."""
    results = open_results(folder)
    judged = judge(results)
    kept = [(name, files.read_bytes(folder / name, folder)) for name in _names(folder)]
    content = _digest(part for name, data in kept for part in (name.encode(), data))
    result = _result(results, dict(kept), content)
    doubts = [*evidence.doubts(judged.results), *evidence.failures(judged.results)]
    doubted = {doubt.trial for doubt in doubts if doubt.trial}
    cells, trials, settings = _trials(results, doubted)
    measured = tuple(_measurements(results.records))
    numbers = {record.trial.folder: record.trial.number for record in results.records}
    began, ended = _span(trials)
    told = document(judged)
    study = results.study.name
    plain: dict[str, Sequence[Row]] = {
        "results": [_head(judged, told["recommendation"], result, content, began, ended)],
        "tags": [(result, tag) for tag in dict.fromkeys(tags)],
        "machines": [_machine(result, name, facts) for name, facts in results.facts.items()],
        "points": list(_points(results, result, began, cells, trials, measured)),
        "findings": [_finding(result, study, row) for row in told["findings"]],
        "doubts": [
            (result, numbers.get(each.trial), each.check, each.what, each.advice, each.invalid)
            for each in doubts
        ],
        "files": [(result, name, zlib.compress(data)) for name, data in kept],
    }  # fmt: skip
    return StoreContent(
        result, content, study, plain, cells, trials, measured, settings, results.pretended
    )


def _names(folder: Path) -> list[str]:
    found = [path for pattern in _KEPT for path in sorted(folder.glob(pattern))]
    return [path.relative_to(folder).as_posix() for path in found]


def _digest(parts: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()[:_HEX]


def _result(results: Results, kept: Mapping[str, bytes], content: str) -> str:
    """The same for a study that went on; of imported results their content decides."""
    first = kept.get("sessions.jsonl", b"").partition(b"\n")[0]
    return _digest(iter((results.study.text.encode(), first))) if first else content


def _head(  # noqa: PLR0913, PLR0917 (a row)
    judged: Judged, answer: str, result: str, content: str, began: float, ended: float
) -> Row:
    results = judged.results
    return (
        result,
        results.study.name,
        results.study.digest,
        visible(results.study.question),
        answer,
        "aa" if results.study.aa else results.study.design.kind,
        f"{socket.gethostname()}:{results.folder.resolve()}",
        content,
        _or_none(began),
        _or_none(ended),
        time.time(),
        results.pretended,
        len(results.records),
        sum(record.state == "valid" for record in results.records),
        results.study.text,
        __version__,
    )


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def machine_of(name: str, facts: Mapping[str, Any]) -> str:
    """The digest of what stays the same of a machine."""
    lasting = (facts.get("machine_id") or name, facts.get("cpu_model"), facts.get("cpus"))
    same = json.dumps([*lasting, facts.get("memory")])
    return hashlib.sha256(same.encode()).hexdigest()[:_HEX]


def _machine(result: str, name: str, facts: Mapping[str, Any]) -> Row:
    return (
        result,
        name,
        machine_of(name, facts),
        str(facts.get("kernel", "")),
        str(facts.get("distribution", "")),
        str(facts.get("cpu_model", "")),
        facts.get("cpus"),
        facts.get("memory"),
        json.dumps(facts, sort_keys=True),
    )


def _finding(result: str, study: str, row: Mapping[str, Any]) -> Row:
    family = "guardrail" if not row["primary"] else "primary"
    if row.get("secondary"):
        family = "secondary"
    return (
        result,
        study,
        row.get("stage", 0),
        row["workload"],
        row["metric"],
        row["factor"],
        row["level"],
        row["baseline"],
        row["ratio"],
        row["low"],
        row["high"],
        row["verdict"],
        row["n"],
        family,
    )


# -- trials ----------------------------------------------------------------------------------------


def label(record: TrialRecord) -> str:
    """The levels of all factors, in the study's order."""
    return ", ".join(f"{name}={level}" for name, level in record.trial.treatment)


def _trials(
    results: Results, doubted: set[str]
) -> tuple[tuple[StoreCell, ...], StoreTrials, tuple[tuple[tuple[str, str, str], ...], ...]]:
    cells: dict[StoreCell, int] = {}
    settings: dict[tuple[tuple[str, str, str], ...], int] = {}
    rows = []
    for record in results.records:
        trial = record.trial
        shared = StoreCell(
            trial.stage, trial.workload, label(record), trial.target, trial.host, record.tool
        )
        rows.append((
            trial.number,
            cells.setdefault(shared, len(cells)),
            trial.block,
            trial.attempt,
            STATES.index(record.state),
            trial.folder in doubted,
            record.started if record.started > 0 else math.nan,
            record.seconds,
            settings.setdefault(record.before, len(settings)),
        ))  # fmt: skip
    columns: Sequence[Any] = list(zip(*rows, strict=True)) or [()] * 9
    number, cell, block, attempt, state = (np.array(each, dtype=np.int32) for each in columns[:5])
    trials = StoreTrials(
        number,
        cell,
        block,
        attempt,
        state,
        np.array(columns[5], dtype=np.bool_),
        np.array(columns[6], dtype=np.float64),
        np.array(columns[7], dtype=np.float64),
        np.array(columns[8], dtype=np.int32),
        [record.trial.id for record in results.records],
        [_raw(results.folder, record) for record in results.records],
        [record.error for record in results.records],
    )
    return tuple(cells), trials, tuple(settings)


def _raw(folder: Path, record: TrialRecord) -> str:
    """The digest of a trial's raw files; '' where there are none."""
    own = f"{folder}/trials/{record.trial.folder}"
    if record.source or not os.path.isdir(own):  # noqa: PTH112 (of many thousand trials)
        return ""
    parts = list(_files_of(own, ""))
    return _digest(iter(parts)) if parts else ""


def _files_of(folder: str, inside: str) -> Iterator[bytes]:
    """The name and the beginning of each file below a folder, links left out."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_of(entry.path, f"{inside}{entry.name}/")
        elif entry.is_file(follow_symlinks=False):
            yield os.fsencode(inside + entry.name)
            with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123 (as above)
                yield file.read(_READ)


def _span(trials: StoreTrials) -> tuple[float, float]:
    if not len(trials) or np.isnan(trials.started).all():
        return math.nan, math.nan
    return float(np.nanmin(trials.started)), float(np.nanmax(trials.started + trials.seconds))


def _measurements(records: Sequence[TrialRecord]) -> Iterator[StoreMeasurements]:
    groups: dict[tuple[tuple[str, str, str, str, str], ...], list[int]] = {}
    for at, record in enumerate(records):
        if record.measurements:
            measured = tuple(map(_key, record.measurements))
            groups.setdefault(measured, []).append(at)
    for keys, rows in groups.items():
        values = [[each.value for each in records[at].measurements] for at in rows]
        yield StoreMeasurements(keys, np.array(rows, dtype=np.int32), np.array(values))


def _key(each: Measurement) -> tuple[str, str, str, str, str]:
    return each.metric, each.job, each.unit, each.censored, each.raw


# -- points ----------------------------------------------------------------------------------------


def _points(  # noqa: PLR0913, PLR0917 (parts of the content)
    results: Results,
    result: str,
    began: float,
    cells: Sequence[StoreCell],
    trials: StoreTrials,
    measured: Sequence[StoreMeasurements],
) -> Iterator[Row]:
    """Of each cell and metric the mean of the logs.  Trials of the same cell that differ in stage,
    host or tool are points of their own in no history: they are put together."""
    places = [(cell.workload, cell.treatment, cell.target) for cell in cells]
    total: dict[tuple[str, str, str], int] = {}
    for cell in trials.cell.tolist():
        total[places[cell]] = total.get(places[cell], 0) + 1
    counted = (trials.state == 0) & ~trials.doubted
    logs: dict[tuple[tuple[str, str, str], str, str], list[Floats]] = {}
    for group in measured:
        kept = counted[group.rows]
        of_cells = trials.cell[group.rows]
        for at, (metric, job, unit, censored, _) in enumerate(group.keys):
            if job != "all" or censored:
                continue
            column = group.values[:, at]
            good = kept & (column > 0)
            for cell in np.unique(of_cells[good]).tolist():
                chosen = column[good & (of_cells == cell)]
                logs.setdefault((places[cell], metric, unit), []).append(np.log(chosen))
    for (place, metric, unit), parts in logs.items():
        every = np.concatenate(parts)
        yield (
            result,
            results.study.name,
            _or_none(began),
            *place,
            metric,
            unit,
            results.study.metrics.higher(metric),
            len(every),
            total[place] - len(every),
            math.exp(float(every.mean())),
            float(every.std(ddof=1)) if len(every) > 1 else None,
        )
