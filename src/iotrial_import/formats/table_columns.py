"""What each column of a table of numbers is: part of the treatment, a measurement, a note.

A person says it in TOML, and may say it of some columns only; the rest is guessed by their names
and content (:mod:`iotrial_import.formats.table_rows`)::

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
and ``[pivot]`` which columns of a wide table are levels of one factor, with numbers of one metric
below them; ``[columns]`` then are of the other columns::

    [pivot]
    factor = "scheduler"
    columns = ["noop", "cfq", "deadline"]
    metric = "bw"
    unit = "KiB/s"

Where nobody does, columns of numbers that are called like levels of one factor are it: I/O
schedulers, file systems, or sizes.  The unit is then that of a name (``noop KB/s``) or of the
first column's (``Test (KB/s)``); without one the metric is ``value``, which has no direction.

Words of headers are those of result tables of fio, IOzone, bonnie++, dd and of people.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

from iotrial.errors import UsageError
from iotrial.formats.cells import Mark, is_missing, number_in
from iotrial.model.measurement import metric
from iotrial.model.recording import Buffer, Recording, RecordingFormat
from iotrial.model.trial import Doubt
from iotrial.units import parse_unit

WORKLOADS = (
    "workload", "op", "operation", "rw", "test", "benchmark", "io_type", "access",
    "access_pattern", "io_pattern", "pattern",
)  # fmt: skip
"""Names of the column that says what was loaded; the first that is there is it."""
NAMES = frozenset(("id", "name", "label", "no", "nr", "#", "index", "idx", "row", "uuid", "key"))
REPEATS = frozenset(
    ("repeat", "rep", "repetition", "run", "iteration", "iter", "round", "trial", "replicate",
     "pass", "attempt", "sample", "block", "try")
)  # fmt: skip
_NOTES = frozenset(
    ("note", "notes", "comment", "comments", "remark", "remarks", "source", "src", "flag", "flags",
     "section", "sections", "date", "timestamp", "datetime", "started", "finished", "command",
     "cmd", "cmdline", "pid", "status", "url", "description", "line", "lines", "log", "ok",
     "printed", "resolution", "cap", "warning", "warnings", "error", "errors", "ci", "cv",
     "variance", "issued", "ctx", "majf", "minf")
)  # fmt: skip
_SETTINGS = frozenset(
    ("size", "record", "rec", "reclen", "bs", "block", "blocksize", "threads", "thread", "jobs",
     "numjobs", "procs", "processes", "depth", "iodepth", "qd", "queue", "hosts", "host", "arrays",
     "array", "nodes", "node", "clients", "client", "disks", "drives", "cpus", "cores", "stripes",
     "luns", "lun", "servers", "paths", "volumes", "scheduler", "rsize", "wsize", "ratio",
     "readahead", "ra", "files", "count", "kernel", "direct", "streams", "level", "nr")
)  # fmt: skip
_AMOUNTS = frozenset(
    ("io", "ios", "data", "total", "written", "writes", "write", "read", "reads", "transferred",
     "transfer", "moved", "done", "issued", "amount", "volume", "sum")
)  # fmt: skip
_STATES = frozenset(("status", "state", "outcome", "verdict", "success", "ok", "exit", "rc"))
_CODES = frozenset(("exit", "rc", "returncode", "exitcode"))
_OPERATIONS = {
    "read": "read", "reads": "read", "write": "write", "writes": "write", "rewrite": "rewrite",
    "reread": "reread", "trim": "trim", "seek": "seek", "seeks": "seek", "create": "create",
    "creates": "create", "delete": "delete", "deletes": "delete", "stat": "stat", "stats": "stat",
    "list": "list", "total": "total", "overall": "total", "mixed": "mixed", "fwrite": "fwrite",
    "fread": "fread", "randread": "random_read", "randwrite": "random_write",
}  # fmt: skip
_GENERIC = frozenset(
    ("value", "bw", "bandwidth", "throughput", "speed", "rate", "result", "avg", "average", "mean",
     "io", "reported", "computed", "measured", "transfer", "performance", "perf", "seq",
     "sequential", "data", "iops", "ops", "agg", "aggregate", "ave", "in", "per", "of", "the",
     "disk", "device", "sum")
)  # fmt: skip
_TIMES = frozenset(("time", "runtime", "elapsed", "duration", "runt", "seconds", "secs", "took"))
_LATENCY_WORDS = {
    "lat": "lat", "latency": "lat", "clat": "clat", "slat": "slat", "response": "lat",
    "resp": "lat", "await": "lat", "latencies": "lat",
}  # fmt: skip
_STATISTICS = {
    "mean": "mean", "avg": "mean", "average": "mean", "min": "min", "minimum": "min",
    "max": "max", "maximum": "max", "sd": "sd", "stdev": "sd", "stddev": "sd", "std": "sd",
    "median": "p50",
}  # fmt: skip
_SPREADS = frozenset(("min", "max", "minimum", "maximum", "sd", "stdev", "stddev", "std", "var"))
_CPU = {"usr": "usr", "user": "usr", "sys": "sys", "system": "sys"}
_UNIT_LENGTH = 3  # words, as in kb_per_s
# What an operation is called in a column of workloads.  fio's randread reads: its numbers are
# read.iops.  IOzone's random read is an operation of its own.
_FIO = {
    "randread": "read", "randwrite": "write", "rw": "total", "readwrite": "total",
    "randrw": "total", "rdwr": "total", "randtrim": "trim", "seqread": "read",
    "seqwrite": "write",
}  # fmt: skip
_IOZONE = {
    "read": "read", "write": "write", "rewrite": "rewrite", "re_write": "rewrite",
    "reread": "reread", "re_read": "reread", "random_read": "random_read",
    "random_write": "random_write", "rand_read": "random_read", "rand_write": "random_write",
    "mixed": "mixed", "mixed_workload": "mixed", "stride_read": "stride_read",
    "backward_read": "backward_read", "bkwd_read": "backward_read", "reverse_read": "backward_read",
    "record_rewrite": "record_rewrite", "fread": "fread", "fwrite": "fwrite", "freread": "freread",
    "frewrite": "frewrite", "pread": "pread", "pwrite": "pwrite", "trim": "trim",
    "seq_read": "read", "seq_write": "write", "sequential_read": "read",
    "sequential_write": "write", "seek": "seek", "list": "list", "ls": "list", "stat": "stat",
    "create": "create", "delete": "delete", "total": "total",
}  # fmt: skip
BONNIE = {
    "seq_out_per_chr": "putc.bw", "seq_out_block": "write.bw", "seq_rewrite": "rewrite.bw",
    "seq_in_per_chr": "getc.bw", "seq_in_block": "read.bw", "random_seeks": "seek.rate",
    "seq_create": "create.seq.rate", "seq_stat": "stat.seq.rate",
    "seq_delete": "delete.seq.rate", "random_create": "create.random.rate",
    "random_stat": "stat.random.rate", "random_delete": "delete.random.rate",
}  # fmt: skip
"""bonnie++'s own words for what it measures, as people shorten them."""


