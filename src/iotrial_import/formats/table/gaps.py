"""Gaps: rows and cells of a table that have no number where there should be one.  Pure.

A run that failed often is a row with ``NaN`` or nothing in it.  It is no run and has no numbers;
that there was one is told, since what fails under one treatment alone makes that one look good.
A column that no row of a workload fills is not theirs (``write.bw`` of a row of reads).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from iotrial.formats.cells import is_nothing
from iotrial.model.trial import Doubt
from iotrial_import.formats.table.columns import Columns
from iotrial_import.formats.table.rows import YES
from iotrial_import.formats.table.text import Row, Table

_ADVICE = (
    "Look what became of these runs: where they failed under one treatment alone, those that are"
    " left make it look better than it is."
)


def gaps(table: Table, columns: Columns, raw: str) -> Iterator[Doubt]:
    """At most one doubt on rows without any value, and one on cells without one."""
    suppressed = [each.name for each in columns.having("censored")]
    told = [
        row
        for row in table.rows  # but for those that are told as bounds
        if not any(_cell(table, row, name).lower() in YES for name in suppressed)
    ]
    of_workload: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in told:
        key = tuple(_cell(table, row, each.name) for each in columns.having("workload"))
        of_workload[key].append(row)
    names = [each.name for each in columns.having("value")]
    empty = [row for row in told if all(_nothing(table, row, each) for each in names)]
    lines = {row.line for row in empty}
    single = [
        (row, name)
        for rows in of_workload.values()
        for name in names
        if not all(_nothing(table, row, name) for row in rows)
        for row in rows
        if row.line not in lines and _nothing(table, row, name)
    ]
    if empty:
        first = _place(table, raw, empty[0], names)
        many = f"{len(empty)} rows have no value, and are no runs; the first is "
        what = many + first if len(empty) > 1 else f"{first} has no value, and is no run"
        yield Doubt("no-value", what, _ADVICE)
    if single and not columns.long:
        row, name = min(single, key=lambda pair: pair[0].line)
        first = _place(table, raw, row, [name])
        many = f"{len(single)} cells have no value, where others of their column do; the first is "
        what = many + first if len(single) > 1 else f"{first} has no value, where others do"
        yield Doubt("no-value", what, _ADVICE)


def _place(table: Table, raw: str, row: Row, names: Sequence[str]) -> str:
    """``a.csv:12 (iops: NaN)``."""
    said = _cell(table, row, names[0]) or "empty"
    sheet = f" sheet {table.name!r}, row {row.line}" if table.name else f":{row.line}"
    return f"{raw}{sheet} ({names[0] or 'column without a name'}: {said[:40]})"


def _nothing(table: Table, row: Row, name: str) -> bool:
    return is_nothing(_cell(table, row, name))


def _cell(table: Table, row: Row, name: str) -> str:
    return row.cells[table.header.cells.index(name)]
