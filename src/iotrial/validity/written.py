"""validity.json: what was read around a load, kept in the trial's folder.

With the measurements of its raw output it is all that checks decide from, so that the decision
can be made again from disk, also with other limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from iotrial.errors import FormatError
from iotrial.model.measurement import Measurement
from iotrial.model.validity import (
    BytesMoved,
    CheckContext,
    IOSample,
    LateSample,
    LoadEvidence,
    Snapshot,
)
from iotrial.validity.disk import SECTOR

Row = TypeVar("Row")
FILE = "validity.json"
FORMAT = 1
TELEMETRY = "telemetry.jsonl"
PAUSES = "pauses.jsonl"


def save(folder: Path, case: LoadEvidence) -> None:
    """Write down what cannot be read again."""
    row = {
        "format": FORMAT,
        "scene": {each.name: getattr(case.scene, each.name) for each in fields(CheckContext)},
        "before": {"at": case.before.at, "said": dict(case.before.said)},
        "after": {"at": case.after.at, "said": dict(case.after.said)},
        "seconds": case.seconds,
        "named": case.named,
    }
    text = json.dumps(row, ensure_ascii=True, indent=1)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def case(folder: Path, measurements: tuple[Measurement, ...]) -> LoadEvidence:
    """The case of a trial's folder.  Raises FormatError for what is not whole."""
    path = folder / FILE
    try:
        row = json.loads(path.read_bytes())
        if row["format"] != FORMAT:
            raise FormatError(f"{path}: format {row['format']!r} is not known")
        return LoadEvidence(
            scene=_scene(row["scene"]),
            before=_snapshot(row["before"]),
            after=_snapshot(row["after"]),
            seconds=float(row["seconds"]),
            measurements=measurements,
            samples=samples(folder / TELEMETRY),
            pauses=pauses(folder / PAUSES),
            named=tuple(map(str, row.get("named", ()))),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{path}: {error!r}") from error


def _scene(row: Mapping[str, Any]) -> CheckContext:
    known = {each.name for each in fields(CheckContext)}
    told = {name: value for name, value in row.items() if name in known}
    ways = tuple(tuple(way) for way in told.get("ways", ()))
    several = {name: tuple(told.get(name, ())) for name in ("disks", "below")}
    return CheckContext(**(told | several | {"ways": ways}))


def _snapshot(row: Mapping[str, Any]) -> Snapshot:
    said = {str(place): str(text) for place, text in row["said"].items()}
    return Snapshot(float(row["at"]), said)


def samples(path: Path) -> tuple[IOSample, ...]:
    """The device's bytes over time; () where there is no telemetry of a device."""

    def read(row: Mapping[str, Any]) -> IOSample:
        disk = row["disk"]
        sectors = BytesMoved(disk["sectors_read"] * SECTOR, disk["sectors_written"] * SECTOR)
        finished = int(disk.get("reads", 0)) + int(disk.get("writes", 0))
        return IOSample(float(row["t"]), sectors, finished)

    return _lines(path, read)


def pauses(path: Path) -> tuple[LateSample, ...]:
    """Where the machine may have stood still; () where it did not."""

    def read(row: Mapping[str, Any]) -> LateSample:
        grown = None if row["bytes"] is None else float(row["bytes"])
        return LateSample(float(row["t"]), float(row["seconds"]), grown)

    return _lines(path, read)


def _lines(path: Path, read: Callable[[Mapping[str, Any]], Row]) -> tuple[Row, ...]:
    """What each line says; one that is torn is left out."""
    found = []
    for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
        with suppress(ValueError, KeyError, TypeError):
            found.append(read(json.loads(line)))
    return tuple(found)