_FAILED = re.compile(
    r"\b(kill(ed)?|fail(ed|ure)?|errors?|abort(ed)?|time[d -]*out|cancel(l?ed)?|crash(ed)?|"
    r"incomplete|interrupted|invalid|oom|no|false|stopped|truncated|bad|partial)\b"
)
_WELL = re.compile(r"\b(no|0|zero|without|not) (any )?(errors?|fail(ed|ures?)?|killed|aborted)\b")
_DAY = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2}/\d{1,2}/\d{2}"
    r"|\d{1,2}\.?[ -](?:MONTH)\.?,?[ -]\d{2,4}|(?:MONTH)\.? \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?"
).replace("MONTH", "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*")
_ZONE = r"(?: ?(?:Z|UTC|[-+]\d{2}:?\d{2}))?"
_SECONDS = rf"\d{{1,2}}:\d{{2}}:\d{{2}}(?:\.\d+)?(?: ?[AaPp][Mm])?{_ZONE}"
_TIME = rf"(?:{_SECONDS}|\d{{1,2}}:\d{{2}}(?: ?[AaPp][Mm])?{_ZONE})"  # 70:30 alone is a mix
_WEEKDAY = r"(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?"
_DATE = re.compile(
    rf"(?:{_WEEKDAY} )?(?:(?:{_DAY})(?:[ T,]+{_TIME})?(?: \d{{4}})?|{_SECONDS}|{_TIME} (?:{_DAY}))"
)


