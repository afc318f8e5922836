"""What a report says of offered rates: the response time at each, of each treatment, and that it is
counted from the intended start of each I/O.  In words, as rows, as data, and drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iotrial.model.workload import RESPONSE, OfferedRates
from iotrial.report import drawing
from iotrial.report.blocks import Block, Figure, Heading, Text, plain
from iotrial.report.drawing import SECONDS, WIDE, by_group, channel, document, log_ticks, mark, svg
from iotrial.report.series import OfferedSpread
from iotrial.report.view import WorkloadView
from iotrial.units import axis_scale, format_seconds, format_value

TITLE = "Response time against offered rate"
_GIVEN = (
    "What an I/O waits because its client still waits for the one before is counted. A rate that"
    " was not reached has the wait that grew until its end."
)


def line(part: WorkloadView) -> Iterator[str]:
    """For a terminal."""
    if part.load.offered:
        yield part.load.offered.words


def blocks(part: WorkloadView) -> Iterator[Block]:
    """A row for each rate, a column for each treatment."""
    offered, spreads = part.load.offered, part.series.offered
    if offered is None:
        return
    yield Heading(TITLE, 3)
    yield Text(f"Bound: {offered.words}. {_GIVEN}", "note")
    groups = [name for name in part.series.groups if any(s.group == name for s in spreads)]
    by_rate = {(each.rate, each.group): each for each in spreads}
    rows = [
        (
            format_value(rate, "IOPS"),
            *(_cell(by_rate.get((rate, group))) for group in groups),
        )
        for rate in dict.fromkeys(each.rate for each in spreads)
    ]
    head = ("offered rate", *(f"p{offered.percentile:g}, {name}" for name in groups))
    if rows:
        yield plain(head, rows, f"{TITLE} of {part.workload}")


def _cell(each: OfferedSpread | None) -> str:
    if each is None:
        return "–"
    middle, low, high = map(format_seconds, (each.middle, each.low, each.high))
    return middle if each.n == 1 else f"{middle} ({low} … {high})"


def figures(part: WorkloadView, ident: str) -> tuple[Figure, ...]:
    """The curve of each treatment; none where no rate was measured."""
    offered, spreads = part.load.offered, part.series.offered
    if offered is None or not spreads:
        return ()
    caption = (
        f"p{offered.percentile:g} of the {RESPONSE}. Point: median over trials; line: minimum to"
        f" maximum. Dashed: bound of {format_seconds(offered.bound)}. Logarithmic scales."
    )
    spoken = " ".join(
        f"{each.group}, {format_value(each.rate, 'IOPS')}: {_cell(each)}." for each in spreads
    )
    spec = curve_spec(part, offered)
    return (
        Figure("offered", svg(spec, f"{part.workload}: {TITLE}", spoken, ident), TITLE, caption),
    )


def curve_spec(part: WorkloadView, offered: OfferedRates) -> drawing.Spec:
    """Offered rate to the right, response time upwards, a line for each treatment."""
    spreads = part.series.offered
    by, unit = axis_scale(max(each.rate for each in spreads), "IOPS")
    table = [
        {"g": s.group, "x": s.rate / by, "v": s.middle, "low": s.low, "high": s.high}
        for s in spreads
    ]
    seconds = [value for s in spreads for value in (s.low, s.high)] + [offered.bound]
    low, high = min(seconds) * 0.8, max(seconds) * 1.25
    rates = [each.rate / by for each in spreads]
    x = channel(
        "x:Q",
        axis={"title": f"offered rate ({unit})", "tickCount": 8},
        scale={"type": "log", "domain": [min(rates) * 0.9, max(rates) * 1.1], "nice": False},
    )
    y = channel(
        "v:Q",
        axis={
            "title": f"response time, p{offered.percentile:g}", "labelExpr": SECONDS,
            "values": log_ticks(low, high),
        },
        scale={"type": "log", "domain": [low, high], "nice": False},
    )  # fmt: skip
    groups = [name for name in part.series.groups if any(s.group == name for s in spreads)]
    color, shape = by_group(groups, WIDE)
    dashed = {"color": drawing.WORSE.light, "strokeDash": [4, 3]}
    thin, dot = {"strokeWidth": 1.5, "opacity": 0.7}, {"filled": True, "size": 60, "opacity": 1}
    ends = {"x": x, "y": channel("low:Q"), "y2": channel("high")}
    layers = [
        mark("rule", "bound", dashed, y=channel("v:Q")),
        mark("rule", "rows", thin, **ends, color=color),
        mark("line", "rows", {"strokeWidth": 1.5}, x=x, y=y, color=color),
        mark("point", "rows", dot, x=x, y=y, color=color, shape=shape),
    ]
    return document(layers, WIDE, 300, {"rows": table, "bound": [{"v": offered.bound}]})


def as_data(workload: str, offered: OfferedRates | None) -> list[dict[str, Any]]:
    """For the JSON document: what the rates of a workload are served within."""
    if offered is None:
        return []
    return [
        {
            "workload": workload,
            "rates": list(offered.rates),
            "percentile": offered.percentile,
            "bound": offered.bound,
            "response_time": "from the intended start",
        }
    ]
