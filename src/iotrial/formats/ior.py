"""IOR's results: its normal output from 2.10 on, its JSON and its CSV (summaryFormat, 3.2 on).

One recording an iteration, with what was written and read in it: iterations of a run follow each
other on the same files, so they are pseudo-repeats.  ``write.bw`` and ``read.bw`` are what the
column bw(MiB/s) says (MiB = 2^20): all bytes of all tasks from the first open to the last close.
``write.iops`` is IOR's own, from the time of the transfers alone, so that IOPS × transfer size is
more than the bandwidth.  ``write.lat.mean`` is its latency, ``write.seconds`` total(s), and
``delete.seconds`` that of remove.  Where only a summary was printed, its means are given.

What must agree: maximum, minimum and mean of the summary with the iterations, bandwidth × time
with the bytes of all, within what the printed digits leave.

Normal output: tests, their options, one row an iteration, and the summary.  Which columns a row
has, its number of words tells: 2.999 to 3.2 print nine, 3.3 and later eleven, with IOPS and
latency; ``-`` is what was not measured.  A row prints what is 3600 or more without decimals.  2.10
prints a summary only.

JSON (``-O summaryFormat=JSON``, 3.2 and later): ``Results`` is a list of rows, or (3.3 and before)
of lists of them, one an iteration.  Numbers have four decimals.  A run that was killed leaves no
whole document.

Sources: ior-output.c and ior.c of 2.10.3 to 4.1; recordings in ``tests/data/ior``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats import text_of, the_one
from iotrial.model.measurement import Measurement, of_metric
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import Doubt, Treatment

AGAIN = "repeat the run, or take IOR's output as it wrote it"
_BEGINS = re.compile(r"IOR-(\S+): MPI Coordinated Test of Parallel I/O")
_COMMAND = re.compile(r"Command line(?: used)? *: *(.*)")
_TEST = re.compile(r"Test (\d+) started:|TestID +: (\d+)$|Summary:$")
_OPTION = re.compile(r"\t?(\w[\w /()-]{0,40}?) *[:=] ?(.*)$")
_ROW = re.compile(r"(write|read|remove) +(?=[-\d])")
_TAGGED = re.compile(r"\[\d+,\d+\]<std(?:out|err)>: ?")
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,10})?(?:[eE][-+]?\d{1,2})?")
_SHORT = ("bw", "block", "xfer", "open", "wrrd", "close", "total", "iter")
_LONG = ("bw", "iops", "latency", *_SHORT[1:])
_OLD_SUMMARY = ("max", "min", "mean", "sd", "maxops", "minops", "meanops", "sdops", "seconds")
_COLUMNS = {
    "Max(MiB)": "max", "Min(MiB)": "min", "Mean(MiB)": "mean", "Max(OPs)": "maxops",
    "Min(OPs)": "minops", "Mean(OPs)": "meanops", "Mean(s)": "seconds", "Test#": "test",
    "#Tasks": "tasks", "tPN": "tasks-per-node", "reps": "reps", "blksiz": "blocksize",
    "xsize": "xfersize", "aggs(MiB)": "mib", "aggsize": "bytes", "segcnt": "segments",
}  # fmt: skip


@dataclass(slots=True)
class _IorRow:
    """One iteration of one operation: what each column says, None for ``-``."""

    line: int
    operation: str
    iteration: int
    values: Mapping[str, float | None]


@dataclass(slots=True)
class IorSummary:
    line: int
    operation: str
    values: Mapping[str, float]


@dataclass(slots=True)
class _IorTest:
    """``number`` is IOR's own; ``options`` as it prints them; ``most`` what "Max Write" says,
    in MiB/s; ``command`` the command line, '' unknown."""

    line: int
    version: str
    number: int = 0
    options: dict[str, str] = field(default_factory=dict)
    rows: list[_IorRow] = field(default_factory=list)
    summaries: list[IorSummary] = field(default_factory=list)
    most: dict[str, float] = field(default_factory=dict)
    finished: bool = False
    command: str = ""


def tests_of(text: str, raw: str) -> list[_IorTest]:
    """Every test of every run.  Raises FormatError for a row that is not whole."""
    found: list[_IorTest] = []
    runs: list[_IorTest] = []
    header: list[str] = []
    version = command = ""
    for at, whole in enumerate(text.split("\n"), 1):
        line = _TAGGED.sub("", whole).rstrip()
        if match := _BEGINS.search(line):
            version, command, runs, header = match[1], "", [], []
            continue
        if not runs and (match := _COMMAND.match(line)):
            command = match[1]
        if match := _TEST.match(line):
            # 3.0 says "Test 0 started" and then "Summary:", which is the same test.
            if not runs or runs[-1].rows or runs[-1].options:
                runs.append(_IorTest(at, version, command=command))
                found.append(runs[-1])
            runs[-1].number = int(match[1] or match[2] or runs[-1].number)
            continue
        if not runs:
            if not _ROW.match(line) and not line.startswith("Operation "):
                continue
            runs.append(_IorTest(at, version))  # a part of an output, without its beginning
            found.append(runs[-1])
        if line.startswith("Operation "):
            header = line.split()
        elif match := _ROW.match(line):
            _values(line, at, header, runs, raw)
        else:
            _said(line, runs)
    return found


def _values(line: str, at: int, header: list[str], runs: list[_IorTest], raw: str) -> None:
    place = f"{raw}: line {at}"
    words = line.split()
    if header and header[0] == "Operation":
        summary = _summary(words, header, place, at)
        if summary is not None:
            _owner(summary, runs).summaries.append(summary)
            return
    runs[-1].rows.append(_row(words, place, at))


def _owner(summary: IorSummary, runs: list[_IorTest]) -> _IorTest:
    number = summary.values.get("test")
    return next((test for test in runs if test.number == number), runs[-1])


def _row(words: list[str], place: str, at: int) -> _IorRow:
    columns = {len(_SHORT): _SHORT, len(_LONG): _LONG}.get(len(words) - 1)
    if columns is None:
        message = f"{place}: {len(words)} columns; a row of IOR has 9 or 11"
        raise FormatError(message, advice=AGAIN)
    values = {
        name: None if word == "-" else number(word, f"{place}: {name}")
        for name, word in zip(columns, words[1:], strict=True)
    }
    if not words[-1].isdecimal():
        raise FormatError(f"{place}: {words[-1][:20]!r} is not an iteration", advice=AGAIN)
    return _IorRow(at, words[0], int(words[-1]), values)


def _summary(words: list[str], header: list[str], place: str, at: int) -> IorSummary | None:
    if "Test#" not in header:  # 2.10: "Max (MiB)" is two words
        if len(words) < len(_OLD_SUMMARY) + 1:
            raise FormatError(f"{place}: {len(words)} columns in the summary", advice=AGAIN)
        names: list[str] = list(_OLD_SUMMARY)
    else:
        if len(words) != len(header):
            message = f"{place}: {len(words)} columns in the summary; {len(header)} are named"
            raise FormatError(message, advice=AGAIN)
        names = [_COLUMNS.get(name, "") for name in header[1:]]
    values = {
        name: number(word, f"{place}: {name}")
        for name, word in zip(names, words[1:], strict=False)
        if name and word not in ("NA", "-", "nan", "-nan", "inf")
    }
    if not {"max", "min", "mean"} <= values.keys():
        raise FormatError(f"{place}: the summary has no numbers", advice=AGAIN)
    return IorSummary(at, words[0], values)


def _said(line: str, runs: list[_IorTest]) -> None:
    if match := re.match(r"Max (Write|Read): +(\S+) MiB/sec", line):
        if _NUMBER.fullmatch(match[2]):
            runs[-1].most[match[1].lower()] = float(match[2])
    elif re.match(r"(?:Run finished|Finished) *:", line):
        for test in runs:
            test.finished = True
    elif not runs[-1].rows and (match := _OPTION.match(line)):
        runs[-1].options.setdefault(match[1].strip(), match[2].strip())


def number(word: str, place: str) -> float:
    """Raises FormatError for what is no plain number."""
    if not _NUMBER.fullmatch(word):
        raise FormatError(f"{place}: {word[:30]!r} is not a number", advice=AGAIN)
    return float(word)


def plain(rows: list[_IorRow]) -> Iterator[_IorRow]:
    """Rows of reads and writes."""
    yield from (row for row in rows if row.operation != "remove")


_START = re.compile(r"^\s*\{", re.MULTILINE)
_VERSION = re.compile(r"^IOR-(\S+): MPI", re.MULTILINE)
_LARGEST = 1e18
_FIELDS = {
    "bwMiB": "bw", "iops": "iops", "latency": "latency", "totalTime": "total", "xferKiB": "xfer",
    "blockKiB": "block", "openTime": "open", "wrRdTime": "wrrd", "closeTime": "close",
}  # fmt: skip
_SUMS = {
    "bwMaxMIB": "max", "bwMinMIB": "min", "bwMeanMIB": "mean", "OPsMax": "maxops",
    "OPsMin": "minops", "OPsMean": "meanops", "MeanTime": "seconds", "repetitions": "reps",
}  # fmt: skip


def tests_of_json(text: str, raw: str) -> list[_IorTest]:
    """Every test of every document.  Raises FormatError with the line."""
    found: list[_IorTest] = []
    at = 0
    while match := _START.search(text, at):
        begin = match.end() - 1
        line = text.count("\n", 0, begin) + 1
        try:
            document, at = json.JSONDecoder(object_pairs_hook=_unique).raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            wrong = text.count("\n", 0, getattr(error, "pos", begin)) + 1
            what = getattr(error, "msg", str(error)[:60] or "nested too deeply")
            message = f"{raw}: line {wrong}: no whole JSON from line {line} on: {what}"
            raise FormatError(message, advice=AGAIN) from None
        before = _VERSION.search(text)  # 3.2 says it before the document
        record = _mapping(document, f"{raw}: line {line}")
        found += _tests(record, before[1] if before else "", line, raw)
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a number that is there twice, and different."""
    record: dict[str, Any] = {}
    for key, value in pairs:
        if key in record and record[key] != value:
            raise ValueError(f"{key} occurs twice")
        record[key] = value
    return record


