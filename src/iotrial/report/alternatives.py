"""What a chart shows, in words and numbers, for those who do not see it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from iotrial.judgement.parts import VerdictRow
from iotrial.model.measurement import Metric
from iotrial.report.series import Point, Series, Spread
from iotrial.report.words import VERDICTS, change, count, share
from iotrial.units import format_seconds, format_value

_NAMED = 12


def of_intervals(rows: Sequence[VerdictRow], margin: float) -> str:
    """Every level against its baseline: change, interval, verdict."""
    lines = [
        f"{row.finding.level} against {row.finding.baseline}: {change(row.finding)}, "
        f"{VERDICTS[row.finding.verdict]}."
        for row in rows[:_NAMED]
    ]
    if len(rows) > _NAMED:
        lines.append(f"The verdict table has {len(rows) - _NAMED} more.")
    return " ".join([*lines, f"Differences within {share(margin)} count as the same."])


def of_trials(series: Series, metric: Metric) -> str:
    """How many trials over which time, and each group's middle and ends."""
    groups: dict[str, list[Point]] = defaultdict(list)
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


def _group(name: str, points: Sequence[Point], metric: Metric) -> str:
    values = sorted(point.value for point in points)
    middle, low, high = (
        format_value(value, metric.unit) for value in (median(values), values[0], values[-1])
    )
    return f"{name}: median {middle}, from {low} to {high}."


def of_latencies(spreads: Sequence[Spread]) -> str:
    """Each group's percentiles: the middle over its trials, and the spread."""
    groups: dict[str, list[str]] = defaultdict(list)
    for spread in spreads:
        middle, low, high = map(format_seconds, (spread.middle, spread.low, spread.high))
        groups[spread.group].append(f"{spread.percentile} {middle} ({low} to {high})")
    return " ".join(f"{group}: {', '.join(said)}." for group, said in groups.items())
