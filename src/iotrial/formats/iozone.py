"""IOzone's text output, whole runs of it and what people keep of them → recordings.

A recording is one file size, record size and number of processes, with a metric for each
operation: ``write.bw`` (bytes/s) and ``write.iops`` (1/s), one made from the other by the record;
with -N ``write.lat.mean`` (s); of the throughput mode also ``.bw.parent``, ``.bw.min``,
``.bw.max``, ``.bw.avg`` (the last three of a process), ``.bytes.min`` and each process's own
(``process#1``); with -+u ``.cpu`` (CPU time over wall time: 1 is one core).

Operations: write, rewrite, read, reread, random_read, random_write, mixed, backward_read,
record_rewrite, stride_read, fwrite, refwrite, fread, refread, pwrite, repwrite, pread, repread,
pwritev, repwritev, preadv, repreadv.

Run began is a local time without a zone, so no recording says when it started.

The ``-R`` report ("Excel output") has the results once more, in quoted tables.  Single stream:
``"Writer report"``, a line of record sizes, then a line for each file size, in kB.  A combination
that was not run is 0, or is missing at the end of a line.  Throughput mode: ``"  Initial write "
713117.38``, a number for each count of processes.

Traps: the CPU table of the throughput mode has the wrong names when tests were left out (3.489:
random reads appear as "Reverse Read"), so it is not read; nothing says in which unit the
single-stream tables are.

Sources: iozone.c of 3.398 to 3.508 (``dump_excel``, ``dump_throughput``); output of these versions
in ``tests/data/iozone``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from iotrial.errors import FormatError
from iotrial.formats import iozone_tables as iozone_table
from iotrial.formats import iozone_tables as iozone_throughput
from iotrial.formats import text_of
from iotrial.formats.iozone_tables import (
    KB,
    IozoneBlock,
    IozoneCommand,
    IozoneRow,
    command,
    doubts_of,
    head_of,
    treatment_of,
    unit_of,
)
from iotrial.model.measurement import Measurement, of_metric, of_section
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import ParsedOutput
from iotrial.model.trial import Doubt

REPORTS = {
    "writer": "write", "re-writer": "rewrite", "reader": "read", "re-reader": "reread",
    "random read": "random_read", "random write": "random_write",
    "backward read": "backward_read", "record rewrite": "record_rewrite",
    "stride read": "stride_read", "fwrite": "fwrite", "re-fwrite": "refwrite",
    "fread": "fread", "re-fread": "refread", "pwrite": "pwrite", "re-pwrite": "repwrite",
    "pread": "pread", "re-pread": "repread", "pwritev": "pwritev", "re-pwritev": "repwritev",
    "preadv": "preadv", "re-preadv": "repreadv",
}  # fmt: skip
"""Titles in lower case: text and spreadsheet differ in it."""
TESTS = {
    "Initial write": "write", "Rewrite": "rewrite", "Read": "read", "Re-read": "reread",
    "Reverse Read": "backward_read", "Stride read": "stride_read", "Random read": "random_read",
    "Mixed workload": "mixed", "Random write": "random_write", "Pwrite": "pwrite",
    "Re-Pwrite": "repwrite", "Pread": "pread", "Re-Pread": "repread", "Fwrite": "fwrite",
    "Re-Fwrite": "refwrite", "Fread": "fread", "Re-Fread": "refread",
}  # fmt: skip
_TITLE = re.compile(r'"([A-Za-z -]{4,20}?)( CPU utilization)? report( \([^()"]*\))?"\s*')
_RECORDS = re.compile(r'\s*("\d{1,12}"\s*){1,200}')
_LINE = re.compile(r'\s*"(\d{1,15})"((?:\s+\d{1,15}(?:\.\d{1,3})?)*)\s*')
_TEST = re.compile(r'\s*"\s*([A-Z][A-Za-z -]{2,20}?)\s*"((?:\s+\d{1,15}(?:\.\d{1,3})?)+)\s*')
_RECORD = re.compile(r'\s*"Record size = (\d{1,12}) \S{2,6} ?"\s*')
_LONGEST = 5000


@dataclass(slots=True)
class IozoneReport:
    """``rates`` and ``cpu`` (percent): (file kB, record kB, operation) → number; ``tests``: of
    the throughput mode, operation → a number for each count of processes."""

    rates: dict[tuple[int, int, str], float] = field(default_factory=dict)
    cpu: dict[tuple[int, int, str], float] = field(default_factory=dict)
    tests: dict[str, tuple[float, ...]] = field(default_factory=dict)
    record: int = 0
    ops: bool = False
    line: int = 0

    def check(self, raw: str) -> None:
        """Raises FormatError unless every table has the same file and record sizes, and every
        test as many numbers."""
        if len(set(map(len, self.tests.values()))) > 1:
            message = f"{raw}: line {self.line}: the report's tests have not as many numbers each"
            raise FormatError(message, advice="a part of it is missing, or was changed")
        for kind in (self.rates, self.cpu):
            sizes: dict[str, list[tuple[int, int]]] = {}
            for size, record, operation in kind:
                sizes.setdefault(operation, []).append((size, record))
            if len({tuple(each) for each in sizes.values()}) > 1:
                message = f"{raw}: line {self.line}: the report's tables are not of the same sizes"
                raise FormatError(message, advice="a part of it is missing, or was changed")


def is_title(line: str) -> bool:
    """Whether a report begins here, of either kind."""
    short = line[:120].strip()
    return _TITLE.fullmatch(short) is not None or "Throughput report Y-axis" in short


def report(lines: Iterable[tuple[int, str]], raw: str) -> IozoneReport:
    """All tables in the numbered lines.  Raises FormatError for a quoted line that fits none."""
    found = IozoneReport()
    into: dict[tuple[int, int, str], float] | None = None
    mode, operation, records = "", "", list[int]()
    for number, whole in lines:
        line = whole[:_LONGEST]
        place = f"{raw}: line {number}"
        if is_title(line):
            found.line = found.line or number
        if "Y-axis is type of test" in line:
            mode = "cpu" if "CPU utilization report" in line else "tests"
        elif title := _TITLE.fullmatch(line.strip()):
            mode, into = "single", found.cpu if title[2] else found.rates
            operation, records = REPORTS.get(title[1].lower(), ""), []
            if not operation:
                raise FormatError(f"{place}: no report called {title[1]!r} is known")
        elif not mode or not line.lstrip().startswith('"'):
            continue
        elif mode == "single" and into is not None:
            records = _single(into, (operation, records), line, place)
        elif mode == "tests":
            _throughput(found, line, place)
    found.check(raw)
    return found


def _throughput(found: IozoneReport, line: str, place: str) -> None:
    if match := _RECORD.fullmatch(line):
        found.record = int(match[1]) * 1024
    elif line.lstrip().startswith('"Output is in'):
        found.ops = "ops" in line
    elif (match := _TEST.fullmatch(line)) and match[1] in TESTS:
        if TESTS[match[1]] in found.tests:
            raise FormatError(f"{place}: {match[1]} occurs twice")
        found.tests[TESTS[match[1]]] = tuple(map(float, match[2].split()))
    else:
        raise FormatError(f"{place}: {line.strip()[:60]!r} is not a line of a throughput report")


def _single(
    into: dict[tuple[int, int, str], float],
    known: tuple[str, Sequence[int]],
    line: str,
    place: str,
) -> list[int]:
    """Reads one line; the record sizes that hold for the next."""
    operation, records = known
    if not records and _RECORDS.fullmatch(line):
        return [int(word) for word in re.findall(r"\d+", line)]
    match = _LINE.fullmatch(line)
    if not match or len(match[2].split()) > len(records):
        raise FormatError(f"{place}: {line.strip()[:60]!r} is not a line of an Excel report")
    for record, number in zip(records, match[2].split(), strict=False):
        key = (int(match[1]), record, operation)
        if key in into:
            raise FormatError(f"{place}: {operation} of {key[0]} kB occurs twice")
        into[key] = float(number)
    return list(records)


_UNEVEN = 0.5


@dataclass(frozen=True, slots=True)
class IozoneSource:
    """The file's name, IOzone's version, and the lines of its head."""

    raw: str
    version: str = ""
    head: tuple[str, ...] = ()


def of_rows(
    source: IozoneSource,
    rows: Sequence[IozoneRow],
    unit: str,
    report: IozoneReport,
    doubts: Sequence[Doubt],
) -> Iterator[Recording]:
    """``unit`` of the numbers: ``kB`` or ``ops`` (per second), or ``us`` (per operation)."""
    for row in rows:
        measured, more = _of_row(row, unit, report, source.raw)
        sizes = (row.size, row.record, 0)
        yield _recording(source, row.line, sizes, measured, (*more, *doubts))


def of_blocks(
    source: IozoneSource, blocks: Sequence[IozoneBlock], doubts: Sequence[Doubt]
) -> Iterator[Recording]:
    """One for each file size, record size and count of processes."""
    groups: dict[tuple[int, int, int], list[IozoneBlock]] = {}
    for block in blocks:
        groups.setdefault((block.size, block.record, block.workers), []).append(block)
    for sizes, mine in groups.items():
        measured = [each for block in mine for each in _of_block(block, source.raw)]
        more = [doubt for block in mine for doubt in _about_block(block)]
        yield _recording(source, mine[0].line, sizes, measured, (*more, *doubts))


def of_report(
    source: IozoneSource,
    report: IozoneReport,
    told: IozoneCommand | None,
    known: tuple[str, Sequence[Doubt]],
) -> Iterator[Recording]:
    """A report alone.  ``known``: unit of its tables, and doubts.

    Raises FormatError where nothing says how many processes a column is of."""
    unit, doubts = known
    found: dict[tuple[int, int], dict[str, float]] = {}
    for (size, record, operation), rate in report.rates.items():
        if rate and size and record:
            found.setdefault((size, record), {})[operation] = rate
    rows = [IozoneRow(report.line, s * KB, r * KB, values) for (s, r), values in found.items()]
    yield from of_rows(source, rows, unit, report, doubts)
    doubts = tuple(doubt for doubt in doubts if doubt.check != "unit")  # said in the report
    yield from of_blocks(source, _blocks_of(report, told, source.raw), doubts)


def together(recordings: Sequence[Recording]) -> ParsedOutput:
    """Several file and record sizes of one run, one after another: each a section
    (``write.bw[1024k/4k]``), and, for the operations that all have, their bytes over their
    time."""
    jobs: list[Measurement] = []
    rates: dict[str, list[tuple[float, float, float]]] = {}
    for each in recordings:
        known = dict(each.treatment)
        size, record = (float(known[name].rstrip("k")) * KB for name in ("size", "record"))
        for measured in each.measurements:
            name = of_section(measured.metric, f"{known['size']}/{known['record']}")
            jobs.append(replace(measured, metric=name))
            operation, _, quantity = measured.metric.partition(".")
            if quantity == "bw":
                found = (size, size / measured.value, size / record)
                rates.setdefault(operation, []).append(found)
    every: list[Measurement] = []
    raw = jobs[0].raw if jobs else ""
    for operation, parts in rates.items():
        if len(parts) == len(recordings):
            moved, seconds, many = map(sum, zip(*parts, strict=True))
            every.append(of_metric(f"{operation}.bw", moved / seconds, raw))
            every.append(of_metric(f"{operation}.iops", many / seconds, raw))
    doubts = dict.fromkeys(doubt for each in recordings for doubt in each.doubts)
    return ParsedOutput((*every, *jobs), tuple(doubts))


def _blocks_of(report: IozoneReport, told: IozoneCommand | None, raw: str) -> list[IozoneBlock]:
    columns = max(map(len, report.tests.values()), default=0)
    counts = told.counts if told else ()
    if columns > 1 and len(counts) != columns:
        message = f"{raw}: line {report.line}: nothing says of how many processes each column is"
        raise FormatError(message, advice="give IOzone's whole output, or its -b spreadsheet")
    if len(counts) != columns:
        counts = (0,) * columns
    sizes = told.sizes if told else ()
    size = sizes[0] if len(sizes) == 1 else 0
    unit = "ops" if report.ops else "kB"
    return [
        IozoneBlock(operation, count, value, unit, size, report.record, report.line)
        for operation, values in report.tests.items()
        for count, value in zip(counts, values, strict=False)
    ]


def _recording(
    source: IozoneSource,
    line: int,
    sizes: tuple[int, int, int],
    measured: Sequence[Measurement],
    doubts: Sequence[Doubt],
) -> Recording:
    return Recording(
        tool="iozone",
        workload="iozone",
        measurements=tuple(measured),
        version=source.version,
        line=line,
        treatment=treatment_of(sizes, source.head),
        doubts=tuple(doubts),
    )


def _of_row(
    row: IozoneRow, unit: str, report: IozoneReport, raw: str
) -> tuple[list[Measurement], tuple[Doubt, ...]]:
    found: list[Measurement] = []
    zeros = [operation for operation, value in row.values.items() if not value]
    for operation, value in row.values.items():
        if not value:
            continue
        if unit == "us":
            found.append(of_metric(f"{operation}.lat.mean", value / 1e6, raw))
        else:
            found.extend(_rate(operation, value, row.record, unit, raw))
        used = report.cpu.get((row.size // KB, row.record // KB, operation), 0.0)
        if used:
            found.append(of_metric(f"{operation}.cpu", used / 100, raw))
    what = f"IOzone gives 0 for {', '.join(zeros)}: not run (-+n), or less than one"
    advice = "Take a larger file, and a record no larger than the file."
    return found, (Doubt("zero", what, advice),) if zeros else ()


def _rate(operation: str, rate: float, record: int, unit: str, raw: str) -> Iterator[Measurement]:
    """``record`` in bytes, 0: unknown."""
    if unit == "kB" or record:
        yield of_metric(f"{operation}.bw", rate * (record if unit == "ops" else KB), raw)
    if unit == "ops" or record:
        many = rate if unit == "ops" else rate * KB / record
        yield of_metric(f"{operation}.iops", many, raw)


def _of_block(block: IozoneBlock, raw: str) -> Iterator[Measurement]:
    if not block.children:
        return
    name = block.operation
    yield from _rate(name, block.children, block.record, block.unit, raw)
    scale = block.record if block.unit == "ops" else KB
    if not scale:
        return
    for part in ("Parent", "Min", "Max", "Avg"):
        if part in block.parts and not (part == "Min" and block.starved):
            value = block.parts[part] * scale
            yield of_metric(f"{name}.bw.{part.lower()}", value, raw)
    if "xfer" in block.parts and not block.starved:
        yield of_metric(f"{name}.bytes.min", block.parts["xfer"] * scale, raw)
    if block.parts.get("cpu"):
        yield of_metric(f"{name}.cpu", block.parts["cpu"] / 100, raw)
    for ordinal, (moved, rate) in enumerate(block.processes, 1):
        yield of_metric(f"{name}.bytes", moved * scale, raw, f"process#{ordinal}")
        yield of_metric(f"{name}.bw", rate * scale, raw, f"process#{ordinal}")


def _about_block(block: IozoneBlock) -> Iterator[Doubt]:
    if not block.children:
        what = f"{block.operation}: its {block.workers} processes moved nothing that was counted"
        yield Doubt("zero", what, "Take larger files.")
        return
    advice = "Take larger files; processes that start late leave the others alone."
    moved = block.parts.get("xfer", math.inf) * (block.record if block.unit == "ops" else KB)
    if block.starved:
        what = f"{block.operation}: a process had moved nothing when the first was done"
        yield Doubt("uneven", what, advice)
    elif moved < _UNEVEN * block.size:
        what = f"{block.operation}: the slowest process had moved {moved / block.size:.0%} "
        yield Doubt("uneven", f"{what}of its file when the first was done", advice)
    parent = block.parts.get("Parent", math.inf)
    if parent < _UNEVEN * block.children:
        what = f"{block.operation}: the parent saw {parent / block.children:.0%} of what its "
        yield Doubt("not-together", f"{what}children report", advice)


_BEGINS = "Iozone: Performance Test of File I/O"
_ENDS = "iozone test complete."
_COMMAND = "Command line used:"
_VERSION = re.compile(r"Version \$Revision: (\d{1,2}\.\d{1,4}) \$")
_SIZE = re.compile(r"File size set to (\d{1,15}) [kK][bB]")
_RECORD_SIZE = re.compile(r"Record Size (\d{1,12}) [kK][bB]")
_QUOTED = re.compile(r"(?:> ?)+")
_AGAIN = "repeat it: IOzone did not terminate normally, or the disk with the results was full"
_SAME = 1e-9


@dataclass(slots=True)
class _Run:
    """One run: lines ``begin`` to ``end`` of the file (indices), and what is in them."""

    begin: int
    end: int
    version: str = ""
    whole: bool = False
    told: IozoneCommand | None = None
    head: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    rows: tuple[IozoneRow, ...] = ()
    blocks: tuple[IozoneBlock, ...] = ()
    report: IozoneReport = field(default_factory=IozoneReport)


class _Iozone:
    """See :class:`iotrial.model.recording.RecordingFormat` for what each part promises."""

    name = "iozone"
    title = "IOzone, text output: tables, throughput mode, -R reports"

    def recognises(self, head: bytes, name: str) -> int:
        lines = head.decode("utf-8", "replace").splitlines()
        ours = _BEGINS.encode() in head or any(map(iozone_throughput.sees, map(_bare, lines)))
        shape = any(iozone_table.is_header(_bare(line)) for line in lines) or any(
            is_title(line) for line in lines
        )
        ours = ours or (shape and "iozone" in name.lower())
        return 3 if ours and (shape or b"throughput for" in head) else 2 * ours or int(shape)

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        lines = [_bare(line) for line in text_of(data, raw).split("\n")]
        runs = [_run(lines, *span, raw) for span in _spans(lines)]
        found = [(run, [r for r in _recordings(run, raw) if r.measurements]) for run in runs]
        if not any(recordings for _, recordings in found):
            raise FormatError(f"{raw}: no result of IOzone in {len(lines)} lines{_heard(runs)}")
        nothing = [run for run, recordings in found if not recordings and run.version]
        every = [each for _, recordings in found for each in recordings]
        empty = tuple(_left_out(run) for run in nothing)
        every[0] = replace(every[0], doubts=(*every[0].doubts, *empty))
        return tuple(every)


FORMAT = _Iozone()


def parse(data: bytes, raw: str) -> ParsedOutput:
    """The results of one whole run; several sizes of a table are put together.

    Raises :class:`~iotrial.errors.FormatError`, also for several runs or counts of processes, of
    which nobody could tell which is meant, and for a run that was broken off."""
    found = FORMAT.read(data, raw)
    broken = [d for each in found for d in each.doubts if d.check in ("broken-off", "excerpt")]
    if broken:
        raise FormatError(f"{raw}: {broken[0].what}", advice=_AGAIN)
    if len(found) == 1:
        return ParsedOutput(found[0].measurements, found[0].doubts)
    sizes = [dict(each.treatment) for each in found]
    if any("threads" in each for each in sizes) or len({str(each) for each in sizes}) < len(sizes):
        lines = ", ".join(str(each.line) for each in found[:8])
        raise FormatError(f"{raw}: {len(found)} results of IOzone (lines {lines}); one is wanted")
    return together(found)


def _bare(line: str) -> str:
    """The line without the marks of a quoted message."""
    return _QUOTED.sub("", line, count=1) if line.startswith(">") else line


def _spans(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Where runs begin and end: at IOzone's first line, or, where that is gone, at a command
    line or a table after results."""
    starts, results, ended = [0], False, False
    for at, line in enumerate(lines):
        table = iozone_table.is_header(line)
        if _BEGINS in line:
            starts.append(at)
            results = ended = False
        elif (_COMMAND in line and results) or (table and results):
            starts.append(at)
            results, ended = table, False
        elif iozone_throughput.sees(line) and ended:
            starts.append(at)
            results, ended = True, False
        else:
            results = results or table or iozone_throughput.sees(line)
            ended = ended or line.strip() == _ENDS
    spans = [*zip(starts, [*starts[1:], len(lines)], strict=True)]
    return [(begin, end) for begin, end in spans if begin < end]


