"""bonnie++'s output, its CSV of every version and its table → measurements and doubts.

Metrics, after bonnie++'s own words, so that bytes one by one and blocks are never mixed up:
``putc.bw`` (per character), ``write.bw`` (block), ``rewrite.bw``, ``getc.bw`` (per character),
``read.bw`` (block), ``seek.rate``; for files ``create``, ``stat`` (the column "Read") and
``delete``, each ``.seq.rate`` and ``.random.rate``.  Beside each: ``.cpu``, a share of one core
(it may exceed 1), and from 1.96 on ``.lat.max``, the longest single operation.  K is KiB.

CSV: 1.03 and before have 27 fields and no version; format 1.96 and 1.97 have 48 (47 when the
test with the large file was left out: one comma is missing); 1.98 and 2.00 have 50, two more
(seeks and seekers) before the first number.  bonnie++ 2.00a says it writes format 1.98.

``+++++`` means less than half a second: too fast to tell.  It is censored, gives no number, and
a doubt names it.  A table of 2.00 rounds (``1.4g``), and its rates of files are not rates: 2.00a
prints how many files there were (2048 where its CSV has 250/s).  They are left out.

Sources: bonnie++(8) and readme.html of 2.00a; recordings of 2.00a in ``tests/data/bonnie``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iotrial.errors import FormatError
from iotrial.formats.bonnie_table import tables
from iotrial.model.doubt import Doubt
from iotrial.model.measurement import Measurement, metric
from iotrial.model.tool import Parsed

IO = ("putc.bw", "write.bw", "rewrite.bw", "getc.bw", "read.bw", "seek.rate")
FILES = tuple(
    f"{what}.{order}.rate" for order in ("seq", "random") for what in ("create", "stat", "delete")
)
_KIB = 1024.0
_LAYOUTS = {"1.96": 7, "1.97": 7, "1.98": 9, "2.00": 9}
"""Format → fields before the first number."""
_OLD_FIELDS, _FILE_FIELDS = 27, 5
_VERSION = re.compile(r"\d\.\d\d[a-z]?")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_TIME = re.compile(r"(\d{1,12})(us|ms|s)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_AGAIN = "repeat the run, or take bonnie++'s own output without what was edited"


@dataclass(frozen=True, slots=True)
class Run:
    """One line of CSV, or one table: of which machine, by which version, what it measured.
    ``censored`` are the metrics that were too fast to tell."""

    name: str
    version: str
    line: int
    measurements: tuple[Measurement, ...]
    censored: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()


def parse(data: bytes, raw: str) -> Parsed:
    """The one run in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for several:
    which of them is meant, nobody can tell; :func:`runs` gives them all."""
    found = runs(data, raw)
    if len(found) != 1:
        lines = ", ".join(str(each.line) for each in found)
        raise FormatError(f"{raw}: {len(found)} runs of bonnie++ (lines {lines}); one is wanted")
    run = found[0]
    if not run.measurements and not run.censored:
        raise FormatError(f"{raw}: line {run.line}: bonnie++ measured nothing", advice=_AGAIN)
    return Parsed(run.measurements, run.doubts)


def runs(data: bytes, raw: str) -> tuple[Run, ...]:
    """Every run in ``data``, in order.  Where there is CSV its tables are not read: they are the
    same runs, rounded.  Raises :class:`~iotrial.errors.FormatError` with the line."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"{raw}: line {line}: byte {error.start} is not text"
        raise FormatError(message, advice=_AGAIN) from None
    lines = text.split("\n")
    found = [_row(line, at, raw) for at, line in enumerate(lines, 1) if line.count(",") >= _FEWEST]
    if not found:
        found = [_table(*each, raw) for each in tables(lines, raw)]
    if not found:
        message = f"{raw}: neither CSV nor a table of bonnie++ in {len(lines)} lines"
        raise FormatError(message, advice=_AGAIN)
    return tuple(found)


_FEWEST = 8  # commas; prose and bonnie++'s own messages have fewer


def _row(line: str, at: int, raw: str) -> Run:
    place = f"{raw}: line {at}"
    try:
        fields = next(csv.reader([line.rstrip("\r")], strict=True), [])
    except csv.Error as error:
        raise FormatError(f"{place}: no CSV: {error}", advice=_AGAIN) from None
    fields = [field.strip() for field in fields]
    if _VERSION.fullmatch(fields[0]) and len(fields) != _OLD_FIELDS:
        return _new(fields, at, raw, place)
    if len(fields) != _OLD_FIELDS:
        message = f"{place}: {len(fields)} fields; a line of bonnie++ 1.03 has {_OLD_FIELDS}"
        raise FormatError(message, advice=_AGAIN)
    _size(fields[1], place)
    _count(fields[14].partition(":")[0], place)
    cells = [*_pairs(IO, fields[2:14]), *_pairs(FILES, fields[15:])]
    return _run((fields[0], "1.03", at), cells, (), raw)


