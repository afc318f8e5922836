"""Cells and charts of a spreadsheet: texts that stay texts, numbers in sensible units, names of
sheets.

A text that begins with ``=`` is a formula to openpyxl, and one like ``#N/A`` an error: here every
text is written as text, and marked so that a spreadsheet program does not read it anew when
somebody edits it.

Charts are drawn by the program that opens it, from the cells they refer to.  A factor that counts
something (record sizes, threads) is a line with marks; names are bars.  Every chart begins at 0,
has titles on its axes, and carries the numbers it shows (``numCache``), so that a viewer that
computes nothing draws it as well.

Sources: ECMA-376 part 1, 18.3.1.4 (a cell's type), 18.8.45 (quotePrefix), 18.8.31 (number
formats), 21.2 (DrawingML charts); Microsoft, *Excel specifications and limits* (32,767 characters,
names of 31); openpyxl's documentation of charts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from openpyxl.cell import WriteOnlyCell
from openpyxl.chart import BarChart, LineChart
from openpyxl.chart.data_source import (
    AxDataSource,
    NumData,
    NumDataSource,
    NumRef,
    NumVal,
    StrData,
    StrRef,
    StrVal,
)
from openpyxl.chart.error_bar import ErrorBars
from openpyxl.chart.series import Series, SeriesLabel
from openpyxl.chart.shapes import GraphicalProperties
from openpyxl.chart.title import title_maker
from openpyxl.drawing.text import CharacterProperties, ParagraphProperties
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter, quote_sheetname

from iotrial.report.grids import Bound
from iotrial.report.words import visible
from iotrial.units import axis_scale

_FORMULA = tuple("=+-@＝＋－＠")  # noqa: RUF001 (full-width signs count as well)
_LONGEST = 32_767
_NAME = 31
_DIGITS = 3
_MOST_DECIMALS = 6
_FACE = "Calibri"  # openpyxl's own for a cell that says none
BOLD = Font(name=_FACE, size=11, bold=True)
TITLE = Font(name=_FACE, size=14, bold=True)
QUIET = Font(name=_FACE, size=11, color="FF666666")
HEAD = PatternFill("solid", fgColor="FFE7ECF2")
CHANGE = '+0.0%;"−"0.0%;0.0%'
TIME = "yyyy-mm-dd hh:mm:ss"
_SIGNS: dict[Bound, str] = {"": "", "high": '"≥ "', "low": '"≤ "', "both": '"? "'}


def text(sheet: Any, said: str, font: Font | None = None) -> Any:  # noqa: ANN401 (openpyxl has no types)
    """A cell that says ``said`` and computes nothing."""
    cell = WriteOnlyCell(sheet)
    if font:
        cell.font = font
    return put(cell, said)


def put(cell: Any, said: str) -> Any:  # noqa: ANN401
    """Let ``cell`` say ``said``; a cell may be used again for the next row."""
    said = visible(said)  # else openpyxl refuses, or the workbook cannot be read
    cell.value = said[:_LONGEST]
    cell.data_type = "s"
    if said.startswith(_FORMULA) != bool(cell.quotePrefix):
        cell.quotePrefix = said.startswith(_FORMULA)
    return cell


def head(sheet: Any, said: str) -> Any:  # noqa: ANN401
    """A cell at the head of a column or line."""
    cell = text(sheet, said, BOLD)
    cell.fill = HEAD
    cell.alignment = Alignment(vertical="top", wrap_text=True)
    return cell


def number(sheet: Any, value: float, shown: str, font: Font | None = None) -> Any:  # noqa: ANN401
    """A cell with a number and the format it is shown in."""
    cell = WriteOnlyCell(sheet, value)
    cell.number_format = shown
    if font:
        cell.font = font
    return cell


def over(cell: Any) -> Any:  # noqa: ANN401
    """The head of a column of numbers: to the right, as they are."""
    cell.alignment = Alignment(horizontal="right")
    return cell


def beside(cell: Any) -> Any:  # noqa: ANN401
    """A text to the right of a number: apart from it."""
    cell.alignment = Alignment(horizontal="left", indent=1)
    return cell


def label(sheet: Any, said: str, *, counts: bool) -> Any:  # noqa: ANN401
    """A level at the head of a line or column: a number where all of them are plain numbers."""
    cell = head(sheet, said or "–")
    if counts:
        cell.value = float(said) if "." in said else int(said)
    return cell


def countable(labels: Iterable[str]) -> bool:
    """Whether all labels are plain numbers, written as a spreadsheet writes them."""
    return all(re.fullmatch(r"(0|[1-9][0-9]{0,14})(\.[0-9]{0,5}[1-9])?", each) for each in labels)


def scale(values: Iterable[float], unit: str) -> tuple[float, str, str]:
    """``(divisor, unit, format)`` that suit all values: one unit for a whole sheet.

    The unit suits the middle of the smallest and the largest; the format shows three digits of
    the smallest and never more than six decimals.
    """
    sizes = [abs(value) for value in values if value]
    if not sizes:
        return 1.0, unit, "General"
    low, high = min(sizes), max(sizes)
    divisor, name = axis_scale(math.sqrt(low) * math.sqrt(high), unit)
    decimals = _DIGITS - 1 - math.floor(math.log10(low / divisor))
    return divisor, name, shown(decimals)


def shown(decimals: int) -> str:
    """A number format with thousands parted: ``#,##0.00``."""
    kept = min(max(decimals, 0), _MOST_DECIMALS)
    return "#,##0" + ("." + "0" * kept if kept else "")


