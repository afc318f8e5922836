"""What ``import`` says it found: as one document, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from iotrial.model.trial import Doubt, TrialRecord
from iotrial_import.cells import Cells
from iotrial_import.formats.table.columns import key as quoted
from iotrial_import.run import Original

_SHOWN = 12
_UNUSED = ("note", "name")


def document(
    folder: Path,
    cells: Cells,
    found: Sequence[TrialRecord],
    originals: Mapping[str, tuple[Path, Original]],
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
    cells: Cells,
    found: Sequence[TrialRecord],
    originals: Mapping[str, tuple[Path, Original]],
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


def _file(original: Original) -> str:
    return f"{original.file}: {original.format}, {_count(len(original.recordings), 'run')}"


def _left_out(original: Original) -> str:
    """The columns of a file's tables of which nothing is made; '' none."""
    names = [name for name, role in _roles(original).items() if role in _UNUSED and name]
    if not names:
        return ""
    example = f'{quoted(names[0])} = "factor"'
    what = f"{original.file}: ignored: {_listed(names)}"
    return f"{what} (where one is a factor: {example} below [columns] of a --map file)"


def _roles(original: Original) -> dict[str, str]:
    return {each.name: each.role for table in original.columns for each in table.columns}


def _files(originals: Sequence[Original]) -> list[str]:
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