def _tests(document: dict[str, Any], version: str, line: int, raw: str) -> Iterator[_IorTest]:
    place = f"{raw}: line {line}"
    tests = document.get("tests")
    if not isinstance(tests, list):
        raise FormatError(f"{place}: JSON, but no tests of IOR", advice=AGAIN)
    summaries = [
        _mapping(each, f"{place}: summary") for each in _list(document.get("summary", []), place)
    ]
    version = document.get("Version", version)
    for each in tests:
        record = _mapping(each, f"{place}: tests")
        options = _mapping(record.get("Options", {}), f"{place}: Options")
        test = _IorTest(
            line,
            version if isinstance(version, str) else "",
            options={str(key): str(value) for key, value in options.items()},
            finished="Finished" in document,
        )
        identity = record.get("TestID", 0)
        test.rows.extend(_rows(record.get("Results", []), line, place))
        test.summaries.extend(
            _summary_of_json(found, line, place)
            for found in summaries
            if found.get("TestID", 0) == identity
        )
        most = _mapping(record.get("max", {}), f"{place}: max")
        for operation in ("write", "read"):
            if f"{operation}MiB" in most:
                test.most[operation] = _number_of_json(most, f"{operation}MiB", f"{place}: max")
        yield test


def _rows(results: object, line: int, place: str) -> Iterator[_IorRow]:
    flat: list[object] = []
    for each in _list(results, f"{place}: Results"):
        flat += each if isinstance(each, list) else [each]
    seen: Counter[str] = Counter()
    for each in flat:
        record = _mapping(each, f"{place}: Results")
        operation = record.get("access")
        if operation not in ("write", "read", "remove"):
            raise FormatError(f"{place}: Results: access is {str(operation)[:30]!r}", advice=AGAIN)
        values = {
            name: _number_of_json(record, key, f"{place}: {operation}")
            for key, name in _FIELDS.items()
            if key in record
        }
        if "bw" not in values and operation != "remove":
            raise FormatError(f"{place}: {operation} without bwMiB", advice=AGAIN)
        yield _IorRow(line, operation, seen[operation], values)
        seen[operation] += 1


