"""xlsx: a workbook as people of IOzone know it: an answer, a sheet a metric, every trial.

The first sheet says question, answer, findings and doubts; then a sheet for each workload and
metric (:mod:`iotrial.report.grids`) with its charts; the last has a line for every trial and a
column for every metric.  Numbers are numbers, in the unit that the head of their column or sheet
names; the table in base units is the CSV's.

A sheet of grids has a native chart beside each::

    read: bandwidth (MiB/s), geometric means
    more is better; record_kib down, threads across

    storage=emc-lvm-8, scheduler=cfq; n = 1 in every cell
    record_kib \\ threads |  4 |  8        (chart)
                       4 | … | …
"""

from __future__ import annotations

import io
import math
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Alignment
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.properties import PageSetupProperties

from iotrial.judgement.parts import VerdictRow
from iotrial.model.measurement import Measurement, display_unit, split
from iotrial.model.results import Results
from iotrial.model.trial import Treatment, TrialRecord
from iotrial.report import words
from iotrial.report.evidence import DoubtGroup
from iotrial.report.grids import HeatmapBlock, HeatmapCell, HeatmapSheet, sheets
from iotrial.report.trials import PRETENDED, factors, labels_of, source
from iotrial.report.view import ReportView
from iotrial.report.words import visible
from iotrial.report.xlsx_cells import (
    BOLD,
    CHANGE,
    CHART_ROWS,
    QUIET,
    TIME,
    TITLE,
    ChartData,
    beside,
    bounded,
    chart,
    countable,
    head,
    label,
    number,
    over,
    put,
    scale,
    sheet_names,
    shown,
    text,
)
from iotrial.units import amount, axis_scale

# -- grids ----------------------------------------------------------------------------------------

CHARTS = 200
"""Blocks of a sheet that get a chart; more would only be slow to open."""
_HEAD = 4
_FIRST_COLUMN, _COLUMN = 22, 12  # characters


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How the numbers of a sheet are shown: divided by ``divisor``, in ``unit``."""

    divisor: float
    unit: str
    shown: str


def measure(grid: HeatmapSheet) -> NumberFormat:
    """One unit for the whole sheet, so that its blocks can be compared."""
    means = [cell.mean for block in grid.blocks for cell in block.cells.values()]
    return NumberFormat(*scale(means, visible(grid.metric.display_unit)))


def title(grid: HeatmapSheet) -> str:
    """``oltp: read bandwidth``; a workload that is called as its operation is not said twice."""
    workload, metric = visible(grid.workload), _metric(grid)
    return metric if metric.startswith(f"{workload} ") else f"{workload}: {metric}"


def _metric(grid: HeatmapSheet) -> str:
    return visible(grid.metric.title or grid.metric.name)


def _in(said: str, unit: str) -> str:
    return f"{said} ({visible(unit)})" if unit else said


def _grid_sheet(sheet: Any, grid: HeatmapSheet, *, pretended: bool = False) -> None:  # noqa: ANN401 (openpyxl has no types)
    """Write the whole sheet; its title says where its numbers are ``pretended``."""
    by = measure(grid)
    widest = max(len(block.across) for block in grid.blocks)
    uneven = any(len({cell.n for cell in block.cells.values()}) > 1 for block in grid.blocks)
    beside = 1 + widest + (2 + widest if uneven else 0) + 2
    sheet.column_dimensions["A"].width = _FIRST_COLUMN
    for place in range(2, beside):
        sheet.column_dimensions[get_column_letter(place)].width = _COLUMN
    sheet.freeze_panes = "B4"
    mark = "Pretended: " if pretended else ""
    for place, (said, font) in enumerate(_opening(grid, by)):
        sheet.append([text(sheet, said if place else f"{mark}{said}", font)])
    row = _HEAD
    for count, block in enumerate(grid.blocks):
        lines = list(_grid_lines(sheet, grid, block, by))
        if count < CHARTS and len(block.cells) > 1:
            sheet.add_chart(_chart(sheet.title, grid, block, by, row), _cell(beside, row))
            lines += [[]] * (CHART_ROWS - len(lines))
        for line in (*lines, []):
            sheet.append(line)
        row += len(lines) + 1


def _opening(grid: HeatmapSheet, by: NumberFormat) -> Iterator[tuple[str, Any]]:
    """Exactly the lines above the first block."""
    yield f"{_in(title(grid), by.unit)}, {grid.mean} means", TITLE
    said = [words.direction(grid.metric.higher)]
    said += [f"{visible(name)} {way}" for name, way in _ways(grid)]
    said += [f"{_treatment(grid.constant)} throughout"] if grid.constant else []
    bounds = {cell.bound for block in grid.blocks for cell in block.cells.values()} - {""}
    said += ["≥ and ≤: censored values, beyond the range of the tool"] if bounds else []
    if len(grid.blocks) > CHARTS:
        said += [f"charts beside the first {CHARTS} of {len(grid.blocks)} blocks"]
    if any(cell.low is not None for block in grid.blocks for cell in block.cells.values()):
        said.append("error bars in charts: the interval of each mean by itself")
    yield "; ".join(filter(None, said)), QUIET
    yield "", None


def _ways(grid: HeatmapSheet) -> Iterator[tuple[str, str]]:
    if grid.down:
        yield grid.down, "down"
    if grid.across:
        yield grid.across, "across"


def _treatment(treatment: Treatment) -> str:
    return ", ".join(f"{visible(name)}={visible(level) or '–'}" for name, level in treatment)


def _grid_lines(
    sheet: Any,  # noqa: ANN401
    grid: HeatmapSheet,
    block: HeatmapBlock,
    by: NumberFormat,
) -> Iterator[list[Any]]:
    """The block's title, its line of labels, and a line for each level down."""
    counts = sorted({cell.n for cell in block.cells.values()})
    even = len(counts) == 1
    every = f"n = {counts[0]} in every cell" if even else "n on the right"
    yield [text(sheet, "; ".join(filter(None, (_treatment(block.fixed), every))), BOLD)]
    heads = [over(_level(sheet, each, block.across)) for each in block.across]
    if not grid.across:
        heads = [over(head(sheet, by.unit or visible(grid.metric.name)))]
    corner = " \\ ".join(visible(name) for name, _ in _ways(grid))
    more = [None, head(sheet, "n"), *heads] if not even else []
    yield [head(sheet, corner), *heads, *more]
    for down in block.down:
        cells = [block.cells.get((down, across)) for across in block.across]
        line = [_level(sheet, down, block.down) if grid.down else head(sheet, "")]
        for cell in cells:
            told = cell and number(sheet, cell.mean / by.divisor, bounded(by.shown, cell.bound))
            line.append(told)
        if not even:
            line += [None, _level(sheet, down, block.down)]
            line += [cell and number(sheet, cell.n, "0") for cell in cells]
        yield line


