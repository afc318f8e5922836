"""bonnie++'s table for people, and that of bonnie before it → its cells, by their columns.

A test that was left out leaves its column blank (``-f``), so where a cell stands says what it
is; only a row that has all its cells may be wider than its heading.  ``bon_csv2txt`` writes
several rows under one heading.  A table may be indented or quoted: its heading says how far.

Up to 1.97 the rates are K/sec; from 1.98 on the heading is /sec, each rate has a unit and is
rounded, and the rates of files are whatever was in memory (a number of files, or below zero).

Sources: ``bon_time.cpp`` and ``bon_csv2txt`` of 1.00 to 2.00; ``bonnie.c`` of 1996.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from iotrial.errors import FormatError
from iotrial.formats.bonnie.run import Row

_COLUMNS, _START, _WIDTH = 6, 20, 10
_TITLE = 26  # where the words of a heading begin
_CELL = r"-?\d+(?:\.\d+)?[kmg]?|\+{3,}"
_COLUMN = re.compile(rf" ( *(?:{_CELL})) ( *(?:\d+|\+{{3}}))(?= |$)")
_WHOLE = re.compile(rf"(?:\s+(?:{_CELL})\s+(?:\d+(?:\.\d+)?|\+{{3}})){{{_COLUMNS}}}$")
_VALUE_WIDTH, _CPU_WIDTH = 5, 3
_IO, _FILES = "Sequential Output---", "Sequential Create---"
_CONCURRENCY = re.compile(r"Concurrency +(\d+)")
_SIZE = re.compile(r"\d+[MGT]?(?::.*)?")
_ABOUT = re.compile(r"\s*(?:\S+ +)??\d+(?:[MGT]\S*|:[\d:/]+)(?= )")
_ETC = ("chunk", "concurrency", "seeks", "seekers")  # after the size, in 2.00
_ADVICE = "take the line of CSV of the same run"
_BLANK = (("", ""),) * _COLUMNS
_NO_TIMES = ("",) * _COLUMNS


@dataclass(slots=True)
class _Half:
    """The rows under one heading: (line, what stands before the cells, cells); and latencies."""

    start: int
    files: bool
    version: str
    name: str = ""
    concurrency: str = ""
    rows: list[tuple[int, str, tuple[tuple[str, str], ...]]] = field(default_factory=list)
    times: tuple[str, ...] = _NO_TIMES


def blocks(lines: Sequence[str]) -> list[range]:
    """The lines of each table, from its heading up to the next one's."""
    heads = [(at, _FILES in line) for at, line in enumerate(lines) if _IO in line or _FILES in line]
    starts = [
        at for (_, before), (at, files) in pairwise([(-1, True), *heads]) if not files or before
    ]
    return [range(a, b) for a, b in pairwise([*starts, len(lines)])]


def original(lines: Sequence[str], span: range) -> bool:
    """Whether the table is that of bonnie, without ``++``: its CPU has a decimal."""
    return any("%CPU" in lines[at] for at in span[:4])


def table(lines: Sequence[str], span: range, raw: str) -> Iterator[Row]:
    """Every run in one table.  Raises :class:`~iotrial.errors.FormatError` with the line."""
    halves = [
        _half(lines, range(a, b), raw)
        for a, b in pairwise(
            [*(at for at in span if _IO in lines[at] or _FILES in lines[at]), span.stop]
        )
    ]
    io = next((half for half in halves if not half.files), None)
    files = next((half for half in halves if half.files), None)
    if io and files and len(io.rows) != len(files.rows):
        message = f"{raw}: line {span.start + 1}: {len(io.rows)} runs with {len(files.rows)}"
        raise FormatError(f"{message} runs of files in one table", advice=_ADVICE)
    for one, other in zip_longest(io.rows if io else (), files.rows if files else ()):
        yield _row(one, other, io, files)


