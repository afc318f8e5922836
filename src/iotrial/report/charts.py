"""The charts of a page, where the extra ``charts`` is there; where not, text for them.

Those of sections are beside what these say in words (:mod:`iotrial.report.races`, …).  Here are the
four that every workload has: what changed and how surely, the means themselves with their
intervals, every trial over time, latencies, each also in words and numbers, for those who do not
see it.  No bars of means: a mean without its spread and its order in time cannot be judged
(Cleveland & McGill 1984 on position along a common scale; Weissgerber et al. 2015, "Beyond bar and
line graphs").
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from iotrial.called import called
from iotrial.extras import advice, missing
from iotrial.judgement.parts import VerdictRow
from iotrial.model.measurement import Metric
from iotrial.model.results import DevicePoint
from iotrial.model.study import ordered
from iotrial.model.trial import treatment_text
from iotrial.report import effects, offered, panels
from iotrial.report.blocks import Figure
from iotrial.report.ceiling import curve_figure
from iotrial.report.drawing import (
    BETTER,
    LINE,
    NARROW,
    SAME,
    SECONDS,
    SERIES,
    SIGNS,
    TWO_LINES,
    UNSURE,
    WIDE,
    WORSE,
    Row,
    Spec,
    by_group,
    channel,
    coloured,
    document,
    log_ticks,
    margin_layers,
    margin_rows,
    mark,
    svg,
)
from iotrial.report.effects import effect_figures
from iotrial.report.knees import knee_figures
from iotrial.report.panels import panel_figure
from iotrial.report.races import race_figures
from iotrial.report.search import figure as search_figure
from iotrial.report.series import (
    ALL_SHOWN,
    MOST_CURVES,
    PercentileSpread,
    Series,
    SeriesPoint,
    TrialSeries,
)
from iotrial.report.view import ReportView, WorkloadView
from iotrial.report.words import (
    VERDICTS,
    IntervalScale,
    baselines,
    change,
    count,
    ruler,
    scale,
    share,
    strip,
    visible,
)
from iotrial.stats.tradeoffs import MeanInterval
from iotrial.units import axis_scale, format_seconds, format_value, parse_bytes

_CELLS = 48
_NAMED = 12
_VERDICT_LOOKS = (
    (BETTER, "triangle-up"), (WORSE, "triangle-down"), (SAME, "square"), (UNSURE, "circle"),
)  # fmt: skip
_NOT_FROM_0: Spec = {"zero": False}
_ROW = 46
MOST_MEANS = 24
"""Treatments up to which their means are drawn."""
Curve = Literal["ios", "latency"]
_CURVES: dict[Curve, str] = {"ios": "I/O rate of the device", "latency": "Latency of the device"}
_FEWEST_LEVELS = 3
_CROWD = 400  # points from which they are drawn small


@dataclass(frozen=True, slots=True)
class ReportCharts:
    """``parts`` are the figures of each part, ``curve`` is that of a ceiling, ``search`` that of a
    search for the best levels, ``curves`` those of the grids that are shown.  Without charts
    ``forests`` has the intervals of each part as lines of text, and ``note`` says how to get
    charts."""

    parts: tuple[tuple[Figure, ...], ...]
    curve: Figure | None = None
    search: Figure | None = None
    curves: tuple[Figure, ...] = ()
    forests: tuple[tuple[str, ...], ...] = ()
    note: str = ""


def pictures(view: ReportView) -> ReportCharts:
    """What the page shows beside its tables."""
    lacking = missing("charts")
    if lacking:
        return ReportCharts(
            parts=tuple(() for _ in view.parts),
            forests=tuple(_forest(part, view) for part in view.parts),
            note=f"Intervals are drawn as text: charts need {' and '.join(lacking)}"
            f" ({advice('charts')}). Then: {called()} report FOLDER",
        )
    drawn = tuple(
        (
            *race_figures(part, view.margin, f"r{place}"),
            *knee_figures(part, view.margin, f"k{place}"),
            *offered.figures(part, f"o{place}"),
            *figures(part, view.margin, f"c{place}"),
            *effect_figures(part, view.margin, f"e{place}"),
        )
        for place, part in enumerate(view.parts)
    )
    curves = tuple(
        panel_figure(panel, f"g{place}") for place, panel in enumerate(panels.shown(view.panels))
    )
    curve = curve_figure(view.ceiling, "curve") if view.ceiling else None
    expected = search_figure(view.search, "search") if view.search else None
    return ReportCharts(drawn, curve, expected, curves)


def _forest(part: WorkloadView, view: ReportView) -> tuple[str, ...]:
    """A line for each level, all parts on one scale; the first line is the scale."""
    if not part.findings:
        return ()
    on = scale((each for each in view.findings if each.primary), view.margin, _CELLS)
    several = len({row.finding.factor for row in part.findings}) > 1
    names = [
        f"{row.finding.factor}={row.finding.level}" if several else row.finding.level
        for row in part.findings
    ]
    width = max(map(len, names))
    drawn = [strip(row.finding, on) for row in part.findings]
    lines = [(f"{name:<{width}}", line) for name, line in zip(names, drawn, strict=True)]
    return tuple(f"{name}  {line}".rstrip() for name, line in [(" " * width, ruler(on)), *lines])


# -- of each workload -----------------------------------------------------------------------------


def figures(part: WorkloadView, margin: float, ident: str) -> tuple[Figure, ...]:
    """The charts of one workload that there are numbers for.  ``ident`` begins the ids in them,
    and must differ between the workloads of a page."""
    made = []
    if told := tuple(row for row in part.findings if math.isfinite(row.finding.ratio)):
        drawn = replace(part, findings=told)
        made.append(_interval_figure(drawn, margin, f"{ident}-change"))
    if 1 < len(part.means) <= MOST_MEANS:
        made.append(_means_figure(part, f"{ident}-means"))
    if leveled := _leveled(part):
        made.append(_levels_figure(part, *leveled, f"{ident}-levels"))
    for operation in dict.fromkeys(spread.operation for spread in part.series.spreads):
        made.append(_latency_figure(part, operation, f"{ident}-latency-{len(made)}"))
    if part.series.points:
        made.append(_trials_figure(part, f"{ident}-trials"))
    if part.curves:
        made += [
            _curve_figure(part, "ios", f"{ident}-rate"),
            _curve_figure(part, "latency", f"{ident}-wait"),
        ]
    return tuple(made)


def _interval_figure(part: WorkloadView, margin: float, ident: str) -> Figure:
    against = baselines([row.finding for row in part.findings])
    title = f"Change in {part.metric.title} against {against}"
    words = of_intervals(part.findings, margin)
    caption = f"Point: estimate; line: interval. Band: equivalence margin ±{share(margin)}."
    spec = interval_spec(part.findings, margin)
    return Figure("change", svg(spec, f"{part.workload}: {title}", words, ident), title, caption)


def _means_figure(part: WorkloadView, ident: str) -> Figure:
    """The numbers themselves, beside what they changed by."""
    factors = _varied(part)
    title = f"{part.metric.title} of each {factors[0] if len(factors) == 1 else 'treatment'}"
    words = of_means(part)
    caption = "Point: geometric mean; line: its interval, each by itself."
    told = any(extent.low is not None for _, extent in part.means)
    spec = means_spec(part)
    return Figure(
        "means",
        svg(spec, f"{part.workload}: {title}", words, ident),
        title,
        caption if told else "Point: geometric mean.",
    )


Lines = Mapping[str, Sequence[tuple[str, MeanInterval]]]
"""What a line is called → its (level, mean), ascending."""


def _leveled(part: WorkloadView) -> tuple[str, Lines] | None:
    """The factor whose levels are most numbers, and by the other factors' levels the means along
    it.  None where no factor has three numbers, where there is one line (the knee has it), or more
    than can be told apart."""
    labels: dict[str, dict[str, None]] = defaultdict(dict)
    for treatment, _ in part.means:
        for factor, label in treatment:
            labels[factor][label] = None
    numbers = {factor: len(ordered(list(own))) for factor, own in labels.items()}
    factor = max(numbers, key=lambda name: numbers[name], default="")
    if not factor or numbers[factor] < _FEWEST_LEVELS:
        return None
    kept = [name for name in _varied(part) if name != factor]
    order = ordered(list(labels[factor]))
    lines: dict[str, list[tuple[str, MeanInterval]]] = defaultdict(list)
    for treatment, extent in part.means:
        label = dict(treatment)[factor]
        if label in order:
            rest = tuple(pair for pair in treatment if pair[0] in kept)
            name = rest[0][1] if len(rest) == 1 else treatment_text(rest)
            lines[visible(name)].append((label, extent))
    for line in lines.values():
        line.sort(key=lambda pair: order.index(pair[0]))
    return (factor, lines) if 1 < len(lines) <= MOST_CURVES else None


def _levels_figure(part: WorkloadView, factor: str, lines: Lines, ident: str) -> Figure:
    """The numbers themselves along the levels of a factor that are numbers."""
    title = f"{part.metric.title} against {visible(factor)}"
    unit = part.metric.display_unit
    words = " ".join(
        f"{name}, {visible(label)}: {effects.extent(extent, unit)}."
        for name, line in lines.items()
        for label, extent in line
    )
    told = any(extent.low is not None for line in lines.values() for _, extent in line)
    caption = "Point: geometric mean; line: its interval, each by itself."
    spec = levels_spec(part, factor, lines)
    picture = svg(spec, f"{part.workload}: {title}", words, ident)
    return Figure("levels", picture, title, caption if told else "Point: geometric mean.")


def levels_spec(part: WorkloadView, factor: str, lines: Lines) -> Spec:
    """A line for each combination of the other factors."""
    every = [extent for line in lines.values() for _, extent in line]
    by, unit = axis_scale(max(extent.middle for extent in every), part.metric.display_unit)
    table = [
        {
            "g": name,
            "x": float(parse_bytes(label)),
            "v": extent.middle / by,
            "low": (extent.middle if extent.low is None else extent.low) / by,
            "high": (extent.middle if extent.high is None else extent.high) / by,
        }
        for name, line in lines.items()
        for label, extent in line
    ]
    at = {float(parse_bytes(label)): label for line in lines.values() for label, _ in line}
    x = channel("x:Q", axis=panels.level_axis(factor, at), scale=panels.level_scale(list(at)))
    axis = {"title": f"{part.metric.title} ({unit})", "tickCount": 5}
    y, low = channel("v:Q", axis=axis, scale=_NOT_FROM_0), channel("low:Q", scale=_NOT_FROM_0)
    color, shape = by_group(list(lines), NARROW)
    thin, dot = {"strokeWidth": 1.5, "opacity": 0.7}, {"filled": True, "size": 60, "opacity": 1}
    layers = [
        mark("rule", "rows", thin, x=x, y=low, y2=channel("high"), color=color),
        mark("line", "rows", {"strokeWidth": 1.5}, x=x, y=y, color=color),
        mark("point", "rows", dot, x=x, y=y, color=color, shape=shape),
    ]
    return document(layers, NARROW, 230, {"rows": table})


def _latency_figure(part: WorkloadView, operation: str, ident: str) -> Figure:
    spreads = [spread for spread in part.series.spreads if spread.operation == operation]
    title = f"{operation.capitalize()} latency"
    words = of_latencies(spreads)
    most = max(spread.n for spread in spreads)
    reach = "minimum to maximum" if most <= ALL_SHOWN else "the 5th to 95th percentile"
    caption = f"Point: median. Line: {reach} of all. Logarithmic scale."
    spec = latency_spec(spreads, part.series.groups)
    return Figure("latency", svg(spec, f"{part.workload}: {title}", words, ident), title, caption)


def _trials_figure(part: WorkloadView, ident: str) -> Figure:
    series, drawn = part.series, len(part.series.points)
    title = f"Every {series.one}, in order of execution"
    words = of_trials(series, part.metric)
    said = ["A slope or step common to all levels is drift, not an effect."]
    if series.blocks:
        said.append("Vertical lines: a new block begins.")
    if any(not point.valid for point in series.points):
        said.append("Hollow: INVALID, excluded.")
    if drawn < series.measured:
        title = f"{drawn:,} of {series.measured:,} {series.one}s, in order of execution"
        said.append(
            f"{drawn:,} of {series.measured:,} {series.one}s drawn: minimum and maximum of each"
            " level, the others evenly spaced in time."
        )
    spec = trials_spec(series, part.metric)
    return Figure(
        "trials", svg(spec, f"{part.workload}: {title}", words, ident), title, " ".join(said)
    )


def _curve_figure(part: WorkloadView, what: Curve, ident: str) -> Figure:
    """What the device did during the middle trial of each treatment."""
    title = f"{_CURVES[what]} over time"
    trials = ", ".join(f"{each.group}: trial {each.trial}" for each in part.curves)
    caption = f"One trial of each, that with the middle response ({trials}); ramp time included."
    spec = curve_spec(part.curves, what)
    words = of_curves(part.curves, what)
    return Figure("course", svg(spec, f"{part.workload}: {title}", words, ident), title, caption)


def curve_spec(curves: Sequence[TrialSeries], what: Curve) -> Spec:
    """A line per trial: what its device did, over the seconds since its load began."""
    told = [(each.group, s.t, v) for each in curves for s, v in _values(each, what)]
    base = "s" if what == "latency" else "IOPS"
    by, unit = axis_scale(max((value for _, _, value in told), default=0.0), base)
    table = [{"g": group, "t": t, "v": value / by} for group, t, value in told]
    x = channel("t:Q", axis={"title": "since the load began (s)", "grid": False, "tickCount": 6})
    y = channel("v:Q", axis={"title": f"{_CURVES[what]} ({unit})", "tickCount": 5})
    color, shape = by_group([each.group for each in curves], NARROW)
    dot = {"filled": True, "size": 22, "opacity": 0.9}
    layers = [
        mark("line", "rows", {"strokeWidth": 1.5}, x=x, y=y, color=color),
        mark("point", "rows", dot, x=x, y=y, color=color, shape=shape),
    ]
    return document(layers, NARROW, 200, {"rows": table})


def _values(curve: TrialSeries, what: Curve) -> Iterator[tuple[DevicePoint, float]]:
    for sample in curve.samples:
        if (value := getattr(sample, what)) is not None:
            yield sample, value


def interval_spec(rows: Sequence[VerdictRow], margin: float) -> Spec:
    """One line per level: estimate and interval as change in %, the margin, and no change.  An
    interval that would squeeze all others is cut at the edge; its label has its ends."""
    several = len({row.finding.factor for row in rows}) > 1
    on = scale((row.finding for row in rows), margin, 1)
    table = [_interval_row(place, row, several, on) for place, row in enumerate(rows)]
    y = channel("row:N", sort=None, axis=TWO_LINES)
    color, shape = coloured("verdict", list(VERDICTS), _VERDICT_LOOKS, None)
    x = channel("change:Q", axis={"title": "change in %", "labelExpr": SIGNS, "tickCount": 6})
    ends = {"x": channel("low:Q"), "x2": channel("high")}
    dot = {"size": 120, "opacity": 1, "filled": True}
    layers = [
        *margin_layers(),
        mark("rule", "rows", {"strokeWidth": 3}, **ends, y=y, color=color),
        mark("point", "rows", dot, x=x, y=y, color=color, shape=shape),
    ]
    data = {"rows": table, "margin": margin_rows(margin)}
    return document(layers, NARROW, _ROW * len(rows) + 60, data)


def _interval_row(place: int, row: VerdictRow, several: bool, on: IntervalScale) -> Row:  # noqa: FBT001
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


def means_spec(part: WorkloadView) -> Spec:
    """One line per treatment: its mean and interval in the metric's unit."""
    by, unit = axis_scale(max(extent.middle for _, extent in part.means), part.metric.display_unit)
    table = [
        {
            "row": f"{place}\n{name}\n{said}",
            "v": extent.middle / by,
            "low": (extent.middle if extent.low is None else extent.low) / by,
            "high": (extent.middle if extent.high is None else extent.high) / by,
        }
        for place, (name, said, extent) in enumerate(_means(part))
    ]
    y = channel("row:N", sort=None, axis=TWO_LINES)
    axis = {"title": f"{part.metric.title} ({unit})", "tickCount": 6}
    x, low = channel("v:Q", axis=axis, scale=_NOT_FROM_0), channel("low:Q", scale=_NOT_FROM_0)
    ink = SERIES[0].light
    dot = {"size": 90, "opacity": 1, "filled": True, "color": ink}
    layers = [
        mark("rule", "rows", {"strokeWidth": 3, "color": ink}, x=low, x2=channel("high"), y=y),
        mark("point", "rows", dot, x=x, y=y),
    ]
    return document(layers, NARROW, _ROW * len(table) + 60, {"rows": table})