def words(name: str) -> list[str]:
    """``"Avg latency (ms)"`` → avg, latency, ms; case is gone, a slash and % stay."""
    return [w for w in re.split(r"[^a-z0-9/%#]+", name.lower().replace("µ", "u")) if w]


def slug(text: str) -> str:
    """One word of a metric's name: ``"random read"`` → ``random_read``."""
    return "_".join(re.findall(r"[a-z0-9]+", text.lower()))


def operation_of(workload: str) -> str:
    """The operation that a cell of the workload's column names, or ''."""
    plain = slug(workload)
    return _FIO.get(plain) or _IOZONE.get(plain, "")


def is_note(name: str) -> bool:
    return bool(_NOTES.intersection(words(name)) or _CODES.intersection(words(name)[:1]))


def is_date(cell: str) -> bool:
    """Whether a cell is a day, a time of day or both.  ``2.6.18`` is a kernel: a year that stands
    last has four digits."""
    return bool(_DATE.fullmatch(" ".join(cell.split())))


def is_setting(name: str) -> bool:
    return bool(_SETTINGS.intersection(words(name)))


def is_amount(name: str) -> bool:
    """Whether a column says how much was done, in bytes: an outcome, and nothing that was set."""
    unit, said = unit_of(name)
    return bool(said) and parse_unit(unit)[1] == "bytes" and set(said) <= _AMOUNTS


def is_state(name: str) -> bool:
    """Whether a column says how its run ended."""
    return bool(_STATES.intersection(words(name)[-1:]) or _CODES.intersection(words(name)[:1]))


def ended_badly(name: str, cell: str) -> bool:
    """Whether a cell of such a column says that the run did not end as it should.

    >>> ended_badly("status", "killed (timeout)"), ended_badly("exit code", "0")
    (True, False)
    """
    plain = cell.strip().lower()
    if re.fullmatch(r"-?\d{1,3}", plain):
        return bool(_CODES.intersection(words(name))) and plain != "0"
    return bool(_FAILED.search(_WELL.sub("", plain)))


def is_name(name: str) -> bool:
    said = words(name)
    return "_".join(said) in NAMES or said[-1:] == ["id"] or name.strip() == ""


def unit_of(name: str) -> tuple[str, list[str]]:
    """The unit a header says ('' none), and the words beside it."""
    for pattern in (r"[\(\[]\s*([^\)\]]+?)\s*[\)\]]", r",\s*([^,]+)$"):
        match = re.search(pattern, name)
        if match and _is_unit(match[1]):
            return match[1], words(name[: match.start()] + " " + name[match.end() :])
    cased = [w for w in re.split(r"[^A-Za-z0-9/%µ]+", name) if w]
    for length in range(_UNIT_LENGTH, 0, -1):
        for at in range(len(cased) - length, -1, -1):
            alone = length == 1 and "/" not in cased[at] and cased[at] != "%"
            if alone and at != len(cased) - 1 and "iops" not in cased[at].lower():
                continue
            if unit := _joined(cased[at : at + length]):
                rest = cased[:at] + cased[at + length :]
                return unit, [word.lower() for word in rest]
    return "", words(name)


def _joined(parts: list[str]) -> str:
    """Words of a header as one unit: kib, s → ``kib/s``."""
    text = parts[0]
    if len(parts) > 1:
        if parts[-1].lower() not in ("s", "sec", "second"):
            return ""
        between = [part.lower() for part in parts[1:-1]]
        if between not in ([], ["per"]):
            return ""
        text = f"{parts[0]}/s"
    return text if _is_unit(text) else ""


