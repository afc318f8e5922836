"""The ceiling that a search found, and the latency-against-load curve, as data and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iotrial.model.finding import Ceiling, LoadPoint
from iotrial.model.measurement import metric
from iotrial.model.trial import treatment_text
from iotrial.report.blocks import Block, Figure, Figures, Heading, plain
from iotrial.report.visible import visible
from iotrial.units import format_value

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
    unit = metric(found.metric).unit
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