def _row(
    one: tuple[int, str, tuple[tuple[str, str], ...]] | None,
    other: tuple[int, str, tuple[tuple[str, str], ...]] | None,
    io: _Half | None,
    files: _Half | None,
) -> Row:
    first = io or files
    assert first  # noqa: S101 (a table begins with a heading)
    words = one[1].split() if one else []
    about = words.pop().split(":") if words and _SIZE.fullmatch(words[-1]) else []
    rounded = first.version.startswith(("1.98", "2."))
    etc = dict(zip(_ETC, about[1:], strict=False))
    known = {key: value for key, value in etc.items() if value and key != "chunk"}
    if first.concurrency:
        known["concurrency"] = first.concurrency
    counted = other[1].split() if other else []
    name = " ".join(words) if one else (files.name if files else "") or " ".join(counted[:-1])
    times = (*(io.times if io else _NO_TIMES), *(files.times if files else _NO_TIMES))
    return Row(
        line=first.start + 1 if one is None or len(first.rows) == 1 else one[0],
        name=name,
        version=first.version,
        cells=(*(one[2] if one else _BLANK), *(other[2] if other else _BLANK)),
        slowest=times,
        size=about[0] if about else "",
        chunk=etc.get("chunk", ""),
        files=counted[-1] if counted else "",
        known=known,
        rounded=rounded,
    )


def _half(lines: Sequence[str], span: range, raw: str) -> _Half:
    head = lines[span.start]
    files = _FILES in head
    shift = _shift(head, _FILES if files else _IO)
    version = re.search(r"Version +(\d\.\d\d[a-z]*)", head)
    half = _Half(span.start, files, version[1] if version else "")
    waiting = False
    for at in span:
        line, place = lines[at][shift:].rstrip(), f"{raw}: line {at + 1}"
        if line.count("%CP") == _COLUMNS:
            waiting = True
        elif line.startswith("Latency") and half.rows:
            half.times = _times(line, place)
            break
        elif waiting and line:
            if half.rows and not _alike(line):
                break
            half.rows.append((at + 1, *_cells(line, place)))
        elif "-Create--" in line and not half.name:
            half.name = line[: _START - 1].strip()
        elif said := _CONCURRENCY.match(line):
            half.concurrency = said[1]
    if not half.rows:
        message = f"{raw}: line {span.stop}: the table ends before its numbers"
        raise FormatError(message, advice=_ADVICE)
    return half


def _shift(head: str, title: str) -> int:
    """How far a table is indented or quoted (``> ``)."""
    if (at := head.find("Version ")) >= 0:
        return at
    return max(0, head.index(title) - _TITLE)


def _alike(line: str) -> bool:
    """Whether this may be one more row."""
    return bool(re.fullmatch(r"[\s\d.+kmg-]*[\d+][\s\d.+kmg-]*", line[_START - 1 :]))


def _cells(line: str, place: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What stands before the cells, and value and CPU of six columns.  A column is 10 blanks, or
    a blank, a value padded to 5, a blank and a CPU padded to 3; a longer value moves the rest to
    the right."""
    if whole := _WHOLE.search(line):
        last = whole[0].split()
        return line[: whole.start()], tuple(zip(last[::2], last[1::2], strict=True))
    # A name and size longer than their 19 move the rest to the right, and so does a blank before.
    about = _ABOUT.match(line)
    found, at = [], max(_START - 1, about.end() if about else 0)
    begin = at
    padded = line.ljust(_START + _COLUMNS * _WIDTH)
    for column in range(1, _COLUMNS + 1):
        match = _COLUMN.match(padded, at)
        if match and _padded(match[1], _VALUE_WIDTH) and _padded(match[2], _CPU_WIDTH):
            found.append((match[1].strip(), match[2].strip()))
            at = match.end()
        elif not padded[at : at + _WIDTH].strip():
            found.append(("", ""))
            at += _WIDTH
        else:
            message = f"{place}: column {column} of the table: {line[at : at + _WIDTH]!r}"
            raise FormatError(f"{message}: no value and CPU with blanks between", advice=_ADVICE)
    if padded[at:].strip():
        raise FormatError(f"{place}: the row is longer than its {_COLUMNS} columns")
    return padded[:begin], tuple(found)


def _padded(text: str, width: int) -> bool:
    return len(text) == width or (len(text) > width and not text.startswith(" "))


def _times(line: str, place: str) -> tuple[str, ...]:
    found = []
    for at in range(_COLUMNS):
        cell = line[_START + at * _WIDTH - 1 : _START + (at + 1) * _WIDTH - 1].strip()
        if " " in cell:
            raise FormatError(f"{place}: two latencies in one column: {cell[:40]!r}")
        found.append(cell)
    return tuple(found)
