"""The rows of a table, by what its columns are → recordings.

Each row is a recording; in long form, the rows of one treatment and workload are one.  A cell that
is empty or says n/a gives no measurement (:mod:`iotrial_import.formats.table.gaps` tells it).
``+++++``, or a row that the table calls suppressed, gives none either, and a doubt names it;
``>16712`` is a value with the truth above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from iotrial.errors import FormatError, UsageError
from iotrial.formats.cells import Mark, Number, decimal_mark, is_missing, parse_number
from iotrial.model.measurement import Measurement, metric, split
from iotrial.model.recording import Recording
from iotrial.model.trial import Doubt, Treatment
from iotrial.units import parse_unit
from iotrial_import.formats.table.columns import Column, Columns, full_name, over
from iotrial_import.formats.table.guess import guess
from iotrial_import.formats.table.pivot import Pivot, level_of, pivot_in, unpivoted
from iotrial_import.formats.table.text import Row, Table
from iotrial_import.formats.table.words import ended_badly, is_state, operation_of, slug

YES = frozenset(("true", "yes", "1", "y", "t"))
_NO = frozenset(("false", "no", "0", "n", "f"))
_TOOL = "table"
# fio 2.1.10 and before: the last of 19 groups of 64 bins begins there (stat.h, FIO_IO_U_PLAT_NR),
# so that this is the largest percentile it can print, in µs.
_FIO_CAP = 16.712
_QUANTITY = {"bytes/s": "bw", "1/s": "rate", "s": "seconds", "bytes": "bytes", "": "value"}


@dataclass(frozen=True, slots=True)
class _Reading:
    """One table and how it is read."""

    table: Table
    columns: Columns
    mark: Mark
    raw: str

    def place(self, row: Row, name: str) -> str:
        pivot = self.columns.pivot
        if pivot and name == pivot.value:  # the column that the file has
            level = self.cell(row, pivot.factor)
            name = next(each for each in pivot.columns if level_of(each) == level)
        sheet = f"sheet {self.table.name!r}, row" if self.table.name else "line"
        return f"{self.raw}: {sheet} {row.line}, column {name or 'without a name'}"

    def cell(self, row: Row, name: str) -> str:
        return row.cells[self.table.header.cells.index(name)]


def laid(table: Table, said: Columns | None) -> tuple[Table, Columns]:
    """A table with one measurement of a kind in a row, and what its columns are: a wide one is
    made long, where a person says so or its columns are called like levels of one factor."""
    pivot = said.pivot if said else None
    named = {each.name for each in said.columns} if said else set[str]()
    if pivot is None and not (said and said.having("value", "metric")):
        pivot = pivot_in(table, sorted(named))
        if pivot and any(each.metric not in ("", "value") for each in _others(table, pivot)):
            pivot = None
    if pivot is None:
        return table, columns_of(table, said)
    long = unpivoted(table, pivot)
    own = (Column(pivot.factor, "factor"),
           Column(pivot.value, "value", pivot.metric, pivot.unit))  # fmt: skip
    told = Columns((*(said.columns if said else ()), *own), said.decimal if said else "", pivot)
    # Another measurement is of the row of the wide table: it would be told of every level.
    columns = tuple(
        Column(each.name, "note") if each.role == "value" and each not in told.columns else each
        for each in columns_of(long, told).columns
    )
    return long, replace(told, columns=columns)


def _others(table: Table, pivot: Pivot) -> Iterator[Column]:
    """What the columns are that are no levels."""
    rest = [at for at, name in enumerate(table.header.cells) if name not in pivot.columns]
    header = [table.header.cells[at] for at in rest]
    yield from guess(header, [[row.cells[at] for at in rest] for row in table.rows]).columns


def columns_of(table: Table, said: Columns | None) -> Columns:
    """What a person said of the columns, and the guess for the rest."""
    guessed = guess(table.header.cells, [row.cells for row in table.rows])
    return over(said, guessed) if said else guessed


def recordings(table: Table, columns: Columns, raw: str) -> tuple[Recording, ...]:
    """Every row's recording, in order.  Raises FormatError with line and column."""
    values = columns.having("value")
    if not values:
        what = f"{raw}: line {table.header.line}: no column is a measurement"
        names = ", ".join(name for name in table.header.cells if name)
        advice = (
            f'Say which with --map: bw = {{ metric = "bw", unit = "KiB/s" }}; there are {names}'
        )
        raise FormatError(what, advice=advice)
    reading = _Reading(table, columns, columns.decimal or _mark(table, values, raw), raw)
    found = [each for row in table.rows if (each := _recording(reading, row))]
    if found and columns.pivot and (columns.pivot.metric, columns.pivot.unit) == ("value", ""):
        found[0] = replace(found[0], doubts=(*found[0].doubts, _unsaid(columns.pivot)))
    return tuple(_gathered(found) if columns.long else found)