def _new(fields: list[str], at: int, raw: str, place: str) -> Run:
    before = _LAYOUTS.get(fields[0], 0)
    if not before:
        known = ", ".join(_LAYOUTS)
        raise FormatError(f"{place}: CSV format {fields[0]} of bonnie++; known are {known}")
    wanted = before + 3 * len(IO) + _FILE_FIELDS + 3 * len(FILES)  # value, CPU, latency
    short = before == _LAYOUTS["1.96"] and len(fields) == wanted - 1 and not any(fields[5:18])
    if short:
        fields = [*fields[:5], "", *fields[5:]]
    if len(fields) != wanted:
        message = f"{place}: {len(fields)} fields; format {fields[0]} has {wanted}"
        raise FormatError(message, advice=_AGAIN)
    _count(fields[3], place)
    _size(fields[5], place)
    files = before + 2 * len(IO)
    _count(fields[files], place)
    rates = files + _FILE_FIELDS
    latencies = rates + 2 * len(FILES)
    cells = [
        *_pairs(IO, fields[before:files]),
        *_pairs(FILES, fields[rates:latencies]),
    ]
    slowest = tuple(zip((*IO, *FILES), fields[latencies:], strict=True))
    return _run((fields[2], fields[1], at), cells, slowest, raw)


Cell = tuple[str, str, str]


def _pairs(names: Sequence[str], fields: Sequence[str]) -> Iterator[Cell]:
    """(metric, value, CPU in percent)."""
    return zip(names, fields[::2], fields[1::2], strict=True)


def _table(line: int, version: str, name: str, cells: list[list[str]], raw: str) -> Run:
    """A table's cells: value and CPU of each of IO, then of FILES, then latencies."""
    values = [(n, v, c) for n, (v, c) in zip((*IO, *FILES), cells[:12], strict=False)]
    slowest = tuple(zip((*IO, *FILES), (cell[0] for cell in cells[12:]), strict=False))
    rounded = any(value[-1:] in ("k", "m", "g") for _, value, _ in values)
    doubts: list[Doubt] = []
    if rounded or version.startswith(("1.98", "2.")):
        if any(v[:1].isdigit() for _, v, _ in values[6:]):
            what = "this table's rates of files are numbers of files, and were left out"
            doubts.append(Doubt("bonnie-table", what, "Take the line of CSV of the same run."))
        values = [*values[:6], *((n, "", "") for n, _, _ in values[6:])]
    if rounded:
        what = "the table is rounded, by up to 5 %"
        doubts.append(Doubt("bonnie-table", what, "Take the line of CSV of the same run."))
    return _run((name, version, line), values, slowest, raw, doubts)


def _run(
    about: tuple[str, str, int],
    cells: Sequence[Cell],
    slowest: Sequence[tuple[str, str]],
    raw: str,
    doubts: Sequence[Doubt] = (),
) -> Run:
    name, version, line = about
    place = f"{raw}: line {line}"
    found: list[Measurement] = []
    censored: list[str] = []
    for wanted, value, cpu in cells:
        if _too_fast(value) and (_too_fast(cpu) or not cpu):
            censored.append(wanted)
        elif value or cpu:
            found.append(_of(wanted, _rate(wanted, value, place), raw))
            share = _number(cpu, f"{wanted.partition('.')[0]} CPU", place) / 100.0
            found.append(_of(f"{wanted.rpartition('.')[0]}.cpu", share, raw))
    for wanted, text in slowest:
        if text:
            longest = _latency(text, wanted, place)
            found.append(_of(f"{wanted.rpartition('.')[0]}.lat.max", longest, raw))
    if censored:
        what = f"too fast to tell (less than half a second): {', '.join(censored)}"
        advice = "Give bonnie++ more to do: a larger size, more files."
        doubts = (*doubts, Doubt("censored", what, advice))
    return Run(name, version, line, tuple(found), tuple(censored), tuple(doubts))


def _of(name: str, value: float, raw: str) -> Measurement:
    return Measurement(name, value, metric(name).unit, "all", raw)


def _too_fast(text: str) -> bool:
    return len(text) >= 3 and not text.strip("+")  # noqa: PLR2004 (+++ and +++++)


def _rate(name: str, text: str, place: str) -> float:
    if not name.endswith(".bw"):
        return _number(text, name, place)
    scale = {"k": 1.0, "m": 1024.0, "g": 1024.0**2}.get(text[-1:])
    plain = text if scale is None else text[:-1]
    return _number(plain, name, place) * (scale or 1.0) * _KIB


def _number(text: str, what: str, place: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise FormatError(f"{place}: {what}: {text[:40]!r} is no number", advice=_AGAIN)
    return float(text)


def _latency(text: str, what: str, place: str) -> float:
    match = _TIME.fullmatch(text)
    if not match:
        message = f"{place}: latency of {what}: {text[:40]!r} is no time such as 81us"
        raise FormatError(message, advice=_AGAIN)
    return float(match[1]) * _SECONDS[match[2]]


def _size(text: str, place: str) -> None:
    if text and not re.fullmatch(r"\d+[kKmMgGtT]?(:\d*[kKmM]?)*", text):
        raise FormatError(f"{place}: {text[:40]!r} is no size such as 1000M", advice=_AGAIN)


def _count(text: str, place: str) -> None:
    if text and not re.fullmatch(r"\d{1,9}", text):
        raise FormatError(f"{place}: {text[:40]!r} is no number of files", advice=_AGAIN)