def _mean(cell: HeatmapCell | None, by: NumberFormat) -> float | None:
    return None if cell is None else cell.mean / by.divisor


def _reach(cell: HeatmapCell | None, by: NumberFormat) -> tuple[float, float] | None:
    """How far the interval of a cell goes below and above it."""
    if cell is None or cell.low is None or cell.high is None:
        return None
    return (cell.mean - cell.low) / by.divisor, (cell.high - cell.mean) / by.divisor


def _level(sheet: Any, said: str, labels: Sequence[str]) -> Any:  # noqa: ANN401
    return label(sheet, visible(said), counts=countable(labels))


def _cell(column: int, row: int) -> str:
    return f"{get_column_letter(column)}{row}"


def _chart(name: str, grid: HeatmapSheet, block: HeatmapBlock, by: NumberFormat, row: int) -> Any:  # noqa: ANN401
    cells = [[block.cells.get((down, across)) for across in block.across] for down in block.down]
    unit = by.unit
    across = tuple(visible(each) for each in block.across)
    drawn = ChartData(
        name,
        row + 2,
        2,
        tuple(visible(down) for down in block.down),
        across if grid.across else (unit or visible(grid.metric.name),),
        tuple(tuple(_mean(cell, by) for cell in line) for line in cells),
        by.shown,
        tuple(tuple(_reach(cell, by) for cell in line) for line in cells),
    )
    ways = " and ".join(visible(name) for name, _ in _ways(grid))
    fixed = f"\n{_treatment(block.fixed)}" if block.fixed else ""
    axes = (visible(grid.down), _in(_metric(grid), unit))
    counts = len(block.down) > 1 and all(amount(down) is not None for down in block.down)
    return chart(drawn, f"{title(grid)} by {ways}{fixed}", axes, counts=counts)


# -- the answer -----------------------------------------------------------------------------------

