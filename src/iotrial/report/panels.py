"""Panels: grids as reports show them: which of them, in which unit, and what is said beside.

Their charts are curves: the metric by the factor down, a line for each level of the one across.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from typing import Any

from iotrial.called import called
from iotrial.model.finding import CellPlace, Finding, Grid, GridCell
from iotrial.model.measurement import Metric, metric
from iotrial.report import words
from iotrial.report.blocks import (
    Block,
    Column,
    Figure,
    Figures,
    Heading,
    Row,
    Section,
    Table,
    Text,
    TextSpan,
    sentence,
)
from iotrial.report.drawing import NARROW, Spec, by_group, channel, document, mark, svg
from iotrial.report.words import visible
from iotrial.stats import grid as best_cells
from iotrial.stats.grid import LINES, named, value
from iotrial.units import amount, axis_scale

MOST = 12
"""Grids that a report shows; of more, some of each workload, and the others by name."""
SHORT = 6
"""Grids that a terminal shows."""
_NAMED = 4
_DIGITS, _MOST_DECIMALS = 3, 6
_SIGNS = {"": "", "high": "≥ ", "low": "≤ "}


@dataclass(frozen=True, slots=True)
class Panel:
    """A grid to look at: ``unit`` is that of all its cells, which are divided by ``divisor``.
    ``several``: its workload has grids of other metrics too."""

    grid: Grid
    metric: Metric
    divisor: float
    unit: str
    several: bool

    @property
    def title(self) -> str:
        """``randread, bs=4k``; of several metrics ``iozone, read bandwidth, storage=nas``."""
        name = self.metric.title if self.several else ""
        fixed = best_cells.fixed(self.grid.fixed)
        return ", ".join(filter(None, (self.grid.workload, name, fixed)))

    @property
    def about(self) -> str:
        """``total IOPS, more is better; iodepth down, numjobs across``."""
        said = ", ".join(filter(None, (self.metric.title, words.direction(self.metric.higher))))
        return f"{said}; {self.grid.down} down, {self.grid.across} across"


def panels(grids: Sequence[Grid]) -> tuple[Panel, ...]:
    """All of them, their names fit to look at."""
    names: dict[str, set[str]] = {}
    for grid in grids:
        names.setdefault(grid.workload, set()).add(grid.metric)
    return tuple(_panel(grid, several=len(names[grid.workload]) > 1) for grid in grids)


def _panel(grid: Grid, *, several: bool) -> Panel:
    try:
        known = metric(grid.metric)
    except KeyError:
        known = Metric(grid.metric, "", None, visible(grid.metric))
    divisor, unit = axis_scale(max(cell.value for cell in grid.cells.values()), known.display_unit)
    shown = replace(
        grid,
        workload=visible(grid.workload),
        metric=visible(grid.metric),
        down=visible(grid.down),
        across=visible(grid.across),
        fixed=tuple((visible(name), visible(label)) for name, label in grid.fixed),
    )
    return Panel(shown, known, divisor, unit, several)


def shown(every: Sequence[Panel], most: int = MOST) -> tuple[Panel, ...]:
    """At most so many: of each workload that with the best cell first, then as they come."""
    if len(every) <= most:
        return tuple(every)
    first: dict[tuple[str, str], int] = {}
    for place, each in enumerate(every):
        key = each.grid.workload, each.grid.metric
        if key not in first or _beats(each, every[first[key]]):
            first[key] = place
    order = [*first.values(), *(p for p in range(len(every)) if p not in first.values())]
    return tuple(every[place] for place in sorted(order[:most]))


def _beats(one: Panel, other: Panel) -> bool:
    ours, theirs = (p.grid.cells[p.grid.best].value if p.grid.best else None for p in (one, other))
    if ours is None or theirs is None:
        return False
    return ours > theirs if one.metric.higher else ours < theirs


def leads(every: Sequence[Panel], findings: Sequence[Finding]) -> bool:
    """Whether the grids are the answer, and stand before the comparisons: all that is compared
    are amounts."""
    return bool(every) and all(amount(each.level) is not None for each in findings if each.primary)


def left(every: Sequence[Panel], those: Sequence[Panel]) -> str:
    """The grids that are not shown, and where they are; empty where all are."""
    others = [each.title.replace(", ", " ") for each in every if each not in those]
    if not others:
        return ""
    return (
        f"{words.count(len(others), 'grid')} more ({words.some(others, _NAMED)}):"
        f" all are in `{called()} report FOLDER --as json`, every run in --as csv"
    )


def lines(panel: Panel) -> Iterator[str]:
    """What is said beside a grid: the best cell, and whether the effects depend on each other."""
    if panel.grid.best is not None:
        yield f"best: {best_cells.best(panel.grid)}; {best_cells.nearest(panel.grid)}"
    yield best_cells.additive(panel.grid)
    if len(panel.grid.cells) < len(panel.grid.rows) * len(panel.grid.columns):
        yield "–: not run"


def averaged(every: Sequence[Panel], workload: str, factors: Sequence[str]) -> str:
    """What to think of a workload's averaged effects that grids contradict; empty: nothing."""
    depend = dict.fromkeys(
        name
        for each in every
        if each.grid.additivity.depends and workload in (each.grid.workload, "all")
        for name in (each.grid.down, each.grid.across)
        if name in factors
    )
    if not depend:
        return ""
    return f"{' and '.join(depend)}: the average hides an interaction; see the grids"