def _run(lines: Sequence[str], begin: int, end: int, raw: str) -> _Run:
    run = _Run(begin, end)
    mine = range(begin, end)
    version = next((v for at in mine if (v := _VERSION.search(lines[at][:200]))), None)
    run.version = version[1] if version else ""
    told = next((lines[at] for at in mine if _COMMAND in lines[at]), "")
    run.told = command(told.partition(_COMMAND)[2]) if told else None
    header = next((at for at in mine if iozone_table.is_header(lines[at])), None)
    after = mine if header is None else range(header, end)
    ends = next((at for at in after if lines[at].strip() == _ENDS), None)
    run.whole = ends is not None
    first = next((at for at in mine if iozone_throughput.sees(lines[at])), header)
    run.head = head_of(lines[begin : first if first is not None else end])
    if header is not None:
        tests = None
        if run.told is not None:
            every = frozenset(range(len(iozone_table.GROUPS)))
            tests = every if run.told.tests is None else run.told.tests
        span = range(header, end if ends is None else ends)
        found = iozone_table.table(lines, span, raw, tests, whole=run.whole)
        run.rows, run.said = tuple(found.rows), tuple(found.said)
    numbered = [(at + 1, lines[at]) for at in mine]
    sizes = (_kib(_SIZE, run.head), _kib(_RECORD_SIZE, run.head))
    run.blocks = iozone_throughput.blocks(numbered, raw, sizes, whole=run.whole)
    run.report = report(numbered, raw)
    _agree(run, raw)
    return run