def _summary_of_json(record: dict[str, Any], line: int, place: str) -> IorSummary:
    operation = record.get("operation")
    values = {
        name: _number_of_json(record, key, f"{place}: summary of {str(operation)[:10]}")
        for key, name in _SUMS.items()
        if key in record
    }
    if operation not in ("write", "read") or not {"max", "min", "mean"} <= values.keys():
        raise FormatError(f"{place}: a summary without its numbers", advice=AGAIN)
    return IorSummary(line, operation, values)


def _mapping(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: {str(value)[:30]!r} is not an object", advice=AGAIN)
    return value


def _list(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise FormatError(f"{place}: {str(value)[:30]!r} is not a list", advice=AGAIN)
    return value


def _number_of_json(record: dict[str, Any], key: str, place: str) -> float:
    value = record[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LARGEST:
        raise FormatError(f"{place}: {key} is {str(value)[:30]!r}: no number", advice=AGAIN)
    return float(value)


_MIB = 2.0**20
_TWO = 0.011  # MiB/s, of two numbers with two decimals
_WORDS = re.compile(rb"MPI Coordinated Test of Parallel I/O")
_SHAPE = re.compile(
    rb"access +bw\(MiB/s\)|^Operation +Max ?\(MiB\)|\"bwMiB\"|\"bwMaxMIB\"", re.MULTILINE
)
_CSV = re.compile(r"access,bw\(MiB/s\),.*")
_CSV_HEAD = re.compile(rb"access,bw\(MiB/s\),")
_CSV_COLUMNS = {
    "bw(MiB/s)": "bw", "IOPS": "iops", "Latency": "latency", "total(s)": "total",
    "iter": "iter", "numTasks": "tasks", "block(KiB)": "block", "xfer(KiB)": "xfer",
    "open(s)": "open", "wr/rd(s)": "wrrd", "close(s)": "close",
}  # fmt: skip
_OPTIONS = (
    "api", "access", "type", "segments", "ordering in a file", "ordering inter file",
    "ordering inter file", "nodes", "tasks", "clients", "clients per node", "xfersize",
    "blocksize", "stonewallingTime", "stoneWallingWearOut",
)  # fmt: skip


class IorFormat:
    """The plugin."""

    name = "ior"
    title = "IOR, normal output, JSON and CSV"

    def recognises(self, head: bytes, name: str) -> int:
        del name
        if _CSV_HEAD.search(head):
            return 3
        shape = 1 if _SHAPE.search(head) else 0
        words = _WORDS.search(head) or (b'"bwMiB"' in head or b'"bwMaxMIB"' in head)
        return shape + (2 if words else 0)

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        text = text_of(data, raw)
        if re.search(r"^\s*\{", text, re.MULTILINE) and '"tests"' in text:
            tests = tests_of_json(text, raw)
        elif match := _CSV.search(text):
            tests = [_table(text, match, raw)]
        else:
            tests = tests_of(text, raw)
        found = [each for test in tests for each in _recordings(test, raw)]
        if not found:
            message = f"{raw}: no row and no summary of IOR in {text.count(chr(10)) + 1} lines"
            raise FormatError(message, advice=AGAIN)
        return tuple(found)


FORMAT = IorFormat()


def parse(data: bytes, raw: str) -> ParsedOutput:
    """The one iteration in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for
    several."""
    return the_one(FORMAT.read(data, raw), raw, "iterations of IOR")


def _table(text: str, head: re.Match[str], raw: str) -> _IorTest:
    """The CSV: 3.3 writes what it prints before without line ends."""
    columns = head[0].split(",")
    line = text.count("\n", 0, head.start()) + 1
    test = _IorTest(line, "", finished=True)
    for at, each in enumerate(text[head.end() :].split("\n")[1:], line + 1):
        words = each.split(",")
        if words[0] not in ("write", "read", "remove"):
            if (
                each.strip()
                and not each.startswith(("Finished", "Max ", "\t", " "))
                and "," in each
            ):
                raise FormatError(
                    f"{raw}: line {at}: {each[:30]!r} is not a row of IOR", advice=AGAIN
                )
            continue
        place = f"{raw}: line {at}"
        if len(words) != len(columns):
            message = f"{place}: {len(words)} fields; {len(columns)} are named"
            raise FormatError(message, advice=AGAIN)
        values = {
            _CSV_COLUMNS[name]: number(word, f"{place}: {name}")
            for name, word in zip(columns, words, strict=True)
            if name in _CSV_COLUMNS and word not in ("", "-")
        }
        if not values.get("iter", 0.0).is_integer() or "iter" not in values:
            raise FormatError(f"{place}: no iteration", advice=AGAIN)
        test.rows.append(_IorRow(at, words[0], int(values["iter"]), values))
        test.options["tasks"] = f"{values.get('tasks', 0):.0f}"
    return test


# From a test to recordings.


def _recordings(test: _IorTest, raw: str) -> Iterator[Recording]:
    _once(test, raw)
    doubts: list[Doubt] = []
    for operation in ("write", "read"):
        rows = [row for row in test.rows if row.operation == operation]
        summary = next((each for each in test.summaries if each.operation == operation), None)
        if rows and summary is not None:
            _agree(rows, summary, raw)
        elif rows and not _ended(test):
            what = "IOR did not end: iterations may be missing"
            doubts.append(Doubt("ior-unfinished", what, "Take what is there, or repeat the run."))
        _most(test, operation, rows, summary, raw)
    for row in plain(test.rows):
        _moved(row, raw)
    doubts = list(dict.fromkeys(doubts))
    treatment = _treatment(test)
    iterations = sorted({row.iteration for row in plain(test.rows)})
    for iteration in iterations:
        rows = [row for row in test.rows if row.iteration == iteration]
        yield Recording(
            tool="ior",
            workload="ior",
            measurements=tuple(each for row in rows for each in _measured(row, raw)),
            version=test.version,
            line=rows[0].line,
            treatment=treatment,
            doubts=tuple(doubts),
            seconds=sum(row.values.get("total") or 0.0 for row in rows),
        )
    if not iterations and test.summaries:
        yield _means(test, treatment, raw)


def _ended(test: _IorTest) -> bool:
    """Whether nothing is missing: IOR says that it finished, or what was best (after the last
    iteration), or each operation that its command line asks for has all its rows.  IO500 keeps
    nothing behind the rows."""
    if test.finished or test.most:
        return True
    words = test.command.split()
    asked = [name for name, flag in (("write", "-w"), ("read", "-r")) if flag in words]
    repeats = _integer(test.options.get("repetitions", ""))
    return "repetitions" in test.options and all(
        sum(row.operation == name for row in test.rows) >= repeats
        for name in (asked or ("write", "read"))
    )


def _once(test: _IorTest, raw: str) -> None:
    """Each iteration has each operation once, and they are counted from 0."""
    for operation in ("write", "read", "remove"):
        rows = [row for row in test.rows if row.operation == operation]
        for at, row in enumerate(rows):
            if row.iteration != at and operation != "remove":
                message = f"{raw}: line {row.line}: {operation} of iteration {row.iteration}, "
                raise FormatError(f"{message}where {at} is due", advice=AGAIN)


def _measured(row: _IorRow, raw: str) -> Iterator[Measurement]:
    if row.operation == "remove":
        names = {"delete.seconds": row.values.get("total")}
    else:
        bandwidth = row.values.get("bw")
        if bandwidth is None:
            raise FormatError(f"{raw}: line {row.line}: no bandwidth", advice=AGAIN)
        names = {
            f"{row.operation}.bw": bandwidth * _MIB,
            f"{row.operation}.iops": row.values.get("iops"),
            f"{row.operation}.lat.mean": row.values.get("latency") or None,  # 0.0000: too short
            f"{row.operation}.seconds": row.values.get("total"),
        }
    for name, value in names.items():
        if value is not None:
            yield of_metric(name, value, raw)


def _means(test: _IorTest, treatment: Treatment, raw: str) -> Recording:
    found: list[Measurement] = []
    doubts = []
    for summary in test.summaries:
        values = summary.values
        repeats = values.get("reps", _integer(test.options.get("repetitions", "1")))
        if not values["min"] - _TWO <= values["mean"] <= values["max"] + _TWO:
            message = f"{raw}: line {summary.line}: a mean of {values['mean']:g} between "
            raise FormatError(f"{message}{values['min']:g} and {values['max']:g}", advice=AGAIN)
        if repeats == 1 and values["max"] - values["min"] > _TWO:
            message = f"{raw}: line {summary.line}: one iteration with two bandwidths"
            raise FormatError(message, advice=AGAIN)
        names = {f"{summary.operation}.bw": values["mean"] * _MIB}
        # IOR 2 counts the transfers of one segment, however many there were.
        if "meanops" in values and not test.version.startswith("2."):
            names[f"{summary.operation}.iops"] = values["meanops"]
        if "seconds" in values:
            names[f"{summary.operation}.seconds"] = values["seconds"]
        found += [of_metric(n, v, raw) for n, v in names.items()]
        if repeats > 1:
            what = f"only the mean of {repeats:.0f} iterations was printed"
            doubts.append(Doubt("ior-means", what, "Run IOR with -v, or a newer one."))
    return Recording(
        tool="ior",
        workload="ior",
        measurements=tuple(found),
        version=test.version,
        line=test.line,
        treatment=treatment,
        doubts=tuple(dict.fromkeys(doubts)),
    )


def _treatment(test: _IorTest) -> Treatment:
    found = {name: test.options[name] for name in _OPTIONS if test.options.get(name)}
    return tuple((name, value[:80]) for name, value in found.items())


def _integer(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else 1


# What must agree.


def _agree(rows: Sequence[_IorRow], summary: IorSummary, raw: str) -> None:
    """The summary with its rows, and bandwidth times time with the bytes."""
    place = f"{raw}: line {summary.line}"
    rates = [row.values.get("bw") or 0.0 for row in rows]
    told = {"max": max(rates), "min": min(rates), "mean": sum(rates) / len(rates)}
    reps = summary.values.get("reps")
    if reps is not None and reps != len(rows):
        message = f"{place}: {reps:.0f} repetitions, and {len(rows)} rows of {summary.operation}"
        raise FormatError(message, advice=AGAIN)
    for name, value in told.items():
        said = summary.values[name]
        if abs(said - value) > max(_apart(each) for each in rates) + _apart(said):
            message = f"{place}: {name} is {said:g} MiB/s, the rows have {value:g}"
            raise FormatError(message, advice=AGAIN)
    _times(rows, summary.values, place)


def _times(rows: Sequence[_IorRow], values: Mapping[str, float], place: str) -> None:
    times = [row.values.get("total") for row in rows]
    known = [each for each in times if each is not None]
    if "seconds" in values and len(known) == len(rows):
        mean = sum(known) / len(known)
        if abs(values["seconds"] - mean) > _apart(mean) + 1e-5:
            message = f"{place}: {values['seconds']:g} s is not the mean of the rows, {mean:g} s"
            raise FormatError(message, advice=AGAIN)


def _moved(row: _IorRow, raw: str) -> None:
    """Bandwidth × total time and IOPS × transfer size × its time are the same bytes."""
    names = ("bw", "total", "iops", "xfer", "wrrd")
    bandwidth, total, iops, size, time = (row.values.get(name) or 0.0 for name in names)
    factors = (bandwidth, total, iops, size, time)
    if min(factors) <= 0.0:
        return
    share = sum(_apart(each) / each for each in factors)
    whole, transfers = bandwidth * total, iops * size / 1024.0 * time
    if abs(whole - transfers) > (share + 1e-3) * whole:
        message = f"{raw}: line {row.line}: {whole:.6g} MiB by bandwidth, {transfers:.6g} by IOPS"
        raise FormatError(message, advice=AGAIN)


def _apart(value: float) -> float:
    """How far a printed number may be off: half a unit of its last digit, and some rounding."""
    whole = 3600.0
    return 0.51 if value >= whole else 0.0101 if value >= 1 else 0.000052


def _most(
    test: _IorTest, operation: str, rows: Sequence[_IorRow], summary: IorSummary | None, raw: str
) -> None:
    """What "Max Write" says.  With several runs of a test it is the best of all."""
    said = test.most.get(operation)
    rates = [row.values.get("bw") or 0.0 for row in rows]
    best = max(rates) if rates else summary.values["max"] if summary else None
    if said is not None and best is not None and abs(said - best) > _apart(best) + 0.0051:
        message = f"{raw}: line {test.line}: the best {operation} is {best:g} MiB/s, and it is "
        raise FormatError(f"{message}said to be {said:g}", advice=AGAIN)
