"""What a report says of a knee: where more of an ordered factor gives no more.

Its chart has the levels from left to right: a point and an interval each, in the metric's own unit,
with the margin behind them as a band around the best.  The levels stand in order at even distances,
so that doublings and steps are both read easily, and ``unset`` has a place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from iotrial.judgement.parts import WorkloadFindings
from iotrial.model.finding import Knee, KneeLevel
from iotrial.report import drawing, words
from iotrial.report.blocks import Figure
from iotrial.report.drawing import WIDE, Spec, channel, coloured, document, mark, svg
from iotrial.report.words import visible
from iotrial.units import axis_scale, format_change, format_value

MOST = 6
"""Levels named in a sentence."""


def lines(part: WorkloadFindings, margin: float) -> Iterator[str]:
    """One for each ordered factor of a workload."""
    for each in part.knees:
        yield said(each, margin)


def said(each: Knee, margin: float) -> str:
    """``knee of depth: 16, the smallest level shown to be within 2 % of the best …``."""
    name = f"knee of {visible(each.factor)}"
    within = f"within {words.share(margin)}"
    if not each.level:
        left = words.some(
            [visible(one.label) for one in each.levels if may_be(each, one, margin)], MOST
        )
        told = f"{name}: not found; no level was shown to be {within} of the best"
        told += f" (candidates: {left}); more blocks are needed" if left else ""
        return told + _open(each)
    told = f"{name}: {visible(each.level)}, the smallest level shown to be {within} of the best"
    told += _at_worst(each)
    smaller = [visible(one.label) for one in _below(each) if may_be(each, one, margin)]
    if smaller:
        told += f"; {words.some(smaller, MOST)} may be within the margin too (undecided)"
    # Any number among them would be the knee.
    unset = [visible(one.label) for one in _below(each) if one.as_good and not one.broken]
    if unset:
        told += f"; {words.some(unset, MOST)} is within the margin too"
    broken = [visible(one.label) for one in _below(each) if one.as_good and one.broken]
    if broken:
        told += f"; {words.some(broken, MOST)} is within the margin but breaks a guardrail"
    numbers = [one.label for one in each.levels]
    if each.level == numbers[-1]:
        told += "; it is the largest level tested: a larger one may be better"
    return told + _open(each)


def _at_worst(each: Knee) -> str:
    """How far from whichever level is best it may be."""
    tested = next(one.tested for one in each.levels if one.label == each.level)
    return f" (at worst {format_change(tested)})" if tested is not None and tested < 1 else ""


def _below(each: Knee) -> tuple[KneeLevel, ...]:
    """The levels before the knee."""
    at = next(place for place, one in enumerate(each.levels) if one.label == each.level)
    return each.levels[:at]


def may_be(each: Knee, one: KneeLevel, margin: float) -> bool:
    """Whether a level that was not shown to be as good as the best was not shown to be worse by
    more than the margin either."""
    if one.as_good or one.broken:
        return False
    if one.low is None or one.high is None:
        return True
    # In goodness: the better end of its interval, against the level that was best on average.
    better = one.high if each.higher else 1 / one.low
    return better >= 1 / (1 + margin)


def _open(each: Knee) -> str:
    if not each.open:
        return ""
    return f"; no valid trials: {words.some([visible(label) for label in each.open], MOST)}"


def as_data(part: WorkloadFindings, margin: float) -> list[dict[str, Any]]:
    """For the JSON document: ratios to the level that was best on average."""
    return [
        {
            "workload": part.workload,
            "metric": each.metric,
            "factor": each.factor,
            "knee": each.level or None,
            "words": said(each, margin),
            "best": each.best,
            "best_value": each.value,
            "confidence": each.confidence,
            "levels": [
                {
                    "level": one.label,
                    "ratio": one.ratio,
                    "low": one.low,
                    "high": one.high,
                    "tested": one.tested,
                    "as_good": one.as_good,
                    "guardrail_broken": one.broken,
                }
                for one in each.levels
            ],
            "without_a_number": list(each.open),
        }
        for each in part.knees
    ]


# -- the chart ------------------------------------------------------------------------------------

_FEW = 14
"""Levels from which their names are turned, and the chart needs no more room."""
_MANY = 30
"""Levels from which not each has its name."""
_LOOKS = {
    "knee": (drawing.BETTER, "diamond"),
    "as good": (drawing.SERIES[0], "circle"),
    "not shown": (drawing.MUTED, "circle"),
    "guardrail": (drawing.WORSE, "cross"),
}


def knee_figures(part: WorkloadFindings, margin: float, ident: str) -> tuple[Figure, ...]:
    """A chart for each ordered factor of a workload."""
    return tuple(
        _figure(part, each, margin, f"{ident}-knee-{place}")
        for place, each in enumerate(part.knees)
        if math.isfinite(each.value)
    )


def _figure(part: WorkloadFindings, each: Knee, margin: float, ident: str) -> Figure:
    factor = visible(each.factor)
    title = f"{part.metric.title} by {factor}"
    title += f": the knee is {visible(each.level)}" if each.level else ": knee not found"
    told = said(each, margin)
    caption = (
        f"{told[:1].upper()}{told[1:]}. Point: estimate; line: interval of its difference from"
        f" {visible(each.best)}; band: margin of {words.share(margin)}. Tick: confidence bound"
        " of the knee test against the best level; in the band or beyond it, the level is"
        " within the margin (filled)."
    )
    unit = part.metric.display_unit
    spoken = " ".join(
        f"{factor}={visible(one.label)}:"
        f" {format_value(one.ratio * each.value, unit)}"
        f"{', within the margin of the best' if one.as_good else ''}."
        for one in each.levels
    )
    spec = knee_spec(part, each, margin)
    return Figure(
        "trials", svg(spec, f"{part.workload}: {title}", f"{told}. {spoken}", ident), title, caption
    )


def knee_spec(part: WorkloadFindings, each: Knee, margin: float) -> Spec:
    """Levels to the right, the metric upwards; the knee with its name and a line down to it."""
    by, unit = axis_scale(
        max(one.ratio for one in each.levels) * each.value, part.metric.display_unit
    )
    table = [_row(part, each, place, by) for place in range(len(each.levels))]
    labels = [str(row["l"]) for row in table]
    axis = {
        "title": visible(each.factor), "grid": False,
        "labelAngle": 0 if len(labels) <= _FEW else -45,
        "labelOverlap": "parity" if len(labels) > _MANY else False,
    }  # fmt: skip
    x = channel("l:N", sort=labels, axis=axis, scale={"type": "point", "padding": 0.5})
    title = f"{part.metric.title} ({unit})"
    y = channel("v:Q", axis={"title": title, "tickCount": 6}, scale={"zero": False})
    color, shape = coloured("k", list(_LOOKS), list(_LOOKS.values()), None)
    extent = {"y": channel("low:Q"), "y2": channel("high")}
    band, rest = {"color": drawing.BAND.light, "opacity": 1}, {"color": drawing.MUTED.light}
    dashed = {"strokeDash": [4, 3], "color": drawing.SERIES[0].light}
    line = {"color": drawing.LINE.light, "strokeWidth": 1.5}
    tick = {"thickness": 2, "size": 14, "orient": "horizontal"}
    good = {"size": 110, "opacity": 1, "filled": True}
    hollow = {"size": 80, "opacity": 1, "filled": False, "strokeWidth": 2}
    point = {"x": x, "y": y, "color": color, "shape": shape}
    layers = [
        mark("rect", "margin", band, **extent),
        mark("rule", "margin", rest, y=channel("best:Q")),
        mark("rule", "rows", dashed, "datum.k == 'knee'", x=x),
        mark("line", "rows", line, x=x, y=y, order=channel("n:Q")),
        mark("rule", "rows", {"strokeWidth": 3}, x=x, **extent, color=color),
        mark("tick", "rows", tick, x=x, y=channel("test:Q"), color=color),
        mark("point", "rows", good, "datum.good", **point),
        mark("point", "rows", hollow, "!datum.good", **point),
    ]
    ends = sorted((each.value / by * (1 + margin), each.value / by / (1 + margin)))
    beside = [{"low": ends[0], "best": each.value / by, "high": ends[1]}]
    return document(layers, WIDE, 280, {"rows": table, "margin": beside})


def _row(part: WorkloadFindings, each: Knee, place: int, by: float) -> drawing.Row:
    one, scale = each.levels[place], each.value / by
    kind = "knee" if one.label == each.level else "as good" if one.as_good else "not shown"
    tested = one.tested
    if tested is not None and part.metric.higher is False:
        tested = 1 / tested
    return {
        "n": place,
        "l": visible(one.label),
        "k": "guardrail" if one.broken else kind,
        "good": one.as_good,
        "v": one.ratio * scale,
        "low": (one.ratio if one.low is None else one.low) * scale,
        "high": (one.ratio if one.high is None else one.high) * scale,
        "test": None if tested is None else tested * scale,
    }
