"""IOzone's spreadsheet (``-b FILE``) → recordings, as those of its text.

The file is BIFF 2 of 1988, one sheet.  Row 1 is the command line; then, single stream, tables
("Writer Report", record sizes above, file sizes to the left), or, throughput mode, a line for each
test with a number for each count of processes from the third column on.  The unit of the tables is
what the command line says (-O, -N).  That of the throughput mode is printed there.

A sheet that was saved again by a spreadsheet program is another format, and is refused.

Sources: ``dump_excel``, ``dump_throughput`` in iozone.c and ``libbif.c`` of 3.414 to 3.508; sheets
of 3.489 in ``tests/data/iozone``, read by xlrd too.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping

from iotrial.errors import FormatError
from iotrial.formats.iozone import REPORTS, TESTS, IozoneReport, IozoneSource, of_report
from iotrial.formats.iozone_tables import command
from iotrial.model.recording import Buffer, Recording

_BIFF2 = bytes((9, 0, 4, 0, 2, 0))
_OURS = (b"iozone", b"throughput report y-axis", b"the top row is records sizes")
_LARGEST = 16 * 2**20
_TITLE = re.compile(r"([A-Za-z -]{4,20}?)( CPU utilization)? report( \(.{0,60}\))?", re.IGNORECASE)
_RECORD = re.compile(r"Record size = (\d{1,12}) .{2,6}")
_MOST = 1e15
_AGAIN = "give the file that iozone -b wrote, or IOzone's text of the same run"
_INTEGER, _FLOAT, _LABEL, _BEGIN, _END = 2, 3, 4, 9, 10
_LENGTHS = {_INTEGER: 9, _FLOAT: 15, _LABEL: 264, _BEGIN: 4, _END: 0}
_FIRST = 2  # column of the throughput mode's numbers

Cell = str | float
Sheet = dict[int, dict[int, Cell]]
"""Row → column → cell; empty ones are not there."""


class _IozoneXls:
    """See :class:`iotrial.model.recording.RecordingFormat` for what each part promises."""

    name = "iozone-xls"
    title = "IOzone, spreadsheet (-b)"

    def recognises(self, head: bytes, name: str) -> int:
        if not head.startswith(_BIFF2):
            return 0
        ours = any(words in head[:4096].lower() for words in _OURS) or "iozone" in name.lower()
        return 3 if ours else 1

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        if len(data) > _LARGEST or bytes(data[: len(_BIFF2)]) != _BIFF2:
            message = f"{raw}: byte 0: no spreadsheet that IOzone wrote (BIFF 2)"
            raise FormatError(message, advice=_AGAIN)
        sheet = _sheet(bytes(data[:]), raw)
        line = sheet.pop(0, {}).get(0, "")
        told = command(line) if isinstance(line, str) and line.strip() else None
        if told is None:
            raise FormatError(f"{raw}: row 1: no command line of IOzone", advice=_AGAIN)
        known = (told.unit, ())
        found = tuple(of_report(IozoneSource(raw), _report(sheet, raw), told, known))
        if not any(each.measurements for each in found):
            raise FormatError(f"{raw}: no result of IOzone in {len(sheet)} rows", advice=_AGAIN)
        return found


FORMAT = _IozoneXls()


def _sheet(data: bytes, raw: str) -> Sheet:
    """IOzone writes five kinds of records, each of one length: opcode, length, content."""
    sheet: Sheet = {}
    at, kind = 0, -1
    while kind != _END:
        place = f"{raw}: byte {at}"
        if at + 4 > len(data):
            raise FormatError(f"{place}: the sheet does not end", advice=_AGAIN)
        kind, length = struct.unpack_from("<HH", data, at)
        content = data[at + 4 : at + 4 + length]
        if _LENGTHS.get(kind) != length or len(content) != length or (kind == _BEGIN) != (at == 0):
            raise FormatError(f"{place}: no record that IOzone writes", advice=_AGAIN)
        at += 4 + length
        if kind in (_INTEGER, _FLOAT, _LABEL):
            row, column = struct.unpack_from("<HH", content)
            cells = sheet.setdefault(row, {})
            if column in cells or any(content[4:7]):
                raise FormatError(f"{place}: cell {row}, {column} occurs twice", advice=_AGAIN)
            cells[column] = _cell(kind, content, place)
    if at != len(data):
        raise FormatError(f"{raw}: byte {at}: {len(data) - at} bytes after the end of the sheet")
    return dict(sorted(sheet.items()))


def _cell(kind: int, content: bytes, place: str) -> Cell:
    if kind == _LABEL:
        text = content[8:].partition(b"\0")[0].decode("latin-1")
        if len(text) != content[7] and len(text) < 255:  # noqa: PLR2004 (one byte for the length)
            raise FormatError(f"{place}: a text of {content[7]} bytes has {len(text)}")
        return text
    if kind == _INTEGER:
        return float(struct.unpack_from("<H", content, 7)[0])
    value = float(struct.unpack_from("<d", content, 7)[0])
    if not math.isfinite(value) or not 0 <= value < _MOST:
        raise FormatError(f"{place}: {value} is not a number of IOzone", advice=_AGAIN)
    return value


def _report(sheet: Sheet, raw: str) -> IozoneReport:
    found = IozoneReport(line=1)
    mode, operation, records = "", "", dict[int, float]()
    into = found.rates
    for row, cells in sheet.items():
        place = f"{raw}: row {row + 1}"
        first = cells.get(0, "")
        text = first.strip() if isinstance(first, str) else ""
        if "Y-axis is type of test" in text:
            mode = "cpu" if text.startswith("CPU") else "tests"
        elif (title := _TITLE.fullmatch(text)) and title[1].lower() in REPORTS:
            mode, into = "single", found.cpu if title[2] else found.rates
            operation, records = REPORTS[title[1].lower()], {}
        elif mode == "single" and not text:
            numbers = dict(_numbers(cells, place))
            if into is found.rates or not records:
                numbers = {at: _whole(value, place) for at, value in numbers.items()}
            records = _single(into, (operation, records), numbers, place)
        elif mode == "tests" and text:
            _test(found, text, cells, place)
        elif mode == "single" or (not mode and len(cells) > 1):
            raise FormatError(
                f"{place}: {text[:60]!r} is not a row that IOzone writes", advice=_AGAIN
            )
    found.check(raw)
    return found


def _single(
    into: dict[tuple[int, int, str], float],
    known: tuple[str, Mapping[int, float]],
    numbers: dict[int, float],
    place: str,
) -> dict[int, float]:
    """One row of a table: its record sizes, by column, or a file size and its numbers."""
    operation, records = known
    if not records and 0 not in numbers:
        return numbers
    size = _whole(numbers.pop(0, 0.0), place)
    if not size or not set(numbers) <= set(records):
        raise FormatError(f"{place}: no file size, or numbers beside the records", advice=_AGAIN)
    for column, value in numbers.items():
        key = (int(size), int(records[column]), operation)
        if key in into:
            raise FormatError(f"{place}: {operation} of {key[0]} kB occurs twice", advice=_AGAIN)
        into[key] = value
    return dict(records)


def _numbers(cells: Mapping[int, Cell], place: str) -> Iterator[tuple[int, float]]:
    for column, cell in cells.items():
        if not isinstance(cell, str):
            yield column, cell
        elif cell.strip():
            raise FormatError(f"{place}: {cell[:40]!r} is not a number", advice=_AGAIN)


def _whole(value: float, place: str) -> float:
    """Sizes and rates are whole numbers there, the share of the CPU is not."""
    if value != int(value):
        raise FormatError(f"{place}: {value} is not a whole number", advice=_AGAIN)
    return value


def _test(found: IozoneReport, text: str, cells: Mapping[int, Cell], place: str) -> None:
    if match := _RECORD.fullmatch(text):
        found.record = int(match[1]) * 1024
    elif text.startswith("Output is in "):
        found.ops = "ops" in text
    elif text in TESTS:
        columns = sorted(column for column in cells if column >= _FIRST)
        values = tuple(cell for at in columns if not isinstance(cell := cells[at], str))
        apart = columns != list(range(_FIRST, _FIRST + len(values)))
        if TESTS[text] in found.tests or apart or not values:
            raise FormatError(f"{place}: {text}: numbers that are none, or twice", advice=_AGAIN)
        found.tests[TESTS[text]] = values
    else:
        raise FormatError(f"{place}: {text[:60]!r} is not a test of IOzone", advice=_AGAIN)
