"""What a report says of a search for the best levels: what each factor is expected to be worth.
Nothing of it is claimed, and it says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iotrial.model.finding import LevelSearch
from iotrial.report import drawing
from iotrial.report.blocks import Block, Figure, Figures, Heading, Text, plain
from iotrial.report.drawing import WIDE, Row, Spec, channel, coloured, document, mark, svg
from iotrial.report.words import visible
from iotrial.units import format_change

TITLE = "What the search expects of each factor"
HEAD = ("factor", "level", "instead of", "expected (95 % by the model)", "recommended")
_ROW = 46
_LOOKS = {
    "recommended": (drawing.BETTER, "circle"),
    "stays at its baseline": (drawing.MUTED, "diamond"),
}
_MOST = 100.0
"""Per cent: an end beyond this is cut, its label has it."""


def said(found: LevelSearch) -> str:
    """How far the search came and why it ended."""
    return (
        f"{found.trials} trials, noise {found.noise:.1%} per trial. Expected to be missing to the"
        f" best combination, in changes that are each worth the margin: {found.missing:.1%}. The"
        f" search ended: {found.why}. These are expectations of a model; nothing is claimed from"
        " them."
    )


def rows(found: LevelSearch) -> Iterator[tuple[str, ...]]:
    """One a factor."""
    for each in found.worths:
        told = (
            f"{format_change(each.ratio)} ({format_change(each.low)} … {format_change(each.high)})"
        )
        yield (
            visible(each.factor),
            visible(each.level),
            visible(each.baseline),
            told,
            "yes" if each.recommended else "",
        )


def as_data(found: LevelSearch | None) -> dict[str, Any]:
    """For the JSON document; nothing for another study."""
    if found is None:
        return {}
    return {
        "search": {
            "metric": found.metric,
            "trials": found.trials,
            "noise": found.noise,
            "missing": found.missing,
            "ended": found.why,
            "expected": [
                {
                    "factor": each.factor,
                    "level": each.level,
                    "baseline": each.baseline,
                    "ratio": each.ratio,
                    "low": each.low,
                    "high": each.high,
                    "recommended": each.recommended,
                }
                for each in found.worths
            ],
        }
    }


def blocks(found: LevelSearch | None, drawn: Figure | None) -> Iterator[Block]:
    if found is None:
        return
    yield Heading(TITLE, id="search")
    yield Text(said(found))
    if drawn:
        yield Figures((drawn,))
    yield plain(HEAD, rows(found), TITLE)


def figure(found: LevelSearch, ident: str) -> Figure:
    """A point and an interval for each factor.  ``ident`` begins the ids."""
    spoken = " ".join(f"{row[0]} {row[1]} instead of {row[2]}: {row[3]}." for row in rows(found))
    caption = (
        "Point: expected change of the metric by the level, in the recommended combination; line:"
        " 95 % of what the model leaves open."
    )
    return Figure("trials", svg(spec(found), TITLE, spoken, ident), TITLE, caption)


def spec(found: LevelSearch) -> Spec:
    table = [_row(place, found) for place in range(len(found.worths))]
    kinds = [kind for kind in _LOOKS if any(row["kind"] == kind for row in table)]
    legend = {"title": None, "orient": "top", "symbolOpacity": 1}
    color, shape = coloured("kind", kinds, [_LOOKS[kind] for kind in kinds], legend)
    y = channel("row:N", sort=None, axis=drawing.TWO_LINES)
    axis = {"title": f"expected change of {found.metric} in %", "labelExpr": drawing.SIGNS}
    x = channel("change:Q", axis={**axis, "tickCount": 6})
    ends = {"x": channel("low:Q"), "x2": channel("high")}
    dot = {"size": 90, "opacity": 1, "filled": True}
    layers = [
        mark("rule", "none", {"color": drawing.LINE.light}, x=channel("at:Q")),
        mark("rule", "rows", {"strokeWidth": 3}, **ends, y=y, color=color),
        mark("point", "rows", dot, x=x, y=y, color=color, shape=shape),
    ]
    data = {"rows": table, "none": [{"at": 0.0}]}
    return document(layers, WIDE, _ROW * len(table) + 60, data)


def _row(place: int, found: LevelSearch) -> Row:
    each = found.worths[place]
    change, low, high = (
        max(-_MOST, min((ratio - 1) * 100, _MOST)) for ratio in (each.ratio, each.low, each.high)
    )
    level = f"{visible(each.level)}: {format_change(each.ratio)}"
    name = f"{place}\n{visible(each.factor)}\n{level}"
    kind = "recommended" if each.recommended else "stays at its baseline"
    return {"row": name, "kind": kind, "change": change, "low": low, "high": high}
