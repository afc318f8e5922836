"""The rows of a table, by what its columns are → recordings.

Each row is a recording; in long form, the rows of one treatment and workload are one.  A cell that
is empty or says n/a gives no measurement (:func:`gaps` tells it).
``+++++``, or a row that the table calls suppressed, gives none either, and a doubt names it;
``>16712`` is a value with the truth above it.

What columns are is guessed by their names and by what stands in them.  A number without a unit that
looks like no setting is a note; so are dates, sentences, and texts of which (almost) none comes
again: nobody set those.  A column that another one already decides (the hosts of a study that used
three hosts with one array and four with more) is told all the same: whether it can be a factor is
the importer's to say.

Gaps are rows and cells that have no number where there should be one.  A run that failed often is a
row with ``NaN`` or nothing in it.  It is no run and has no numbers; that there was one is told,
since what fails under one treatment alone makes that one look good.  A column that no row of a
workload fills is not theirs (``write.bw`` of a row of reads).
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean, median
from typing import Literal

from iotrial.errors import FormatError, UsageError
from iotrial.formats.cells import (
    CellNumber,
    Mark,
    decimal_mark,
    is_missing,
    is_nothing,
    number_in,
    parse_number,
)
from iotrial.model.measurement import Measurement, metric, split
from iotrial.model.recording import Buffer, Recording
from iotrial.model.trial import Doubt, Treatment
from iotrial.units import parse_bytes, parse_unit
from iotrial_import.formats.table_columns import (
    BONNIE,
    REPEATS,
    WORKLOADS,
    ImportTable,
    PivotTable,
    Role,
    TableColumn,
    TableColumns,
    TableRow,
    ended_badly,
    full_name,
    is_amount,
    is_date,
    is_name,
    is_note,
    is_setting,
    is_state,
    level_of,
    metric_of,
    operation_of,
    over,
    pivot_in,
    slug,
    unit_of,
    unpivoted,
    words,
)

Cells = Mapping[str, Sequence[str]]
"""A column's name → its cells."""
_DAYS = ("date", "day")
"""Names of columns whose dates say which runs were taken together."""
_MOST_LEVELS = 40
_PROSE, _SENTENCE = 60, 5  # characters, words on average; no level's name is as long
_ALMOST, _ROWS = 0.8, 5
"""Texts of which so many are distinct, in so many rows or more, are none that somebody set."""
_NEAR = 0.05  # how well bandwidth must match IOPS x block size to tell GB from GiB


def guess(header: Sequence[str], rows: Sequence[Sequence[str]]) -> TableColumns:
    """See :func:`iotrial_import.formats.table_columns.guess`."""
    cells = {name: [row[at].strip() for row in rows] for at, name in enumerate(header)}
    long = _long(header, cells)
    roles = {name: each.role for name, each in long.items()}
    clat = "clat" if any("clat" in words(name) for name in header) else "lat"
    found: dict[str, TableColumn] = dict(long)
    for name in header:
        if name not in found:
            found[name] = _measured(name, cells[name], clat) or TableColumn(name, "note")
    workload = "" if long else _workload(header, cells)
    if workload:
        found[workload] = TableColumn(workload, "workload")
    rest = [n for n in header if n not in roles and n != workload and found[n].role == "note"]
    by_metric = _metric_column(long)
    for name, role in _settings(rest, cells, workload or by_metric).items():
        # Rows of one run in the long form differ by their metric: what it decides is no factor.
        of_metric = by_metric and _decides(cells[by_metric], cells[name])
        found[name] = TableColumn(name, "note" if of_metric else role)
    if not any(each.role == "value" for each in found.values()):
        _last_resort(header, cells, found)
    return TableColumns(tuple(_scaled(_once(found, header, cells), cells)))


def _metric_column(long: Mapping[str, TableColumn]) -> str:
    return next((name for name, each in long.items() if each.role == "metric"), "")


def _long(header: Sequence[str], cells: Cells) -> dict[str, TableColumn]:
    """The columns that only a table in long form has; none where it is not."""
    plain = {slug(name): name for name in header}
    metrics = next((plain[w] for w in ("metric", "measure", "quantity") if w in plain), "")
    value = plain.get("value") or plain.get("result") or ""
    if not metrics or not value or _all_numbers(cells[metrics]):
        return {}
    own = dict.fromkeys(cell for cell in cells[metrics] if slug(cell) in BONNIE)
    names = tuple((cell, BONNIE[slug(cell)]) for cell in own)
    found = {
        metrics: TableColumn(metrics, "metric", names=names),
        value: TableColumn(value, "value"),
    }
    for word, role in (("unit", "unit"), ("units", "unit")):
        if word in plain:
            found[plain[word]] = TableColumn(plain[word], role)  # type: ignore[arg-type]
    for word in ("suppressed", "censored"):
        if word in plain:
            found[plain[word]] = TableColumn(plain[word], "censored")
    return found


