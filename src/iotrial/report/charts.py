"""Charts: Altair describes, vl-convert draws; SVG without a browser and without a network.

Three for a workload: what changed and how surely, every trial over time, latencies.  No bars of
means: a mean without its spread and its order in time cannot be judged (Cleveland & McGill 1984
on position along a common scale; Weissgerber et al. 2015, "Beyond bar and line graphs").
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import vl_convert
from markupsafe import Markup

from iotrial.judgement.parts import VerdictRow
from iotrial.model.measurement import Metric
from iotrial.report import alternatives, palette
from iotrial.report.blocks import Figure
from iotrial.report.series import ALL_SHOWN, Series, Spread
from iotrial.report.strip import Scale, scale
from iotrial.report.view import Part
from iotrial.report.words import VERDICTS, baselines, change, share
from iotrial.units import axis_scale

_WARM = threading.Thread(
    target=vl_convert.vegalite_to_svg,
    args=({"data": {"values": [{}]}, "mark": "point"},),
)
_WARM.start()  # the drawing engine starts in half a second, while Altair is read
import altair as alt  # noqa: E402

NARROW, WIDE = (
    440,
    900,
)  # pixels: beside each other on a desk, the narrow ones as they are on a phone
_ROW = 46
_CROWD = 400  # points from which they are drawn small
_FEW_DECADES = 1e4
_SPEC = dict[str, Any]


def figures(part: Part, margin: float, ident: str) -> tuple[Figure, ...]:
    """The charts of one workload that there are numbers for.  ``ident`` begins the ids in them,
    and must differ between the workloads of a page."""
    _WARM.join()
    made = []
    if told := tuple(row for row in part.findings if math.isfinite(row.finding.ratio)):
        drawn = replace(part, findings=told)
        made.append(_interval_figure(drawn, margin, f"{ident}-change"))
    for operation in dict.fromkeys(spread.operation for spread in part.series.spreads):
        made.append(_latency_figure(part, operation, f"{ident}-latency-{len(made)}"))
    if part.series.points:
        made.append(_trials_figure(part, f"{ident}-trials"))
    return tuple(made)


def _interval_figure(part: Part, margin: float, ident: str) -> Figure:
    against = baselines([row.finding for row in part.findings])
    title = f"Change in {part.metric.title} against {against}"
    words = alternatives.of_intervals(part.findings, margin)
    caption = f"Point: estimate; line: interval. Band: changes under {share(margin)} do not matter."
    spec = interval_spec(part.findings, margin)
    return Figure("change", svg(spec, f"{part.workload}: {title}", words, ident), title, caption)


def _latency_figure(part: Part, operation: str, ident: str) -> Figure:
    spreads = [spread for spread in part.series.spreads if spread.operation == operation]
    title = f"{operation.capitalize()} latency"
    words = alternatives.of_latencies(spreads)
    most = max(spread.n for spread in spreads)
    reach = "from the lowest to the highest" if most <= ALL_SHOWN else "the middle 90 %"
    caption = f"Point: median. Line: {reach} of all. Logarithmic scale."
    spec = latency_spec(spreads, part.series.groups)
    return Figure("latency", svg(spec, f"{part.workload}: {title}", words, ident), title, caption)


def _trials_figure(part: Part, ident: str) -> Figure:
    series, drawn = part.series, len(part.series.points)
    title = f"Every {series.one}, in the order it was done"
    words = alternatives.of_trials(series, part.metric)
    said = ["A slope or a step that all levels share is drift, not an effect."]
    if series.blocks:
        said.append("Vertical lines: a new block begins.")
    if any(not point.valid for point in series.points):
        said.append("Hollow: INVALID, does not count.")
    if drawn < series.measured:
        title = f"{drawn:,} of {series.measured:,} {series.one}s, in the order they were done"
        said.append(
            f"{drawn:,} of {series.measured:,} {series.one}s are drawn: every level's highest and "
            "lowest, and the others evenly over time."
        )
    spec = trials_spec(series, part.metric)
    return Figure(
        "trials", svg(spec, f"{part.workload}: {title}", words, ident), title, " ".join(said)
    )


# -- what is drawn ---------------------------------------------------------------------------


def interval_spec(rows: Sequence[VerdictRow], margin: float) -> _SPEC:
    """One line per level: estimate and interval as change in %, the margin, and no change.  An
    interval that would squeeze all others is cut at the edge; its label has its ends."""
    several = len({row.finding.factor for row in rows}) > 1
    on = scale((row.finding for row in rows), margin, 1)
    table = [_interval_row(place, row, several, on) for place, row in enumerate(rows)]
    # The label is "place, name, change"; all but the place is shown, on two lines.
    axis = alt.Axis(title=None, labelExpr="slice(split(datum.label,'\\n'),1)", labelLineHeight=16)
    y = alt.Y("row:N", sort=None, axis=axis)
    color = alt.Color("verdict:N", legend=None).scale(
        domain=list(VERDICTS), range=[c.light for c in _VERDICT_COLOURS]
    )
    shape = alt.Shape("verdict:N", legend=None).scale(
        domain=list(VERDICTS), range=["triangle-up", "triangle-down", "square", "circle"]
    )
    base = alt.Chart(alt.NamedData("rows"))
    signs = "datum.value == 0 ? '0' : format(datum.value, '+~g')"
    x = alt.X("change:Q").axis(title="change in %", labelExpr=signs, tickCount=6)
    layers = alt.layer(
        alt.Chart(alt.NamedData("margin"))
        .mark_rect(color=palette.BAND.light, opacity=1)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")),
        alt.Chart(alt.NamedData("margin")).mark_rule(color=palette.MUTED.light)
        .encode(x=alt.X("none:Q")),
        base.mark_rule(strokeWidth=3)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y, color=color),
        base.mark_point(size=120, opacity=1, filled=True)
        .encode(x=x, y=y, color=color, shape=shape),
    )  # fmt: skip
    band = [{"low": -margin * 100, "none": 0, "high": margin * 100}]
    return document(layers, NARROW, _ROW * len(rows) + 60, {"rows": table, "margin": band})


_VERDICT_COLOURS = (palette.BETTER, palette.WORSE, palette.SAME, palette.UNSURE)


def _interval_row(place: int, row: VerdictRow, several: bool, on: Scale) -> Mapping[str, object]:  # noqa: FBT001
    finding = row.finding
    name = f"{finding.factor}={finding.level}" if several else finding.level
    ends = [
        finding.ratio if end is None else min(max(end, on.low), on.high)
        for end in (finding.low, finding.high)
    ]
    return {
        "row": f"{place}\n{name}\n{change(finding)}",
        "verdict": finding.verdict,
        "change": (finding.ratio - 1) * 100,
        "low": (ends[0] - 1) * 100,
        "high": (ends[1] - 1) * 100,
    }


def trials_spec(series: Series, metric: Metric) -> _SPEC:
    """A point per trial: response over time; those that do not count are hollow."""
    by, unit = axis_scale(max(point.value for point in series.points), metric.unit)
    span, clock = axis_scale(max(1.0, *(p.seconds for p in series.points)), "s")
    table: dict[bool, list[_SPEC]] = {True: [], False: []}
    for point in series.points:
        row = {"t": point.seconds / span, "v": point.value / by, "g": point.group}
        table[point.valid].append(row)
    x = alt.X("t:Q").axis(title=f"since the first {series.one} ({clock})", grid=False, tickCount=8)
    y = alt.Y("v:Q").axis(title=f"{metric.title} ({unit})").scale(zero=False)
    color, shape = by_group(series.groups, WIDE)
    size = 60 if len(series.points) < _CROWD else 22
    layers = alt.layer(
        alt.Chart(alt.NamedData("blocks"))
        .mark_rule(color=palette.LINE.light)
        .encode(x=alt.X("t:Q")),
        alt.Chart(alt.NamedData("valid"))
        .mark_point(filled=True, size=size, opacity=0.85)
        .encode(x=x, y=y, color=color, shape=shape),
        alt.Chart(alt.NamedData("invalid"))
        .mark_point(filled=False, size=size * 1.6, strokeWidth=1.5, opacity=1)
        .encode(x=x, y=y, color=color, shape=shape),
    )
    blocks = [{"t": start / span} for start in series.blocks]
    data = {"valid": table[True], "invalid": table[False], "blocks": blocks}
    return document(layers, WIDE, 260, data)


def latency_spec(spreads: Sequence[Spread], groups: Sequence[str]) -> _SPEC:
    """Percentiles side by side, groups dodged within each, on a logarithmic axis."""
    table = [
        {"p": s.percentile, "g": s.group, "v": s.middle, "low": s.low, "high": s.high}
        for s in spreads
    ]
    x = alt.X("p:O", sort=None).axis(title=None, labelAngle=0, ticks=False, labelPadding=6)
    offset = alt.XOffset("g:N", sort=list(groups))
    low, high = min(s.low for s in spreads) * 0.9, max(s.high for s in spreads) * 1.1
    axis = alt.Axis(title=None, labelExpr=SECONDS, values=log_ticks(low, high))
    y = alt.Y("v:Q", axis=axis).scale(type="log", domain=[low, high], nice=False)
    color, shape = by_group(groups, NARROW)
    base = alt.Chart(alt.NamedData("spreads"))
    layers = alt.layer(
        base.mark_rule(strokeWidth=2)
        .encode(x=x, xOffset=offset, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=color),
        base.mark_point(filled=True, size=60, opacity=1)
        .encode(x=x, xOffset=offset, y=y, color=color, shape=shape),
    )  # fmt: skip
    return document(layers, NARROW, 230, {"spreads": table})


SECONDS = (
    "datum.value >= 1 ? format(datum.value, '~r') + ' s' : "
    "datum.value >= 1e-3 ? format(datum.value * 1e3, '~r') + ' ms' : "
    "format(datum.value * 1e6, '~r') + ' µs'"
)
"""How an axis of seconds is labelled."""


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade from ``low`` to ``high``; only 1 where that makes too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if high / low < _FEW_DECADES else (1,)
    ticks = [float(f"{digit}e{decade}") for decade in decades for digit in digits]
    return [tick for tick in ticks if low <= tick <= high]


def by_group(groups: Sequence[str], width: int) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape of field ``g`` by group, with a legend on a chart ``width`` pixels wide."""
    looks = [palette.of_group(place) for place in range(len(groups))]
    legend = alt.Legend(title=None, orient="top", columns=_columns(groups, width), symbolOpacity=1)
    domain = list(groups)
    color = alt.Color("g:N", legend=legend).scale(
        domain=domain, range=[colour.light for colour, _ in looks]
    )
    shape = alt.Shape("g:N", legend=legend).scale(domain=domain, range=[s for _, s in looks])
    return color, shape