def _means(part: WorkloadView) -> Iterator[tuple[str, str, MeanInterval]]:
    """Each treatment's name, its mean in words, and the same as numbers."""
    factors = _varied(part)
    for treatment, extent in part.means:
        kept = tuple(pair for pair in treatment if pair[0] in factors)
        name = kept[0][1] if len(factors) == 1 else treatment_text(kept)
        yield visible(name), effects.extent(extent, part.metric.display_unit), extent


def _varied(part: WorkloadView) -> tuple[str, ...]:
    """The factors that tell its treatments apart."""
    levels: dict[str, set[str]] = defaultdict(set)
    for treatment, _ in part.means:
        for factor, level in treatment:
            levels[factor].add(level)
    return tuple(factor for factor, those in levels.items() if len(those) > 1)


def trials_spec(series: Series, metric: Metric) -> Spec:
    """A point per trial: response over time; those that do not count are hollow."""
    by, unit = axis_scale(max(point.value for point in series.points), metric.display_unit)
    span, clock = axis_scale(max(1.0, *(p.seconds for p in series.points)), "s")
    table: dict[bool, list[Spec]] = {True: [], False: []}
    for point in series.points:
        row = {"t": point.seconds / span, "v": point.value / by, "g": point.group}
        table[point.valid].append(row)
    clock_title = f"since the first {series.one} ({clock})"
    x = channel("t:Q", axis={"title": clock_title, "grid": False, "tickCount": 8})
    y = channel("v:Q", axis={"title": f"{metric.title} ({unit})"}, scale=_NOT_FROM_0)
    color, shape = by_group(series.groups, WIDE)
    size = 60 if len(series.points) < _CROWD else 22
    filled = {"filled": True, "size": size, "opacity": 0.85}
    hollow = {"filled": False, "size": size * 1.6, "strokeWidth": 1.5, "opacity": 1}
    layers = [
        mark("rule", "blocks", {"color": LINE.light}, x=channel("t:Q")),
        mark("point", "valid", filled, x=x, y=y, color=color, shape=shape),
        mark("point", "invalid", hollow, x=x, y=y, color=color, shape=shape),
    ]
    blocks = [{"t": start / span} for start in series.blocks]
    data = {"valid": table[True], "invalid": table[False], "blocks": blocks}
    return document(layers, WIDE, 260, data)


