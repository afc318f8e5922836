"""Where more gives no more: the levels of an ordered factor from left to right, and the knee.

A point and an interval each, in the metric's own unit, with the margin behind them as a band
around the best.  The levels stand in order at even distances, so that doublings and steps are
both read easily, and ``unset`` has a place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from iotrial.model.finding import Knee
from iotrial.report import knees, palette, words
from iotrial.report.blocks import Figure
from iotrial.report.charts import WIDE, document, svg
from iotrial.report.view import Part
from iotrial.report.visible import visible
from iotrial.units import axis_scale, format_value

_FEW = 14
"""Levels from which their names are turned, and the chart needs no more room."""
_MANY = 30
"""Levels from which not each has its name."""
_KINDS = ("knee", "as good", "not shown", "guardrail")
_Row = Mapping[str, object]


def knee_figures(part: Part, margin: float, ident: str) -> tuple[Figure, ...]:
    """A chart for each ordered factor of a workload."""
    return tuple(
        _figure(part, each, margin, f"{ident}-knee-{place}")
        for place, each in enumerate(part.knees)
        if math.isfinite(each.value)
    )


def _figure(part: Part, each: Knee, margin: float, ident: str) -> Figure:
    factor = visible(each.factor)
    title = f"{part.metric.title} by {factor}"
    title += f": the knee is {visible(each.level)}" if each.level else ": no knee was shown"
    told = knees.said(each, margin)
    caption = (
        f"{told[:1].upper()}{told[1:]}. Point: estimate; line: interval of its difference from "
        f"{visible(each.best)}; band: {words.share(margin)} around that one. Tick: the bound of "
        "the test for the knee, against whichever level is best; in the band or beyond it, the "
        "level is as good (filled)."
    )
    spoken = " ".join(
        f"{factor}={visible(one.label)}: {format_value(one.ratio * each.value, part.metric.unit)}"
        f"{', as good as the best' if one.as_good else ''}."
        for one in each.levels
    )
    spec = knee_spec(part, each, margin)
    return Figure(
        "trials", svg(spec, f"{part.workload}: {title}", f"{told}. {spoken}", ident), title, caption
    )


def knee_spec(part: Part, each: Knee, margin: float) -> dict[str, Any]:
    """Levels to the right, the metric upwards; the knee with its name and a line down to it."""
    by, unit = axis_scale(max(one.ratio for one in each.levels) * each.value, part.metric.unit)
    table = [_row(part, each, place, by) for place in range(len(each.levels))]
    labels = [str(row["l"]) for row in table]
    axis = alt.Axis(
        title=visible(each.factor), grid=False, labelAngle=0 if len(labels) <= _FEW else -45,
        labelOverlap="parity" if len(labels) > _MANY else False,
    )  # fmt: skip
    x = alt.X("l:N", sort=labels, axis=axis).scale(type="point", padding=0.5)
    y = alt.Y("v:Q").axis(title=f"{part.metric.title} ({unit})", tickCount=6).scale(zero=False)
    ink, rest = palette.SERIES[0].light, palette.MUTED.light
    color = alt.Color("k:N", legend=None).scale(
        domain=list(_KINDS),
        range=[palette.BETTER.light, ink, rest, palette.WORSE.light],
    )
    shape = alt.Shape("k:N", legend=None).scale(
        domain=list(_KINDS), range=["diamond", "circle", "circle", "cross"]
    )
    base, band = alt.Chart(alt.NamedData("rows")), alt.Chart(alt.NamedData("margin"))
    good, not_shown = "datum.good", "!datum.good"
    layers = alt.layer(
        band.mark_rect(color=palette.BAND.light, opacity=1)
        .encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        band.mark_rule(color=rest).encode(y=alt.Y("best:Q")),
        base.transform_filter("datum.k == 'knee'").mark_rule(strokeDash=[4, 3], color=ink)
        .encode(x=x),
        base.mark_line(color=palette.LINE.light, strokeWidth=1.5)
        .encode(x=x, y=y, order=alt.Order("n:Q")),
        base.mark_rule(strokeWidth=3)
        .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=color),
        base.mark_tick(thickness=2, size=14, orient="horizontal")
        .encode(x=x, y=alt.Y("test:Q"), color=color),
        base.transform_filter(good).mark_point(size=110, opacity=1, filled=True)
        .encode(x=x, y=y, color=color, shape=shape),
        base.transform_filter(not_shown)
        .mark_point(size=80, opacity=1, filled=False, strokeWidth=2)
        .encode(x=x, y=y, color=color, shape=shape),
    )  # fmt: skip
    ends = sorted((each.value / by * (1 + margin), each.value / by / (1 + margin)))
    beside = [{"low": ends[0], "best": each.value / by, "high": ends[1]}]
    return document(layers, WIDE, 280, {"rows": table, "margin": beside})


def _row(part: Part, each: Knee, place: int, by: float) -> _Row:
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