def _columns(names: Sequence[str], width: int) -> int:
    """As many as fit, by the average character's width; all on one line where they do."""
    widths = [min(220, 7 * len(name)) + 14 + _APART for name in names]
    return len(names) if sum(widths) <= width else max(1, width // max(widths))


_APART = (
    36  # pixels between the columns of a legend: a browser's font may be wider than it was drawn
)
_TEXT = {
    "labelColor": palette.MUTED.light, "titleColor": palette.MUTED.light,
    "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 220,
}  # fmt: skip
_CONFIG = {
    "aria": False,
    "font": "sans-serif",
    "background": "transparent",
    "view": {"stroke": "transparent"},
    "axis": {
        **_TEXT, "gridColor": palette.GRID.light, "domainColor": palette.LINE.light,
        "tickColor": palette.LINE.light,
    },
    "axisY": {"labelColor": palette.INK.light},
    "legend": {**_TEXT, "labelColor": palette.INK.light, "symbolSize": 80, "columnPadding": _APART},
}  # fmt: skip


def document(chart: alt.LayerChart | alt.FacetChart, width: int, height: int, data: _SPEC) -> _SPEC:
    """The Vega-Lite document.  Rows are put in afterwards: Altair need not look at each."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    shaped = chart.properties(width=width, height=height, autosize=fit, padding=4)
    spec: _SPEC = shaped.to_dict(validate=False)
    return {**spec, "config": _CONFIG, "datasets": data}


# -- how it is drawn -------------------------------------------------------------------------

_TAG = re.compile(r"<[a-z][^>]*>")
_ARIA = re.compile(r' (?:role|aria-[a-z]+|class|pointer-events|display|xmlns:xlink)="[^"]*"')
_LONG = re.compile(r"(\.\d\d)\d+")
_OPEN = re.compile(r"<svg[^>]*?(width=\"[^\"]*\" height=\"[^\"]*\" viewBox=\"[^\"]*\")[^>]*>")


def svg(spec: _SPEC, title: str, words: str, ident: str) -> Markup:
    """``spec`` drawn, with ``title`` and ``words`` as its text alternative.

    vl-convert escapes what it is given to write; title and words are escaped here.
    """
    drawn = vl_convert.vegalite_to_svg(json.dumps(spec), allowed_base_urls=[])
    body = _TAG.sub(lambda tag: _LONG.sub(r"\1", _ARIA.sub("", tag[0])), drawn)
    size = _OPEN.match(body)
    if size is None:
        raise ValueError(f"vl-convert drew no SVG for {title!r}: {drawn[:80]!r}")
    opened = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        'aria-labelledby="{i}-t {i}-d" {size}><title id="{i}-t">{t}</title>'
        '<desc id="{i}-d">{d}</desc>'
    ).format(i=ident, size=Markup(size[1]), t=title, d=words)  # noqa: S704 -- three numbers
    return opened + Markup(body[size.end() :])  # noqa: S704 -- made by vl-convert, escaped there
