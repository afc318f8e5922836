"""The last sheet of the spreadsheet: a line for every trial, a column for every metric."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from openpyxl.cell import WriteOnlyCell
from openpyxl.utils import get_column_letter

from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord
from iotrial.report.trial_table import PRETENDED, factors, labels_of, source
from iotrial.report.visible import visible
from iotrial.report.xlsx_cells import TIME, countable, head, put, scale

ROWS = 1_048_576
"""Of a sheet (Microsoft, *Excel specifications and limits*)."""
_EPOCH = 25_569  # days from the spreadsheet's day 0 to 1970-01-01
_DAY = 86_400
_WIDTH = 14
_BEFORE = ("trial", "block", "workload", "target", "state", "started (UTC)")
_AFTER = ("censored", "doubts and errors", "source")


def fill(new_sheet: Callable[[], Any], results: Results) -> None:
    """Write the sheet, and further ones where there are more trials than rows."""
    records = results.records
    for first in range(0, max(len(records), 1), ROWS - 1):
        _fill(new_sheet(), results, records[first : first + ROWS - 1])


def _fill(sheet: Any, results: Results, records: Sequence[TrialRecord]) -> None:  # noqa: ANN401 (openpyxl has no types)
    names = factors(results)
    numeric = {name: countable(_labels(records, name)) for name in names}
    units = _units(records)
    scales = {key: scale(values, key[1]) for key, values in units.items()}
    heads = [f"{visible(m)} ({visible(scales[m, u][1])})" if u else visible(m) for m, u in units]
    made_up = ["yes"] if results.pretended else []
    line = [*_BEFORE, *map(visible, names), *heads, *_AFTER, *PRETENDED[: len(made_up)]]
    for place in range(1, len(line) + 1):
        sheet.column_dimensions[get_column_letter(place)].width = _WIDTH
    sheet.freeze_panes = "B2"
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(line))}{len(records) + 1}"
    sheet.append([head(sheet, each) for each in line])
    pens = [WriteOnlyCell(sheet) for _ in line]  # used again for each row: 3 times as fast
    pens[_BEFORE.index("started (UTC)")].number_format = TIME
    for pen, key in zip(pens[len(_BEFORE) + len(names) :], units, strict=False):
        pen.number_format = scales[key][2]
    for record in records:
        told = {(m.metric, m.unit): m for m in record.measurements}
        values = [
            *_before(record),
            *_treatment(record, numeric),
            *(_scaled(told.get(key), scales[key][0]) for key in units),
            *_after(record),
            *made_up,
        ]
        sheet.append([_put(pen, value) for pen, value in zip(pens, values, strict=True)])


def _put(pen: Any, value: str | float | None) -> Any:  # noqa: ANN401
    if value is None or isinstance(value, str):
        return put(pen, value) if value else None
    pen.value = value
    return pen


def _labels(records: Sequence[TrialRecord], name: str) -> set[str]:
    return {label for r in records for at, label in labels_of(r.trial).items() if at == name}


def _units(records: Sequence[TrialRecord]) -> dict[tuple[str, str], list[float]]:
    """(metric, unit) → its finite values, in the order they first appear."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in records:
        for measured in record.measurements:
            if math.isfinite(measured.value):
                found[measured.metric, measured.unit].append(measured.value)
    return found


def _scaled(measured: Measurement | None, divisor: float) -> float | None:
    if measured is None or not math.isfinite(measured.value):
        return None
    return measured.value / divisor


def _before(record: TrialRecord) -> list[str | float | None]:
    trial = record.trial
    started = record.started / _DAY + _EPOCH if record.started > 0 else None
    said = (visible(trial.workload), visible(trial.target), record.state)
    return [visible(trial.folder), trial.block, *said, started]


def _treatment(record: TrialRecord, numeric: dict[str, bool]) -> list[str | float | None]:
    of = labels_of(record.trial)
    return [_label(of.get(name), counts) for name, counts in numeric.items()]


def _label(said: str | None, counts: bool) -> str | float | None:  # noqa: FBT001
    if said is None:
        return None
    if counts:
        return float(said) if "." in said else int(said)
    return visible(said)


def _after(record: TrialRecord) -> list[str | float | None]:
    censored = (f"{m.metric}: {m.censored}" for m in record.measurements if m.censored)
    doubts = (f"{doubt.check}: {doubt.what}" for doubt in record.doubts)
    told = [*doubts, record.error]
    return [
        visible("; ".join(censored)),
        visible("; ".join(filter(None, told))),
        visible(source(record)),
    ]
