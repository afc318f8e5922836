"""Cells of a spreadsheet: texts that stay texts, numbers in sensible units, names of sheets.

A text that begins with ``=`` is a formula to openpyxl, and one like ``#N/A`` an error: here every
text is written as text, and marked so that a spreadsheet program does not read it anew when
somebody edits it.

Sources: ECMA-376 part 1, 18.3.1.4 (a cell's type), 18.8.45 (quotePrefix), 18.8.31 (number
formats); Microsoft, *Excel specifications and limits* (32,767 characters, names of 31).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Alignment, Font, PatternFill

from iotrial.report.grids import Bound
from iotrial.report.visible import visible
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
