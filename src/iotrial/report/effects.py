"""What a report says of several factors at once: main effects, interactions, shares of the
variation, trade-offs.

Its charts have a point with its interval each, never a bar: what a reader compares is positions
along a common scale, and what lies between the ends of an interval (Cleveland and McGill 1984).
Interaction plots show the effect of one factor at each level of another: lines that lie one above
the other say that the factors act independently.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.judgement.parts import VerdictRow, WorkloadFindings
from iotrial.model.finding import Interaction, Likeness, SimpleEffect, VarianceShare
from iotrial.model.measurement import metric as metric_named
from iotrial.model.trial import treatment_text
from iotrial.report import drawing, words
from iotrial.report.blocks import (
    Block,
    Column,
    Figure,
    Heading,
    Row,
    ShapeOnly,
    Table,
    Text,
    sentence,
)
from iotrial.report.drawing import (
    NARROW,
    SIGNS,
    WIDE,
    Spec,
    by_group,
    channel,
    coloured,
    document,
    faceted,
    margin_layers,
    margin_rows,
    mark,
    svg,
)
from iotrial.report.words import visible
from iotrial.stats.tradeoffs import MeanInterval, Tradeoff, TradeoffPoint
from iotrial.units import axis_scale, format_change, format_value

LIKENESS: dict[Likeness, str] = {
    "same": "alike",
    "differs": "differs",
    "cannot-tell": "cannot tell",
}
_CHANGE: Spec = {"title": "change in %", "labelExpr": SIGNS, "tickCount": 6}
_ACROSS: Spec = {"x": channel("low:Q"), "x2": channel("high")}
_UPWARDS: Spec = {"y": channel("low:Q"), "y2": channel("high")}
_DOT: Spec = {"size": 80, "opacity": 1, "filled": True}
MOST = 8
"""Interactions listed in a short table, the firmest first."""


def listed(part: WorkloadFindings) -> tuple[Interaction, ...]:
    """The interactions worth a line: those that differ, then those that may, the largest first."""
    order = {"differs": 0, "cannot-tell": 1, "same": 2}
    return tuple(sorted(part.interactions, key=lambda each: (order[each.verdict], -_size(each))))[
        :MOST
    ]


def _size(each: Interaction) -> float:
    return max(each.ratio, 1 / each.ratio) if each.ratio > 0 else 0.0


def counted(part: WorkloadFindings) -> str:
    """``9 interactions: 2 differ, 5 are alike, 2 cannot be told``."""
    count = {
        verdict: sum(each.verdict == verdict for each in part.interactions) for verdict in LIKENESS
    }
    said = [
        f"{count['differs']} {'differs' if count['differs'] == 1 else 'differ'}",
        f"{count['same']} equivalent",
        f"{count['cannot-tell']} undecided",
    ]
    return f"{words.count(len(part.interactions), 'interaction')}: {', '.join(said)}"


def name(each: Interaction) -> str:
    """``scheduler=bfq × depth=32``."""
    pairs = zip(each.factors, each.levels, strict=True)
    return " × ".join(visible(f"{factor}={level}") for factor, level in pairs)


def interval(each: Interaction) -> str:
    """``−19.9 … −16.1``."""
    if each.low is None or each.high is None:
        return "no interval"
    return f"{words.bare(each.low)} … {words.bare(each.high)}"


def change(each: Interaction) -> str:
    return f"{format_change(each.ratio)} ({interval(each)})"


def beside(each: Interaction) -> str:
    """The interactions it may just as well be."""
    return words.some(["×".join(map(visible, pair)) for pair in each.beside], 3)


def source(share: VarianceShare) -> str:
    """``scheduler×depth``; what is no effect by its own word."""
    own = {"higher": "three-factor and higher", "whole plots": "between whole plots"}
    text = "×".join(map(visible, share.source))
    return text if share.effect else own.get(text, text)


def share_text(share: VarianceShare) -> str:
    """``61 % (55 … 67)``."""
    own = words.share(share.share)
    if share.low is None or share.high is None:
        return own
    low, high = (words.share(end).removesuffix(" %") for end in (share.low, share.high))
    return f"{own} ({low} … {high})"


def explained(shares: Sequence[VarianceShare], most: int = 6) -> str:
    """The largest shares of the variation, as one line."""
    effects = sorted((each for each in shares if each.effect), key=lambda each: -each.share)
    told = [f"{source(each)} {share_text(each)}" for each in effects[:most]]
    others = [f"{source(s)} {words.share(s.share)}" for s in shares if s.source == ("residual",)]
    return ", ".join([*told, *others])


def fronts(part: WorkloadFindings) -> Iterator[str]:
    """What no other treatment beats, for each trade-off in which any is beaten."""
    for each in part.tradeoffs:
        left = [visible(treatment_text(point.treatment)) for point in each.points if point.front]
        if len(left) < len(each.points):
            yield f"Pareto-optimal for {title(each)}: {words.some(left, MOST)}"


def title(each: Tradeoff) -> str:
    return f"{each.gain} and {each.cost}"


def extent(value: MeanInterval, unit: str) -> str:
    if value.low is None or value.high is None:
        return format_value(value.middle, unit)
    low, high = format_value(value.low, unit), format_value(value.high, unit)
    return f"{format_value(value.middle, unit)} ({low} … {high})"


def as_data(part: WorkloadFindings) -> dict[str, Any]:
    """For the JSON document: all of it, base units, ratios and fractions."""
    return {
        "interactions": [
            {
                "workload": part.workload,
                "metric": each.metric,
                "factors": list(each.factors),
                "levels": list(each.levels),
                "baselines": list(each.baselines),
                "ratio": each.ratio,
                "low": each.low,
                "high": each.high,
                "verdict": each.verdict,
                "n": each.n,
                "cannot_be_told_from": [list(pair) for pair in each.beside],
            }
            for each in part.interactions
        ],
        "shares": [
            {
                "workload": part.workload,
                "metric": each.metric,
                "source": list(each.source),
                "df": each.df,
                "squares": each.squares,
                "eta2": each.plain,
                "omega2": each.share,
                "low": each.low,
                "high": each.high,
            }
            for each in part.shares
        ],
        "tradeoffs": [
            {
                "workload": part.workload,
                "gain": each.gain,
                "cost": each.cost,
                "treatments": [
                    {
                        "treatment": dict(point.treatment),
                        "gain": _extent(point.gain),
                        "cost": _extent(point.cost),
                        "not_beaten": point.front,
                    }
                    for point in each.points
                ],
            }
            for each in part.tradeoffs
        ],
    }


def _extent(value: MeanInterval) -> dict[str, float | None]:
    return {"value": value.middle, "low": value.low, "high": value.high}


_READ = (
    "Each number is a ratio: the effect of the first level at the second level, divided by its"
    " effect at the second factor's baseline."
)


def blocks(part: WorkloadFindings) -> Iterator[Block]:
    """Interactions.  What explains the variation, and what is best in two things at once, is drawn
    on a page and written elsewhere."""
    if part.interactions:
        yield Heading("Interactions: does one factor's effect depend on another?", 3)
        yield Text(f"{sentence(counted(part))} {_READ}", "note")
        head = (
            *(Column("interaction"), Column("verdict")),
            Column("change of the effect (interval)", "k"),
            *(Column("aliased with"), Column("blocks", "n")),
        )
        told: tuple[Row, ...] = tuple(
            (name(each), LIKENESS[each.verdict], change(each), beside(each) or "–", str(each.n))
            for each in listed(part)
        )
        yield Table(head, told, f"Interactions of {part.workload}", look="stacked")
    if part.shares:
        yield ShapeOnly("markdown", Text(f"Variation explained: {explained(part.shares)}."))
    for line in fronts(part):
        yield ShapeOnly("markdown", Text(sentence(line)))


# -- charts ---------------------------------------------------------------------------------------

MOST_PAIRS = 4
"""Interaction plots of a workload: those whose interactions are firmest and largest."""
MOST_LEVELS = 12
"""Of a factor on an interaction plot."""
_NAMED = 8
_ROW = 26
_FEW = 2  # factors that are not stretched over the whole page


def effect_figures(part: WorkloadFindings, margin: float, ident: str) -> tuple[Figure, ...]:
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


def _percent(ratio: float) -> float:
    return (ratio - 1) * 100


# -- main effects -----------------------------------------------------------------------------


def _main(part: WorkloadFindings, rows: Sequence[VerdictRow], margin: float, ident: str) -> Figure:
    table: list[drawing.Row] = []
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
    angle = 0 if width > 120 else -35  # noqa: PLR2004
    x = channel("l:N", sort=None, axis={"title": None, "labelAngle": angle, "labelLimit": 110})
    y = channel("v:Q", axis=_CHANGE)
    ink = drawing.SERIES[0].light
    band = {"y": {"datum": -margin * 100}, "y2": {"datum": margin * 100}}
    dot = {"size": 70, "opacity": 1, "filled": True, "color": ink}
    layers = [
        mark("rect", "", {"color": drawing.BAND.light, "opacity": 1}, **band),
        mark("rule", "", {"color": drawing.MUTED.light}, y={"datum": 0}),
        mark("rule", "", {"strokeWidth": 3, "color": ink}, x=x, **_UPWARDS),
        mark("point", "", dot, x=x, y=y),
    ]
    header = {"title": None, "labelColor": drawing.INK.light, "labelFontSize": 12}
    facet = {"column": channel("f:N", sort=factors, header=header)}
    spec = faceted(layers, width, 200, table, facet=facet, resolve={"scale": {"x": "independent"}})
    title = f"Main effects on {part.metric.title}, all on one scale"
    caption = (
        "Each level against its factor's baseline, at 0, averaged over the other factors. Line:"
        f" interval. Equivalence margin ±{words.share(margin)}."
    )
    said = " ".join(
        f"{row.finding.factor}={row.finding.level}: {words.change(row.finding)}." for row in rows
    )
    kind = "trials" if len(factors) > _FEW else "wide"
    return Figure(kind, svg(spec, f"{part.workload}: {title}", said, ident), title, caption)


# -- interactions -----------------------------------------------------------------------------


def _interactions(part: WorkloadFindings, margin: float, ident: str) -> Iterator[Figure]:
    order = {"differs": 0, "cannot-tell": 1, "same": 2}
    ranked = sorted(
        part.interactions, key=lambda each: (order[each.verdict], -abs(math.log(each.ratio)))
    )
    pairs = list(dict.fromkeys(each.factors for each in ranked))[:MOST_PAIRS]
    for place, (one, other) in enumerate(pairs):
        rows = [e for e in part.simple if (e.factor, e.other) == (one, other)]
        if len({each.at for each in rows}) <= MOST_LEVELS >= len({each.level for each in rows}):
            yield _pair(part, rows, margin, f"{ident}-pair-{place}")


def _pair(
    part: WorkloadFindings, rows: Sequence[SimpleEffect], margin: float, ident: str
) -> Figure:
    one, other = visible(rows[0].factor), visible(rows[0].other)
    title = f"Effect of {one} at each {other}"
    caption = (
        f"Against {one}={visible(rows[0].baseline)}. Points one above the other: no interaction"
        f" with {other}. Band: equivalence margin ±{words.share(margin)}."
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
    place = {
        "y": channel("at:N", sort=places, axis={"title": None}),
        "yOffset": channel("g:N", sort=groups),
    }
    color, shape = by_group(groups, NARROW, first=1)
    x = channel("v:Q", axis=_CHANGE)
    layers = [
        *margin_layers(),
        mark("rule", "rows", {"strokeWidth": 3}, **_ACROSS, **place, color=color),
        mark("point", "rows", _DOT, x=x, **place, color=color, shape=shape),
    ]
    height = max(_ROW, 16 * len(groups)) * len(places) + 70
    return document(layers, NARROW, height, {"rows": table, "margin": margin_rows(margin)})


# -- shares -----------------------------------------------------------------------------------


def _shares(part: WorkloadFindings, ident: str) -> Figure:
    ranked = sorted((s for s in part.shares if s.effect), key=lambda each: -each.share)
    shown = [*ranked[:MOST_LEVELS], *(s for s in part.shares if not s.effect)]
    table = [
        {
            "s": source(each),
            "v": each.share * 100,
            "low": 100 * (each.share if each.low is None else each.low),
            "high": 100 * (each.share if each.high is None else each.high),
            "e": "factor" if each.effect else "no factor",
        }
        for each in shown
    ]
    y = channel("s:N", sort=None, axis={"title": None})
    axis = {"title": "% of the variation", "tickCount": 6}
    x = channel("v:Q", axis=axis, scale={"domainMin": 0})
    looks = ((drawing.SERIES[0], "circle"), (drawing.MUTED, "square"))
    color, shape = coloured("e", ("factor", "no factor"), looks, None)
    layers = [
        mark("rule", "rows", {"strokeWidth": 3}, **_ACROSS, y=y, color=color),
        mark("point", "rows", _DOT, x=x, y=y, color=color, shape=shape),
    ]
    spec = document(layers, NARROW, _ROW * len(table) + 50, {"rows": table})
    title = f"Shares of the variation of {part.metric.title}"
    caption = (
        "On the log scale, corrected for noise (omega²). Line: interval. Squares: not due to a"
        " factor."
    )
    said = explained(part.shares, most=len(part.shares)) + "."
    return Figure("shares", svg(spec, f"{part.workload}: {title}", said, ident), title, caption)


# -- trade-offs -------------------------------------------------------------------------------


def _tradeoff(part: WorkloadFindings, each: Tradeoff, ident: str) -> Figure:
    cost = metric_named(each.cost)
    title = f"{part.metric.title} against {cost.title}"
    corner = "right" if part.metric.higher else "left"
    caption = (
        f"Best: {corner} and low. Filled: Pareto-optimal (no other treatment was shown to be"
        " better in one metric and is no worse in the other). Lines: individual"
        f" intervals.{_order(each)}"
    )
    said = " ".join(
        f"{visible(treatment_text(point.treatment))}: "
        f"{extent(point.gain, part.metric.display_unit)}, {extent(point.cost, cost.display_unit)}"
        f"{', Pareto-optimal' if point.front else ''}."
        for point in each.points[: 2 * _NAMED]
    )
    spec = tradeoff_spec(each, part.metric.title, part.metric.display_unit)
    return Figure("pareto", svg(spec, f"{part.workload}: {title}", said, ident), title, caption)


def _order(each: Tradeoff) -> str:
    """How to read a name on the chart, which is of levels alone."""
    factors = [visible(factor) for factor, _ in each.points[0].treatment]
    return f" Names: {', '.join(factors)}." if len(factors) > 1 else ""


def tradeoff_spec(each: Tradeoff, gain_title: str, gain_unit: str) -> Spec:
    """A point per treatment with both intervals; those that none beats filled and named."""
    cost = metric_named(each.cost)
    by, unit = axis_scale(max(p.gain.middle for p in each.points), gain_unit)
    per, cost_unit = axis_scale(max(p.cost.middle for p in each.points), cost.display_unit)
    table = [_point(point, by, per) for point in each.points]
    best = [row for row in table if row["front"]]
    labels = list(labelled(table if len(table) <= MOST_NAMED else best))
    x, y = (
        channel(field, axis={"title": title, "tickCount": 6}, scale={"zero": False})
        for field, title in (
            ("x:Q", f"{gain_title} ({unit})"),
            ("y:Q", f"{cost.title} ({cost_unit})"),
        )
    )
    rest = {"color": drawing.MUTED.light}
    hollow = {**rest, "size": 60, "opacity": 1, "filled": False, "strokeWidth": 1.5}
    filled = {**_DOT, "color": drawing.SERIES[0].light}
    layers = [
        mark("rule", "rows", rest, x=channel("x1:Q"), x2=channel("x2"), y=channel("y:Q")),
        mark("rule", "rows", rest, y=channel("y1:Q"), y2=channel("y2"), x=channel("x:Q")),
        mark("point", "rows", hollow, x=x, y=y),
        mark("point", "best", filled, x=x, y=y),
        *_labels(x, y),
    ]
    data = {side: [row for row in labels if row["side"] == side] for side in SIDES}
    return document(layers, NARROW, _HIGH, {"rows": table, "best": best, **data})


MOST_NAMED = 16
"""Points up to which each has its name; of more those that none beats, while they are as few."""
_HIGH = 300
_LETTER, _LINE = 6, 13  # pixels of a name
SIDES = {"after-below": (8, 12), "before-below": (-8, 12), "after-above": (8, -9),
          "before-above": (-8, -9)}  # fmt: skip
"""Where a name may stand, and by how many pixels off its point; below first: hardly anything that
is not beaten lies there."""


def labelled(rows: Sequence[drawing.Row]) -> Iterator[drawing.Row]:
    """Names where no other name, no other point and no edge is in the way; the first place where
    all have something."""
    if len(rows) > MOST_NAMED:
        return
    ends = [
        [float(str(row[key])) for row in rows for key in (f"{way}1", f"{way}2")] for way in "xy"
    ]
    (left, right), (low, high) = ((min(each), max(each)) for each in ends)
    wide, tall = NARROW - 80, _HIGH - 20
    places = {
        at: (
            (float(str(row["x"])) - left) / ((right - left) or 1) * wide,
            (high - float(str(row["y"]))) / ((high - low) or 1) * tall,
        )
        for at, row in enumerate(rows)
    }
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in places.values()]
    for at, row in enumerate(rows):
        boxes = {side: _box(places[at], str(row["t"]), side) for side in SIDES}
        free = [
            side
            for side, box in boxes.items()
            if box[0] > -40 and box[2] < wide and not any(_over(box, each) for each in taken)  # noqa: PLR2004
        ]
        side = free[0] if free else next(iter(SIDES))
        taken.append(boxes[side])
        yield {**row, "side": side}


_Box = tuple[float, float, float, float]


def _box(place: tuple[float, float], name: str, side: str) -> _Box:
    (x, y), (dx, dy) = place, SIDES[side]
    long = len(name) * _LETTER
    first = x + dx if dx > 0 else x + dx - long
    return first, y + dy - _LINE / 2, first + long, y + dy + _LINE / 2


def _over(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _labels(x: Spec, y: Spec) -> Iterator[Spec]:
    for side, (dx, dy) in SIDES.items():
        looks = {
            "align": "left" if dx > 0 else "right", "baseline": "middle", "dx": dx, "dy": dy,
            "fontSize": 11, "color": drawing.INK.light,
        }  # fmt: skip
        yield mark("text", side, looks, x=x, y=y, text=channel("t:N"))


def _point(point: TradeoffPoint, by: float, per: float) -> drawing.Row:
    gain, cost = _ends(point.gain, by), _ends(point.cost, per)
    return {
        "t": _short(treatment_text(point.treatment)), "front": point.front,
        "x": gain[0], "x1": gain[1], "x2": gain[2], "y": cost[0], "y1": cost[1], "y2": cost[2],
    }  # fmt: skip


def _short(treatment: str) -> str:
    """Levels alone: the names of the factors would cover the points."""
    return visible(" ".join(part.partition("=")[2] or part for part in treatment.split(" ")))


def _ends(value: MeanInterval, by: float) -> tuple[float, float, float]:
    low = value.middle if value.low is None else value.low
    high = value.middle if value.high is None else value.high
    return value.middle / by, low / by, high / by
