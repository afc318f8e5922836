"""bonnie++'s output, its CSV of every version and its table → recordings.

Metrics, after bonnie++'s own words, so that bytes one by one and blocks are never mixed up:
``putc.bw`` (per character), ``write.bw`` (block), ``rewrite.bw``, ``getc.bw`` (per character),
``read.bw`` (block), ``seek.rate``; for files ``create``, ``stat`` (the column "Read") and
``delete``, each ``.seq.rate`` and ``.random.rate``.  Beside each: ``.cpu``, a share of one core
(it may exceed 1), and from 1.9x on ``.lat.max``, the longest single operation.  K is KiB.

A file may hold many runs, and text around them.  Where a table and a line of CSV are of the same
run, the CSV is read, and the table must agree with it; a line that stands there twice counts
once.

``+++++`` means that a phase took less than half a second (a whole one in 1.00, whose sizes have
no unit): too fast to tell.  It is censored: where the amount is known, the measurement is the
least rate it can have been, amount over that time; else a doubt alone names it.  From 1.9x on
nobody knows how much the per-character tests moved (``-f`` sets it, and is not printed).

From 1.9x on, amounts in KiB and numbers of files are counted in 32 bits: of 2 TiB or 2 M files
and more, no rate is right, and it is left out.

CSV.  1.04 and before have 27 fields and no version.  From 1.91 on a line begins with the version of
its format and of bonnie++: 1.91a has 46 fields (one less without files; its format is 2 without a
large file); 1.92a to 1.97 have 48 (one less without a large file, up to 1.96); 1.98 and 2.00 have
50, two more (seeks and seekers) before the first number.  bonnie++ 2.00a says it writes format
1.98, and prints no chunk size.  The chunk size of small files is printed nowhere.

A line may stand in a text: behind ``>``, a ``#`` or blanks, or as the words of an ``echo``.
Names are not quoted by bonnie++: a comma in one makes more fields.

The table for people, and that of bonnie before it.  A test that was left out leaves its column
blank (``-f``), so where a cell stands says what it is; only a row that has all its cells may be
wider than its heading.  ``bon_csv2txt`` writes several rows under one heading.  A table may be
indented or quoted: its heading says how far.

Up to 1.97 the rates are K/sec; from 1.98 on the heading is /sec, each rate has a unit and is
rounded (``1.4g``), and the rates of files are whatever was in memory (a number of files, or below
zero): they are left out.

Sources: bonnie++(8) and readme.html of 2.00a; ``bonnie.h`` (MinTime, Seeks, DirectoryUnit),
``bon_time.cpp`` and ``bon_csv2txt`` of 1.00 to 2.00; ``bonnie.c`` of 1996; recordings of 2.00a in
``tests/data/bonnie``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest

from iotrial.errors import FormatError
from iotrial.formats import text_of
from iotrial.model.measurement import Measurement, of_metric
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import Doubt, Treatment

IO = ("putc.bw", "write.bw", "rewrite.bw", "getc.bw", "read.bw", "seek.rate")
FILES = tuple(
    f"{what}.{order}.rate" for order in ("seq", "random") for what in ("create", "stat", "delete")
)
AGAIN = "repeat the run, or take bonnie++'s own output without what was edited"
_CHARACTERS = frozenset({"putc.bw", "getc.bw"})
_KIB, _MIB, _UNIT = 1024.0, 2.0**20, 1024
_MOST = 2**21  # MiB, or multiples of 1024 files, from where 32 bits overflow
_LEAST, _LEAST_OF_1_00 = 0.5, 1.0  # seconds
_SEEKS, _SEEKS_OF_1_00 = 8192, 8000
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_TIME = re.compile(r"(\d{1,12})(us|ms|s)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZE = re.compile(r"(\d{1,9})([MGT]?)")
_CHUNK = re.compile(r"\d{1,9}[km]?|")
_FILES = re.compile(r"(\d{1,9})(?::(?:-?\d{1,10}|link|symlink))?(?::\d{1,10})?(?:/\d{1,9})?")
_SCALE = {"": 1, "M": 1, "G": 1024, "T": 1024**2}


@dataclass(frozen=True, slots=True)
class BonnieRow:
    """What one line of CSV, or one table, says.  ``cells`` are 12 of (value, CPU), of IO and then
    of FILES; ``slowest`` 12 latencies, or none.  ``size`` (``1000M``), ``chunk`` and ``files``
    (``16:1024:512/10``) are as printed, '' where the test was left out.  ``known`` says which of
    the options of its own the version prints: ``concurrency``, ``seeks``, ``seekers``."""

    line: int
    name: str
    version: str
    cells: tuple[tuple[str, str], ...]
    slowest: tuple[str, ...] = ()
    size: str = ""
    chunk: str = ""
    files: str = ""
    known: Mapping[str, str] = field(default_factory=dict)
    rounded: bool = False

    @property
    def modern(self) -> bool:
        """1.9x or 2.x: amounts in 32 bits, latencies, and an unknown number of characters."""
        return self.version[:3] == "1.9" or self.version[:1] == "2"

    @property
    def ancient(self) -> bool:
        """1.00, or what may be it: its CSV has no version either, and a size without a unit."""
        return self.version[:4] == "1.00" or (not self.version and self.size.isdecimal())

    @property
    def least(self) -> float:
        """Seconds a phase must take to have a rate; the more of the two where the line may be of
        either version."""
        unknown = not self.version and not self.size
        return _LEAST_OF_1_00 if self.ancient or unknown else _LEAST


@dataclass(frozen=True, slots=True)
class BonnieRun:
    """One line of CSV, or one table: of which machine, by which version ('' where nothing says:
    1.04 or before), what it measured.  ``censored`` are the metrics that were too fast to tell,
    whether or not they have a bound."""

    name: str
    version: str
    line: int
    measurements: tuple[Measurement, ...]
    censored: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()
    treatment: Treatment = ()


def run_of(row: BonnieRow, raw: str, doubts: Sequence[Doubt] = ()) -> BonnieRun:
    """Raises :class:`~iotrial.errors.FormatError` with the line for what bonnie++ never prints."""
    place = f"{raw}: line {row.line}"
    amounts = _amounts(row, place)
    found: list[Measurement] = []
    censored: list[str] = []
    lost: list[str] = []
    slowest = row.slowest or ("",) * len(row.cells)
    doubtful: list[Doubt] = []
    for name, (value, cpu), longest in zip((*IO, *FILES), row.cells, slowest, strict=True):
        stem = name.rpartition(".")[0]
        lasted = 0.0
        if too_fast(value) and (too_fast(cpu) or not cpu or row.ancient):
            censored.append(name)
            if name in amounts:
                found.append(of_metric(name, amounts[name] / row.least, raw, censored="high"))
        elif name in amounts and amounts[name] < 0:
            lost.append(name)
        elif value or cpu:
            rate = _rate(name, value, place)
            found.append(of_metric(name, rate, raw))
            lasted = amounts.get(name, 0.0) / rate if rate else 0.0
        if (value or cpu) and not (too_fast(cpu) or (too_fast(value) and not cpu)):
            found.append(of_metric(f"{stem}.cpu", _number(cpu, f"{stem} CPU", place) / 100.0, raw))
        if longest:
            seconds = _latency(longest, name, place)
            found.append(of_metric(f"{stem}.lat.max", seconds, raw))
            if lasted and not row.rounded and seconds > 1.05 * lasted + 0.1:
                what = f"{stem}: one operation of {seconds:.3g} s in a test of {lasted:.3g} s"
                doubtful.append(Doubt("latency", what, "One of the two numbers is wrong."))
    return BonnieRun(
        row.name, row.version, row.line, tuple(found), tuple(censored),
        (*doubts, *_left_out(censored, lost), *doubtful), _treatment(row),
    )  # fmt: skip


def _left_out(censored: Sequence[str], lost: Sequence[str]) -> Iterator[Doubt]:
    if censored:
        what = f"too fast to tell (less than half a second): {', '.join(censored)}"
        advice = "Give bonnie++ more to do: a larger size, more files."
        yield Doubt("censored", what, advice)
    if lost:
        what = f"more than 32 bits can count, so these rates are left out: {', '.join(lost)}"
        yield Doubt("overflow", what, "Keep the size below 2 TiB, and the files below 2 million.")


def _amounts(row: BonnieRow, place: str) -> dict[str, float]:
    """What each phase did, as far as it is known: bytes, seeks, files; negative where bonnie++
    could not count so far."""
    found: dict[str, float] = {}
    if row.size:
        match = _SIZE.fullmatch(row.size)
        if not match or not _CHUNK.fullmatch(row.chunk):
            text = f"{row.size}:{row.chunk}".rstrip(":")[:40]
            raise FormatError(f"{place}: {text!r} is not a size such as 1000M:16k", advice=AGAIN)
        size = int(match[1]) * _SCALE[match[2]]
        amount = size * _MIB if size < _MOST or not row.modern else -1.0
        found |= {name: amount for name in IO[:-1] if not (row.modern and name in _CHARACTERS)}
        seeks = _SEEKS_OF_1_00 if row.ancient else _SEEKS
        found["seek.rate"] = float(row.known.get("seeks") or seeks)
    if row.files:
        match = _FILES.fullmatch(row.files)
        if not match:
            message = f"{place}: {row.files[:40]!r} is not a number of files such as 16:1024:512/10"
            raise FormatError(message, advice=AGAIN)
        files = int(match[1])
        found |= dict.fromkeys(
            FILES, float(files * _UNIT) if files < _MOST or not row.modern else -1.0
        )
    return found


def _treatment(row: BonnieRow) -> Treatment:
    size = f"{row.size}M" if row.size.isdecimal() else row.size
    said = {"size": size, "chunk": row.chunk, "files": row.files, **row.known}
    return tuple((name, value) for name, value in said.items() if value)


def too_fast(text: str) -> bool:
    return len(text) >= 3 and not text.strip("+")  # noqa: PLR2004 (+++ and +++++)


def _rate(name: str, text: str, place: str) -> float:
    if not name.endswith(".bw"):
        return _number(text, name, place)
    scale = {"k": 1.0, "m": 1024.0, "g": 1024.0**2}.get(text[-1:])
    plain = text if scale is None else text[:-1]
    return _number(plain, name, place) * (scale or 1.0) * _KIB


def _number(text: str, what: str, place: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise FormatError(f"{place}: {what}: {text[:40]!r} is not a number", advice=AGAIN)
    return float(text)


def _latency(text: str, what: str, place: str) -> float:
    match = _TIME.fullmatch(text)
    if not match:
        message = f"{place}: latency of {what}: {text[:40]!r} is not a time such as 81us"
        raise FormatError(message, advice=AGAIN)
    return float(match[1]) * _SECONDS[match[2]]


_OLD, _FILE_FIELDS = 27, 5
_RESULTS = 3 * len(IO) + _FILE_FIELDS + 3 * len(FILES)  # value, CPU, latency
_BEFORE = {
    "1.91": ("name", "size", "chunk"),
    "1.92": ("name", "concurrency", "seed", "size", "chunk"),
    "1.98": ("name", "concurrency", "seed", "size", "chunk", "seeks", "seekers"),
}
"""First version with these fields → those between the two versions and the first number."""
_VERSION = re.compile(r"(\d\.\d\d)[a-z]?")
_LAST = "2.00"
_NO_LARGE_FILE_OF_1_91 = "2"
_FEWEST = 8  # commas; prose and bonnie++'s own messages have fewer
_CELL_IN_CSV = re.compile(r"\++|[0-9.]+(?:us|ms|s|[kKmMgGtT])?(?:[:/][0-9a-z:/-]*)?|")
_SIZE_IN_CSV = re.compile(r"[0-9]+[MGT](?::[0-9]+k?)?")
_QUOTING = re.compile(r"^[\s>|#]*(?:[$#%] )?")
_ECHO = re.compile(r"""echo\s+(?:-\w+\s+)?["']?([^"'|]*)""")


def rows(lines: Sequence[str], raw: str) -> Iterator[tuple[BonnieRow, str]]:
    """Every line of CSV, and its text.  Raises :class:`~iotrial.errors.FormatError` with the line
    for one that is not whole."""
    for at, line in enumerate(lines, 1):
        if line.count(",") < _FEWEST:
            continue
        text = _QUOTING.sub("", line).rstrip(" \t\\`")
        if echoed := _ECHO.match(text):
            text = echoed[1].rstrip()
        if likely(text):
            yield _row_of_csv(text, at, f"{raw}: line {at}"), text


def likely(text: str) -> bool:
    """Whether this is a line of bonnie++'s, whole or not: mostly numbers, with a version or a
    size where bonnie++ has one, or as many fields."""
    fields = [field.strip() for field in text.split(",")]
    if len(fields) <= _FEWEST:
        return False
    cells = fields[2:]
    alike = sum(1 for field in cells if _CELL_IN_CSV.fullmatch(field))
    if not any(char.isdecimal() for char in text) or 3 * alike < 2 * len(cells):
        return False
    if len(fields) == _OLD or _VERSION.fullmatch(fields[0]) or _VERSION.fullmatch(fields[1]):
        return True
    sized = not fields[1] or any(_SIZE_IN_CSV.fullmatch(field) for field in fields[1:4])
    return sized and len(fields) > 2 * _FEWEST


def _row_of_csv(text: str, at: int, place: str) -> BonnieRow:
    try:
        fields = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise FormatError(f"{place}: no CSV: {error}", advice=AGAIN) from None
    fields = [field.strip() for field in fields]
    before = _before(fields, place)
    if len(fields) == _OLD or not before:
        return _old(_joined(fields, 0, 1, _OLD), at, place)
    wanted, at_size = 2 + len(before) + _RESULTS, 2 + before.index("size")
    blank = fields[at_size : at_size + 1 + 2 * len(IO)]
    if len(fields) == wanted - 1 and before != _BEFORE["1.98"] and not any(blank):
        fields = [*fields[:at_size], "", *fields[at_size:]]
    elif len(fields) == wanted - 1 and before == _BEFORE["1.91"]:  # without files
        first = 2 + len(before) + 2 * len(IO)
        if not any(fields[first : first + _FILE_FIELDS - 1 + 2 * len(FILES)]):
            fields = [*fields[:first], "", *fields[first:]]
    fields = _joined(fields, 2, at_size, wanted)
    if len(fields) != wanted:
        message = f"{place}: {len(fields)} fields; format {fields[0]} has {wanted}"
        raise FormatError(message, advice=AGAIN)
    return _new(dict(zip(before, fields[2:], strict=False)), fields, at, place)


def _before(fields: Sequence[str], place: str) -> tuple[str, ...]:
    """The fields before the first number; none for a line without a version."""
    found = _VERSION.fullmatch(fields[0])
    if fields[0] == _NO_LARGE_FILE_OF_1_91 and fields[1:2] and _VERSION.fullmatch(fields[1]):
        return _BEFORE["1.91"]
    if not found or len(fields) == _OLD:
        return ()
    first = next((each for each in reversed(_BEFORE) if each <= found[1] <= _LAST), "")
    if not first:
        known = f"{next(iter(_BEFORE))} to {_LAST}"
        message = f"{place}: CSV format {fields[0]} of bonnie++; known are {known}"
        raise FormatError(message, advice="give its text table, or a version iotrial knows")
    return _BEFORE[first]


def _joined(fields: list[str], name: int, size: int, wanted: int) -> list[str]:
    """The fields, with what is too many as parts of the name, if a size follows there."""
    more = len(fields) - wanted
    if 0 < more < len(fields) - size and re.fullmatch(r"\d+[MGT].*", fields[size + more]):
        whole = ",".join(fields[name : name + more + 1])
        return [*fields[:name], whole, *fields[name + more + 1 :]]
    return fields


def _old(fields: list[str], at: int, place: str) -> BonnieRow:
    if len(fields) != _OLD:
        message = f"{place}: {len(fields)} fields; a line of bonnie++ 1.03 has {_OLD}"
        raise FormatError(message, advice=AGAIN)
    size, _, chunk = fields[1].partition(":")
    if not size and any(fields[2:14]):
        raise FormatError(f"{place}: numbers of a large file without its size", advice=AGAIN)
    return BonnieRow(
        at, fields[0], "", _pairs(fields[2:14], fields[15:]),
        size=size, chunk=chunk, files=_counted(fields[14], fields[15:], place),
    )  # fmt: skip


def _new(said: dict[str, str], fields: list[str], at: int, place: str) -> BonnieRow:
    io = 2 + len(said)
    files = io + 2 * len(IO)
    rates = files + _FILE_FIELDS
    latencies = rates + 2 * len(FILES)
    if not said["size"] and any(fields[io:files]):
        raise FormatError(f"{place}: numbers of a large file without its size", advice=AGAIN)
    number, largest, smallest, *rest = fields[files:rates]
    shape = ":".join(each for each in (number, largest, smallest) if each)
    directories = [each for each in rest if each]
    if len(directories) == 1:
        shape += f"/{directories[0]}"
    known = {key: said[key] for key in ("concurrency", "seeks", "seekers") if said.get(key)}
    if (wrong := [v for v in (*known.values(), *directories) if not v.isdecimal()]) or (
        len(directories) > 1
    ):
        raise FormatError(
            f"{place}: {(wrong or directories)[0][:40]!r} is not a count", advice=AGAIN
        )
    return BonnieRow(
        at, said["name"], fields[1], _pairs(fields[io:files], fields[rates:latencies]),
        slowest=tuple(fields[latencies:]), size=said["size"], chunk=said["chunk"],
        files=_counted(shape, fields[rates:latencies], place), known=known,
    )  # fmt: skip


def _counted(shape: str, rates: Sequence[str], place: str) -> str:
    if not shape and any(rates):
        raise FormatError(f"{place}: rates of files without their number", advice=AGAIN)
    return shape


def _pairs(io: Sequence[str], files: Sequence[str]) -> tuple[tuple[str, str], ...]:
    both = [*io, *files]
    return tuple(zip(both[::2], both[1::2], strict=True))


_COLUMNS, _START, _WIDTH = 6, 20, 10
_TITLE = 26  # where the words of a heading begin
_CELL_IN_TABLE = r"-?\d+(?:\.\d+)?[kmg]?|\+{3,}"
_COLUMN = re.compile(rf" ( *(?:{_CELL_IN_TABLE})) ( *(?:\d+|\+{{3}}))(?= |$)")
_WHOLE = re.compile(rf"(?:\s+(?:{_CELL_IN_TABLE})\s+(?:\d+(?:\.\d+)?|\+{{3}})){{{_COLUMNS}}}$")
_VALUE_WIDTH, _CPU_WIDTH = 5, 3
_OUTPUT, _CREATE = "Sequential Output---", "Sequential Create---"
_CONCURRENCY = re.compile(r"Concurrency +(\d+)")
_SIZE_IN_TABLE = re.compile(r"\d+[MGT]?(?::.*)?")
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
    heads = [
        (at, _CREATE in line) for at, line in enumerate(lines) if _OUTPUT in line or _CREATE in line
    ]
    starts = [
        at for (_, before), (at, files) in pairwise([(-1, True), *heads]) if not files or before
    ]
    return [range(a, b) for a, b in pairwise([*starts, len(lines)])]


def original(lines: Sequence[str], span: range) -> bool:
    """Whether the table is that of bonnie, without ``++``: its CPU has a decimal."""
    return any("%CPU" in lines[at] for at in span[:4])


def table(lines: Sequence[str], span: range, raw: str) -> Iterator[BonnieRow]:
    """Every run in one table.  Raises :class:`~iotrial.errors.FormatError` with the line."""
    halves = [
        _half(lines, range(a, b), raw)
        for a, b in pairwise(
            [*(at for at in span if _OUTPUT in lines[at] or _CREATE in lines[at]), span.stop]
        )
    ]
    io = next((half for half in halves if not half.files), None)
    files = next((half for half in halves if half.files), None)
    if io and files and len(io.rows) != len(files.rows):
        message = f"{raw}: line {span.start + 1}: {len(io.rows)} runs with {len(files.rows)}"
        raise FormatError(f"{message} runs of files in one table", advice=_ADVICE)
    for one, other in zip_longest(io.rows if io else (), files.rows if files else ()):
        yield _row_of_table(one, other, io, files)


def _row_of_table(
    one: tuple[int, str, tuple[tuple[str, str], ...]] | None,
    other: tuple[int, str, tuple[tuple[str, str], ...]] | None,
    io: _Half | None,
    files: _Half | None,
) -> BonnieRow:
    first = io or files
    assert first  # noqa: S101 (a table begins with a heading)
    words = one[1].split() if one else []
    about = words.pop().split(":") if words and _SIZE_IN_TABLE.fullmatch(words[-1]) else []
    rounded = first.version.startswith(("1.98", "2."))
    etc = dict(zip(_ETC, about[1:], strict=False))
    known = {key: value for key, value in etc.items() if value and key != "chunk"}
    if first.concurrency:
        known["concurrency"] = first.concurrency
    counted = other[1].split() if other else []
    name = " ".join(words) if one else (files.name if files else "") or " ".join(counted[:-1])
    times = (*(io.times if io else _NO_TIMES), *(files.times if files else _NO_TIMES))
    return BonnieRow(
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
    files = _CREATE in head
    shift = _shift(head, _CREATE if files else _OUTPUT)
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


__all__ = ["FILES", "FORMAT", "IO", "BonnieRun", "parse", "runs"]

_TAKE = "Take the line of CSV of the same run."
_NEAR = 3  # lines between a table and its line of CSV
_ROUNDING = 0.06


@dataclass(frozen=True, slots=True)
class _Table:
    """One run of a table: its row, the line after the table, and whether bonnie wrote it."""

    row: BonnieRow
    end: int
    original: bool


class BonnieFormat:
    """The plugin."""

    name = "bonnie++"
    title = "bonnie++, CSV and text"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        text = head.decode("utf-8", "replace")
        if "Sequential Output---" in text or "Sequential Create---" in text:
            return 3
        found = [line for line in text.splitlines() if likely(line.strip("> \t"))]
        if not found:
            return 0
        words = any(",+++" in line or line.startswith(("1.9", "2.0")) for line in found)
        return 3 if words else 1

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        return tuple(
            Recording(
                tool=tool,
                workload=tool,
                measurements=run.measurements,
                name=run.name,
                version=run.version,
                line=run.line,
                treatment=run.treatment,
                doubts=run.doubts,
            )
            for tool, run in _found(text_of(data, raw), raw)
        )


FORMAT = BonnieFormat()


def parse(data: bytes, raw: str) -> ParsedOutput:
    """The one run in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for several:
    which of them is meant, nobody can tell; :func:`runs` gives them all."""
    found = runs(data, raw)
    if len(found) != 1:
        lines = ", ".join(str(each.line) for each in found)
        raise FormatError(f"{raw}: {len(found)} runs of bonnie++ (lines {lines}); one is wanted")
    return ParsedOutput(found[0].measurements, found[0].doubts)


def runs(data: Buffer, raw: str) -> tuple[BonnieRun, ...]:
    """Every run in ``data``, in order.  Raises :class:`~iotrial.errors.FormatError` with the
    line."""
    return tuple(run for _, run in _found(text_of(data, raw), raw))


def _found(text: str, raw: str) -> list[tuple[str, BonnieRun]]:
    """Every run and the tool that wrote it, in the order of the file."""
    lines = text.split("\n")
    written, again = _once(rows(lines, raw))
    found = [
        ("bonnie++", row.line, run_of(row, raw, _repeated(again.get(row.line, 0))))
        for row in written
    ]
    tables, unread = _tables(lines, raw, strict=not written)
    for each in tables:
        if not any(_agree(each.row, row) for row in written):
            _contradicts(each, written, raw)
            tool = "bonnie" if each.original else "bonnie++"
            found.append((tool, each.row.line, _drawn(each.row, raw)))
    if not found:
        message = f"{raw}: neither CSV nor a table of bonnie++ in {len(lines)} lines"
        raise FormatError(message, advice=AGAIN)
    found.sort(key=lambda each: each[1])
    for _, line, run in found:
        if not run.measurements and not run.censored:
            raise FormatError(f"{raw}: line {line}: bonnie++ measured nothing", advice=AGAIN)
    tool, line, run = found[0]
    found[0] = (tool, line, replace(run, doubts=(*run.doubts, *unread)))
    return [(tool, run) for tool, _, run in found]


def _once(found: Iterable[tuple[BonnieRow, str]]) -> tuple[list[BonnieRow], dict[int, int]]:
    """Rows without copies of them, and how many copies a row (by its line) has.  The time, or all
    the numbers, are the same in no two runs."""
    first: dict[str, BonnieRow] = {}
    again: dict[int, int] = {}
    for row, text in found:
        if text in first:
            line = first[text].line
            again[line] = again.get(line, 0) + 1
        first.setdefault(text, row)
    return list(first.values()), again


def _repeated(times: int) -> tuple[Doubt, ...]:
    if not times:
        return ()
    what = f"the same line stands in the file {times + 1} times, and counts once"
    return (
        Doubt("copy", what, "No two runs are the same in every number: look where it is from."),
    )


def _tables(
    lines: Sequence[str], raw: str, *, strict: bool
) -> tuple[list[_Table], tuple[Doubt, ...]]:
    """The runs in tables; where there is CSV (not ``strict``), a table that cannot be read is a
    doubt."""
    found: list[_Table] = []
    unread: list[Doubt] = []
    for span in blocks(lines):
        try:
            by_bonnie = original(lines, span)
            found.extend(_Table(row, span.stop, by_bonnie) for row in table(lines, span, raw))
        except FormatError as error:
            if strict:
                raise
            unread.append(Doubt("bonnie-table", f"a table was left out: {error.message}", AGAIN))
    return found, tuple(unread)


def _agree(drawn: BonnieRow, row: BonnieRow) -> bool:
    """Whether a table may be the picture of a line of CSV."""
    if not row.name.startswith(drawn.name) and drawn.name not in row.name:
        return False
    for number, (one, other) in enumerate(zip(drawn.cells, row.cells, strict=True)):
        is_garbage = drawn.rounded and number >= len(IO)
        if not is_garbage and not _same(one, other, rounded=drawn.rounded):
            return False
    return True


def _same(one: tuple[str, str], other: tuple[str, str], *, rounded: bool) -> bool:
    (value, cpu), (exact, exact_cpu) = one, other
    if cpu != exact_cpu or bool(value) != bool(exact) or too_fast(value) != too_fast(exact):
        return False
    try:
        printed, meant = _printed(value), _printed(exact)
    except ValueError:
        return value == exact
    return abs(printed - meant) <= (_ROUNDING * meant if rounded else 0.5001)


def _printed(text: str) -> float:
    scale = {"k": 1.0, "m": 1024.0, "g": 1024.0**2}.get(text[-1:])
    return float(text if scale is None else text[:-1]) * (scale or 1.0)


def _contradicts(each: _Table, written: Sequence[BonnieRow], raw: str) -> None:
    """Raises FormatError where the line of CSV that follows a table is that of another run by
    the same name: bonnie++ writes both from the same numbers."""
    last = each.row.line
    near = [row for row in written if last < row.line <= each.end]
    if near and each.row.name == near[0].name and each.row.name:
        between = near[0].line - last
        if between <= _LONGEST + _NEAR:
            message = f"{raw}: line {near[0].line}: not the numbers of the table on line {last}"
            raise FormatError(message, advice="one of the two was changed: take the original")


_LONGEST = 12  # lines of a table


def _drawn(row: BonnieRow, raw: str) -> BonnieRun:
    """A table's run, without what its version prints wrong."""
    doubts: list[Doubt] = []
    if row.rounded:
        if any(value[:1].isdecimal() for value, _ in row.cells[len(IO) :]):
            what = "this table's rates of files are numbers of files, and were left out"
            doubts.append(Doubt("bonnie-table", what, _TAKE))
        blank = tuple(cell if too_fast(cell[0]) else ("", "") for cell in row.cells[len(IO) :])
        row = replace(row, cells=(*row.cells[: len(IO)], *blank))
        if any(value[-1:] in ("k", "m", "g") for value, _ in row.cells):
            doubts.append(Doubt("bonnie-table", "the table is rounded, by up to 5 %", _TAKE))
    return run_of(row, raw, doubts)