def _is_unit(text: str) -> bool:
    try:
        return parse_unit(text)[1] != ""
    except ValueError:
        return False


def metric_of(name: str, latency: str = "lat") -> tuple[str, str] | None:  # noqa: PLR0911 (one for each kind of unit)
    """(metric, unit) that a column of numbers with this header holds, or None where it holds no
    measurement.  ``latency`` is what percentiles without a word are of: ``lat`` or ``clat``.
    The unit is '' where the header does not say it."""
    unit, said = unit_of(name)
    if not unit:
        return _without_unit(said)
    match parse_unit(unit)[1]:
        case "s":
            return _time(said, latency, unit)
        case "fraction":
            return _share(said, unit)
        case "bytes":
            return ("bytes", unit) if unit == "bytes" and not set(said) - _GENERIC else None
        case _ if _SPREADS.intersection(said):
            return None
        case "bytes/s":
            return _named(said, "bw"), _spelt(unit)
        case _:
            io = "iops" in unit.lower() or "iops" in said or unit.lower().startswith("io")
            return _named(said, "iops" if io else "rate"), unit


def _spelt(unit: str) -> str:
    """``kib/s`` → ``KiB/s``, as people write it."""
    lower = re.fullmatch(r"([kmgt])(i?)b/s(ec)?", unit)
    return f"{lower[1].upper()}{lower[2]}B/s" if lower else unit


def _without_unit(said: list[str]) -> tuple[str, str] | None:
    if _SPREADS.intersection(said):
        return None
    last = said[-1:]
    if {"bw", "bandwidth", "throughput"}.intersection(said) and set(last) <= set(_GENERIC):
        return _named(said, "bw"), ""
    if set(said) & set(_LATENCY_WORDS):
        return _time(said, "lat", "")
    return ("value", "") if said in (["value"], ["score"], ["result"]) else None


def _time(said: list[str], latency: str, unit: str) -> tuple[str, str] | None:
    kind = next((_LATENCY_WORDS[word] for word in said if word in _LATENCY_WORDS), "")
    statistic = _percentile(said) or next((_STATISTICS[w] for w in said if w in _STATISTICS), "")
    if kind or statistic.startswith("p"):
        rest = [
            w
            for w in said
            if w not in _LATENCY_WORDS and w not in _STATISTICS and not _is_percentile(w)
        ]
        return _named(
            [w for w in rest if w != "time"], f"{kind or latency}.{statistic or 'mean'}"
        ), unit
    if statistic and statistic != "mean":
        return None
    return _named([w for w in said if w not in _TIMES], "seconds"), unit


def _is_percentile(word: str) -> bool:
    return bool(re.fullmatch(r"p?\d{1,2}(\.\d+)?(th)?|percentile|pctl|p100|p999+", word))


def _percentile(said: list[str]) -> str:
    """p99, p99_00, p99.9, 99th, 99.9th percentile → ``p99``, ``p99.9``; '' none."""
    text = "_".join(said)
    match = re.search(
        r"(?:^|_)(?:p(\d{1,3})(?:[_.](\d{1,4}))?|(\d{1,2})(?:[_.](\d+))?th)(?:_|$)", text
    )
    if not match:
        return ""
    whole, part = match[1] or match[3], (match[2] or match[4] or "").rstrip("0")
    if len(whole) == 3 and whole != "100":  # noqa: PLR2004 (p999 is 99.9)
        whole, part = whole[:2], whole[2:]
    return f"p{int(whole)}.{part}" if part else f"p{int(whole)}"


def _share(said: list[str], unit: str) -> tuple[str, str] | None:
    rest = [word for word in said if word != "%"]
    if "util" in rest or "utilization" in rest:
        return _named([w for w in rest if not w.startswith("util")], "util"), unit
    if "cpu" in rest:
        part = next((_CPU[word] for word in rest if word in _CPU), "")
        own = [word for word in rest if word != "cpu" and word not in _CPU]
        return (f"cpu.{part}" if part else _named(own, "cpu")), unit
    return None