def _measured(name: str, cells: Sequence[str], latency: str) -> TableColumn | None:
    """The measurement that a column holds, or None where it holds none."""
    if is_note(name) or is_name(name):
        return None
    found = metric_of(name, latency)
    if found is None:
        return None
    wanted, unit = found
    # A header with a unit is believed: a cell below it that is no number is an error, with its
    # place, and must not turn the column into a note.
    if not (_mostly_numbers(cells) if unit else _all_numbers(cells)):
        return None
    constant = len(set(cells)) == 1 and len(cells) > 1
    if constant and parse_unit(unit)[1] == "s" and wanted.endswith("seconds"):
        return None  # every run was as long: it was told to be
    return TableColumn(name, "value", wanted, unit)


def _all_numbers(cells: Sequence[str]) -> bool:
    """Whether these are numbers, but for what is missing or was not told."""
    told = [cell for cell in cells if not is_missing(cell)]
    return bool(told) and all(number_in(cell) for cell in told)


def _mostly_numbers(cells: Sequence[str]) -> bool:
    told = [cell for cell in cells if not is_missing(cell)]
    return sum(1 for cell in told if number_in(cell)) * 2 >= len(told) > 0


def _workload(header: Sequence[str], cells: Cells) -> str:
    texts = [name for name in header if not _all_numbers(cells[name]) and any(cells[name])]
    for word in WORKLOADS:
        for name in texts:
            if slug(name) == word:
                return name
    for name in texts:
        if all(operation_of(cell) for cell in cells[name]):
            return name
    return ""


def _settings(names: Sequence[str], cells: Cells, workload: str) -> dict[str, Role]:
    """The roles of columns that hold no measurement."""
    roles: dict[str, Role] = {
        name: "session" if "_".join(words(name)) == "session" else _setting(name, cells[name])
        for name in names
    }
    days = [name for name in names if "_".join(words(name)) in _DAYS and _dated(cells[name])]
    if days and "session" not in roles.values():
        roles[days[0]] = "session"
    candidates = [name for name in names if roles[name] == "factor"]
    several = [name for name in candidates if _repeated(cells[name])]
    for name in candidates:  # what differs in every row, where other columns tell rows apart
        if name not in several and len(set(cells[name])) > 1 and (several or workload):
            texts = not _all_numbers(cells[name])
            roles[name] = "name" if texts and not is_setting(name) else roles[name]
    return roles


def _dated(cells: Sequence[str]) -> bool:
    """Whether these are several dates, each of several rows: days on which runs were taken."""
    told = Counter(cell for cell in cells if cell)
    return len(told) > 1 and min(told.values()) > 1 and all(map(is_date, told))


