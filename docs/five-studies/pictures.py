"""The pictures of the page: numbers in, one SVG each, in the looks of iotrial's own reports.

A picture brings its own ground and is exchanged as a whole in the dark, so that it can be read on
any page.  How large letters are drawn depends on the fonts of the machine; what a picture says
stands in it as its text alternative, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iotrial.judgement.parts import VerdictRow
from iotrial.model.finding import Finding
from iotrial.model.measurement import metric
from iotrial.report import charts, drawing
from iotrial.report.drawing import channel, mark

WIDTH = 640
_MUTED = drawing.MUTED.light
_WIDER = 1.3  # pixels a letter: how much wider a reader's font may be than the one drawn with


@dataclass(frozen=True, slots=True)
class Picture:
    """``name`` is the file's, without its ending; ``words`` say what is to be seen."""

    name: str
    title: str
    words: str
    svg: str

    @property
    def markdown(self) -> str:
        return f"![{self.title}. {self.words}.](five-studies/{self.name}.svg)"

    def write(self, folder: Path) -> None:
        (folder / f"{self.name}.svg").write_text(self.svg, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Dot:
    """A value of a group on a row.  ``beyond`` is ``<`` or ``>`` where the truth lies below or
    above it."""

    row: str
    group: str
    value: float
    beyond: str = ""


def picture(name: str, title: str, words: str, spec: dict[str, Any]) -> Picture:
    axis = {**spec["config"]["axis"], "labelLimit": WIDTH // 2}
    spec = {**spec, "width": WIDTH, "config": {**spec["config"], "axis": axis}}
    left = round(_WIDER * max(map(len, _labels(spec))))
    spec["padding"] = {"left": 8 + left, "right": 14, "top": 10, "bottom": 8}
    drawn = str(drawing.svg(spec, title, words, name))
    head, close, body = drawn.partition("</desc>")
    ground = f'<rect width="100%" height="100%" rx="6" fill="{drawing.PAPER.light}"/>'
    text = f"{head}{close}<style>{drawing.dark('svg')}</style>{ground}{body}\n"
    return Picture(name, title, words, text)


def _labels(spec: dict[str, Any]) -> list[str]:
    """What may stand beside the rows."""
    return [
        "",
        *(
            part
            for rows in spec["datasets"].values()
            for row in rows
            for part in str(row.get("row", "")).split("\n")
        ),
    ]


def effects(rows: Sequence[tuple[str, Finding]], margin: float) -> dict[str, Any]:
    """Findings below each other, each with a label of its own."""
    shown = [
        VerdictRow(replace(finding, factor="", level=label), metric(finding.metric), None, None)
        for label, finding in rows
    ]
    return charts.interval_spec(shown, margin)


def dots(
    table: Sequence[Dot],
    axis: str,
    *,
    band: tuple[float, float] | None = None,
    limits: Sequence[tuple[str, float]] = (),
    zero: bool = False,
) -> dict[str, Any]:
    """A row for each thing, a point for each group; a hollow one with an arrow is a bound.
    ``limits`` are marks that a row's values cannot pass."""
    rows = list(dict.fromkeys(dot.row for dot in table))
    groups = list(dict.fromkeys(dot.group for dot in table))
    axis_y = {"title": None, "grid": True, "ticks": False, "domain": False, "labelPadding": 6}
    place = {"y": channel("row:N", sort=rows, axis=axis_y)}
    limit_place = dict(place)
    crowded = len(table) > len(rows)
    if crowded:
        place["yOffset"] = channel("g:N", sort=groups)
    across = {"title": axis, "grid": False, "tickCount": 7}
    place["x"] = channel("v:Q", scale={"zero": zero, "nice": True}, axis=across)
    place["color"], shape = drawing.by_group(groups, WIDTH - 160)
    layers = []
    if band:
        ends = {"x": channel("low:Q"), "x2": channel("high")}
        layers.append(mark("rect", "band", {"color": drawing.BAND.light, "opacity": 1}, **ends))
        layers.append(mark("rule", "band", {"color": _MUTED}, x=channel("none:Q")))
    if limits:
        tick = {"color": drawing.WORSE.light, "thickness": 3, "size": 30}
        layers.append(mark("tick", "limits", tick, x=channel("v:Q"), **limit_place))
    filled = {"filled": True, "size": 80, "opacity": 1}
    hollow = {"filled": False, "size": 70, "strokeWidth": 2, "opacity": 1}
    layers += [
        mark("point", "told", filled, **place, shape=shape),
        mark("point", "bounds", hollow, **place, shape=shape),
    ]
    for sign, dx in (("<", -13), (">", 13)):
        arrow = {"text": "←" if sign == "<" else "→", "dx": dx, "fontSize": 15}
        layers.append(mark("text", f"to{sign}", arrow, **place))
    data = {
        "told": [_row(dot) for dot in table if not dot.beyond],
        "bounds": [_row(dot) for dot in table if dot.beyond],
        "to<": [_row(dot) for dot in table if dot.beyond == "<"],
        "to>": [_row(dot) for dot in table if dot.beyond == ">"],
        "band": [{"low": band[0], "none": sum(band) / 2, "high": band[1]}] if band else [],
        "limits": [{"row": row, "v": value} for row, value in limits],
    }
    step = 30 if crowded else 19
    return drawing.document(layers, WIDTH, step * len(rows) + 90, data)


def _row(dot: Dot) -> dict[str, Any]:
    return {"row": dot.row, "g": dot.group, "v": dot.value}


def lines(
    table: Sequence[Dot], axes: tuple[str, str], *, level: float | None = None
) -> dict[str, Any]:
    """Lines of groups over a few numbers, which are the rows of ``table``.  ``level`` is a height
    to compare with."""
    groups = list(dict.fromkeys(dot.group for dot in table))
    color, shape = drawing.by_group(groups, WIDTH)
    x = channel("row:O", axis={"title": axes[0], "labelAngle": 0, "grid": False})
    y = channel("v:Q", scale={"zero": False}, axis={"title": axes[1], "tickCount": 6})
    dot = {"filled": True, "size": 70, "opacity": 1}
    layers = [
        mark("rule", "level", {"color": _MUTED, "strokeDash": [4, 3]}, y=channel("v:Q")),
        mark("line", "points", {"strokeWidth": 1.5}, x=x, y=y, color=color),
        mark("point", "points", dot, x=x, y=y, color=color, shape=shape),
    ]
    data = {
        "points": [_row(dot) for dot in table],
        "level": [] if level is None else [{"v": level}],
    }
    return drawing.document(layers, WIDTH, 300, data)


def ranges(
    table: Sequence[tuple[str, float, float, float | None]],
    axis: str,
    now: Sequence[tuple[str, float]],
) -> dict[str, Any]:
    """What was swept, from and to, and what was chosen; ``now`` marks the value in force."""
    rows = [name for name, *_ in table]
    plain = {"title": None, "grid": False, "ticks": False, "domain": False}
    y = channel("row:N", sort=rows, axis=plain)
    x = channel("low:Q", scale={"zero": True}, axis={"title": axis, "tickCount": 6})
    color, shape = drawing.by_group(["in force before", "swept", "chosen"], WIDTH - 160)
    dot = {"filled": True, "size": 150, "opacity": 1}
    layers = [
        mark("rule", "ranges", {"strokeWidth": 6}, x=x, x2=channel("high"), y=y, color=color),
        mark("point", "points", dot, x=x, y=y, color=color, shape=shape),
    ]
    marks = [(name, value, "in force before") for name, value in now]
    marks += [(name, value, "chosen") for name, _, _, value in table if value is not None]
    data = {
        "ranges": [{"row": n, "low": low, "high": high, "g": "swept"} for n, low, high, _ in table],
        "points": [{"row": row, "low": value, "g": group} for row, value, group in marks],
    }
    return drawing.document(layers, WIDTH, 30 * len(rows) + 80, data)