def bounded(shown: str, bound: Bound) -> str:
    """The format of a number that the truth is above or below: ``≥ 1.23`` stays a number."""
    return _SIGNS[bound] + shown


def sheet_names(wanted: Iterable[str], taken: Iterable[str]) -> tuple[str, ...]:
    """Names that a spreadsheet program takes: 31 characters, none of ``[]:*?/\\``, no
    apostrophe at an end, none twice whatever the case.  ``taken`` are there already."""
    used = {name.lower() for name in taken} | {"history"}
    names = []
    for each in wanted:
        plain = re.sub(r"[\[\]:*?/\\]", "_", each).strip("' ") or "sheet"
        name, count = plain[:_NAME].rstrip("' "), 1
        while name.lower() in used:
            count += 1
            end = f" {count}"
            name = plain[: _NAME - len(end)].rstrip("' ") + end
        used.add(name.lower())
        names.append(name)
    return tuple(names)


# -- charts ---------------------------------------------------------------------------------------

CHART_ROWS = 17
"""How many rows of a sheet a chart is high."""
SERIES = 255
"""As many lines or bars as a chart may have (Microsoft, *Excel specifications and limits*)."""
_WIDTH, _HEIGHT = 16.0, 8.2  # cm; a row is 0.53
_LARGE, _SMALL = 1100, 900  # hundredths of a point


@dataclass(frozen=True, slots=True)
class ChartData:
    """What is drawn: ``values[i][j]`` of the label ``down[i]`` and the label ``across[j]`` (None:
    no cell), as they stand in the sheet ``name`` with the first of them at ``row`` and
    ``column``; labels are left of and above them.  ``reaches`` is how far each value's interval
    goes below and above it (None: it has none)."""

    name: str
    row: int
    column: int
    down: tuple[str, ...]
    across: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    shown: str
    reaches: tuple[tuple[tuple[float, float] | None, ...], ...] = ()