def _setting(name: str, cells: Sequence[str]) -> Role:
    said = words(name)
    levels = {cell for cell in cells if cell}
    if not levels or is_note(name) or is_amount(name):
        return "note"
    if "_".join(said) in REPEATS and _counts(levels):
        return "name" if len(levels) == len(cells) else "repeat"
    if is_name(name):
        return "name"
    many = len(levels) > max(_MOST_LEVELS, len(cells) // 10)
    share = parse_unit(unit_of(name)[0])[1] == "fraction"
    if many or _prose(levels) or (share and len(levels) == 1):
        return "note"
    if not is_setting(name) and all(map(is_date, levels)):
        return "note"
    few = 1 < len(levels) <= max(2, len(cells) // 2)
    return "factor" if is_setting(name) or not _all_numbers(cells) or few else "note"


def _counts(levels: set[str]) -> bool:
    """Whether these are 1, 2, 3 … or 0, 1, 2 …, as repeats are counted."""
    if not all(re.fullmatch(r"#?\d{1,4}", level) for level in levels):
        return False
    numbers = sorted(int(level.lstrip("#")) for level in levels)
    return numbers[0] in (0, 1) and all(b - a == 1 for a, b in pairwise(numbers))


def _prose(levels: Collection[str]) -> bool:
    """Whether these are sentences."""
    longest = max(map(len, levels))
    return longest > _PROSE or mean(len(level.split()) for level in levels) >= _SENTENCE


def _repeated(cells: Sequence[str]) -> bool:
    """Whether levels come again: one that never does decides everything, and proves nothing.
    A text or two that do among many that do not are chance."""
    told = [cell for cell in cells if cell]
    distinct = len(set(told))
    most = _ALMOST * len(told) if len(told) >= _ROWS and not _all_numbers(cells) else len(told)
    return 1 < len(set(cells)) < len(cells) and distinct < most


def _decides(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether ``other`` is the same wherever ``one`` is, and not the same everywhere."""
    return len(set(zip(one, other, strict=True))) == len(set(one)) and len(set(other)) > 1


def _last_resort(header: Sequence[str], cells: Cells, found: dict[str, TableColumn]) -> None:
    """No header says a unit: where one column of numbers is left over, it is the measurement."""
    left = [
        name
        for name in header
        if found[name].role == "note" and _all_numbers(cells[name]) and not is_note(name)
    ]
    if len(left) == 1:
        found[left[0]] = TableColumn(left[0], "value", "value")


def _once(
    found: Mapping[str, TableColumn], header: Sequence[str], cells: Cells
) -> list[TableColumn]:
    """Of two columns with the same metric the plainer name counts (bw, not bw_avg), then the one
    with more digits, then the first."""
    chosen: dict[str, str] = {}
    for name in header:
        each = found[name]
        if each.role != "value" or not each.metric:
            continue
        last = chosen.get(each.metric)
        if last is None or _rank(name, cells) > _rank(last, cells):
            chosen[each.metric] = name
    kept = set(chosen.values())
    return [
        each
        if each.role != "value" or not each.metric or name in kept
        else TableColumn(name, "note")
        for name, each in ((name, found[name]) for name in header)
    ]


def _rank(name: str, cells: Cells) -> tuple[int, float]:
    told = [len(re.sub(r"\D", "", cell)) for cell in cells[name] if not is_missing(cell)]
    return -len(words(name)), median(told) if told else 0.0


def _scaled(columns: Sequence[TableColumn], cells: Cells) -> list[TableColumn]:
    """``GB/s`` is taken as GiB/s where IOPS times block size says that it means that."""
    rates = {each.metric: each for each in columns if each.metric.endswith("iops")}
    sizes = _block_sizes(columns, cells)
    found = []
    for each in columns:
        operation = each.metric.rpartition("bw")[0]
        rate = rates.get(f"{operation}iops") or (rates.get("total.iops") if not operation else None)
        decimal = re.fullmatch(r"([kKmMgG])[bB](/?.*)", each.unit)
        if decimal and rate and sizes and each.metric.endswith("bw"):
            binary = f"{decimal[1].upper()}iB/s"
            if _fits(cells, each, replace(each, unit=binary), rate, sizes):
                found.append(replace(each, unit=binary))
                continue
        found.append(each)
    return found


def _fits(
    cells: Cells, each: TableColumn, other: TableColumn, rate: TableColumn, sizes: Sequence[float]
) -> bool:
    """Whether the unit of ``other`` fits IOPS and block size, and that of ``each`` does not."""
    scale = parse_unit(rate.unit)[0]
    ratios = [
        bandwidth / (events * scale * size)
        for bandwidth, events, size in zip(
            map(_plain, cells[each.name]), map(_plain, cells[rate.name]), sizes, strict=True
        )
        if bandwidth > 0 and events > 0 and size > 0
    ]
    if not ratios:
        return False
    off, other_off = (abs(median(ratios) * parse_unit(c.unit)[0] - 1) for c in (each, other))
    return other_off < _NEAR and other_off < off


def _plain(cell: str) -> float:
    try:
        value = float(cell.replace(",", "."))
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def _block_sizes(columns: Sequence[TableColumn], cells: Cells) -> list[float]:
    """Bytes of an I/O in each row, where a column says it; empty where none does."""
    for each in columns:
        said = words(each.name)
        if not {"block", "bs", "blocksize", "record", "reclen", "rec"}.intersection(said):
            continue
        unit = {"kib": "KiB", "kb": "KiB", "k": "KiB", "mib": "MiB", "mb": "MiB"}.get(said[-1], "")
        try:
            return [float(parse_bytes(cell + unit)) for cell in cells[each.name]]
        except ValueError:
            continue
    return []


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

    table: ImportTable
    columns: TableColumns
    mark: Mark
    raw: str

    def place(self, row: TableRow, name: str) -> str:
        pivot = self.columns.pivot
        if pivot and name == pivot.value:  # the column that the file has
            level = self.cell(row, pivot.factor)
            name = next(each for each in pivot.columns if level_of(each) == level)
        sheet = f"sheet {self.table.name!r}, row" if self.table.name else "line"
        return f"{self.raw}: {sheet} {row.line}, column {name or 'without a name'}"

    def cell(self, row: TableRow, name: str) -> str:
        return row.cells[self.table.header.cells.index(name)]


def laid(table: ImportTable, said: TableColumns | None) -> tuple[ImportTable, TableColumns]:
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
    own = (TableColumn(pivot.factor, "factor"),
           TableColumn(pivot.value, "value", pivot.metric, pivot.unit))  # fmt: skip
    told = TableColumns(
        (*(said.columns if said else ()), *own), said.decimal if said else "", pivot
    )
    # Another measurement is of the row of the wide table: it would be told of every level.
    columns = tuple(
        TableColumn(each.name, "note")
        if each.role == "value" and each not in told.columns
        else each
        for each in columns_of(long, told).columns
    )
    return long, replace(told, columns=columns)


def _others(table: ImportTable, pivot: PivotTable) -> Iterator[TableColumn]:
    """What the columns are that are no levels."""
    rest = [at for at, name in enumerate(table.header.cells) if name not in pivot.columns]
    header = [table.header.cells[at] for at in rest]
    yield from guess(header, [[row.cells[at] for at in rest] for row in table.rows]).columns


def columns_of(table: ImportTable, said: TableColumns | None) -> TableColumns:
    """What a person said of the columns, and the guess for the rest."""
    guessed = guess(table.header.cells, [row.cells for row in table.rows])
    return over(said, guessed) if said else guessed


def recordings(table: ImportTable, columns: TableColumns, raw: str) -> tuple[Recording, ...]:
    """Every row's recording, in order.  Raises FormatError with line and column."""
    values = columns.having("value")
    if not values:
        what = f"{raw}: line {table.header.line}: no column is a measurement"
        names = ", ".join(name for name in table.header.cells if name)
        advice = (
            f'Select it with --map: bw = {{ metric = "bw", unit = "KiB/s" }}; there are {names}'
        )
        raise FormatError(what, advice=advice)
    reading = _Reading(table, columns, columns.decimal or _mark(table, values, raw), raw)
    found = [each for row in table.rows if (each := _recording(reading, row))]
    if found and columns.pivot and (columns.pivot.metric, columns.pivot.unit) == ("value", ""):
        found[0] = replace(found[0], doubts=(*found[0].doubts, _unsaid(columns.pivot)))
    return tuple(_gathered(found) if columns.long else found)


def _unsaid(pivot: PivotTable) -> Doubt:
    names = ", ".join(pivot.columns)
    what = f"{names} are taken as levels of {pivot.factor}; the metric of their cells is unknown"
    return Doubt(
        "pivot",
        f"{what}: neither more nor less of it is better",
        "Say metric and unit in [pivot] of a --map; --print-map writes one to begin with.",
    )


def _mark(table: ImportTable, values: Sequence[TableColumn], raw: str) -> Mark:
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
            raise FormatError(what, advice="Give the decimal mark: --decimal , or .")
    return ","


def _recording(reading: _Reading, row: TableRow) -> Recording | None:
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


def _ended(reading: _Reading, row: TableRow) -> Iterator[Doubt]:
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


def _treatment(reading: _Reading, row: TableRow) -> Treatment:
    """Factor and level; a factor the row does not tell is left out.  The session beside them."""
    told = [(each.name, reading.cell(row, each.name)) for each in reading.columns.having("factor")]
    taken = [reading.cell(row, each.name) for each in reading.columns.having("session")]
    told.append(("session", " ".join(filter(None, taken))))
    return tuple((name, level) for name, level in told if level)


def _name(reading: _Reading, row: TableRow) -> str:
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


def _numbers(reading: _Reading, row: TableRow, workload: str) -> Iterator[tuple[str, CellNumber]]:
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
            number = number or CellNumber(math.nan, censored="high")
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


def _advice(column: TableColumn) -> str:
    wanted = column.metric or "bw"
    return (
        "Correct the cell, write n/a for a missing number, or define the column with --map: "
        f'"{column.name}" = {{ metric = "{wanted}", unit = "{column.unit or "…"}" }}, or "note".'
    )


def _based(number: CellNumber, unit: str, name: str) -> CellNumber:
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


def _own_metric(reading: _Reading, row: TableRow) -> str:
    """In long form: the row's metric, in iotrial's words where they are known, else the table's."""
    columns = reading.columns.having("metric")
    if not columns:
        return ""
    said = reading.cell(row, columns[0].name)
    meant = dict(columns[0].names).get(said, said)
    if not meant:
        raise FormatError(f"{reading.place(row, columns[0].name)}: no metric is named")
    return meant


def _unit_cell(reading: _Reading, row: TableRow) -> str:
    units = reading.columns.having("unit")
    return reading.cell(row, units[0].name) if units else ""


def _suppressed(reading: _Reading, row: TableRow) -> bool:
    for each in reading.columns.having("censored"):
        said = reading.cell(row, each.name).lower()
        if said in YES:
            return True
        if said not in _NO and not is_missing(said):
            what = f"{reading.place(row, each.name)}: {said[:40]!r} is neither true nor false"
            raise FormatError(what, advice="Write true where the value is cut off.")
    return False


def _metric(column: TableColumn, own: str, operation: str, unit: str) -> str:
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
            raise UsageError(f"column {column.name}: unknown metric {name!r}") from None
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


_ADVICE = (
    "Check what became of these runs: where they failed under one treatment alone, those that"
    " are left make it look better than it is."
)


def gaps(table: ImportTable, columns: TableColumns, raw: str) -> Iterator[Doubt]:
    """At most one doubt on rows without any value, and one on cells without one."""
    suppressed = [each.name for each in columns.having("censored")]
    told = [
        row
        for row in table.rows  # but for those that are told as bounds
        if not any(_cell(table, row, name).lower() in YES for name in suppressed)
    ]
    of_workload: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
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
        what = many + first if len(empty) > 1 else f"{first} has no value, and is not a run"
        yield Doubt("no-value", what, _ADVICE)
    if single and not columns.long:
        row, name = min(single, key=lambda pair: pair[0].line)
        first = _place(table, raw, row, [name])
        many = f"{len(single)} cells have no value, where others of their column do; the first is "
        what = many + first if len(single) > 1 else f"{first} has no value, where others do"
        yield Doubt("no-value", what, _ADVICE)


def _place(table: ImportTable, raw: str, row: TableRow, names: Sequence[str]) -> str:
    """``a.csv:12 (iops: NaN)``."""
    said = _cell(table, row, names[0]) or "empty"
    sheet = f" sheet {table.name!r}, row {row.line}" if table.name else f":{row.line}"
    return f"{raw}{sheet} ({names[0] or 'column without a name'}: {said[:40]})"


def _nothing(table: ImportTable, row: TableRow, name: str) -> bool:
    return is_nothing(_cell(table, row, name))


def _cell(table: ImportTable, row: TableRow, name: str) -> str:
    return row.cells[table.header.cells.index(name)]


class TableReader(ABC):
    """What formats of tables have alike."""

    takes_columns = True

    @abstractmethod
    def tables(self, data: Buffer, raw: str) -> tuple[ImportTable, ...]:
        """Every table in a file.  Raises FormatError, also where there is none."""

    def cut(self, data: Buffer, last: ImportTable) -> Iterator[Doubt]:
        """That the ``last`` table may not be whole."""
        del data, last
        yield from ()

    def columns(
        self, data: Buffer, raw: str, columns: TableColumns | None = None
    ) -> tuple[TableColumns, ...]:
        """What the columns of each table are: as said, the rest as guessed."""
        return tuple(laid(table, columns)[1] for table in self.tables(data, raw))

    def read(
        self, data: Buffer, raw: str, columns: TableColumns | None = None
    ) -> tuple[Recording, ...]:
        """``columns`` is what a person says of them.  Raises FormatError with the place, and
        UsageError for columns that a table does not have."""
        found = self.tables(data, raw)
        read = [each for table in found for each in recordings(*laid(table, columns), raw)]
        if not read:
            raise FormatError(f"{raw}: a table without a number")
        read[-1] = replace(read[-1], doubts=(*read[-1].doubts, *self.cut(data, found[-1])))
        return tuple(read)

    def gaps(
        self, data: Buffer, raw: str, columns: TableColumns | None = None
    ) -> tuple[Doubt, ...]:
        """What rows and cells of its tables have no number."""
        found = self.tables(data, raw)
        return tuple(each for table in found for each in gaps(*laid(table, columns), raw))