def _unsaid(pivot: Pivot) -> Doubt:
    names = ", ".join(pivot.columns)
    what = f"{names} are taken as levels of {pivot.factor}; nobody says what stands below them"
    return Doubt(
        "pivot",
        f"{what}: neither more nor less of it is better",
        "Say metric and unit in [pivot] of a --map; --print-map writes one to begin with.",
    )


def _mark(table: Table, values: Sequence[Column], raw: str) -> Mark:
    wanted = [at for at, name in enumerate(table.header.cells) if name in {v.name for v in values}]
    try:
        told = decimal_mark(row.cells[at] for row in table.rows for at in wanted)
    except ValueError as error:
        raise FormatError(f"{raw}: {error}", advice="Write all numbers alike.") from None
    if told:
        return told
    if table.likely != ",":
        return table.likely
    # Between semicolons the comma is the mark, as a rule; beside whole numbers, commas with three
    # digits after each may as well group thousands.
    numbers = [(row.line, row.cells[at]) for row in table.rows for at in wanted]
    whole = any(cell.strip().isdecimal() for _, cell in numbers)
    for line, cell in numbers:
        if "." in cell or (whole and "," in cell):
            what = f"{raw}: line {line}: {cell!r} may be a thousand times more or less"
            raise FormatError(what, advice="Say which is the decimal mark: --decimal , or .")
    return ","


def _recording(reading: _Reading, row: Row) -> Recording | None:
    columns = reading.columns
    workload = " ".join(reading.cell(row, each.name) for each in columns.having("workload"))
    found: list[Measurement] = []
    censored: list[str] = []
    for name, number in _numbers(reading, row, workload):
        if math.isnan(number.value):
            censored.append(name)
        else:
            unit = metric(name).unit
            found.append(Measurement(name, number.value, unit, "all", reading.raw, number.censored))
    if not found and not censored:
        return None
    return Recording(
        tool=_TOOL,
        workload=workload or _TOOL,
        measurements=tuple(found),
        name=_name(reading, row),
        line=row.line,
        treatment=_treatment(reading, row),
        doubts=(*_doubts(censored), *_ended(reading, row)),
    )


def _ended(reading: _Reading, row: Row) -> Iterator[Doubt]:
    """That a row says of its run that it did not end as it should."""
    for each in reading.columns.having("note"):
        cell = reading.cell(row, each.name) if is_state(each.name) else ""
        if cell and ended_badly(each.name, cell):
            yield Doubt(
                "table-ended",
                f"the table says {each.name} = {cell[:40]}",
                "repeat that run; where the column means something else, say with --map that it is "
                'a "name"',
                invalid=True,
            )


def _treatment(reading: _Reading, row: Row) -> Treatment:
    """Factor and level; a factor the row does not tell is left out.  The session beside them."""
    told = [(each.name, reading.cell(row, each.name)) for each in reading.columns.having("factor")]
    taken = [reading.cell(row, each.name) for each in reading.columns.having("session")]
    told.append(("session", " ".join(filter(None, taken))))
    return tuple((name, level) for name, level in told if level)


def _name(reading: _Reading, row: Row) -> str:
    names = [reading.cell(row, each.name) for each in reading.columns.having("name")]
    repeats = [
        f"{each.name} {reading.cell(row, each.name)}" for each in reading.columns.having("repeat")
    ]
    return " ".join(part for part in (*names, *repeats) if part)


def _doubts(censored: Sequence[str]) -> tuple[Doubt, ...]:
    if not censored:
        return ()
    what = f"too fast to tell, or not told: {', '.join(censored)}"
    return (Doubt("censored", what, "Repeat it with more to do, where the value matters."),)


def _numbers(reading: _Reading, row: Row, workload: str) -> Iterator[tuple[str, Number]]:
    """(metric, number in base units) of each measurement in the row; NaN is censored."""
    own = _own_metric(reading, row)
    unsaid = _suppressed(reading, row)
    operation = operation_of(workload) if not own else split(own)[0]
    taken: set[str] = set()
    for each in reading.columns.having("value"):
        cell, place = reading.cell(row, each.name), reading.place(row, each.name)
        unit = each.unit or (_unit_cell(reading, row) if not each.metric else "")
        try:
            number = parse_number(cell, reading.mark)
            if number is None and not (unsaid and not each.metric):
                continue
            number = number or Number(math.nan, censored="high")
            if unsaid and not each.metric:
                number = replace(number, censored="high")
            name = _metric(each, own, operation, number.unit or unit)
            based = _based(number, unit, name)
        except (ValueError, KeyError) as error:
            what = f"{place}: {cell[:40]!r} {str(error).strip(chr(34))}"
            raise FormatError(what, advice=_advice(each)) from None
        if name in taken:
            what = f"{place}: a second {name} in one row"
            raise FormatError(what, advice="Say with --map which column is a note.")
        taken.add(name)
        yield name, based


