"""Curves of a grid: the metric by the factor down, a line for each level of the one across."""

from __future__ import annotations

import json
from typing import Any

import altair as alt

from iotrial.report.blocks import Figure
from iotrial.report.charts import NARROW, by_group, document, svg
from iotrial.report.panels import Panel
from iotrial.stats.grid import LINES, named, value
from iotrial.units import amount

_DECADE = 8.0
"""From which largest to smallest level the axis is logarithmic."""


def panel_figure(panel: Panel, ident: str) -> Figure:
    """The curves of one grid."""
    grid = panel.grid
    drawn = _drawn(grid.columns)
    title = f"{panel.metric.title} by {grid.down}, a line for each {grid.across}"
    said = []
    if len(drawn) < len(grid.columns):
        said.append(f"{len(drawn)} of {len(grid.columns)} levels of {grid.across} are drawn.")
    if grid.best is not None:
        said.append(f"Ring: the best cell, {named(grid, grid.best)}.")
    if any(cell.n > 1 for cell in grid.cells.values()):
        said.append("Bars: from the smallest to the largest run.")
    spoken = " ".join(
        f"{named(grid, place)}: {value(panel.metric.name, cell.value)}."
        for place, cell in grid.cells.items()
        if place[1] in drawn
    )
    caption = " ".join(said)
    picture = svg(curve_spec(panel), f"{panel.title}: {title}", f"{caption} {spoken}", ident)
    return Figure("curve", picture, title, caption)


def _drawn(labels: tuple[str, ...]) -> tuple[str, ...]:
    """All of them, or as many as can be told apart, the first and the last among them."""
    if len(labels) <= LINES:
        return labels
    last = len(labels) - 1
    return tuple(labels[round(place * last / (LINES - 1))] for place in range(LINES))


def curve_spec(panel: Panel) -> dict[str, Any]:
    """The factor down to the right, the metric upwards from zero."""
    grid, drawn = panel.grid, list(_drawn(panel.grid.columns))
    if grid.best is not None and grid.best[1] not in drawn:
        nearest = min(drawn[1:-1], key=lambda label: abs(_at(label) - _at(grid.best[1])))  # type: ignore[index]
        drawn[drawn.index(nearest)] = grid.best[1]
    table = [
        {
            "x": _at(row), "g": column, "v": cell.value / panel.divisor, "n": cell.n,
            "low": cell.low / panel.divisor, "high": cell.high / panel.divisor,
            "best": (row, column) == grid.best,
        }
        for (row, column), cell in grid.cells.items()
        if column in drawn
    ]  # fmt: skip
    at = {label: _at(label) for label in grid.rows}
    names = json.dumps({f"{place:.12g}": label for label, place in at.items()})
    axis = alt.Axis(
        title=grid.down, values=list(at.values()), grid=False, labelOverlap="greedy",
        labelExpr=f"({names})[format(datum.value, '.12~g')]",
    )  # fmt: skip
    ratio = max(at.values()) / min(at.values()) if min(at.values()) > 0 else 1.0
    kind = {"type": "log", "nice": False} if ratio >= _DECADE else {"nice": False, "zero": False}
    x = alt.X("x:Q", axis=axis).scale(**kind, padding=14)
    unit = f" ({panel.unit})" if panel.unit else ""
    y = alt.Y("v:Q").axis(title=f"{panel.metric.title}{unit}", tickCount=6).scale(zero=True)
    color, shape = by_group(drawn, NARROW)
    base = alt.Chart(alt.NamedData("cells"))
    layers = alt.layer(
        base.mark_line(strokeWidth=1.8).encode(x=x, y=y, color=color),
        base.transform_filter("datum.n > 1").mark_rule(strokeWidth=2)
        .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=color),
        base.mark_point(filled=True, size=50, opacity=1)
        .encode(x=x, y=y, color=color, shape=shape),
        base.transform_filter("datum.best")
        .mark_point(filled=False, shape="circle", size=240, strokeWidth=2, opacity=1)
        .encode(x=x, y=y, color=color),
    )  # fmt: skip
    return document(layers, NARROW, 270, {"cells": table})


def _at(label: str) -> float:
    return amount(label) or 0.0