_WIDTHS = (32, 18, 16, 18, 18, 10, 10, 10, 14, 6, 13, 13, 10, 26)
_DOUBTS = ("check", "{}s", "counts", "what", "what to do")
_SPANS = ("A:A", "B:C", "D:D", "E:K", "L:N")
"""The columns that each of a doubt's texts has for itself."""
_WHOLE = ("A:N",)
_HIGH = 15.0  # points of a line
_FILL = 0.9  # of a column's width in digits: words leave some of each line empty
_HEADS = (
    "workload", "metric", "factor", "level", "against", "change", "low", "high", "verdict", "n",
    "this level", "baseline", "unit", "note",
)  # fmt: skip
_SIDE = dict.fromkeys(("change", "low", "high", "n", "this level", "baseline"), over) | {
    "verdict": beside,
    "unit": beside,
}


def _answer_sheet(
    sheet: Any,  # noqa: ANN401 (openpyxl has no types)
    view: ReportView,
    grids: Sequence[tuple[str, HeatmapSheet]],
    left_out: int,
) -> None:
    """Write the whole sheet.  ``grids`` are the sheets that follow, by name; ``left_out`` how
    many there was no room for."""
    for letter, width in zip("ABCDEFGHIJKLMN", _WIDTHS, strict=True):
        sheet.column_dimensions[letter].width = width
    for place, line in enumerate(_lines(sheet, view), 1):
        if isinstance(line, _Wide):
            _spread(sheet, line, place)
        else:
            sheet.append(line)
    _contents(sheet, grids, left_out)


@dataclass(frozen=True, slots=True)
class _Wide:
    """A row of texts, each over the columns of a span and as many lines as it needs."""

    said: tuple[str, ...]
    spans: tuple[str, ...]
    as_head: bool = False


def _spread(sheet: Any, row: _Wide, place: int) -> None:  # noqa: ANN401
    """Write a row whose texts are whole, each in one cell: joined ones, as high as needed."""
    cells: list[Any] = [None] * len(_WIDTHS)
    lines = 1
    for said, span in zip(row.said, row.spans, strict=True):
        first, last = (ord(letter) - ord("A") for letter in span.split(":"))
        cell = head(sheet, said) if row.as_head else text(sheet, said)
        cell.alignment = Alignment(vertical="top", wrap_text=True)
        cells[first] = cell
        width = int(_FILL * sum(_WIDTHS[first : last + 1]))
        lines = max(lines, len(textwrap.wrap(said, width)))
        if last > first:
            sheet.merged_cells.add(f"{span[0]}{place}:{span[-1]}{place}")
    sheet.row_dimensions[place].height = _HIGH * lines
    sheet.append(cells)


def _lines(sheet: Any, view: ReportView) -> Iterator[list[Any] | _Wide]:  # noqa: ANN401
    answer, others = words.headline(view.answer)
    if view.pretended:
        yield [text(sheet, words.PRETENDED, TITLE)]
    yield [text(sheet, view.question, TITLE)]
    yield [text(sheet, answer, BOLD)]
    yield from _prose(others)
    yield []
    parts = [(p.findings, p.guardrails, p.secondary, p.others) for p in view.parts]
    names = ("Findings", "Guardrails", "Second family", "Other metrics")
    for name, rows in zip(names, zip(*parts, strict=True), strict=False):
        found = [row for each in rows for row in each]
        if found:
            yield [text(sheet, name, BOLD)]
            yield [_SIDE.get(each, lambda cell: cell)(head(sheet, each)) for each in _HEADS]
            yield from (_finding(sheet, row) for row in found)
            yield []
    if view.doubt_groups:
        yield [text(sheet, "Doubts", BOLD)]
        yield _Wide(tuple(each.format(view.terms.one) for each in _DOUBTS), _SPANS, as_head=True)
        yield from map(_doubt, view.doubt_groups)
        yield []
    yield [text(sheet, "Method", BOLD)]
    yield from _prose(_method(view))
    yield []


def _finding(sheet: Any, row: VerdictRow) -> list[Any]:  # noqa: ANN401
    finding = row.finding
    said = (words.load(finding), finding.metric, finding.factor, finding.level, finding.baseline)
    values = [value for value in (row.value, row.base) if value]
    divisor, unit = axis_scale(max(map(abs, values), default=0.0), row.metric.display_unit)
    return [
        *(text(sheet, each) for each in said),
        _change(sheet, None if math.isnan(finding.ratio) else finding.ratio, row),
        _change(sheet, finding.low),
        _change(sheet, finding.high),
        beside(text(sheet, words.VERDICTS[finding.verdict])),
        number(sheet, finding.n, "0"),
        *(_value(sheet, value, divisor) for value in (row.value, row.base)),
        beside(text(sheet, unit)) if values else None,
        text(sheet, _note(row)),
    ]


