"""xlsx: a workbook as people of IOzone know it: an answer, a sheet a metric, every trial.

The first sheet says question, answer, findings and doubts; then a sheet for each workload and
metric (:mod:`iotrial.report.grids`) with its charts; the last has a line for every trial and a
column for every metric.  Numbers are numbers, in the unit that the head of their column or sheet
names; the table in base units is the CSV's.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from openpyxl import Workbook
from openpyxl.worksheet.properties import PageSetupProperties

from iotrial.model.measurement import split
from iotrial.model.results import Results
from iotrial.report import xlsx_answer, xlsx_grid, xlsx_trials
from iotrial.report.grids import Sheet, sheets
from iotrial.report.view import View
from iotrial.report.visible import visible
from iotrial.report.xlsx_cells import sheet_names

SHEETS = 150
"""Grids of one workbook; a reader finds nothing among more."""
_ANSWER, _TRIALS = "Answer", "Trials"


def xlsx(view: View, results: Results) -> bytes:
    """The whole workbook."""
    book = Workbook(write_only=True)
    book.properties.creator, book.properties.title = "iotrial", view.study or view.question
    if view.pretended:
        book.properties.title += " (pretended)"
    grids = sheets(results)
    kept = grids[:SHEETS]
    names = sheet_names(_wanted(kept), (_ANSWER, _TRIALS))
    first = _page(book, _ANSWER)
    for name, grid in zip(names, kept, strict=True):
        xlsx_grid.fill(_page(book, name), grid, pretended=view.pretended)
    xlsx_answer.fill(first, view, tuple(zip(names, kept, strict=True)), len(grids) - len(kept))
    xlsx_trials.fill(lambda: _page(book, _TRIALS), results)
    into = io.BytesIO()
    book.save(into)
    return into.getvalue()


def _page(book: Workbook, name: str) -> Any:  # noqa: ANN401 (openpyxl has no types)
    """A new sheet that prints as wide as the paper."""
    sheet = book.create_sheet(name)
    sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
    return sheet


def _wanted(grids: Sequence[Sheet]) -> list[str]:
    """``randread read.iops``; the workload alone where it has one sheet, the metric alone where
    there is one workload, the operation alone where all are of one quantity: a sheet each."""
    each = Counter(grid.workload for grid in grids)
    if len(each) == 1:
        parts = [split(grid.metric.name) for grid in grids]
        same = len({quantity for _, quantity in parts}) == 1 and all(part[1] for part in parts)
        names = [operation for operation, _ in parts] if same else [g.metric.name for g in grids]
        return [visible(name) for name in names]
    if set(each.values()) == {1}:
        return [visible(grid.workload) for grid in grids]
    return [_joined(visible(grid.workload), visible(grid.metric.name)) for grid in grids]


def _joined(workload: str, metric: str) -> str:
    """Cut in the workload's name, so that the metric can be read."""
    room = max(30 - len(metric), 8)
    return f"{workload[:room]} {metric}"
