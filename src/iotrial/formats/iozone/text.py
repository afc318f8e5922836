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

Sources: iozone.c of 3.398 to 3.508; output of these versions in ``tests/data/iozone``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from iotrial.errors import FormatError
from iotrial.formats.iozone import report as iozone_report
from iotrial.formats.iozone import table as iozone_table
from iotrial.formats.iozone import throughput as iozone_throughput
from iotrial.formats.iozone.command import Command, command
from iotrial.formats.iozone.head import doubts_of, head_of, unit_of
from iotrial.formats.iozone.report import Report
from iotrial.formats.iozone.results import Source, of_blocks, of_report, of_rows, together
from iotrial.formats.iozone.table import KB, Row
from iotrial.formats.iozone.throughput import Block
from iotrial.formats.lines import text_of
from iotrial.model.recording import Buffer, Recording
from iotrial.model.tool import Parsed
from iotrial.model.trial import Doubt

_BEGINS = "Iozone: Performance Test of File I/O"
_ENDS = "iozone test complete."
_COMMAND = "Command line used:"
_VERSION = re.compile(r"Version \$Revision: (\d{1,2}\.\d{1,4}) \$")
_SIZE = re.compile(r"File size set to (\d{1,15}) [kK][bB]")
_RECORD = re.compile(r"Record Size (\d{1,12}) [kK][bB]")
_QUOTED = re.compile(r"(?:> ?)+")
_AGAIN = "repeat it: IOzone did not end by itself, or the disk with the results was full"
_SAME = 1e-9


@dataclass(slots=True)
class _Run:
    """One run: lines ``begin`` to ``end`` of the file (indices), and what is in them."""

    begin: int
    end: int
    version: str = ""
    whole: bool = False
    told: Command | None = None
    head: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    blocks: tuple[Block, ...] = ()
    report: Report = field(default_factory=Report)


class _Iozone:
    """See :class:`iotrial.model.recording.Format` for what each part promises."""

    name = "iozone"
    title = "IOzone, text output: tables, throughput mode, -R reports"

    def recognises(self, head: bytes, name: str) -> int:
        lines = head.decode("utf-8", "replace").splitlines()
        ours = _BEGINS.encode() in head or any(map(iozone_throughput.sees, map(_bare, lines)))
        shape = any(iozone_table.is_header(_bare(line)) for line in lines) or any(
            iozone_report.is_title(line) for line in lines
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


def parse(data: bytes, raw: str) -> Parsed:
    """The results of one whole run; several sizes of a table are put together.

    Raises :class:`~iotrial.errors.FormatError`, also for several runs or counts of processes, of
    which nobody could tell which is meant, and for a run that was broken off."""
    found = FORMAT.read(data, raw)
    broken = [d for each in found for d in each.doubts if d.check in ("broken-off", "excerpt")]
    if broken:
        raise FormatError(f"{raw}: {broken[0].what}", advice=_AGAIN)
    if len(found) == 1:
        return Parsed(found[0].measurements, found[0].doubts)
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
    sizes = (_kib(_SIZE, run.head), _kib(_RECORD, run.head))
    run.blocks = iozone_throughput.blocks(numbered, raw, sizes, whole=run.whole)
    run.report = iozone_report.report(numbered, raw)
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
    about = tuple(_about(run))
    source = Source(raw, run.version, run.head)
    if run.rows or run.blocks:
        yield from of_rows(source, run.rows, unit, run.report, (*about, *more))
        yield from of_blocks(source, run.blocks, about)
    else:
        yield from of_report(source, run.report, run.told, (unit, (*about, *more)))


def _about(run: _Run) -> Iterator[Doubt]:
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
    return Doubt("no-result", what, "It failed or was stopped: leave it out, or repeat it.")