def latency_spec(spreads: Sequence[PercentileSpread], groups: Sequence[str]) -> Spec:
    """Percentiles side by side, groups dodged within each, on a logarithmic axis."""
    table = [
        {"p": s.percentile, "g": s.group, "v": s.middle, "low": s.low, "high": s.high}
        for s in spreads
    ]
    across = {"title": None, "labelAngle": 0, "ticks": False, "labelPadding": 6}
    place = {
        "x": channel("p:O", sort=None, axis=across),
        "xOffset": channel("g:N", sort=list(groups)),
    }
    low, high = min(s.low for s in spreads) * 0.9, max(s.high for s in spreads) * 1.1
    axis = {"title": None, "labelExpr": SECONDS, "values": log_ticks(low, high)}
    y = channel("v:Q", axis=axis, scale={"type": "log", "domain": [low, high], "nice": False})
    color, shape = by_group(groups, NARROW)
    ends = {"y": channel("low:Q"), "y2": channel("high")}
    dot = {"filled": True, "size": 60, "opacity": 1}
    layers = [
        mark("rule", "spreads", {"strokeWidth": 2}, **place, **ends, color=color),
        mark("point", "spreads", dot, **place, y=y, color=color, shape=shape),
    ]
    return document(layers, NARROW, 230, {"spreads": table})


