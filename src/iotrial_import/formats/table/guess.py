"""Guessing what a table's columns are, by their names and by what stands in them.

A number without a unit that looks like no setting is a note; so are dates, sentences, and texts of
which (almost) none comes again: nobody set those.  A column that another one already
decides (the hosts of a study that used three hosts with one array and four with more) is told all
the same: whether it can be a factor is the importer's to say.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import mean, median

from iotrial.formats.cells import is_missing, number_in
from iotrial.units import parse_bytes, parse_unit
from iotrial_import.formats.table.columns import Column, Columns, Role
from iotrial_import.formats.table.words import (
    BONNIE,
    REPEATS,
    WORKLOADS,
    is_amount,
    is_date,
    is_name,
    is_note,
    is_setting,
    metric_of,
    operation_of,
    slug,
    unit_of,
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


def guess(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Columns:
    """See :func:`iotrial_import.formats.table.columns.guess`."""
    cells = {name: [row[at].strip() for row in rows] for at, name in enumerate(header)}
    long = _long(header, cells)
    roles = {name: each.role for name, each in long.items()}
    clat = "clat" if any("clat" in words(name) for name in header) else "lat"
    found: dict[str, Column] = dict(long)
    for name in header:
        if name not in found:
            found[name] = _measured(name, cells[name], clat) or Column(name, "note")
    workload = "" if long else _workload(header, cells)
    if workload:
        found[workload] = Column(workload, "workload")
    rest = [n for n in header if n not in roles and n != workload and found[n].role == "note"]
    by_metric = _metric_column(long)
    for name, role in _settings(rest, cells, workload or by_metric).items():
        # Rows of one run in the long form differ by their metric: what it decides is no factor.
        of_metric = by_metric and _decides(cells[by_metric], cells[name])
        found[name] = Column(name, "note" if of_metric else role)
    if not any(each.role == "value" for each in found.values()):
        _last_resort(header, cells, found)
    return Columns(tuple(_scaled(_once(found, header, cells), cells)))


def _metric_column(long: Mapping[str, Column]) -> str:
    return next((name for name, each in long.items() if each.role == "metric"), "")


def _long(header: Sequence[str], cells: Cells) -> dict[str, Column]:
    """The columns that only a table in long form has; none where it is not."""
    plain = {slug(name): name for name in header}
    metrics = next((plain[w] for w in ("metric", "measure", "quantity") if w in plain), "")
    value = plain.get("value") or plain.get("result") or ""
    if not metrics or not value or _numbers(cells[metrics]):
        return {}
    own = dict.fromkeys(cell for cell in cells[metrics] if slug(cell) in BONNIE)
    names = tuple((cell, BONNIE[slug(cell)]) for cell in own)
    found = {metrics: Column(metrics, "metric", names=names), value: Column(value, "value")}
    for word, role in (("unit", "unit"), ("units", "unit")):
        if word in plain:
            found[plain[word]] = Column(plain[word], role)  # type: ignore[arg-type]
    for word in ("suppressed", "censored"):
        if word in plain:
            found[plain[word]] = Column(plain[word], "censored")
    return found


def _measured(name: str, cells: Sequence[str], latency: str) -> Column | None:
    """The measurement that a column holds, or None where it holds none."""
    if is_note(name) or is_name(name):
        return None
    found = metric_of(name, latency)
    if found is None:
        return None
    wanted, unit = found
    # A header with a unit is believed: a cell below it that is no number is an error, with its
    # place, and must not turn the column into a note.
    if not (_mostly_numbers(cells) if unit else _numbers(cells)):
        return None
    constant = len(set(cells)) == 1 and len(cells) > 1
    if constant and parse_unit(unit)[1] == "s" and wanted.endswith("seconds"):
        return None  # every run was as long: it was told to be
    return Column(name, "value", wanted, unit)


def _numbers(cells: Sequence[str]) -> bool:
    """Whether these are numbers, but for what is missing or was not told."""
    told = [cell for cell in cells if not is_missing(cell)]
    return bool(told) and all(number_in(cell) for cell in told)


def _mostly_numbers(cells: Sequence[str]) -> bool:
    told = [cell for cell in cells if not is_missing(cell)]
    return sum(1 for cell in told if number_in(cell)) * 2 >= len(told) > 0


def _workload(header: Sequence[str], cells: Cells) -> str:
    texts = [name for name in header if not _numbers(cells[name]) and any(cells[name])]
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
            texts = not _numbers(cells[name])
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
    return "factor" if is_setting(name) or not _numbers(cells) or few else "note"


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
    most = _ALMOST * len(told) if len(told) >= _ROWS and not _numbers(cells) else len(told)
    return 1 < len(set(cells)) < len(cells) and distinct < most


def _decides(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether ``other`` is the same wherever ``one`` is, and not the same everywhere."""
    return len(set(zip(one, other, strict=True))) == len(set(one)) and len(set(other)) > 1


def _last_resort(header: Sequence[str], cells: Cells, found: dict[str, Column]) -> None:
    """No header says a unit: where one column of numbers is left over, it is the measurement."""
    left = [
        name
        for name in header
        if found[name].role == "note" and _numbers(cells[name]) and not is_note(name)
    ]
    if len(left) == 1:
        found[left[0]] = Column(left[0], "value", "value")


def _once(found: Mapping[str, Column], header: Sequence[str], cells: Cells) -> list[Column]:
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
        each if each.role != "value" or not each.metric or name in kept else Column(name, "note")
        for name, each in ((name, found[name]) for name in header)
    ]


def _rank(name: str, cells: Cells) -> tuple[int, float]:
    told = [len(re.sub(r"\D", "", cell)) for cell in cells[name] if not is_missing(cell)]
    return -len(words(name)), median(told) if told else 0.0


def _scaled(columns: Sequence[Column], cells: Cells) -> list[Column]:
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


def _fits(cells: Cells, each: Column, other: Column, rate: Column, sizes: Sequence[float]) -> bool:
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


def _block_sizes(columns: Sequence[Column], cells: Cells) -> list[float]:
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