def _change(sheet: Any, ratio: float | None, row: VerdictRow | None = None) -> Any:  # noqa: ANN401
    """A ratio as a change: 0.82 is −18.0 %."""
    if ratio is None or not math.isfinite(ratio):
        return None
    bound = row.finding.bound if row else ""
    return number(sheet, ratio - 1, bounded('+0.0%;"−"0.0%', bound) if bound else CHANGE)


def _value(sheet: Any, value: float | None, divisor: float) -> Any:  # noqa: ANN401
    if value is None or not math.isfinite(value):
        return None
    size = abs(value / divisor)
    return number(sheet, value / divisor, shown(2 - math.floor(math.log10(size)) if size else 0))


def _note(row: VerdictRow) -> str:
    if row.tolerated:
        return words.guard(row.finding, row.tolerated)
    told = words.interval(row.finding)
    said = words.needs(row.finding) if "…" in told else told
    return "; ".join(filter(None, (words.by_ranks(row.finding), said)))


def _doubt(group: DoubtGroup) -> _Wide:
    where = words.some(group.trials, 5) if group.trials else "the whole study"
    more = group.said - len(group.what)
    what = "; ".join(group.what) + (f" and {more:,} more like these" if more else "")
    counts = "no" if group.invalid else "yes"
    return _Wide((group.check, where, counts, what, group.advice), _SPANS)


def _prose(sentences: Iterable[str]) -> Iterator[_Wide]:
    return (_Wide((sentence,), _WHOLE) for sentence in sentences)


def _method(view: ReportView) -> Iterator[str]:
    counts = view.counts
    yield (
        f"{words.count(counts.planned, view.terms.one)} planned: {counts.valid:,} valid,"
        f" {counts.invalid:,} INVALID, {counts.failed:,} failed, {counts.missing:,} not"
        " executed."
    )
    if view.tools:
        yield f"Measured with {', '.join(view.tools)}."
    yield (
        f"Equivalence margin: ±{words.share(view.margin)}. Confidence:"
        f" {words.share(view.confidence)}. Change, low and high are of the ratio to the"
        " baseline."
    )
    yield from words.sentences(view.method)


def _contents(sheet: Any, grids: Sequence[tuple[str, HeatmapSheet]], left_out: int) -> None:  # noqa: ANN401
    sheet.append([text(sheet, "Sheets", BOLD)])
    sheet.append([head(sheet, each) for each in ("sheet", "workload", "metric", "unit", "tables")])
    for name, grid in grids:
        said = (name, grid.workload, grid.metric.name, measure(grid).unit)
        tables = number(sheet, len(grid.blocks), "0")
        sheet.append([*(text(sheet, each) for each in said), tables])
    if left_out:
        more = f"{words.count(left_out, 'sheet')} omitted for size; the CSV has all numbers."
        sheet.append([text(sheet, more)])


# -- trials ---------------------------------------------------------------------------------------

ROWS = 1_048_576
"""Of a sheet (Microsoft, *Excel specifications and limits*)."""
_EPOCH = 25_569  # days from the spreadsheet's day 0 to 1970-01-01
_DAY = 86_400
_WIDTH = 14
_BEFORE = ("trial", "block", "workload", "target", "state", "started (UTC)")
_AFTER = ("censored", "doubts and errors", "source")


def _trial_sheets(new_sheet: Callable[[], Any], results: Results) -> None:
    """Write the sheet, and further ones where there are more trials than rows."""
    records = results.records
    for first in range(0, max(len(records), 1), ROWS - 1):
        _trial_sheet(new_sheet(), results, records[first : first + ROWS - 1])


def _trial_sheet(sheet: Any, results: Results, records: Sequence[TrialRecord]) -> None:  # noqa: ANN401 (openpyxl has no types)
    names = factors(results)
    numeric = {name: countable(_labels(records, name)) for name in names}
    units = _units(records)
    scales = {key: scale(values, display_unit(*key)) for key, values in units.items()}
    heads = [f"{visible(m)} ({visible(scales[m, u][1])})" if u else visible(m) for m, u in units]
    made_up = ["yes"] if results.pretended else []
    line = [*_BEFORE, *map(visible, names), *heads, *_AFTER, *PRETENDED[: len(made_up)]]
    for place in range(1, len(line) + 1):
        sheet.column_dimensions[get_column_letter(place)].width = _WIDTH
    sheet.freeze_panes = "B2"
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(line))}{len(records) + 1}"
    sheet.append([head(sheet, each) for each in line])
    pens = [WriteOnlyCell(sheet) for _ in line]  # used again for each row: 3 times as fast
    pens[_BEFORE.index("started (UTC)")].number_format = TIME
    for pen, key in zip(pens[len(_BEFORE) + len(names) :], units, strict=False):
        pen.number_format = scales[key][2]
    for record in records:
        told = {(m.metric, m.unit): m for m in record.measurements}
        values = [
            *_before(record),
            *_levels_of(record, numeric),
            *(_scaled(told.get(key), scales[key][0]) for key in units),
            *_after(record),
            *made_up,
        ]
        sheet.append([_put(pen, value) for pen, value in zip(pens, values, strict=True)])


