"""What each column of a table of numbers is: part of the treatment, a measurement, a note.

A person says it in TOML, and may say it of some columns only; the rest is guessed by their names
and content (:mod:`iotrial_import.formats.table.guess`)::

    [columns]
    storage = "factor"
    op = "workload"
    value_kib_s = { metric = "bw", unit = "KiB/s" }
    latency_ms = { metric = "lat.mean", unit = "ms" }
    source_table = "note"

A metric without an operation (``bw``) gets the row's workload as its operation where that is one
(``random_read.bw``), else ``total``.  A table in long form has one measurement a row: columns
``metric``, ``value``, ``unit`` and perhaps ``censored``; the names it has for its metrics are
said so: ``metric = { role = "metric", names = { random_seeks = "seek.rate" } }``.  Before
``[columns]``, ``decimal = ","`` says what a comma is where the numbers do not tell (``1,234``),
and ``[pivot]`` which columns are levels of one factor (:mod:`iotrial_import.formats.table.pivot`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

from iotrial.errors import UsageError
from iotrial.model.measurement import metric
from iotrial.model.recording import Buffer, Format, Recording
from iotrial.model.trial import Doubt
from iotrial.units import parse_unit
from iotrial_import.formats.table.pivot import Pivot, pivot_from

Role = Literal[
    "factor",
    "workload",
    "value",
    "metric",
    "unit",
    "censored",
    "repeat",
    "session",
    "name",
    "note",
    "ignore",
]
ROLES: tuple[str, ...] = get_args(Role)
_KEYS = ("role", "metric", "unit", "names")


@dataclass(frozen=True, slots=True)
class Column:
    """``name`` as the table's header has it.  For a value: its ``metric`` ('' in a table in long
    form) and ``unit`` ('' where the cells or another column say it).  For a ``metric`` column:
    ``names`` of the table's own → metrics."""

    name: str
    role: Role
    metric: str = ""
    unit: str = ""
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """Every column of a table, in its order; or those that a person said something of.
    ``decimal`` is the decimal mark, '' where the numbers are to tell.  ``pivot`` is what a wide
    table's columns are: then ``columns`` are those of the long one made of it."""

    columns: tuple[Column, ...]
    decimal: Literal["", ".", ","] = ""
    pivot: Pivot | None = None

    def having(self, *roles: Role) -> tuple[Column, ...]:
        """The columns with one of these roles."""
        return tuple(each for each in self.columns if each.role in roles)

    @property
    def long(self) -> bool:
        """Whether each row is one measurement, named by a column."""
        return bool(self.having("metric"))


@runtime_checkable
class Tabular(Format, Protocol):
    """A format of tables: it takes what a person says of the columns."""

    takes_columns: bool

    def columns(
        self, data: Buffer, raw: str, columns: Columns | None = None
    ) -> tuple[Columns, ...]:
        """What the columns of each table are: as said, the rest as guessed."""
        ...

    def read(
        self, data: Buffer, raw: str, columns: Columns | None = None
    ) -> tuple[Recording, ...]: ...

    def gaps(self, data: Buffer, raw: str, columns: Columns | None = None) -> tuple[Doubt, ...]:
        """What rows and cells of its tables have no number."""
        ...


def columns_from(table: Mapping[str, Any]) -> Columns:
    """What a TOML document says: its table ``columns``, or that table itself.

    Raises UsageError for an unknown role or key, a metric or unit that iotrial does not know, and
    a unit that is not one of the metric's.
    """
    pivoted = isinstance(table.get("pivot"), Mapping) and "columns" in table["pivot"]
    listed = isinstance(table.get("columns"), Mapping) and not _is_column(table["columns"])
    whole = pivoted or listed
    said = table.get("columns", {}) if whole else table
    decimal = table.get("decimal", "") if whole else ""
    if not said and not pivoted:
        raise UsageError("no column is said", advice='For example: [columns], then op = "workload"')
    if decimal not in ("", ".", ","):
        raise UsageError(f"decimal: {decimal!r} is neither a point nor a comma")
    for key in table:
        if whole and key not in ("columns", "decimal", "pivot"):
            raise UsageError(f"{key!r} beside [columns]: only columns and decimal are said here")
    mark = cast("Literal['', '.', ',']", decimal)
    pivot = pivot_from(table["pivot"]) if pivoted else None
    if pivot:
        _checked(f"pivot {pivot.factor}", pivot.metric, pivot.unit)
    return Columns(tuple(_column(name, value) for name, value in said.items()), mark, pivot)


def _is_column(said: Mapping[str, Any]) -> bool:
    """Whether a table says one column (one that is called ``columns``), not all of them."""
    return bool(said) and all(key in _KEYS and isinstance(said[key], str) for key in said)


def to_toml(columns: Columns) -> str:
    """The text that :func:`columns_from` reads as the same columns."""
    mark = [f"decimal = {_text(columns.decimal)}"] if columns.decimal else []
    lines = [_line(each) for each in columns.columns if not _made(each, columns.pivot)]
    pivot = _pivot_lines(columns.pivot) if columns.pivot else []
    return "\n".join([*mark, *pivot, *(["[columns]", *lines] if lines else [])]) + "\n"