def heads(panel: Panel) -> tuple[str, ...]:
    """The first line of the table: the corner, then the columns' labels."""
    named = f"{panel.grid.across} " if repeated(panel) else ""
    corner = rf"{panel.grid.down} \ {panel.grid.across}"
    return corner, *(f"{named}{visible(label)}" for label in panel.grid.columns)


def repeated(panel: Panel) -> bool:
    """Whether cells have a spread: they are wide then."""
    return any(cell.n > 1 for cell in panel.grid.cells.values())


def rows(panel: Panel, *, units: bool = True) -> Iterator[tuple[str, tuple[tuple[str, bool], ...]]]:
    """Each row's label, and its cells: the text, and whether it is the best."""
    for row in panel.grid.rows:
        places: list[CellPlace] = [(row, column) for column in panel.grid.columns]
        cells = tuple((_text(panel, p, units=units), p == panel.grid.best) for p in places)
        yield visible(row), cells


def _text(panel: Panel, place: CellPlace, *, units: bool) -> str:
    """``412 kIOPS``; of repeats ``412 kIOPS (401 … 418)``, from the smallest to the largest."""
    cell = panel.grid.cells.get(place)
    if cell is None:
        return "–"
    said = _SIGNS[cell.bound] + _number(cell.value / panel.divisor)
    if units and panel.unit:
        said += panel.unit if panel.unit == "/s" else f" {panel.unit}"
    if cell.n > 1:
        said += f" ({' … '.join(_number(end / panel.divisor) for end in (cell.low, cell.high))})"
    return said


def _number(value: float) -> str:
    """Three digits, and all before the point."""
    decimals = _DIGITS - 1 - floor(log10(value)) if value > 0 else 0
    return f"{value:,.{min(max(decimals, 0), _MOST_DECIMALS)}f}"


def as_data(every: Sequence[Panel]) -> list[dict[str, Any]]:
    """For the JSON document: all of them, in base units."""
    return [
        {
            "workload": each.grid.workload,
            "metric": each.grid.metric,
            "unit": each.metric.unit,
            "fixed": dict(each.grid.fixed),
            "down": each.grid.down,
            "across": each.grid.across,
            "rows": list(each.grid.rows),
            "columns": list(each.grid.columns),
            "cells": [_cell(each.grid, place, cell) for place, cell in each.grid.cells.items()],
            "best": _place(each.grid, each.grid.best),
            "near": _place(each.grid, each.grid.near),
            "test": each.grid.additivity.test,
            "p": each.grid.additivity.p,
            "off": each.grid.additivity.off,
            "depends": each.grid.additivity.depends,
            "words": list(lines(each)),
        }
        for each in every
    ]


