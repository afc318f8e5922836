"""What the words in a column's header mean: its unit, and the metric it holds.

The words are those of result tables of fio, IOzone, bonnie++, dd and of people.
"""

from __future__ import annotations

import re

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
_LATENCIES = {
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
    if set(said) & set(_LATENCIES):
        return _time(said, "lat", "")
    return ("value", "") if said in (["value"], ["score"], ["result"]) else None


def _time(said: list[str], latency: str, unit: str) -> tuple[str, str] | None:
    kind = next((_LATENCIES[word] for word in said if word in _LATENCIES), "")
    statistic = _percentile(said) or next((_STATISTICS[w] for w in said if w in _STATISTICS), "")
    if kind or statistic.startswith("p"):
        rest = [
            w
            for w in said
            if w not in _LATENCIES and w not in _STATISTICS and not _is_percentile(w)
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