def _kib(pattern: re.Pattern[str], head: Sequence[str]) -> int:
    found = [match for line in head if (match := pattern.match(line))]
    return int(found[-1][1]) * KB if found else 0


def _agree(run: _Run, raw: str) -> None:
    """The ``-R`` report repeats the results: number by number the same."""
    if run.rows and run.report.rates:
        told = dict(run.report.rates)
        for row in run.rows:
            for operation, rate in row.values.items():
                key = (row.size // KB, row.record // KB, operation)
                _same(operation, rate, told.pop(key, None), f"{raw}: line {row.line}")
        if any(told.values()):
            raise FormatError(f"{raw}: line {run.report.line}: the report has more than the table")
    if run.blocks and run.report.tests:
        counts = list(dict.fromkeys(block.workers for block in run.blocks))
        others = {(op, at): v for op, vs in run.report.tests.items() for at, v in enumerate(vs)}
        for block in run.blocks:
            other = others.pop((block.operation, counts.index(block.workers)), None)
            _same(block.operation, block.children, other, f"{raw}: line {block.line}")
        if any(others.values()):
            raise FormatError(f"{raw}: line {run.report.line}: the report has more than the text")


def _same(operation: str, rate: float, other: float | None, place: str) -> None:
    if other is None or not math.isclose(rate, other, rel_tol=_SAME, abs_tol=0.011):
        message = f"{place}: {operation} is {rate} in the text and {other} in the report"
        raise FormatError(message, advice=_AGAIN)


def _recordings(run: _Run, raw: str) -> Iterator[Recording]:
    unit, more = unit_of(run.head, run.told)
    about = tuple(_about_run(run))
    source = IozoneSource(raw, run.version, run.head)
    if run.rows or run.blocks:
        yield from of_rows(source, run.rows, unit, run.report, (*about, *more))
        yield from of_blocks(source, run.blocks, about)
    else:
        yield from of_report(source, run.report, run.told, (unit, (*about, *more)))


def _about_run(run: _Run) -> Iterator[Doubt]:
    yield from doubts_of(run.head, run.said)
    if run.whole:
        return
    if run.head and run.version:
        what = "IOzone did not say that its test was complete: what follows is missing"
        yield Doubt("broken-off", what, "Repeat the run, or take it for what is there.")
    else:
        what = "a part of IOzone's output, without its head or its end"
        yield Doubt("excerpt", what, "Give the whole output, where it still exists.")


def _heard(runs: Sequence[_Run]) -> str:
    said = [line for run in runs for line in run.said]
    return f"; it says {said[0]!r}" if said else ""


def _left_out(run: _Run) -> Doubt:
    what = f"the run of IOzone from line {run.begin + 1} on has no results{_heard([run])}"
    return Doubt("no-result", what, "It failed or was stopped: remove it, or repeat it.")