# -- the same in words ----------------------------------------------------------------------------


def of_intervals(rows: Sequence[VerdictRow], margin: float) -> str:
    """Every level against its baseline: change, interval, verdict."""
    lines = [
        f"{row.finding.level} against {row.finding.baseline}: {change(row.finding)}, "
        f"{VERDICTS[row.finding.verdict]}."
        for row in rows[:_NAMED]
    ]
    if len(rows) > _NAMED:
        lines.append(f"{len(rows) - _NAMED} more in the verdict table.")
    return " ".join([*lines, f"Equivalence margin ±{share(margin)}."])


def of_means(part: WorkloadView) -> str:
    """Every treatment's mean with its interval."""
    told = [f"{name}: {said}." for name, said, _ in _means(part)]
    more = [f"{len(told) - _NAMED} more are drawn."] if len(told) > _NAMED else []
    return " ".join([*told[:_NAMED], *more])


def of_trials(series: Series, metric: Metric) -> str:
    """How many trials over which time, and each group's middle and ends."""
    groups: dict[str, list[SeriesPoint]] = defaultdict(list)
    for point in series.points:
        if point.valid:
            groups[point.group].append(point)
    hollow = sum(not point.valid for point in series.points)
    last = max((point.seconds for point in series.points), default=0.0)
    lines = [f"{count(series.measured, series.one)} over {format_seconds(last)}."]
    lines += [_group(name, groups[name], metric) for name in series.groups if groups[name]]
    if hollow:
        lines.append(f"{count(hollow, series.one)} INVALID, drawn hollow.")
    return " ".join(lines)


