"""bonnie++'s table for people → its cells, by their columns.

A test that was left out leaves its column blank (``-f``), so where a cell stands says what it
is; only a row that has all its cells may be wider than its heading.

Up to 1.97 the rates are K/sec; from 1.98 on the heading is /sec and each rate has a unit.
Source: bonnie++(8), "OUTPUT"; recordings of 2.00a in ``tests/data/bonnie``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from iotrial.errors import FormatError

Table = tuple[int, str, str, list[list[str]]]
"""Line, version, machine, cells: 12 of (value, CPU), then 12 of (latency,); '' is blank."""

_COLUMNS, _START, _WIDTH = 6, 20, 10
_CELL = r"\d+(?:\.\d+)?[kmg]?|\+{3,}"
_COLUMN = re.compile(rf" ( *(?:{_CELL})) ( *(?:\d+|\+{{3}}))(?= |$)")
_VALUE_WIDTH, _CPU_WIDTH = 5, 3
_BLANK = [["", ""]] * _COLUMNS
_NO_TIMES = [[""]] * _COLUMNS


def tables(lines: Sequence[str], raw: str) -> Iterator[Table]:
    """Every table in ``lines``.  Raises :class:`~iotrial.errors.FormatError` with the line."""
    starts = [at for at, line in enumerate(lines) if "Sequential Output" in line]
    creates = [at for at, line in enumerate(lines) if "Sequential Create" in line]
    if not starts or (creates and creates[0] < starts[0]):
        starts = [*creates[:1], *starts]
    for start, end in pairwise([*starts, len(lines)]):
        yield _table(lines, range(start, end), raw)


def _table(lines: Sequence[str], span: range, raw: str) -> Table:
    version, name, half, waiting = "", "", 0, False
    cells = [*_BLANK, *_BLANK, *_NO_TIMES, *_NO_TIMES]
    for at in span:
        line, place = lines[at].rstrip(), f"{raw}: line {at + 1}"
        if found := re.match(r"Version +(\d\.\d\d[a-z]*)", line):
            version = found[1]
        if "Sequential Create" in line:
            half = 1
        elif line.count("%CP") == _COLUMNS:
            waiting = True
        elif waiting and line:
            name = name or (line.split(maxsplit=1)[0] if half == 0 else "")
            cells[half * _COLUMNS : (half + 1) * _COLUMNS] = _cells(line, place)
            waiting = False
        elif line.startswith("Latency"):
            begin = (2 + half) * _COLUMNS
            cells[begin : begin + _COLUMNS] = _times(line, place)
    if waiting:
        raise FormatError(f"{raw}: line {span.stop}: the table ends before its numbers")
    return span.start + 1, version, name, cells


def _cells(line: str, place: str) -> list[list[str]]:
    """Value and CPU of six columns.  A column is 10 blanks, or a blank, a value padded to 5, a
    blank and a CPU padded to 3; a longer value moves the rest to the right."""
    whole = re.search(rf"(?:\s+(?:{_CELL})\s+(?:\d+|\+{{3}})){{{_COLUMNS}}}$", line)
    if whole:
        last = line.split()[-2 * _COLUMNS :]
        return [last[i : i + 2] for i in range(0, 2 * _COLUMNS, 2)]
    found, at = [], _START - 1
    padded = line.ljust(_START + _COLUMNS * _WIDTH)
    for column in range(1, _COLUMNS + 1):
        match = _COLUMN.match(padded, at)
        if match and _padded(match[1], _VALUE_WIDTH) and _padded(match[2], _CPU_WIDTH):
            found.append([match[1].strip(), match[2].strip()])
            at = match.end()
        elif not padded[at : at + _WIDTH].strip():
            found.append(["", ""])
            at += _WIDTH
        else:
            message = f"{place}: column {column} of the table: {line[at : at + _WIDTH]!r}"
            raise FormatError(message, advice="take the line of CSV of the same run")
    if padded[at:].strip():
        raise FormatError(f"{place}: the row is longer than its {_COLUMNS} columns")
    return found


def _padded(text: str, width: int) -> bool:
    return len(text) == width or (len(text) > width and not text.startswith(" "))


def _times(line: str, place: str) -> list[list[str]]:
    found = []
    for at in range(_COLUMNS):
        cell = line[_START + at * _WIDTH - 1 : _START + (at + 1) * _WIDTH - 1].strip()
        if " " in cell:
            raise FormatError(f"{place}: two latencies in one column: {cell[:40]!r}")
        found.append([cell])
    return found
