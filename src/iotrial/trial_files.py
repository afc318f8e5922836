"""Trials as they lie in a results folder, read back: from their line of measurements.jsonl, or from
their own folder.  Everything raises :class:`~iotrial.errors.FormatError`, naming file and key.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iotrial import files, rows
from iotrial.errors import FormatError
from iotrial.formats import telemetry
from iotrial.model.results import DevicePoint, ResourceUsage, strain_of
from iotrial.model.study import Study
from iotrial.model.tool import ParsedOutput, RateSeries, SupportsTrace, Tool
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.design import applies
from iotrial.rows import Triples, record_in
from iotrial.tools import tool
from iotrial.tools.results import merged, of_neighbour

FORMAT = 1
STRAIN, STRAIN_FORMAT = "strain.json", 1


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Say where it stands what a row is not."""
    try:
        yield
    except FormatError as error:
        if error.message.startswith(place):
            raise
        raise FormatError(f"{place}: {error.message}", advice=error.advice) from error


def known(row: dict[str, Any] | None, name: str, memo: dict[str, Triples]) -> TrialRecord | None:
    """The record of a line of measurements.jsonl; None where there is none, or it is damaged: it
    is derived, and the trial's own folder is read instead."""
    try:
        record = record_in(row, memo) if row else None
    except FormatError:
        return None
    return record if record and record.trial.folder == name else None


def derived(folder: Path) -> dict[str, dict[str, Any]]:
    """The lines of measurements.jsonl by their trials' folders; without those that are damaged."""
    path = folder / "measurements.jsonl"
    found: dict[str, dict[str, Any]] = {}
    if not path.exists():
        return found
    for line in files.read_bytes(path, folder).split(b"\n"):
        try:
            row = json.loads(line)
            found[row["folder"]] = row
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return found


@dataclass(frozen=True, slots=True)
class FolderTraces:
    """What the trials of a results folder noted beside their numbers: see
    :class:`iotrial.model.results.TrialTraces`."""

    folder: Path

    def of_device(self, record: TrialRecord) -> RateSeries | None:
        path = self._load(record) / "telemetry.jsonl"
        return telemetry.course(files.read_bytes(path, self.folder)) if path.is_file() else None

    def samples(self, record: TrialRecord) -> tuple[DevicePoint, ...]:
        path = self._load(record) / "telemetry.jsonl"
        return telemetry.samples(files.read_bytes(path, self.folder)) if path.is_file() else ()

    def of_load(self, record: TrialRecord, metric: str) -> RateSeries | None:
        place = self._load(record)
        if not record.tool or not place.is_dir():
            return None
        driver = tool(record.tool)
        if not isinstance(driver, SupportsTrace):
            return None
        files.only_files(place, self.folder)  # the tool reads what it finds there
        return driver.course(place, metric)

    def strains(self, record: TrialRecord) -> tuple[ResourceUsage, ...]:
        path = self._trial(record) / STRAIN
        if not path.is_file():  # an older version's trial, or one that failed early
            return ()
        row = files.read_object(path, self.folder)
        if row.get("format") != STRAIN_FORMAT:
            raise FormatError(f"{path}: format {row.get('format')!r} is not known")
        with placed(str(path)):
            return tuple(map(strain_of, rows.strains_in(row)))

    def _trial(self, record: TrialRecord) -> Path:
        return self.folder / "trials" / record.trial.folder

    def _load(self, record: TrialRecord) -> Path:
        """Where the load of a trial noted it; of one with a load beside it, the judged one's."""
        folder = self._trial(record)
        return folder / record.parts[0] if record.beside else folder


def read_trial(folder: Path, top: Path | None = None) -> TrialRecord:
    """A committed trial from its own folder, its raw output parsed again.  Below ``top``, the
    results folder, no link is followed."""
    top = top or folder.parent.parent
    path = folder / "trial.json"
    row = files.read_object(path, top)
    if row.get("format") != FORMAT:
        raise FormatError(f"{path}: format {row.get('format')!r} is not known")
    row |= {part: files.read_text(folder / f"{part}.json", top) for part in ("before", "after")}
    with placed(str(path)):
        record = record_in(row | {"values": {}}, {})
        if record.trial.folder != folder.name:
            raise FormatError(f"trial.number, trial.id: belong to {record.trial.folder}")
    if record.state == "failed":
        return record
    files.only_files(folder, top)  # the tool reads what it finds there
    driver = tool(record.tool)
    with placed(str(folder)):
        if record.parts:
            told = [(part, _parsed(driver, folder / part)) for part in record.parts]
            found = merged(driver, told)
            if record.beside:
                name, other, where = record.beside
                found += of_neighbour(name, _parsed(tool(other), folder / where), where)
            return replace(record, measurements=found)
        return replace(record, measurements=_parsed(driver, folder).measurements)


def _parsed(driver: Tool, folder: Path) -> ParsedOutput:
    try:
        return driver.parse(folder)
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{driver.name}: {error}") from error


def belong(study: Study, folder: Path, trials: Iterable[Trial]) -> None:
    """That the trials are of this study.  Raises FormatError."""
    workloads = {each.name for each in study.workloads}
    levels = {each.name: {level.label for level in each.levels} for each in study.factors}
    whole = not study.stages and study.design.kind not in ("saturate", "recorded")
    for trial in trials:
        varied = dict(trial.treatment)
        odd = [f"factor {name!r}" for name in varied if name not in levels]
        if trial.workload not in workloads:
            odd.append(f"workload {trial.workload!r}")
        elif whole and not odd:  # in the others, levels are made on the way
            odd += [
                f"level {varied.get(name, '(none)')!r} of {name}"
                for name in (each.name for each in study.factors if applies(each, trial.workload))
                if levels[name] and varied.get(name) not in levels[name]
            ]
        if odd:
            raise FormatError(
                f"{folder}/plan.jsonl: trial {trial.folder} has a {odd[0]} that study.toml does"
                " not define",
                advice="The folder mixes files of two studies.",
            )