def _advice(column: Column) -> str:
    wanted = column.metric or "bw"
    return (
        "Mend the cell, write n/a where there is no number, or say with --map what the column is: "
        f'"{column.name}" = {{ metric = "{wanted}", unit = "{column.unit or "…"}" }}, or "note".'
    )


def _based(number: Number, unit: str, name: str) -> Number:
    """The number in base units.  Raises ValueError for a unit that is missing or another's."""
    base = metric(name).unit
    said = number.unit or unit
    if said in ("k", "K", "M", "G"):
        scale, meant = _magnitude(said, unit, base)
    else:
        scale, meant = parse_unit(said)
    if base and not said:
        raise ValueError(f"has no unit, and neither has its column: {name} is in {base}")
    if meant != base:
        raise ValueError(f"is in {said or 'no unit'}; {name} is in {base or 'plain numbers'}")
    value = number.value * scale
    if not math.isfinite(value) and not math.isnan(value):
        raise ValueError("is beyond any number")
    capped = ".p" in name and math.isclose(value, _FIO_CAP, rel_tol=1e-9)
    return replace(number, value=value, censored="high" if capped else number.censored)


def _magnitude(prefix: str, unit: str, base: str) -> tuple[float, str]:
    """``45.2k`` of a rate is 45 200; of bytes, it may be 1000 or 1024."""
    if base == "bytes/s":
        raise ValueError(f"may mean {prefix}B or {prefix.upper()}iB: write the unit out")
    scale, meant = parse_unit(unit)
    if scale != 1.0:
        raise ValueError(f"has {prefix} beside the {unit} of its column")
    return {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}[prefix], meant or base


def _own_metric(reading: _Reading, row: Row) -> str:
    """In long form: the row's metric, in iotrial's words where they are known, else the table's."""
    columns = reading.columns.having("metric")
    if not columns:
        return ""
    said = reading.cell(row, columns[0].name)
    meant = dict(columns[0].names).get(said, said)
    if not meant:
        raise FormatError(f"{reading.place(row, columns[0].name)}: no metric is named")
    return meant


def _unit_cell(reading: _Reading, row: Row) -> str:
    units = reading.columns.having("unit")
    return reading.cell(row, units[0].name) if units else ""


def _suppressed(reading: _Reading, row: Row) -> bool:
    for each in reading.columns.having("censored"):
        said = reading.cell(row, each.name).lower()
        if said in YES:
            return True
        if said not in _NO and not is_missing(said):
            what = f"{reading.place(row, each.name)}: {said[:40]!r} is neither true nor false"
            raise FormatError(what, advice="Write true where the value is cut off.")
    return False


def _metric(column: Column, own: str, operation: str, unit: str) -> str:
    """The dotted name of what a cell holds.  Raises ValueError for one that iotrial cannot have."""
    wanted = column.metric
    if not wanted:
        wanted, operation = own, ""
    if wanted in ("", "value"):
        quantity = _QUANTITY.get(parse_unit(unit)[1], "")
        wanted = quantity or "value"
    name = full_name(wanted, operation)
    try:
        metric(name)
    except KeyError:
        if column.metric:
            raise UsageError(f"column {column.name}: there is no metric {name!r}") from None
        return _made_up(name, unit)
    return name


def _made_up(said: str, unit: str) -> str:
    """A metric of the table's own: its words as the operation, the quantity by its unit."""
    meant = parse_unit(unit)[1]
    quantity: Literal["iops", ""] = "iops" if "iops" in f"{said} {unit}".lower() else ""
    name = f"{slug(said) or 'total'}.{quantity or _QUANTITY.get(meant, 'value')}"
    metric(name)
    return name


def _gathered(found: Sequence[Recording]) -> Iterator[Recording]:
    """Long form: one recording for the rows of one treatment, workload and name, until a metric
    comes again."""
    groups: list[list[Recording]] = []
    last: dict[tuple[str, str, Treatment], tuple[int, set[str]]] = {}
    for each in found:
        key = (each.workload, each.name, each.treatment)
        names = {m.metric for m in each.measurements}
        at, seen = last.get(key, (-1, set()))
        if at < 0 or seen & names:
            at, seen = len(groups), set()
            groups.append([])
        groups[at].append(each)
        last[key] = (at, seen | names)
    for group in groups:
        measured = tuple(m for each in group for m in each.measurements)
        said = dict.fromkeys(doubt for each in group for doubt in each.doubts)
        censored = [d.what.partition(": ")[2] for d in said if d.check == "censored"]
        others = (doubt for doubt in said if doubt.check != "censored")
        yield replace(group[0], measurements=measured, doubts=(*_doubts(censored), *others))