def _put(pen: Any, value: str | float | None) -> Any:  # noqa: ANN401
    if value is None or isinstance(value, str):
        return put(pen, value) if value else None
    pen.value = value
    return pen


def _labels(records: Sequence[TrialRecord], name: str) -> set[str]:
    return {label for r in records for at, label in labels_of(r.trial).items() if at == name}


def _units(records: Sequence[TrialRecord]) -> dict[tuple[str, str], list[float]]:
    """(metric, unit) → its finite values, in the order they first appear."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in records:
        for measured in record.measurements:
            if math.isfinite(measured.value):
                found[measured.metric, measured.unit].append(measured.value)
    return found


def _scaled(measured: Measurement | None, divisor: float) -> float | None:
    if measured is None or not math.isfinite(measured.value):
        return None
    return measured.value / divisor


def _before(record: TrialRecord) -> list[str | float | None]:
    trial = record.trial
    started = record.started / _DAY + _EPOCH if record.started > 0 else None
    said = (visible(trial.workload), visible(trial.target), record.state)
    return [visible(trial.folder), trial.block, *said, started]


def _levels_of(record: TrialRecord, numeric: dict[str, bool]) -> list[str | float | None]:
    of = labels_of(record.trial)
    return [_label(of.get(name), counts) for name, counts in numeric.items()]


def _label(said: str | None, counts: bool) -> str | float | None:  # noqa: FBT001
    if said is None:
        return None
    if counts:
        return float(said) if "." in said else int(said)
    return visible(said)


def _after(record: TrialRecord) -> list[str | float | None]:
    censored = (f"{m.metric}: {m.censored}" for m in record.measurements if m.censored)
    doubts = (f"{doubt.check}: {doubt.what}" for doubt in record.doubts)
    told = [*doubts, record.error]
    return [
        visible("; ".join(censored)),
        visible("; ".join(filter(None, told))),
        visible(source(record)),
    ]


# -- the workbook ---------------------------------------------------------------------------------

SHEETS = 150
"""Grids of one workbook; a reader finds nothing among more."""
_ANSWER, _TRIALS = "Answer", "Trials"


def xlsx(view: ReportView, results: Results) -> bytes:
    """The whole workbook."""
    book = Workbook(write_only=True)
    book.properties.creator, book.properties.title = "iotrial", view.study or view.question
    if view.pretended:
        book.properties.title += " (pretended)"
    grids = sheets(results)
    kept = grids[:SHEETS]
    names = sheet_names(_wanted(kept), (_ANSWER, _TRIALS))
    first = _page(book, _ANSWER)
    for name, grid in zip(names, kept, strict=True):
        _grid_sheet(_page(book, name), grid, pretended=view.pretended)
    _answer_sheet(first, view, tuple(zip(names, kept, strict=True)), len(grids) - len(kept))
    _trial_sheets(lambda: _page(book, _TRIALS), results)
    into = io.BytesIO()
    book.save(into)
    return into.getvalue()


def _page(book: Workbook, name: str) -> Any:  # noqa: ANN401 (openpyxl has no types)
    """A new sheet that prints as wide as the paper."""
    sheet = book.create_sheet(name)
    sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
    return sheet


def _wanted(grids: Sequence[HeatmapSheet]) -> list[str]:
    """``randread read.iops``; the workload alone where it has one sheet, the metric alone where
    there is one workload, the operation alone where all are of one quantity: a sheet each."""
    each = Counter(grid.workload for grid in grids)
    if len(each) == 1:
        parts = [split(grid.metric.name) for grid in grids]
        same = len({quantity for _, quantity in parts}) == 1 and all(part[1] for part in parts)
        names = [operation for operation, _ in parts] if same else [g.metric.name for g in grids]
        return [visible(name) for name in names]
    if set(each.values()) == {1}:
        return [visible(grid.workload) for grid in grids]
    return [_joined(visible(grid.workload), visible(grid.metric.name)) for grid in grids]


def _joined(workload: str, metric: str) -> str:
    """Cut in the workload's name, so that the metric can be read."""
    room = max(30 - len(metric), 8)
    return f"{workload[:room]} {metric}"
