"""Wide tables: a column for each level of a factor, with numbers of one metric below them.

A person says it in TOML, before ``[columns]``, which then are of the other columns::

    [pivot]
    factor = "scheduler"
    columns = ["noop", "cfq", "deadline"]
    metric = "bw"
    unit = "KiB/s"

Where nobody does, columns of numbers that are called like levels of one factor are it: I/O
schedulers, file systems, or sizes.  The unit is then that of a name (``noop KB/s``) or of the
first column's (``Test (KB/s)``); without one the metric is ``value``, which has no direction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iotrial.errors import UsageError
from iotrial.formats.cells import is_missing, number_in
from iotrial.units import parse_unit
from iotrial_import.formats.table.text import Row, Table
from iotrial_import.formats.table.words import unit_of, words

_KEYS = ("factor", "columns", "metric", "unit")
_FEWEST = 2
_LEVELS: Mapping[str, frozenset[str]] = {
    "scheduler": frozenset(
        ("noop", "cfq", "deadline", "anticipatory", "as", "none", "mq-deadline", "bfq", "kyber",
         "bfq-mq", "bfq-sq", "adios", "sio", "vr")
    ),
    "filesystem": frozenset(
        ("ext2", "ext3", "ext4", "xfs", "btrfs", "jfs", "reiserfs", "reiser3", "reiser4", "f2fs",
         "nilfs2", "zfs", "bcachefs", "ntfs", "ntfs3", "exfat", "vfat", "ocfs2", "gfs2", "nfs",
         "nfs3", "nfs4", "cifs", "smb", "tmpfs", "ufs")
    ),
}  # fmt: skip
"""A factor → what its levels are called."""
_SIZE = re.compile(r"\d{1,6} ?(?:[kmg]i?b?|bytes)", re.IGNORECASE)
_BY_BASE = {"bytes/s": "bw", "1/s": "iops", "s": "lat.mean"}
_TIMES = frozenset(("time", "seconds", "runtime", "elapsed", "duration"))


@dataclass(frozen=True, slots=True)
class Pivot:
    """``columns`` are the levels of ``factor``, as the header has them; below them stands
    ``metric`` in ``unit`` ('' the numbers' own, or none)."""

    factor: str
    columns: tuple[str, ...]
    metric: str = "value"
    unit: str = ""

    @property
    def value(self) -> str:
        """What the column of the numbers is called in the long table."""
        return f"{self.metric} by {self.factor}"


def pivot_from(said: Mapping[str, Any]) -> Pivot:
    """What a TOML table says.  Raises UsageError; metric and unit are checked as a column's."""
    for key in said:
        if key not in _KEYS:
            raise UsageError(f"pivot: unknown key {key!r}", advice=f"There are {', '.join(_KEYS)}.")
    columns, factor = said.get("columns"), said.get("factor", "")
    if not isinstance(factor, str) or not factor:
        raise UsageError("pivot: no factor is named", advice='For example: factor = "scheduler"')
    listed = isinstance(columns, list) and all(isinstance(each, str) for each in columns)
    if not listed or len(set(columns or ())) < _FEWEST:
        advice = 'Name the columns that are its levels: columns = ["noop", "cfq"]'
        raise UsageError("pivot: no two columns are named", advice=advice)
    metric, unit = str(said.get("metric", "value")), str(said.get("unit", ""))
    return Pivot(factor, tuple(dict.fromkeys(columns or ())), metric, unit)


def pivot_in(table: Table, taken: Sequence[str]) -> Pivot | None:
    """The levels of one factor among the columns of a table, but for those ``taken`` by a person;
    None where there are none."""
    names = [name for name in table.header.cells if name not in taken and _numbers(table, name)]
    for factor, levels in (*_LEVELS.items(), ("size", None)):
        found = [
            name for name in names
            if (_SIZE.fullmatch(level_of(name)) if levels is None
                else level_of(name).lower() in levels)
        ]  # fmt: skip
        if len(found) >= _FEWEST:
            return Pivot(_free(factor, table), tuple(found), *_measured(table, found))
    return None


def _free(factor: str, table: Table) -> str:
    return factor if factor not in table.header.cells else f"{factor} of the columns"


def _numbers(table: Table, name: str) -> bool:
    at = table.header.cells.index(name)
    told = [row.cells[at] for row in table.rows if not is_missing(row.cells[at])]
    return bool(told) and all(number_in(cell) for cell in told)


def level_of(name: str) -> str:
    """A column's name without its unit: ``noop (KB/s)`` → ``noop``; a size is no unit."""
    unit, rest = unit_of(name)
    if not unit or parse_unit(unit)[1] == "bytes":
        return name.strip()
    bare = re.sub(rf"[\s_,(\[]*{re.escape(unit)}[)\]]*", "", name).strip()
    return bare if bare and len(rest) else name.strip()


def _measured(table: Table, columns: Sequence[str]) -> tuple[str, str]:
    """The metric and unit that all these columns say, or else the first one of the table."""
    said = {unit_of(name)[0] for name in columns if level_of(name) != name}
    if said:
        unit, rest = said.pop() if len(said) == 1 else "", list[str]()
    else:
        unit, rest = unit_of(table.header.cells[0])
    base = parse_unit(unit)[1]
    metric = _BY_BASE.get(base, "value")
    if base == "s" and _TIMES.intersection(rest):
        metric = "seconds"
    if base == "1/s" and "io" not in unit.lower():
        metric = "rate"
    loose = set(words(table.header.cells[0])) & {"iops"}
    if metric == "value" and loose:
        return "iops", ""
    return (metric, unit) if metric != "value" else ("value", "")


def unpivoted(table: Table, pivot: Pivot) -> Table:
    """The same table with a row for each level: the other columns, the factor, and the
    numbers.

    Raises UsageError for a column that is not in the table, and for a factor that already is."""
    header = table.header.cells
    for name in pivot.columns:
        if name not in header:
            there = ", ".join(header)
            raise UsageError(f"pivot: the table has no column {name!r}", advice=f"There: {there}")
    if pivot.factor in header:
        raise UsageError(f"pivot: the table has a column {pivot.factor!r} already")
    levels = [(header.index(name), level_of(name)) for name in pivot.columns]
    rest = [at for at, name in enumerate(header) if name not in pivot.columns]
    rows = tuple(
        Row(row.line, (*(row.cells[at] for at in rest), level, row.cells[column]))
        for row in table.rows
        for column, level in levels
    )
    cells = (*(header[at] for at in rest), pivot.factor, pivot.value)
    return replace(table, header=Row(table.header.line, cells), rows=rows)