def _made(column: Column, pivot: Pivot | None) -> bool:
    """Whether a wide table has no such column: it was made of those of its levels."""
    return pivot is not None and column.name in (pivot.factor, pivot.value)


def _pivot_lines(pivot: Pivot) -> list[str]:
    names = ", ".join(_text(name) for name in pivot.columns)
    unit = [f"unit = {_text(pivot.unit)}"] if pivot.unit else []
    factor, metric_ = (f"{key} = {_text(said)}" for key, said in
                       (("factor", pivot.factor), ("metric", pivot.metric)))  # fmt: skip
    return ["[pivot]", factor, f"columns = [{names}]", metric_, *unit, ""]


def over(said: Columns, guessed: Columns) -> Columns:
    """What a person said, the rest as guessed.

    Raises UsageError for a column that is not in the table.
    """
    given = {each.name: each for each in said.columns}
    here = [each.name for each in guessed.columns]
    for name in given:
        if name not in here:
            near = difflib.get_close_matches(name, here, n=1)
            hint = f"did you mean {near[0]!r}?  " if near else ""
            advice = f"{hint}There are: {', '.join(here)}"
            raise UsageError(f"the table has no column {name!r}", advice=advice)
    # One guess gives way to what is said: there is one workload, and one long form.
    only = {each.role for each in said.having("workload", "metric", "unit")}
    merged = [
        given.get(each.name, Column(each.name, "note") if each.role in only else each)
        for each in guessed.columns
    ]
    return Columns(tuple(merged), said.decimal, said.pivot)


def _column(name: str, said: object) -> Column:
    if isinstance(said, str):
        return _by_role(name, said, {})
    if not isinstance(said, Mapping):
        raise UsageError(f"column {name}: {said!r} is neither a role nor a table", advice=_ADVICE)
    for key in said:
        if key not in _KEYS:
            raise UsageError(f"column {name}: unknown key {key!r}", advice=_ADVICE)
    return _by_role(name, str(said.get("role", "value")), said)


_ADVICE = (
    'It is a role such as "factor", "workload", "note" or "ignore", or a measurement: '
    '{ metric = "read.bw", unit = "KiB/s" }'
)


def _by_role(name: str, role: str, said: Mapping[str, object]) -> Column:
    if role not in ROLES:
        near = difflib.get_close_matches(role, ROLES, n=1)
        hint = f"did you mean {near[0]!r}?  " if near else ""
        advice = f"{hint}There are: {', '.join(ROLES)}"
        raise UsageError(f"column {name}: {role!r} is no role", advice=advice)
    unit, wanted = str(said.get("unit", "")), str(said.get("metric", ""))
    names = said.get("names", {})
    if not isinstance(names, Mapping):
        raise UsageError(f"column {name}: names is a table of name = metric")
    own = tuple((str(key), str(value)) for key, value in names.items())
    for _, each in own:
        _checked(name, each, "")
    if (unit or wanted) and role != "value":
        raise UsageError(f"column {name}: a {role} has no metric and no unit")
    if wanted or unit:
        _checked(name, wanted, unit)
    return Column(name, cast("Role", role), wanted, unit, own)


def _checked(name: str, wanted: str, unit: str) -> None:
    """Raises UsageError for what iotrial does not know."""
    try:
        base = parse_unit(unit)[1]
    except ValueError as error:
        raise UsageError(f"column {name}: {error}") from None
    if not wanted:
        return
    try:
        meant = metric(full_name(wanted, "")).unit
    except KeyError:
        advice = "For example: bw, iops, lat.mean, lat.p99, seconds, read.bw, write.iops, cpu.usr"
        raise UsageError(f"column {name}: there is no metric {wanted!r}", advice=advice) from None
    if unit and base != meant:
        what = f"column {name}: {wanted} is in {meant or 'plain numbers'}, {unit!r} is not"
        raise UsageError(what)


def full_name(wanted: str, operation: str) -> str:
    """``bw`` of a row with the operation ``read`` → ``read.bw``; of none → ``total.bw``; a name
    with its own operation stays."""
    if wanted.startswith(_LATENCIES) or wanted in _QUANTITIES:
        return f"{operation or 'total'}.{wanted}"
    return wanted


_LATENCIES = ("lat.", "clat.", "slat.")
_QUANTITIES = frozenset(
    ("bw", "iops", "rate", "seconds", "bytes", "cpu", "usr", "sys", "util", "depth", "value", "ios")
)


def _line(column: Column) -> str:
    parts = []
    if column.role != "value" and (column.names or column.metric):
        parts.append(f"role = {_text(column.role)}")
    if column.metric:
        parts.append(f"metric = {_text(column.metric)}")
    if column.unit:
        parts.append(f"unit = {_text(column.unit)}")
    if column.names:
        pairs = ", ".join(f"{key(own)} = {_text(meant)}" for own, meant in column.names)
        parts.append(f"names = {{ {pairs} }}")
    said = f"{{ {', '.join(parts)} }}" if parts else _text(column.role)
    return f"{key(column.name)} = {said}"


def key(name: str) -> str:
    """A column's name as TOML has it before the ``=``: quoted where it must be."""
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _text(name)


def _text(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's too, but DEL must be one."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(f"\\u{ord(c):04x}" if 0x7F <= ord(c) < 0xA0 else c for c in quoted)  # noqa: PLR2004