def _named(said: list[str], quantity: str) -> str:
    """The quantity with the operation that the other words name, if they name one."""
    rest = [word for word in said if word not in _GENERIC and word]
    random = [word for word in rest if word in ("random", "rand", "rnd")]
    rest = [word for word in rest if word not in random]
    known = [_OPERATIONS.get(word, slug(word)) for word in rest]
    if random and known[:1] in (["read"], ["write"]):
        known[0] = f"random_{known[0]}"
    operation = "_".join(dict.fromkeys(known))
    return f"{operation}.{quantity}" if operation else quantity


_PIVOT_KEYS = ("factor", "columns", "metric", "unit")
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
_TIME_WORDS = frozenset(("time", "seconds", "runtime", "elapsed", "duration"))


@dataclass(frozen=True, slots=True)
class PivotTable:
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


def pivot_from(said: Mapping[str, Any]) -> PivotTable:
    """What a TOML table says.  Raises UsageError; metric and unit are checked as a column's."""
    for key in said:
        if key not in _PIVOT_KEYS:
            raise UsageError(
                f"pivot: unknown key {key!r}", advice=f"There are {', '.join(_PIVOT_KEYS)}."
            )
    columns, factor = said.get("columns"), said.get("factor", "")
    if not isinstance(factor, str) or not factor:
        raise UsageError("pivot: no factor is named", advice='For example: factor = "scheduler"')
    listed = isinstance(columns, list) and all(isinstance(each, str) for each in columns)
    if not listed or len(set(columns or ())) < _FEWEST:
        advice = 'Name the columns that are its levels: columns = ["noop", "cfq"]'
        raise UsageError("pivot: no two columns are named", advice=advice)
    metric, unit = str(said.get("metric", "value")), str(said.get("unit", ""))
    return PivotTable(factor, tuple(dict.fromkeys(columns or ())), metric, unit)


def pivot_in(table: ImportTable, taken: Sequence[str]) -> PivotTable | None:
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
            return PivotTable(_free(factor, table), tuple(found), *_measured(table, found))
    return None


def _free(factor: str, table: ImportTable) -> str:
    return factor if factor not in table.header.cells else f"{factor} of the columns"


def _numbers(table: ImportTable, name: str) -> bool:
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


def _measured(table: ImportTable, columns: Sequence[str]) -> tuple[str, str]:
    """The metric and unit that all these columns say, or else the first one of the table."""
    said = {unit_of(name)[0] for name in columns if level_of(name) != name}
    if said:
        unit, rest = said.pop() if len(said) == 1 else "", list[str]()
    else:
        unit, rest = unit_of(table.header.cells[0])
    base = parse_unit(unit)[1]
    metric = _BY_BASE.get(base, "value")
    if base == "s" and _TIME_WORDS.intersection(rest):
        metric = "seconds"
    if base == "1/s" and "io" not in unit.lower():
        metric = "rate"
    loose = set(words(table.header.cells[0])) & {"iops"}
    if metric == "value" and loose:
        return "iops", ""
    return (metric, unit) if metric != "value" else ("value", "")


def unpivoted(table: ImportTable, pivot: PivotTable) -> ImportTable:
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
        TableRow(row.line, (*(row.cells[at] for at in rest), level, row.cells[column]))
        for row in table.rows
        for column, level in levels
    )
    cells = (*(header[at] for at in rest), pivot.factor, pivot.value)
    return replace(table, header=TableRow(table.header.line, cells), rows=rows)


