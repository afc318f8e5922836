"""A table of numbers in a spreadsheet (``.xlsx``): every visible sheet that holds one.

Cells give what they hold, not how it is shown: 0.4567 shown as 46 % is 45.67 %.  A formula gives
the result that was stored with it; where a program stored none, that is an error.  Where several
sheets hold tables, the sheet's name is a column ``sheet`` of each.

Sources: ECMA-376 part 1 (SpreadsheetML), openpyxl's documentation of ``data_only``.
"""

from __future__ import annotations

import datetime as dt
import io
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from iotrial.errors import FormatError
from iotrial.extras import extra
from iotrial.formats import LARGEST
from iotrial.model.recording import Buffer
from iotrial_import.formats.table import blocks
from iotrial_import.formats.table_columns import ImportTable, TableRow
from iotrial_import.formats.table_rows import TableReader

_ZIP = b"PK\x03\x04"
_MOST_CELLS = 5_000_000
_AGAIN = "Open it in a spreadsheet program and save it again as .xlsx, or as CSV."


class _Xlsx(TableReader):
    name = "table-xlsx"
    title = "a table of numbers in a spreadsheet (.xlsx)"

    def recognises(self, head: bytes, name: str) -> int:
        """3 for a zip that names a workbook's parts, 1 for any other called ``.xlsx``."""
        if not head.startswith(_ZIP):
            return 0
        named = name.lower().endswith((".xlsx", ".xlsm"))
        inside = b"xl/" in head and (b"[Content_Types].xml" in head or b"xl/work" in head)
        return 3 if inside and named else 2 if inside else int(named)

    def tables(self, data: Buffer, raw: str) -> tuple[ImportTable, ...]:
        return tables(data, raw)


FORMAT = _Xlsx()


def tables(data: Buffer, raw: str) -> tuple[ImportTable, ...]:
    """Every table of every visible sheet.  Raises FormatError, also where there is none."""
    content = bytes(data[:])
    _bounded(content, raw)
    values, formulas = _workbook(content, raw, data_only=True), _workbook(content, raw)
    found: list[ImportTable] = []
    for sheet in values.worksheets:
        if sheet.sheet_state == "visible":
            rows = list(_rows(sheet, formulas[sheet.title], raw))
            found += [t for t in blocks(rows, raw, name=sheet.title) if t.rows]
    if not found:
        advice = "A table has a row of names and rows of numbers below it."
        raise FormatError(f"{raw}: no table of numbers in any sheet", advice=advice)
    several = len({table.name for table in found}) > 1
    return tuple(_named(table) if several else table for table in found)


def _bounded(content: bytes, raw: str) -> None:
    """Raises FormatError for what is no zip, damaged, or unpacks to more than any table."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            size = sum(each.file_size for each in packed.infolist())
            damaged = packed.testzip() if size <= LARGEST else None
    except Exception as error:  # noqa: BLE001 (zipfile raises half a dozen kinds on damaged files)
        raise FormatError(f"{raw}: no spreadsheet: {error}", advice=_AGAIN) from None
    if size > LARGEST:
        raise FormatError(f"{raw}: {size} bytes unpacked; a table has at most {LARGEST}")
    if damaged:
        raise FormatError(f"{raw}: {damaged} in it is damaged", advice=_AGAIN)


def _workbook(content: bytes, raw: str, *, data_only: bool = False) -> Any:  # noqa: ANN401 (openpyxl has no types)
    with extra("xlsx", f"{raw}: reading a spreadsheet"):
        import openpyxl  # noqa: PLC0415  an extra
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of extensions that hold no numbers
            return openpyxl.load_workbook(io.BytesIO(content), data_only=data_only)
    except Exception as error:  # noqa: BLE001 (openpyxl raises whatever its parts raise)
        what = f"{raw}: no spreadsheet: {type(error).__name__}: {error}"
        raise FormatError(what, advice=_AGAIN) from None


def _rows(sheet: Any, formulas: Any, raw: str) -> Iterator[TableRow]:  # noqa: ANN401
    if sheet.max_row * sheet.max_column > _MOST_CELLS:
        what = f"{raw}: sheet {sheet.title!r}: {sheet.max_row} rows by {sheet.max_column} columns"
        raise FormatError(what, advice="Remove the cells beside the table.")
    filled = _merged(sheet)
    for at, cells in enumerate(sheet.iter_rows(), 1):
        texts: list[str] = []
        for cell in cells:
            text = _text(cell)
            if not text and (formula := formulas.cell(cell.row, cell.column).value) is not None:
                text = _unstored(formula, f"{raw}: sheet {sheet.title!r}, cell {cell.coordinate}")
            texts.append(text or filled.get((cell.row, cell.column), ""))
        yield TableRow(at, tuple(texts) if any(texts) else ())


def _unstored(formula: object, place: str) -> str:
    if isinstance(formula, str) and not formula.startswith("="):
        return ""
    advice = "Open it in a spreadsheet program and save it: it computes and stores the result."
    raise FormatError(f"{place}: a formula without its result", advice=advice)


def _merged(sheet: Any) -> dict[tuple[int, int], str]:  # noqa: ANN401
    """What merged cells below or beside their first one stand for."""
    found = {}
    for area in sheet.merged_cells.ranges:
        text = _text(sheet.cell(area.min_row, area.min_col))
        if area.min_col == area.max_col and area.max_row - area.min_row < _MOST_CELLS:
            for row in range(area.min_row, area.max_row + 1):
                found[row, area.min_col] = text
    return found


def _text(cell: Any) -> str:  # noqa: ANN401
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        if "%" in (cell.number_format or "") and '"%"' not in cell.number_format:
            return f"{_plain(value * 100)}%"
        return _plain(value)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return str(value).strip()


def _plain(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)  # noqa: PLR2004


def _named(table: ImportTable) -> ImportTable:
    """The table with its sheet's name as first column."""
    header = replace(table.header, cells=("sheet", *table.header.cells))
    rows = tuple(replace(row, cells=(table.name, *row.cells)) for row in table.rows)
    return replace(table, header=header, rows=rows)
