"""Charts of several factors: main effects, interactions, shares of the variation, trade-offs.

A point with its interval each, never a bar: what a reader compares is positions along a common
scale, and what lies between the ends of an interval (Cleveland and McGill 1984).  Interaction
plots show the effect of one factor at each level of another: lines that lie one above the other
say that the factors act independently.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import altair as alt

from iotrial.judgement.parts import VerdictRow
from iotrial.model.finding import SimpleEffect
from iotrial.model.measurement import metric as metric_named
from iotrial.model.trial import treatment_text
from iotrial.report import effects, palette, words
from iotrial.report.blocks import Figure
from iotrial.report.charts import NARROW, WIDE, by_group, document, svg
from iotrial.report.view import Part
from iotrial.report.visible import visible
from iotrial.stats.tradeoffs import Extent, Point, Tradeoff
from iotrial.units import axis_scale, format_change

MOST_PAIRS = 4
"""Interaction plots of a workload: those whose interactions are firmest and largest."""
MOST_LEVELS = 12
"""Of a factor on an interaction plot."""
_NAMED = 8
_SIGNS = "datum.value == 0 ? '0' : format(datum.value, '+~g')"
_ROW = 26
_FEW = 2  # factors that are not stretched over the whole page
_Row = Mapping[str, object]


def effect_figures(part: Part, margin: float, ident: str) -> tuple[Figure, ...]:
    """The charts of one workload that there are numbers for."""
    made: list[Figure] = []
    told = [row for row in part.findings if math.isfinite(row.finding.ratio)]
    if len({row.finding.factor for row in told}) > 1:
        made.append(_main(part, told, margin, f"{ident}-effects"))
    made += _interactions(part, margin, ident)
    if part.shares:
        made.append(_shares(part, f"{ident}-shares"))
    made += [
        _tradeoff(part, each, f"{ident}-front-{place}") for place, each in enumerate(part.tradeoffs)
    ]
    return tuple(made)


def _band(margin: float) -> list[_Row]:
    return [{"low": -margin * 100, "none": 0, "high": margin * 100}]


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100


# -- main effects -----------------------------------------------------------------------------


def _main(part: Part, rows: Sequence[VerdictRow], margin: float, ident: str) -> Figure:
    table: list[_Row] = []
    for factor in dict.fromkeys(row.finding.factor for row in rows):
        own = [row.finding for row in rows if row.finding.factor == factor]
        table.append({"f": factor, "l": own[0].baseline, "v": 0, "low": 0, "high": 0, "b": 1})
        for each in own:
            ends = [each.ratio if end is None else end for end in (each.low, each.high)]
            table.append(
                {
                    "f": factor, "l": each.level, "v": _percent(each.ratio),
                    "low": _percent(ends[0]), "high": _percent(ends[1]), "b": 0,
                }
            )  # fmt: skip
    factors = list(dict.fromkeys(str(row["f"]) for row in table))
    width = min(260.0, (WIDE - 90) / len(factors))
    axis = alt.Axis(title=None, labelAngle=0 if width > 120 else -35, labelLimit=110)  # noqa: PLR2004
    x = alt.X("l:N", sort=None, axis=axis)
    y = alt.Y("v:Q").axis(title="change in %", labelExpr=_SIGNS, tickCount=6)
    base = alt.Chart()
    ink = palette.SERIES[0].light
    layers = alt.layer(
        base.mark_rect(color=palette.BAND.light, opacity=1).encode(
            y=alt.datum(-margin * 100), y2=alt.datum(margin * 100)
        ),
        base.mark_rule(color=palette.MUTED.light).encode(y=alt.datum(0)),
        base.mark_rule(strokeWidth=3, color=ink).encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        base.mark_point(size=70, opacity=1, filled=True, color=ink).encode(x=x, y=y),
    )
    sorted_header = alt.Header(title=None, labelColor=palette.INK.light, labelFontSize=12)
    chart = layers.facet(
        column=alt.Column("f:N", sort=factors, header=sorted_header), data=alt.NamedData("rows")
    ).resolve_scale(x="independent")
    spec = document(chart, WIDE, 220, {"rows": table})
    spec["spec"] |= {"width": width, "height": 200}
    for key in ("width", "height", "autosize"):
        spec.pop(key, None)
    title = f"Main effects on {part.metric.title}, all on one scale"
    caption = (
        "Each level against its factor's baseline, at 0, averaged over the other factors. Line: "
        f"interval. Changes under {words.share(margin)} do not matter."
    )
    said = " ".join(
        f"{row.finding.factor}={row.finding.level}: {words.change(row.finding)}." for row in rows
    )
    kind = "trials" if len(factors) > _FEW else "wide"
    return Figure(kind, svg(spec, f"{part.workload}: {title}", said, ident), title, caption)


# -- interactions -----------------------------------------------------------------------------


def _interactions(part: Part, margin: float, ident: str) -> Iterator[Figure]:
    order = {"differs": 0, "cannot-tell": 1, "same": 2}
    ranked = sorted(
        part.interactions, key=lambda each: (order[each.verdict], -abs(math.log(each.ratio)))
    )
    pairs = list(dict.fromkeys(each.factors for each in ranked))[:MOST_PAIRS]
    for place, (one, other) in enumerate(pairs):
        rows = [e for e in part.simple if (e.factor, e.other) == (one, other)]
        if len({each.at for each in rows}) <= MOST_LEVELS >= len({each.level for each in rows}):
            yield _pair(part, rows, margin, f"{ident}-pair-{place}")


def _pair(part: Part, rows: Sequence[SimpleEffect], margin: float, ident: str) -> Figure:
    one, other = visible(rows[0].factor), visible(rows[0].other)
    title = f"Effect of {one} at each {other}"
    caption = (
        f"Against {one}={visible(rows[0].baseline)}. Points one above the other: the effect does "
        f"not depend on {other}. Band: changes under {words.share(margin)} do not matter."
    )
    said = " ".join(
        f"{visible(each.level)} at {other}={visible(each.at)}: {format_change(each.ratio)}."
        for each in rows
    )
    spec = pair_spec(rows, margin)
    return Figure("change", svg(spec, f"{part.workload}: {title}", said, ident), title, caption)


def pair_spec(rows: Sequence[SimpleEffect], margin: float) -> dict[str, object]:
    """One line per level of the other factor, one colour and shape per level of the first."""
    groups = list(dict.fromkeys(visible(each.level) for each in rows))
    table = [
        {
            "at": visible(f"{each.other}={each.at}"), "g": visible(each.level),
            "v": _percent(each.ratio),
            "low": _percent(each.ratio if each.low is None else each.low),
            "high": _percent(each.ratio if each.high is None else each.high),
        }
        for each in rows
    ]  # fmt: skip
    places = list(dict.fromkeys(str(row["at"]) for row in table))
    y = alt.Y("at:N", sort=places).axis(title=None)
    offset = alt.YOffset("g:N", sort=groups)
    color, shape = by_group(["", *groups], NARROW)
    color = color.scale(domain=groups, range=[palette.of_group(n + 1)[0].light for n in
                                              range(len(groups))])  # fmt: skip
    shape = shape.scale(domain=groups, range=[palette.of_group(n + 1)[1] for n in
                                              range(len(groups))])  # fmt: skip
    x = alt.X("v:Q").axis(title="change in %", labelExpr=_SIGNS, tickCount=6)
    base = alt.Chart(alt.NamedData("rows"))
    layers = alt.layer(
        alt.Chart(alt.NamedData("margin"))
        .mark_rect(color=palette.BAND.light, opacity=1)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")),
        alt.Chart(alt.NamedData("margin")).mark_rule(color=palette.MUTED.light)
        .encode(x=alt.X("none:Q")),
        base.mark_rule(strokeWidth=3)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y, yOffset=offset, color=color),
        base.mark_point(size=80, opacity=1, filled=True)
        .encode(x=x, y=y, yOffset=offset, color=color, shape=shape),
    )  # fmt: skip
    height = max(_ROW, 16 * len(groups)) * len(places) + 70
    return document(layers, NARROW, height, {"rows": table, "margin": _band(margin)})


# -- shares -----------------------------------------------------------------------------------


def _shares(part: Part, ident: str) -> Figure:
    ranked = sorted((s for s in part.shares if s.effect), key=lambda each: -each.share)
    shown = [*ranked[:MOST_LEVELS], *(s for s in part.shares if not s.effect)]
    table = [
        {
            "s": effects.source(each),
            "v": each.share * 100,
            "low": 100 * (each.share if each.low is None else each.low),
            "high": 100 * (each.share if each.high is None else each.high),
            "e": "factor" if each.effect else "no factor",
        }
        for each in shown
    ]
    axis = alt.Axis(title=None)
    y = alt.Y("s:N", sort=None, axis=axis)
    x = alt.X("v:Q").axis(title="% of the variation", tickCount=6).scale(domainMin=0)
    color = alt.Color("e:N", legend=None).scale(
        domain=["factor", "no factor"], range=[palette.SERIES[0].light, palette.MUTED.light]
    )
    shape = alt.Shape("e:N", legend=None).scale(
        domain=["factor", "no factor"], range=["circle", "square"]
    )
    base = alt.Chart(alt.NamedData("rows"))
    layers = alt.layer(
        base.mark_rule(strokeWidth=3).encode(
            x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y, color=color
        ),
        base.mark_point(size=80, opacity=1, filled=True).encode(x=x, y=y, color=color, shape=shape),
    )
    spec = document(layers, NARROW, _ROW * len(table) + 50, {"rows": table})
    title = f"What explains the variation of {part.metric.title}"
    caption = (
        "On the log scale; what noise alone would explain is taken off (omega²). Line: interval. "
        "Squares: no factor's."
    )
    said = effects.explained(part.shares, most=len(part.shares)) + "."
    return Figure("shares", svg(spec, f"{part.workload}: {title}", said, ident), title, caption)


# -- trade-offs -------------------------------------------------------------------------------


def _tradeoff(part: Part, each: Tradeoff, ident: str) -> Figure:
    cost = metric_named(each.cost)
    title = f"{part.metric.title} against {cost.title}"
    corner = "right" if part.metric.higher else "left"
    caption = (
        f"Best: to the {corner} and low. Filled: no other treatment was shown to be better "
        f"in one and is no worse in the other. Lines: intervals, each by itself.{_order(each)}"
    )
    said = " ".join(
        f"{visible(treatment_text(point.treatment))}: "
        f"{effects.extent(point.gain, part.metric.unit)}, {effects.extent(point.cost, cost.unit)}"
        f"{', not beaten' if point.front else ''}."
        for point in each.points[: 2 * _NAMED]
    )
    spec = tradeoff_spec(each, part.metric.title, part.metric.unit)
    return Figure("pareto", svg(spec, f"{part.workload}: {title}", said, ident), title, caption)


def _order(each: Tradeoff) -> str:
    """How to read a name on the chart, which is of levels alone."""
    factors = [visible(factor) for factor, _ in each.points[0].treatment]
    return f" Names: {', '.join(factors)}." if len(factors) > 1 else ""


def tradeoff_spec(each: Tradeoff, gain_title: str, gain_unit: str) -> dict[str, object]:
    """A point per treatment with both intervals; those that none beats filled and named."""
    cost = metric_named(each.cost)
    by, unit = axis_scale(max(p.gain.middle for p in each.points), gain_unit)
    per, cost_unit = axis_scale(max(p.cost.middle for p in each.points), cost.unit)
    table = [_point(point, by, per) for point in each.points]
    best = sorted((row for row in table if row["front"]), key=lambda row: float(str(row["x"])))
    named = best if len(best) <= _NAMED else []
    ends = [float(str(row[end])) for row in table for end in ("x1", "x2")]
    edge = min(ends) + _EDGE * (max(ends) - min(ends))
    labels: dict[str, list[_Row]] = {"after": [], "before": []}
    for row in named:
        labels["after" if float(str(row["x"])) < edge else "before"].append(row)
    x = alt.X("x:Q").axis(title=f"{gain_title} ({unit})", tickCount=6).scale(zero=False)
    y = alt.Y("y:Q").axis(title=f"{cost.title} ({cost_unit})", tickCount=6).scale(zero=False)
    ink, rest = palette.SERIES[0].light, palette.MUTED.light
    rows, front = alt.Chart(alt.NamedData("rows")), alt.Chart(alt.NamedData("best"))
    layers = alt.layer(
        rows.mark_rule(color=rest).encode(x=alt.X("x1:Q"), x2=alt.X2("x2:Q"), y=alt.Y("y:Q")),
        rows.mark_rule(color=rest).encode(y=alt.Y("y1:Q"), y2=alt.Y2("y2:Q"), x=alt.X("x:Q")),
        rows.mark_point(size=60, opacity=1, filled=False, color=rest, strokeWidth=1.5)
        .encode(x=x, y=y),
        front.mark_point(size=80, opacity=1, filled=True, color=ink).encode(x=x, y=y),
        *_labels(x, y),
    )  # fmt: skip
    return document(layers, NARROW, 300, {"rows": table, "best": best, **labels})


_EDGE = 0.7
"""Beyond this part of the width a name stands before its point."""


def _labels(x: alt.X, y: alt.Y) -> Iterator[alt.Chart]:
    """Names below their points: hardly anything lies there, or it would beat them."""
    for side in ("after", "before"):
        yield (
            alt.Chart(alt.NamedData(side))
            .mark_text(
                align="left" if side == "after" else "right",
                dx=7 if side == "after" else 4,
                dy=10 if side == "after" else 16,
                fontSize=11,
                color=palette.INK.light,
            )
            .encode(x=x, y=y, text=alt.Text("t:N"))
        )


def _point(point: Point, by: float, per: float) -> _Row:
    gain, cost = _ends(point.gain, by), _ends(point.cost, per)
    return {
        "t": _short(treatment_text(point.treatment)), "front": point.front,
        "x": gain[0], "x1": gain[1], "x2": gain[2], "y": cost[0], "y1": cost[1], "y2": cost[2],
    }  # fmt: skip


def _short(treatment: str) -> str:
    """Levels alone: the names of the factors would cover the points."""
    return visible(" ".join(part.partition("=")[2] or part for part in treatment.split(" ")))


def _ends(value: Extent, by: float) -> tuple[float, float, float]:
    low = value.middle if value.low is None else value.low
    high = value.middle if value.high is None else value.high
    return value.middle / by, low / by, high / by