@dataclass(frozen=True, slots=True)
class TableRow:
    """``line`` from 1; for a sheet the number of its row."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImportTable:
    """``name`` is a sheet's, '' for text.  ``likely`` is the decimal mark where no number tells
    it: between semicolons the comma, between commas the point (``"412,000"`` is quoted for its
    thousands), else nobody knows ('')."""

    header: TableRow
    rows: tuple[TableRow, ...]
    name: str = ""
    likely: Mark = ""


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
class TableColumn:
    """``name`` as the table's header has it.  For a value: its ``metric`` ('' in a table in long
    form) and ``unit`` ('' where the cells or another column say it).  For a ``metric`` column:
    ``names`` of the table's own → metrics."""

    name: str
    role: Role
    metric: str = ""
    unit: str = ""
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Every column of a table, in its order; or those that a person said something of.
    ``decimal`` is the decimal mark, '' where the numbers are to tell.  ``pivot`` is what a wide
    table's columns are: then ``columns`` are those of the long one made of it."""

    columns: tuple[TableColumn, ...]
    decimal: Literal["", ".", ","] = ""
    pivot: PivotTable | None = None

    def having(self, *roles: Role) -> tuple[TableColumn, ...]:
        """The columns with one of these roles."""
        return tuple(each for each in self.columns if each.role in roles)

    @property
    def long(self) -> bool:
        """Whether each row is one measurement, named by a column."""
        return bool(self.having("metric"))


@runtime_checkable
class TableFormat(RecordingFormat, Protocol):
    """A format of tables: it takes what a person says of the columns."""

    takes_columns: bool

    def columns(
        self, data: Buffer, raw: str, columns: TableColumns | None = None
    ) -> tuple[TableColumns, ...]:
        """What the columns of each table are: as said, the rest as guessed."""
        ...

    def read(
        self, data: Buffer, raw: str, columns: TableColumns | None = None
    ) -> tuple[Recording, ...]: ...

    def gaps(
        self, data: Buffer, raw: str, columns: TableColumns | None = None
    ) -> tuple[Doubt, ...]:
        """What rows and cells of its tables have no number."""
        ...


def columns_from(table: Mapping[str, Any]) -> TableColumns:
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
    return TableColumns(tuple(_column(name, value) for name, value in said.items()), mark, pivot)


def _is_column(said: Mapping[str, Any]) -> bool:
    """Whether a table says one column (one that is called ``columns``), not all of them."""
    return bool(said) and all(key in _KEYS and isinstance(said[key], str) for key in said)


def to_toml(columns: TableColumns) -> str:
    """The text that :func:`columns_from` reads as the same columns."""
    mark = [f"decimal = {_text(columns.decimal)}"] if columns.decimal else []
    lines = [_line(each) for each in columns.columns if not _made(each, columns.pivot)]
    pivot = _pivot_lines(columns.pivot) if columns.pivot else []
    return "\n".join([*mark, *pivot, *(["[columns]", *lines] if lines else [])]) + "\n"


def _made(column: TableColumn, pivot: PivotTable | None) -> bool:
    """Whether a wide table has no such column: it was made of those of its levels."""
    return pivot is not None and column.name in (pivot.factor, pivot.value)


def _pivot_lines(pivot: PivotTable) -> list[str]:
    names = ", ".join(_text(name) for name in pivot.columns)
    unit = [f"unit = {_text(pivot.unit)}"] if pivot.unit else []
    factor, metric_ = (f"{key} = {_text(said)}" for key, said in
                       (("factor", pivot.factor), ("metric", pivot.metric)))  # fmt: skip
    return ["[pivot]", factor, f"columns = [{names}]", metric_, *unit, ""]


def over(said: TableColumns, guessed: TableColumns) -> TableColumns:
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
        given.get(each.name, TableColumn(each.name, "note") if each.role in only else each)
        for each in guessed.columns
    ]
    return TableColumns(tuple(merged), said.decimal, said.pivot)


def _column(name: str, said: object) -> TableColumn:
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


def _by_role(name: str, role: str, said: Mapping[str, object]) -> TableColumn:
    if role not in ROLES:
        near = difflib.get_close_matches(role, ROLES, n=1)
        hint = f"did you mean {near[0]!r}?  " if near else ""
        advice = f"{hint}There are: {', '.join(ROLES)}"
        raise UsageError(f"column {name}: {role!r} is not a role", advice=advice)
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
    return TableColumn(name, cast("Role", role), wanted, unit, own)


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
        raise UsageError(f"column {name}: unknown metric {wanted!r}", advice=advice) from None
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


def _line(column: TableColumn) -> str:
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
