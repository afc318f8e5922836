"""Charts of a spreadsheet, drawn by the program that opens it from the cells they refer to.

A factor that counts something (record sizes, threads) is a line with marks; names are bars.  Every
chart begins at 0, has titles on its axes, and carries the numbers it shows (``numCache``), so
that a viewer that computes nothing draws it as well.

Sources: ECMA-376 part 1, 21.2 (DrawingML charts); openpyxl's documentation of charts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from openpyxl.chart.series import Series, SeriesLabel
from openpyxl.chart.shapes import GraphicalProperties
from openpyxl.chart.title import title_maker
from openpyxl.drawing.text import CharacterProperties, ParagraphProperties
from openpyxl.utils import get_column_letter, quote_sheetname

from iotrial.report.xlsx_cells import countable

ROWS = 17
"""How many rows of a sheet a chart is high."""
SERIES = 255
"""As many lines or bars as a chart may have (Microsoft, *Excel specifications and limits*)."""
_WIDTH, _HEIGHT = 16.0, 8.2  # cm; a row is 0.53
_LARGE, _SMALL = 1100, 900  # hundredths of a point


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn: ``values[i][j]`` of the label ``down[i]`` and the label ``across[j]`` (None:
    no cell), as they stand in the sheet ``name`` with the first of them at ``row`` and
    ``column``; labels are left of and above them."""

    name: str
    row: int
    column: int
    down: tuple[str, ...]
    across: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    shown: str


def chart(drawn: Drawn, title: str, axes: tuple[str, str], *, counts: bool) -> Any:  # noqa: ANN401 (openpyxl has no types)
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


def _series(drawn: Drawn, place: int) -> Series:
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
    return made


def _labels(drawn: Drawn) -> AxDataSource:
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
