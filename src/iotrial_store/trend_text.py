"""A series over time as characters, for a terminal: a dot a results folder, a line a change.

Pure: the caller prints.
"""

from __future__ import annotations

import datetime as dt
import math

from rich.cells import cell_len
from rich.text import Text

from iotrial.report.words import IntervalScale, visible
from iotrial.units import format_noise, format_value
from iotrial_store.history import StoreHistory

_ROWS = 5
_WIDEST = 72
_NARROW = 10
"""Cells: dots in fewer show nothing; there are none then."""
_STYLES = {True: "red", False: "green", None: "bold"}


def trend_text(each: StoreHistory, width: int) -> Text | None:
    """At most ``width`` cells wide; None where that is too narrow, or nothing can be drawn."""
    points = each.series.points
    counted = [point for point in points if point.counts]
    if not counted:
        return None
    unit = "IOPS" if each.series.metric.endswith(".iops") else each.series.unit
    logs = [point.mean for point in counted]
    ends = [format_value(math.exp(log), unit) for log in (max(logs), min(logs))]
    margin = max(map(cell_len, ends)) + 1
    columns = min(width, _WIDEST) - margin
    if columns < _NARROW:
        return None
    across = _scale([point.time for point in points], columns)
    up = _scale([-log for log in logs], _ROWS)
    cells = [[(" ", "")] * columns for _ in range(_ROWS)]
    for change in each.changes:
        before = max(
            (point.time for point in points if point.time < change.at.first),
            default=change.at.first,
        )
        sure = change.at.state == "confirmed"
        for row in cells:
            row[across.cell((before + change.at.first) / 2)] = (
                "│" if sure else "┆",
                _STYLES[change.worse],
            )
    for point in sorted(points, key=lambda point: point.counts):
        if math.isfinite(point.mean):
            dot = ("●", "") if point.counts else ("○", "dim")
            cells[up.cell(-point.mean)][across.cell(point.time)] = dot
    series = each.series
    said = visible(f"{series.study}: {series.workload} {series.treatment}, {series.metric}")
    noise = f"  nights differ by {format_noise(each.history.sd)}" if each.history.sd else ""
    text = Text.assemble((said, "bold"), noise)
    labels = {0: ends[0], _ROWS - 1: ends[1]}
    for number, row in enumerate(cells):
        text.append(f"\n{labels.get(number, ''):>{margin - 1}} ")
        for character, style in row:
            text.append(character, style)
    first, last = (_day(point.time) for point in (points[0], points[-1]))
    gap = columns - len(first) - len(last)
    return text.append("\n" + " " * margin + (first + " " * gap + last if gap > 0 else first))


def _scale(values: list[float], cells: int) -> IntervalScale:
    low, high = min(values), max(values)
    return IntervalScale(low, high if high > low else low + 1, cells)


def _day(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d")
