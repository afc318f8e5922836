"""A sheet of the spreadsheet: the grids of one workload and metric, a native chart beside each.

::

    read: bandwidth (MiB/s), geometric means
    more is better; record_kib down, threads across

    storage=emc-lvm-8, scheduler=cfq; n = 1 in every cell
    record_kib \\ threads |  4 |  8        (chart)
                       4 | … | …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from openpyxl.utils import get_column_letter

from iotrial.model.trial import Treatment
from iotrial.report import words
from iotrial.report.grids import Block, Cell, Sheet
from iotrial.report.visible import visible
from iotrial.report.xlsx_cells import (
    BOLD,
    QUIET,
    TITLE,
    bounded,
    countable,
    head,
    label,
    number,
    over,
    scale,
    text,
)
from iotrial.report.xlsx_chart import ROWS, Drawn, chart
from iotrial.units import amount

CHARTS = 200
"""Blocks of a sheet that get a chart; more would only be slow to open."""
_HEAD = 4
_FIRST_COLUMN, _COLUMN = 22, 12  # characters


@dataclass(frozen=True, slots=True)
class Measure:
    """How the numbers of a sheet are shown: divided by ``divisor``, in ``unit``."""

    divisor: float
    unit: str
    shown: str


def measure(grid: Sheet) -> Measure:
    """One unit for the whole sheet, so that its blocks can be compared."""
    means = [cell.mean for block in grid.blocks for cell in block.cells.values()]
    return Measure(*scale(means, visible(grid.metric.unit)))


def title(grid: Sheet) -> str:
    """``oltp: read bandwidth``; a workload that is called as its operation is not said twice."""
    workload, metric = visible(grid.workload), _metric(grid)
    return metric if metric.startswith(f"{workload} ") else f"{workload}: {metric}"


def _metric(grid: Sheet) -> str:
    return visible(grid.metric.title or grid.metric.name)


def _in(said: str, unit: str) -> str:
    return f"{said} ({visible(unit)})" if unit else said


def fill(sheet: Any, grid: Sheet, *, pretended: bool = False) -> None:  # noqa: ANN401 (openpyxl has no types)
    """Write the whole sheet; its title says where its numbers are ``pretended``."""
    by = measure(grid)
    widest = max(len(block.across) for block in grid.blocks)
    uneven = any(len({cell.n for cell in block.cells.values()}) > 1 for block in grid.blocks)
    beside = 1 + widest + (2 + widest if uneven else 0) + 2
    sheet.column_dimensions["A"].width = _FIRST_COLUMN
    for place in range(2, beside):
        sheet.column_dimensions[get_column_letter(place)].width = _COLUMN
    sheet.freeze_panes = "B4"
    mark = "Pretended: " if pretended else ""
    for place, (said, font) in enumerate(_opening(grid, by)):
        sheet.append([text(sheet, said if place else f"{mark}{said}", font)])
    row = _HEAD
    for count, block in enumerate(grid.blocks):
        lines = list(_lines(sheet, grid, block, by))
        if count < CHARTS and len(block.cells) > 1:
            sheet.add_chart(_chart(sheet.title, grid, block, by, row), _cell(beside, row))
            lines += [[]] * (ROWS - len(lines))
        for line in (*lines, []):
            sheet.append(line)
        row += len(lines) + 1


def _opening(grid: Sheet, by: Measure) -> Iterator[tuple[str, Any]]:
    """Exactly the lines above the first block."""
    yield f"{_in(title(grid), by.unit)}, {grid.mean} means", TITLE
    said = [words.direction(grid.metric.higher)]
    said += [f"{visible(name)} {way}" for name, way in _ways(grid)]
    said += [f"{_treatment(grid.constant)} throughout"] if grid.constant else []
    bounds = {cell.bound for block in grid.blocks for cell in block.cells.values()} - {""}
    said += ["≥ and ≤: the truth lies beyond what the tool could tell"] if bounds else []
    if len(grid.blocks) > CHARTS:
        said += [f"charts beside the first {CHARTS} of {len(grid.blocks)} blocks"]
    yield "; ".join(filter(None, said)), QUIET
    yield "", None


def _ways(grid: Sheet) -> Iterator[tuple[str, str]]:
    if grid.down:
        yield grid.down, "down"
    if grid.across:
        yield grid.across, "across"


def _treatment(treatment: Treatment) -> str:
    return ", ".join(f"{visible(name)}={visible(level) or '–'}" for name, level in treatment)


def _lines(sheet: Any, grid: Sheet, block: Block, by: Measure) -> Iterator[list[Any]]:  # noqa: ANN401
    """The block's title, its line of labels, and a line for each level down."""
    counts = sorted({cell.n for cell in block.cells.values()})
    even = len(counts) == 1
    every = f"n = {counts[0]} in every cell" if even else "n on the right"
    yield [text(sheet, "; ".join(filter(None, (_treatment(block.fixed), every))), BOLD)]
    heads = [over(_label(sheet, each, block.across)) for each in block.across]
    if not grid.across:
        heads = [over(head(sheet, by.unit or visible(grid.metric.name)))]
    corner = " \\ ".join(visible(name) for name, _ in _ways(grid))
    more = [None, head(sheet, "n"), *heads] if not even else []
    yield [head(sheet, corner), *heads, *more]
    for down in block.down:
        cells = [block.cells.get((down, across)) for across in block.across]
        line = [_label(sheet, down, block.down) if grid.down else head(sheet, "")]
        for cell in cells:
            told = cell and number(sheet, cell.mean / by.divisor, bounded(by.shown, cell.bound))
            line.append(told)
        if not even:
            line += [None, _label(sheet, down, block.down)]
            line += [cell and number(sheet, cell.n, "0") for cell in cells]
        yield line


def _mean(cell: Cell | None, by: Measure) -> float | None:
    return None if cell is None else cell.mean / by.divisor


def _label(sheet: Any, said: str, labels: Sequence[str]) -> Any:  # noqa: ANN401
    return label(sheet, visible(said), counts=countable(labels))


def _cell(column: int, row: int) -> str:
    return f"{get_column_letter(column)}{row}"


def _chart(name: str, grid: Sheet, block: Block, by: Measure, row: int) -> Any:  # noqa: ANN401
    cells = [[block.cells.get((down, across)) for across in block.across] for down in block.down]
    unit = by.unit
    across = tuple(visible(each) for each in block.across)
    drawn = Drawn(
        name,
        row + 2,
        2,
        tuple(visible(down) for down in block.down),
        across if grid.across else (unit or visible(grid.metric.name),),
        tuple(tuple(_mean(cell, by) for cell in line) for line in cells),
        by.shown,
    )
    ways = " and ".join(visible(name) for name, _ in _ways(grid))
    fixed = f"\n{_treatment(block.fixed)}" if block.fixed else ""
    axes = (visible(grid.down), _in(_metric(grid), unit))
    counts = len(block.down) > 1 and all(amount(down) is not None for down in block.down)
    return chart(drawn, f"{title(grid)} by {ways}{fixed}", axes, counts=counts)
