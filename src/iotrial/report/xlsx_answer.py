"""The first sheet of the spreadsheet: question, answer, findings, doubts, and what is where."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from openpyxl.styles import Alignment

from iotrial.judgement.parts import VerdictRow
from iotrial.report import words
from iotrial.report.evidence import DoubtGroup
from iotrial.report.grids import Sheet
from iotrial.report.view import View
from iotrial.report.xlsx_cells import (
    BOLD,
    CHANGE,
    TITLE,
    beside,
    bounded,
    head,
    number,
    over,
    shown,
    text,
)
from iotrial.report.xlsx_grid import measure
from iotrial.units import axis_scale

_WIDTHS = (32, 18, 16, 18, 18, 10, 10, 10, 14, 6, 13, 13, 10, 26)
_DOUBTS = ("check", "{}s", "counts", "what", "what to do")
_SPANS = ("A:A", "B:C", "D:D", "E:K", "L:N")
"""The columns that each of a doubt's texts has for itself."""
_WHOLE = ("A:N",)
_HIGH = 15.0  # points of a line
_FILL = 0.9  # of a column's width in digits: words leave some of each line empty
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_HEADS = (
    "workload", "metric", "factor", "level", "against", "change", "low", "high", "verdict", "n",
    "this level", "baseline", "unit", "note",
)  # fmt: skip
_SIDE = dict.fromkeys(("change", "low", "high", "n", "this level", "baseline"), over) | {
    "verdict": beside,
    "unit": beside,
}


def fill(
    sheet: Any,  # noqa: ANN401 (openpyxl has no types)
    view: View,
    grids: Sequence[tuple[str, Sheet]],
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


def _lines(sheet: Any, view: View) -> Iterator[list[Any] | _Wide]:  # noqa: ANN401
    answer, others = words.headline(view.answer)
    if view.pretended:
        yield [text(sheet, words.PRETENDED, TITLE)]
    yield [text(sheet, view.question, TITLE)]
    yield [text(sheet, answer, BOLD)]
    yield from _prose(others)
    yield []
    parts = [(part.findings, part.guardrails, part.others) for part in view.parts]
    names = ("Findings", "Guardrails", "Metrics that nobody asked about")
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
    yield [text(sheet, "How it was judged", BOLD)]
    yield from _prose(_method(view))
    yield []


def _finding(sheet: Any, row: VerdictRow) -> list[Any]:  # noqa: ANN401
    finding = row.finding
    said = (words.load(finding), finding.metric, finding.factor, finding.level, finding.baseline)
    values = [value for value in (row.value, row.base) if value]
    divisor, unit = axis_scale(max(map(abs, values), default=0.0), row.metric.unit)
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
    return words.needs(row.finding) if "…" in told else told


def _doubt(group: DoubtGroup) -> _Wide:
    where = words.some(group.trials, 5) if group.trials else "the whole study"
    more = group.said - len(group.what)
    what = "; ".join(group.what) + (f" and {more:,} more like these" if more else "")
    counts = "no" if group.invalid else "yes"
    return _Wide((group.check, where, counts, what, group.advice), _SPANS)


def _prose(sentences: Iterable[str]) -> Iterator[_Wide]:
    return (_Wide((sentence,), _WHOLE) for sentence in sentences)


def _method(view: View) -> Iterator[str]:
    counts = view.counts
    yield (
        f"{words.count(counts.planned, view.terms.one)} planned: {counts.valid:,} valid, "
        f"{counts.invalid:,} INVALID, {counts.failed:,} failed, {counts.missing:,} not done."
    )
    if view.tools:
        yield f"Measured with {', '.join(view.tools)}."
    yield (
        f"The smallest difference that matters: {words.share(view.margin)}. Confidence: "
        f"{words.share(view.confidence)}. Change, low and high are of the ratio to the baseline."
    )
    yield from _SENTENCE.split(view.method)


def _contents(sheet: Any, grids: Sequence[tuple[str, Sheet]], left_out: int) -> None:  # noqa: ANN401
    sheet.append([text(sheet, "Sheets", BOLD)])
    sheet.append([head(sheet, each) for each in ("sheet", "workload", "metric", "unit", "tables")])
    for name, grid in grids:
        said = (name, grid.workload, grid.metric.name, measure(grid).unit)
        tables = number(sheet, len(grid.blocks), "0")
        sheet.append([*(text(sheet, each) for each in said), tables])
    if left_out:
        more = f"{words.count(left_out, 'sheet')} more had no room; the CSV has their numbers."
        sheet.append([text(sheet, more)])
