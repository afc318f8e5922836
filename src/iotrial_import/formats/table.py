"""A table of numbers: CSV by commas, semicolons, tabs or bars, Markdown, or pasted columns.

What each column is, is guessed, or said by a person (:mod:`iotrial_import.formats.table_columns`).
Several tables in one text are read one after another.

A table is a header and rows as long as it.  What stands before its header (a title, comments with
``#``) and between tables is passed over; a row that is shorter or longer than its header is an
error, since a file that was cut looks just so.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from iotrial.errors import FormatError, IotrialError
from iotrial.formats import text_of
from iotrial.formats.cells import Mark, is_missing, number_in
from iotrial.model.recording import Buffer
from iotrial.model.trial import Doubt
from iotrial_import.formats.table_columns import ImportTable, TableRow
from iotrial_import.formats.table_rows import TableReader, laid

_AGAIN = "is a line cut, or a cell with the separator in it not quoted?"
_RULE = re.compile(r"[\s|+:=─━═│┃┼╪┤├┌┐└┘┬┴╞╡╔╗╚╝╠╣╦╩╬║-]+")
_BARS = re.compile(r"[|│┃║]")
_FEWEST = 2  # columns of a table
_LIKELY: dict[str, Mark] = {";": ",", ",": "."}
_SEPARATORS = (",", ";", "\t")


def tables_in(text: str, raw: str) -> tuple[ImportTable, ...]:
    """Every table in ``text``, in order.  Raises FormatError with the line."""
    lines = text.split("\n")
    drawn = sum(line.count("|") + len(re.findall(r"[│┃║]", line)) for line in lines)
    separator = _separator(lines)
    if separator and drawn < sum(line.count(separator) for line in lines):
        rows = _separated(text, separator, raw)
        return tuple(blocks(rows, raw, likely=_LIKELY.get(separator, "")))
    if drawn:
        return tuple(blocks(_drawn(lines), raw))
    if separator:
        return tuple(
            blocks(_separated(text, separator, raw), raw, likely=_LIKELY.get(separator, ""))
        )
    return tuple(blocks(_aligned(lines), raw))


def _separator(lines: Sequence[str]) -> str:
    """The separator that most lines have as often as each other; '' none."""
    best, most = "", 0
    for each in _SEPARATORS:
        counts = Counter(line.count(each) for line in lines if line.strip())
        counts.pop(0, None)
        number, times = max(counts.items(), key=lambda pair: pair[1], default=(0, 0))
        if times >= _FEWEST and number * times > most:
            best, most = each, number * times
    return best


def _separated(text: str, separator: str, raw: str) -> Iterator[TableRow]:
    # A comment's quotes are not the table's.
    kept = "\n".join("" if line.startswith("#") else line for line in text.split("\n"))
    reader = csv.reader(io.StringIO(kept), delimiter=separator, strict=True, skipinitialspace=True)
    line = 1
    try:
        for cells in reader:
            blank = not any(cell.strip() for cell in cells)
            yield TableRow(line, () if blank else tuple(cell.strip() for cell in cells))
            line = reader.line_num + 1
    except csv.Error as error:
        what = f"{raw}: line {line}: no table: {error}"
        raise FormatError(
            what, advice="A quote in a cell is doubled, and the cell quoted."
        ) from None


def _drawn(lines: Sequence[str]) -> Iterator[TableRow]:
    """Rows between bars; rules and text around are no rows."""
    for at, line in enumerate(lines, 1):
        if _RULE.fullmatch(line) and line.strip():
            continue
        if not _BARS.search(line):
            yield TableRow(at, ())
            continue
        inner = re.sub(r"^\s*[|│┃║]|[|│┃║]\s*$", "", line)
        cells = re.split(r"(?<!\\)[|│┃║]", inner)
        yield TableRow(
            at, tuple(cell.replace("\\|", "|").strip().strip("*`").strip() for cell in cells)
        )


def _aligned(lines: Sequence[str]) -> Iterator[TableRow]:
    """Cells apart by two blanks or more, or by one where the table so has more even rows."""
    wide = [_words(line, r"\s{2,}|\t") for line in lines]
    narrow = [_words(line, r"\s+") for line in lines]
    chosen = wide if _even(wide) >= _even(narrow) else narrow
    for at, cells in enumerate(chosen, 1):
        rule = cells and all(re.fullmatch(r"[-=]{2,}", cell) for cell in cells)
        if not rule:
            yield TableRow(at, cells)


def _words(line: str, gap: str) -> tuple[str, ...]:
    plain = "" if line.startswith("#") else line.strip()
    return tuple(re.split(gap, plain)) if plain else ()


def _even(rows: Iterable[tuple[str, ...]]) -> int:
    """How many rows have the most common length, of two cells or more."""
    counts = Counter(len(row) for row in rows if len(row) >= _FEWEST)
    return max(counts.values(), default=0)


def blocks(
    rows: Iterable[TableRow], raw: str, *, name: str = "", likely: Mark = ""
) -> Iterator[ImportTable]:
    """The tables among rows, apart by empty rows; rows that go on after an empty one, as long as
    before and without a header of their own, belong to the table before."""
    place = _placed(raw, name)
    open_table: ImportTable | None = None
    for block in _apart(rows):
        at = _header(block)
        if at is None:
            if open_table and all(_same(row, open_table) for row in block):
                open_table = _grown(open_table, block, place)
            elif any(_measures(row) for row in block):
                what = f"{place(block[0].line)}: numbers below no header"
                advice = "Name the columns in a line above the numbers."
                raise FormatError(what, advice=advice)
            continue
        if open_table:
            yield open_table
        header = block[at]
        _distinct(header, place)
        open_table = _grown(ImportTable(header, (), name, likely), block[at + 1 :], place)
    if open_table:
        yield open_table


def _placed(raw: str, name: str) -> Callable[[int], str]:
    sheet = f"sheet {name!r}, row" if name else "line"
    return lambda line: f"{raw}: {sheet} {line}"


def _apart(rows: Iterable[TableRow]) -> Iterator[list[TableRow]]:
    block: list[TableRow] = []
    for row in rows:
        if row.cells:
            block.append(row)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _header(block: Sequence[TableRow]) -> int | None:
    """Where the header stands: the first row of names (no numbers, none twice) that is as long as
    the row below it."""
    for at, row in enumerate(block[:-1]):
        below = block[at + 1]
        if len(row.cells) < _FEWEST or len(row.cells) != len(below.cells):
            continue
        told = [cell for cell in row.cells if cell]
        if any(_plain_number(cell) for cell in told):
            return None
        if any(map(_alike, row.cells, below.cells)):
            return None  # a row of data: names over numbers do not look like them
        if len(told) * 2 > len(row.cells) or len(told) > _FEWEST:
            numeric = any(_numeric(cell) for each in block[at + 1 :] for cell in each.cells)
            return at if numeric else None
    return None


def _alike(name: str, cell: str) -> bool:
    """Whether two cells are the same words with other numbers: ``time 1.2 seconds``."""
    shapes = [re.sub(r"\d+(\.\d+)?", "#", each) for each in (name, cell)]
    return name != cell and "#" in shapes[0] and shapes[0] == shapes[1]


def _plain_number(cell: str) -> bool:
    match = number_in(cell)
    return bool(match and not match[4])


def _numeric(cell: str) -> bool:
    return number_in(cell) is not None or (is_missing(cell) and cell != "")


def _measures(row: TableRow) -> bool:
    return len(row.cells) >= _FEWEST and any(_plain_number(cell) for cell in row.cells)


def _same(row: TableRow, table: ImportTable) -> bool:
    return len(row.cells) == len(table.header.cells)


def _distinct(header: TableRow, place: Callable[[int], str]) -> None:
    twice = [name for name, times in Counter(header.cells).items() if times > 1 and name]
    if twice:
        what = f"{place(header.line)}: two columns are called {twice[0]!r}"
        raise FormatError(what, advice="Give each column a name of its own.")


def _grown(
    table: ImportTable, rows: Sequence[TableRow], place: Callable[[int], str]
) -> ImportTable:
    wanted = len(table.header.cells)
    for row in rows:
        if len(row.cells) != wanted:
            what = f"{place(row.line)}: {len(row.cells)} cells; the header has {wanted}"
            raise FormatError(what, advice=_AGAIN)
    return ImportTable(table.header, (*table.rows, *rows), table.name, table.likely)


_NAMED = re.compile(rb"[^\d\s.,;|+-]")  # what a line of names has, and a list of numbers has not
_LAST_WORDS = "the file has no line end: its last number may be cut"


class _Text(TableReader):
    name = "table"
    title = "a table of numbers: CSV, Markdown, or columns of text"

    def recognises(self, head: bytes, name: str) -> int:
        """1 for a table of which a column is a measurement with a unit; never more: what a tool
        wrote is for the tool's own format."""
        whole = head[: head.rfind(b"\n") + 1] or head
        if not _NAMED.search(whole):  # thousands of logs are soon told apart from tables
            return 0
        try:
            found = tables(whole, name)
            return int(any(laid(each, None)[1].having("value") for each in found))
        except IotrialError:
            return 0

    def tables(self, data: Buffer, raw: str) -> tuple[ImportTable, ...]:
        return tables(data, raw)

    def cut(self, data: Buffer, last: ImportTable) -> Iterator[Doubt]:
        if bytes(data[-1:]) != b"\n" and last.rows[-1].cells[-1:] != ("",):
            yield Doubt("cut", _LAST_WORDS, "Check whether the last line is whole.")


FORMAT = _Text()


def tables(data: Buffer, raw: str) -> tuple[ImportTable, ...]:
    """Every table in a text.  Raises FormatError, also where there is none."""
    found = tuple(each for each in tables_in(text_of(data, raw), raw) if each.rows)
    if not found:
        advice = "A table has a line of names and lines with as many cells."
        raise FormatError(f"{raw}: no table of numbers", advice=advice)
    return found