def _group(name: str, points: Sequence[SeriesPoint], metric: Metric) -> str:
    values = sorted(point.value for point in points)
    middle, low, high = (
        format_value(value, metric.display_unit)
        for value in (median(values), values[0], values[-1])
    )
    return f"{name}: median {middle}, from {low} to {high}."


def of_curves(curves: Sequence[TrialSeries], what: Curve) -> str:
    """From where to where each trial went."""
    say = format_seconds if what == "latency" else lambda value: format_value(value, "IOPS")
    lines = []
    for each in curves:
        values = sorted(value for _, value in _values(each, what))
        if values:
            ends = f"from {say(values[0])} to {say(values[-1])}"
            lines.append(f"{each.group}, trial {each.trial}: median {say(median(values))}, {ends}.")
    return " ".join(lines)


def of_latencies(spreads: Sequence[PercentileSpread]) -> str:
    """Each group's percentiles: the middle over its trials, and the spread."""
    groups: dict[str, list[str]] = defaultdict(list)
    for spread in spreads:
        middle, low, high = map(format_seconds, (spread.middle, spread.low, spread.high))
        groups[spread.group].append(f"{spread.percentile} {middle} ({low} to {high})")
    return " ".join(f"{group}: {', '.join(said)}." for group, said in groups.items())