def _place(grid: Grid, place: CellPlace | None) -> dict[str, str] | None:
    return None if place is None else {grid.down: place[0], grid.across: place[1]}


def _cell(grid: Grid, place: CellPlace, cell: GridCell) -> dict[str, Any]:
    return {
        **(_place(grid, place) or {}),
        "value": cell.value,
        "n": cell.n,
        "low": cell.low,
        "high": cell.high,
        **({"censored": cell.bound} if cell.bound else {}),
    }


def section(every: Sequence[Panel], curves: Sequence[Figure]) -> Section | None:
    """Two numeric factors that are crossed: every cell, and the best of them.  ``curves`` are those
    of :func:`shown`, or none."""
    those = shown(every)
    if not those:
        return None
    drawn: Sequence[Figure | None] = curves or [None] * len(those)
    blocks: list[Block] = []
    for panel, curve in zip(those, drawn, strict=True):
        blocks += _blocks(panel, curve)
    if more := left(every, those):
        blocks.append(Text(sentence(more), "note"))
    return Section("", tuple(blocks), "grids", "Grids")


def _blocks(panel: Panel, curve: Figure | None) -> Iterator[Block]:
    yield Heading(panel.title)
    for line in lines(panel):
        yield Text(sentence(line), "note")
    first, *others = heads(panel)
    told: tuple[Row, ...] = tuple(
        (row, *(TextSpan(text, "strong" if best else "") for text, best in cells))
        for row, cells in rows(panel)
    )
    head = (Column(first, "head"), *(Column(name, "n") for name in others))
    table = Table(head, told, f"Grid of {panel.title}", look="grid")
    about = Text(sentence(panel.about), "note")
    yield Figures((curve,) if curve else (), (about, table))


# -- curves ---------------------------------------------------------------------------------------

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


def level_axis(factor: str, labels: Mapping[float, str]) -> Spec:
    """Of levels that are numbers: a tick for each, with its label."""
    names = json.dumps({f"{place:.12g}": visible(label) for place, label in labels.items()})
    return {
        "title": visible(factor), "values": list(labels), "grid": False, "labelOverlap": "greedy",
        "labelExpr": f"({names})[format(datum.value, '.12~g')]",
    }  # fmt: skip


def level_scale(places: Sequence[float]) -> Spec:
    """Logarithmic, where the levels reach over a decade."""
    ratio = max(places) / min(places) if min(places) > 0 else 1.0
    kind = {"type": "log", "nice": False} if ratio >= _DECADE else {"nice": False, "zero": False}
    return {**kind, "padding": 14}


def curve_spec(panel: Panel) -> Spec:
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
    at = {_at(label): label for label in grid.rows}
    x = channel("x:Q", axis=level_axis(grid.down, at), scale=level_scale(list(at)))
    unit = f" ({panel.unit})" if panel.unit else ""
    axis = {"title": f"{panel.metric.title}{unit}", "tickCount": 6}
    y = channel("v:Q", axis=axis, scale={"zero": True})
    color, shape = by_group(drawn, NARROW)
    ends = {"x": x, "y": channel("low:Q"), "y2": channel("high")}
    dot = {"filled": True, "size": 50, "opacity": 1}
    ring = {"filled": False, "shape": "circle", "size": 240, "strokeWidth": 2, "opacity": 1}
    layers = [
        mark("line", "cells", {"strokeWidth": 1.8}, x=x, y=y, color=color),
        mark("rule", "cells", {"strokeWidth": 2}, "datum.n > 1", **ends, color=color),
        mark("point", "cells", dot, x=x, y=y, color=color, shape=shape),
        mark("point", "cells", ring, "datum.best", x=x, y=y, color=color),
    ]
    return document(layers, NARROW, 270, {"cells": table})


def _at(label: str) -> float:
    return amount(label) or 0.0