def chart(drawn: ChartData, title: str, axes: tuple[str, str], *, counts: bool) -> Any:  # noqa: ANN401 (openpyxl has no types)
    """A chart with a line or a set of bars for each column.  ``axes`` are the titles of the
    axes; ``counts`` says that the labels down are amounts."""
    made = LineChart() if counts else BarChart()
    made.title = _title(title)
    made.x_axis.title, made.y_axis.title = (_title(axis) for axis in axes)
    made.x_axis.delete = made.y_axis.delete = False  # else newer programs hide them
    made.y_axis.number_format = drawn.shown
    made.x_axis.number_format = "General"
    if all(value is None or value >= 0 for line in drawn.values for value in line):
        made.y_axis.scaling.min = 0
    made.width, made.height = _WIDTH, _HEIGHT
    made.series = [_series(drawn, place) for place in range(min(len(drawn.across), SERIES))]
    for each in made.series:
        if each.errBars and not counts:
            each.errBars.errDir = None  # bars have one direction, and it is not said
    if counts:
        for each in made.series:
            each.marker.symbol, each.smooth = "circle", False
    if len(drawn.across) == 1:
        made.legend = None
    return made


def _title(said: str) -> Any:  # noqa: ANN401
    """The first line in bold, further ones smaller."""
    made = title_maker(said)
    made.overlay = False
    for place, line in enumerate(made.tx.rich.p):
        look = CharacterProperties(sz=_SMALL if place else _LARGE, b=not place)
        line.pPr = ParagraphProperties(defRPr=look)
        for run in line.r:
            run.rPr = look
    return made


def _series(drawn: ChartData, place: int) -> Series:
    column = drawn.column + place
    last = drawn.row + len(drawn.down) - 1
    values = [line[place] for line in drawn.values]
    made = Series(idx=place, order=place)
    made.tx = SeriesLabel(
        strRef=StrRef(
            _area(drawn.name, column, drawn.row - 1), _strings([drawn.across[place] or "–"])
        )
    )
    made.cat = _labels(drawn)
    numbers = [NumVal(idx=n, v=repr(v)) for n, v in enumerate(values) if v is not None]
    made.val = NumDataSource(
        numRef=NumRef(
            f=_area(drawn.name, column, drawn.row, last),
            numCache=NumData(formatCode=drawn.shown, ptCount=len(values), pt=numbers),
        )
    )
    made.spPr = GraphicalProperties()
    reaches = [line[place] for line in drawn.reaches]
    if any(reaches):
        made.errBars = _bars(reaches, drawn.shown)
    return made


def _bars(reaches: Sequence[tuple[float, float] | None], shown: str) -> ErrorBars:
    """Error bars with the numbers of each point; none where it has no interval."""
    minus, plus = (
        NumDataSource(
            numLit=NumData(
                formatCode=shown,
                ptCount=len(reaches),
                pt=[NumVal(idx=n, v=repr(r[end] if r else 0.0)) for n, r in enumerate(reaches)],
            )
        )
        for end in (0, 1)
    )
    return ErrorBars(errDir="y", errBarType="both", errValType="cust", plus=plus, minus=minus)


def _labels(drawn: ChartData) -> AxDataSource:
    """Numbers where the cells hold numbers, else texts."""
    last = drawn.row + len(drawn.down) - 1
    where = _area(drawn.name, drawn.column - 1, drawn.row, last)
    if not countable(drawn.down):
        return AxDataSource(strRef=StrRef(where, _strings(drawn.down)))
    numbers = [NumVal(idx=place, v=label) for place, label in enumerate(drawn.down)]
    data = NumData(formatCode="General", ptCount=len(numbers), pt=numbers)
    return AxDataSource(numRef=NumRef(f=where, numCache=data))


def _strings(labels: Sequence[str]) -> StrData:
    return StrData(
        ptCount=len(labels), pt=[StrVal(idx=n, v=label or "–") for n, label in enumerate(labels)]
    )


def _area(name: str, column: int, first: int, last: int | None = None) -> str:
    """``'read'!$B$5:$B$9``, or one cell."""
    letter = get_column_letter(column)
    end = f":${letter}${last}" if last is not None else ""
    return f"{quote_sheetname(name)}!${letter}${first}{end}"
