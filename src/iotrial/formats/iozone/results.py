"""IOzone's results → recordings and doubts: the same of its text and of its spreadsheet.

Sources: those of :mod:`iotrial.formats.iozone.table` and ``iozone_throughput``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from iotrial.errors import FormatError
from iotrial.formats.iozone.command import Command
from iotrial.formats.iozone.head import treatment_of
from iotrial.formats.iozone.report import Report
from iotrial.formats.iozone.table import KB, Row
from iotrial.formats.iozone.throughput import Block
from iotrial.model.measurement import Measurement, metric
from iotrial.model.recording import Recording
from iotrial.model.tool import Parsed
from iotrial.model.trial import Doubt

_UNEVEN = 0.5


@dataclass(frozen=True, slots=True)
class Source:
    """The file's name, IOzone's version, and the lines of its head."""

    raw: str
    version: str = ""
    head: tuple[str, ...] = ()


def of_rows(
    source: Source, rows: Sequence[Row], unit: str, report: Report, doubts: Sequence[Doubt]
) -> Iterator[Recording]:
    """``unit`` of the numbers: ``kB`` or ``ops`` (per second), or ``us`` (per operation)."""
    for row in rows:
        measured, more = _of_row(row, unit, report, source.raw)
        sizes = (row.size, row.record, 0)
        yield _recording(source, row.line, sizes, measured, (*more, *doubts))


def of_blocks(
    source: Source, blocks: Sequence[Block], doubts: Sequence[Doubt]
) -> Iterator[Recording]:
    """One for each file size, record size and count of processes."""
    groups: dict[tuple[int, int, int], list[Block]] = {}
    for block in blocks:
        groups.setdefault((block.size, block.record, block.workers), []).append(block)
    for sizes, mine in groups.items():
        measured = [each for block in mine for each in _of_block(block, source.raw)]
        more = [doubt for block in mine for doubt in _about(block)]
        yield _recording(source, mine[0].line, sizes, measured, (*more, *doubts))


def of_report(
    source: Source, report: Report, told: Command | None, known: tuple[str, Sequence[Doubt]]
) -> Iterator[Recording]:
    """A report alone.  ``known``: unit of its tables, and doubts.

    Raises FormatError where nothing says how many processes a column is of."""
    unit, doubts = known
    found: dict[tuple[int, int], dict[str, float]] = {}
    for (size, record, operation), rate in report.rates.items():
        if rate and size and record:
            found.setdefault((size, record), {})[operation] = rate
    rows = [Row(report.line, s * KB, r * KB, values) for (s, r), values in found.items()]
    yield from of_rows(source, rows, unit, report, doubts)
    doubts = tuple(doubt for doubt in doubts if doubt.check != "unit")  # said in the report
    yield from of_blocks(source, _blocks_of(report, told, source.raw), doubts)


def together(recordings: Sequence[Recording]) -> Parsed:
    """Several file and record sizes of one run, one after another: each a job (``1024k/4k#1``),
    and ``all``, for the operations that all have, their bytes over their time."""
    jobs: list[Measurement] = []
    rates: dict[str, list[tuple[float, float, float]]] = {}
    for each in recordings:
        known = dict(each.treatment)
        size, record = (float(known[name].rstrip("k")) * KB for name in ("size", "record"))
        for measured in each.measurements:
            jobs.append(replace(measured, job=f"{known['size']}/{known['record']}#1"))
            operation, _, quantity = measured.metric.partition(".")
            if quantity == "bw":
                found = (size, size / measured.value, size / record)
                rates.setdefault(operation, []).append(found)
    every: list[Measurement] = []
    raw = jobs[0].raw if jobs else ""
    for operation, parts in rates.items():
        if len(parts) == len(recordings):
            moved, seconds, many = map(sum, zip(*parts, strict=True))
            every.append(_number(f"{operation}.bw", moved / seconds, "all", raw))
            every.append(_number(f"{operation}.iops", many / seconds, "all", raw))
    doubts = dict.fromkeys(doubt for each in recordings for doubt in each.doubts)
    return Parsed((*every, *jobs), tuple(doubts))


def _blocks_of(report: Report, told: Command | None, raw: str) -> list[Block]:
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
        Block(operation, count, value, unit, size, report.record, report.line)
        for operation, values in report.tests.items()
        for count, value in zip(counts, values, strict=False)
    ]


def _recording(
    source: Source,
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
    row: Row, unit: str, report: Report, raw: str
) -> tuple[list[Measurement], tuple[Doubt, ...]]:
    found: list[Measurement] = []
    zeros = [operation for operation, value in row.values.items() if not value]
    for operation, value in row.values.items():
        if not value:
            continue
        if unit == "us":
            found.append(_number(f"{operation}.lat.mean", value / 1e6, "all", raw))
        else:
            found.extend(_rate(operation, value, row.record, unit, raw))
        used = report.cpu.get((row.size // KB, row.record // KB, operation), 0.0)
        if used:
            found.append(_number(f"{operation}.cpu", used / 100, "all", raw))
    what = f"IOzone gives 0 for {', '.join(zeros)}: not run (-+n), or less than one"
    advice = "Take a larger file, and a record no larger than the file."
    return found, (Doubt("zero", what, advice),) if zeros else ()


def _rate(operation: str, rate: float, record: int, unit: str, raw: str) -> Iterator[Measurement]:
    """``record`` in bytes, 0: unknown."""
    if unit == "kB" or record:
        yield _number(f"{operation}.bw", rate * (record if unit == "ops" else KB), "all", raw)
    if unit == "ops" or record:
        many = rate if unit == "ops" else rate * KB / record
        yield _number(f"{operation}.iops", many, "all", raw)


def _number(name: str, value: float, job: str, raw: str) -> Measurement:
    return Measurement(name, value, metric(name).unit, job, raw)


def _of_block(block: Block, raw: str) -> Iterator[Measurement]:
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
            yield _number(f"{name}.bw.{part.lower()}", value, "all", raw)
    if "xfer" in block.parts and not block.starved:
        yield _number(f"{name}.bytes.min", block.parts["xfer"] * scale, "all", raw)
    if block.parts.get("cpu"):
        yield _number(f"{name}.cpu", block.parts["cpu"] / 100, "all", raw)
    for ordinal, (moved, rate) in enumerate(block.processes, 1):
        yield _number(f"{name}.bytes", moved * scale, f"process#{ordinal}", raw)
        yield _number(f"{name}.bw", rate * scale, f"process#{ordinal}", raw)


def _about(block: Block) -> Iterator[Doubt]:
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
