"""IOR's results: its normal output from 2.10 on, its JSON and its CSV (summaryFormat, 3.2 on).

One recording an iteration, with what was written and read in it: iterations of a run follow each
other on the same files, so they are pseudo-repeats.  ``write.bw`` and ``read.bw`` are what the
column bw(MiB/s) says (MiB = 2^20): all bytes of all tasks from the first open to the last close.
``write.iops`` is IOR's own, from the time of the transfers alone, so that IOPS × transfer size is
more than the bandwidth.  ``write.lat.mean`` is its latency, ``write.seconds`` total(s), and
``delete.seconds`` that of remove.  Where only a summary was printed, its means are given.

What must agree: maximum, minimum and mean of the summary with the iterations, bandwidth × time
with the bytes of all, within what the printed digits leave.

Sources: ior-output.c and ior.c of 2.10.3 to 4.1; recordings in ``tests/data/ior``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from iotrial.errors import FormatError
from iotrial.formats.ior import json_output as ior_json
from iotrial.formats.ior.lines import AGAIN, Row, Summary, Test, number, plain, tests_of
from iotrial.formats.lines import text_of
from iotrial.model.measurement import Measurement, metric
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import Parsed
from iotrial.model.trial import Doubt, Treatment

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


class Ior:
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
            tests = ior_json.tests_of(text, raw)
        elif match := _CSV.search(text):
            tests = [_table(text, match, raw)]
        else:
            tests = tests_of(text, raw)
        found = [each for test in tests for each in _recordings(test, raw)]
        if not found:
            message = f"{raw}: no row and no summary of IOR in {text.count(chr(10)) + 1} lines"
            raise FormatError(message, advice=AGAIN)
        return tuple(found)


FORMAT = Ior()


def parse(data: bytes, raw: str) -> Parsed:
    """The one iteration in ``data``.  Raises :class:`~iotrial.errors.FormatError`, also for
    several."""
    found = FORMAT.read(data, raw)
    if len(found) != 1:
        raise FormatError(f"{raw}: {len(found)} iterations of IOR; one is wanted")
    return Parsed(found[0].measurements, found[0].doubts)


def _table(text: str, head: re.Match[str], raw: str) -> Test:
    """The CSV: 3.3 writes what it prints before without line ends."""
    columns = head[0].split(",")
    line = text.count("\n", 0, head.start()) + 1
    test = Test(line, "", finished=True)
    for at, each in enumerate(text[head.end() :].split("\n")[1:], line + 1):
        words = each.split(",")
        if words[0] not in ("write", "read", "remove"):
            if (
                each.strip()
                and not each.startswith(("Finished", "Max ", "\t", " "))
                and "," in each
            ):
                raise FormatError(f"{raw}: line {at}: {each[:30]!r} is no row of IOR", advice=AGAIN)
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
        test.rows.append(Row(at, words[0], int(values["iter"]), values))
        test.options["tasks"] = f"{values.get('tasks', 0):.0f}"
    return test


# From a test to recordings.


def _recordings(test: Test, raw: str) -> Iterator[Recording]:
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


def _ended(test: Test) -> bool:
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


def _once(test: Test, raw: str) -> None:
    """Each iteration has each operation once, and they are counted from 0."""
    for operation in ("write", "read", "remove"):
        rows = [row for row in test.rows if row.operation == operation]
        for at, row in enumerate(rows):
            if row.iteration != at and operation != "remove":
                message = f"{raw}: line {row.line}: {operation} of iteration {row.iteration}, "
                raise FormatError(f"{message}where {at} is due", advice=AGAIN)


def _measured(row: Row, raw: str) -> Iterator[Measurement]:
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
            yield Measurement(name, value, metric(name).unit, "all", raw)


def _means(test: Test, treatment: Treatment, raw: str) -> Recording:
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
        found += [Measurement(n, v, metric(n).unit, "all", raw) for n, v in names.items()]
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


def _treatment(test: Test) -> Treatment:
    found = {name: test.options[name] for name in _OPTIONS if test.options.get(name)}
    return tuple((name, value[:80]) for name, value in found.items())


def _integer(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,9}", text) else 1


# What must agree.


def _agree(rows: Sequence[Row], summary: Summary, raw: str) -> None:
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


def _times(rows: Sequence[Row], values: Mapping[str, float], place: str) -> None:
    times = [row.values.get("total") for row in rows]
    known = [each for each in times if each is not None]
    if "seconds" in values and len(known) == len(rows):
        mean = sum(known) / len(known)
        if abs(values["seconds"] - mean) > _apart(mean) + 1e-5:
            message = f"{place}: {values['seconds']:g} s is not the mean of the rows, {mean:g} s"
            raise FormatError(message, advice=AGAIN)


def _moved(row: Row, raw: str) -> None:
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
    test: Test, operation: str, rows: Sequence[Row], summary: Summary | None, raw: str
) -> None:
    """What "Max Write" says.  With several runs of a test it is the best of all."""
    said = test.most.get(operation)
    rates = [row.values.get("bw") or 0.0 for row in rows]
    best = max(rates) if rates else summary.values["max"] if summary else None
    if said is not None and best is not None and abs(said - best) > _apart(best) + 0.0051:
        message = f"{raw}: line {test.line}: the best {operation} is {best:g} MiB/s, and it is "
        raise FormatError(f"{message}said to be {said:g}", advice=AGAIN)
