"""The ceiling that a search found, and latency against load: as data, as rows, and drawn.

The chart has every load that was tried, the curve of the best trades, the knee.  Load to the right,
latency upwards, as queueing theory draws it; latency on a logarithmic scale, for it grows by powers
of ten once a device is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iotrial.model.finding import Ceiling, LoadPoint
from iotrial.model.measurement import metric
from iotrial.model.trial import treatment_text
from iotrial.report import drawing
from iotrial.report.blocks import Block, Figure, Figures, Heading, plain
from iotrial.report.drawing import (
    SECONDS,
    WIDE,
    Spec,
    channel,
    coloured,
    document,
    log_ticks,
    mark,
    svg,
)
from iotrial.report.words import visible
from iotrial.units import axis_scale, format_seconds, format_value

HEAD = ("load", "rate", "mean latency", "p99", "trials", "")
"""Of :func:`rows`."""


def as_data(found: Ceiling | None) -> dict[str, Any]:
    """For JSON; nothing for a study that is no such search."""
    if found is None:
        return {}
    limit = None
    if found.limit:
        low, high = found.late or (None, None)
        name, most = found.limit
        limit = {"metric": name, "most": most, "low": low, "high": high, "kept": found.kept}
    return {
        "ceiling": {
            "metric": found.metric,
            "best": _point(found.best),
            "low": found.low,
            "high": found.high,
            "others_better_by_at_most": found.loss,
            "limit": limit,
            "knee": _point(found.knee),
            "curve": [_point(each) for each in found.points],
            "searched": found.searched,
            "of": found.of,
            "racing": found.racing,
        }
    }


def _point(point: LoadPoint | None) -> dict[str, Any] | None:
    if point is None:
        return None
    return {
        "treatment": dict(point.treatment),
        "value": point.rate,
        "latency": {"mean": point.mean, "p99": point.p99},
        "trials": point.trials,
        "front": point.front,
        "value_interval": point.rates,
        "mean_interval": point.means,
    }


def curve(found: Ceiling) -> tuple[LoadPoint, ...]:
    """The loads that no other beats in both rate and latency, by latency; the best among them."""
    best = found.best.treatment if found.best else None
    return tuple(each for each in found.points if each.front or each.treatment == best)


def rows(found: Ceiling) -> Iterator[tuple[str, ...]]:
    """The curve, a row a load, with what to say of it."""
    unit = metric(found.metric).display_unit
    for each in curve(found):
        marks = [
            word
            for word, point in (("best", found.best), ("knee", found.knee))
            if point and point.treatment == each.treatment
        ]
        yield (
            visible(treatment_text(each.treatment)),
            format_value(each.rate, unit),
            format_value(each.mean, "s") if each.mean is not None else "–",
            format_value(each.p99, "s") if each.p99 is not None else "–",
            str(each.trials),
            ", ".join(marks),
        )


def blocks(found: Ceiling | None, drawn: Figure | None) -> Iterator[Block]:
    """The latency-against-load curve of a search for the highest value."""
    if found is None or not found.points:
        return
    yield Heading("Latency against load", id="ceiling")
    if drawn:
        yield Figures((drawn,))
    yield plain(HEAD, rows(found), "Latency against load")


# -- the chart ------------------------------------------------------------------------------------

LOOKS = {
    "mean": (drawing.SERIES[0], "circle"),
    "p99": (drawing.SERIES[1], "triangle-up"),
    "beaten": (drawing.MUTED, "circle"),
    "knee": (drawing.SERIES[2], "diamond"),
    "best": (drawing.BETTER, "square"),
}


def curve_figure(found: Ceiling, ident: str) -> Figure | None:
    """The curve; None where no load has both a rate and a latency.  ``ident`` begins the ids."""
    drawn = [point for point in found.points if point.mean]
    if not drawn:
        return None
    unit = metric(found.metric).display_unit
    title = "Latency against load"
    said = ["Line: Pareto-optimal loads (rate and mean latency); hollow: all others."]
    if any(point.rates for point in drawn):
        said.append("Bars: intervals, where a load has several trials.")
    if found.knee:
        said.append(f"Knee: {_named(found.knee, unit)}.")
    if found.best:
        said.append(f"Best: {_named(found.best, unit)}.")
    if found.limit:
        name, most = found.limit
        said.append(f"Dashed: {name} \u2264 {format_seconds(most)}.")
    spoken = " ".join(f"{_named(point, unit)}." for point in curve(found) if point.mean)
    caption = " ".join(said)
    return Figure("trials", svg(curve_spec(found), title, spoken, ident), title, caption)


def _named(point: LoadPoint, unit: str) -> str:
    latency = f", mean {format_seconds(point.mean)}" if point.mean else ""
    return f"{visible(treatment_text(point.treatment))}, {format_value(point.rate, unit)}{latency}"


def curve_spec(found: Ceiling) -> Spec:
    """The chart of a ceiling whose points have latencies."""
    drawn = [point for point in found.points if point.mean]
    by, unit = axis_scale(max(point.rate for point in drawn), metric(found.metric).display_unit)
    rows = list(_rows(found, by))
    shown = [kind for kind in LOOKS if any(row["k"] == kind for row in rows)]
    legend = {"title": None, "orient": "top", "symbolOpacity": 1}
    color, shape = coloured("k", shown, [LOOKS[kind] for kind in shown], legend)
    bound = [found.limit[1]] if found.limit else []
    seconds = [float(str(row[key])) for row in rows for key in ("v", "low", "high")] + bound
    low, high = min(seconds) * 0.8, max(seconds) * 1.25
    title = f"{metric(found.metric).title} ({unit})"
    x = channel("r:Q", axis={"title": title, "tickCount": 8}, scale={"zero": True})
    axis = {"title": "latency", "labelExpr": SECONDS, "values": log_ticks(low, high)}
    y = channel("v:Q", axis=axis, scale={"type": "log", "domain": [low, high], "nice": False})
    at, looks = {"x": x, "y": y}, {"color": color, "shape": shape}
    across = {"x": channel("left:Q"), "x2": channel("right"), "y": y}
    upwards = {"x": x, "y": channel("low:Q"), "y2": channel("high")}
    dashed = {"color": drawing.LINE.light, "strokeDash": [4, 3]}
    line = {"color": drawing.LINE.light, "strokeWidth": 1.5}
    hollow = {"size": 40, "filled": False, "opacity": 0.7}
    dot = {"size": 50, "filled": True, "opacity": 1}
    big = {**dot, "size": 150}
    curves = {"order": channel("n:Q"), "detail": channel("line:N")}
    tried, marked = (
        "datum.k == 'mean' || datum.k == 'p99'",
        "datum.k == 'knee' || datum.k == 'best'",
    )
    layers = [
        mark("rule", "bound", {**dashed, "color": drawing.WORSE.light}, y=channel("v:Q")),
        mark("rule", "rows", dashed, "datum.k == 'knee'", x=x),
        mark("point", "rows", hollow, "datum.k == 'beaten'", **at, **looks),
        mark("line", "rows", line, "datum.line", **at, **curves),
        mark("rule", "rows", {"strokeWidth": 2}, **across, color=color),
        mark("rule", "rows", {"strokeWidth": 2}, **upwards, color=color),
        mark("point", "rows", dot, tried, **at, **looks),
        mark("point", "rows", big, marked, **at, **looks),
    ]
    beside = [{"v": each} for each in bound]
    return document(layers, WIDE, 340, {"rows": rows, "bound": beside})


def _rows(found: Ceiling, by: float) -> Iterator[drawing.Row]:
    """A row a mark: the mean of each load, and the p99 of those on the curve."""
    front = {point.treatment for point in curve(found)}
    for place, point in enumerate(found.points):
        if not point.mean:
            continue
        on = point.treatment in front
        kind = "mean" if on else "beaten"
        kind = "knee" if found.knee and point.treatment == found.knee.treatment else kind
        kind = "best" if found.best and point.treatment == found.best.treatment else kind
        rates = point.rates or (point.rate, point.rate)
        means = point.means or (point.mean, point.mean)
        row = {"n": place, "k": kind, "r": point.rate / by, "v": point.mean}
        row |= {"left": rates[0] / by, "right": rates[1] / by}
        yield row | {"low": means[0], "high": means[1], "line": "mean" if point.front else ""}
        if on and point.p99:
            at, late = point.rate / by, point.p99
            row = {"n": place, "k": "p99", "r": at, "v": late, "left": at, "right": at}
            yield row | {"low": late, "high": late, "line": "p99" if point.front else ""}
