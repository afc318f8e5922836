"""The curve below a ceiling: latency against load, which loads are on it, and its knee.

A load that raced is drawn from its deciding trials alone: by the trial for which it was chosen it
looks better than it is.  Every other load has that one.

The front are the loads that no other beats in both rate and mean latency.  The knee is the one of
them that lies farthest above the straight line from the front's first to its last, both axes as
shares of their range: before it more load brings more rate than latency, after it more latency.

The interval of a load is that of its geometric mean.  The noise is one variance, pooled over all
loads with several trials; the interval is one load's own, and holds at all looks together
(:mod:`iotrial.stats.boundary`).

References:
    V. Satopää, J. Albrecht, D. Irwin and B. Raghavan (2011), Finding a "Kneedle" in a haystack:
    detecting knee points in system behavior, ICDCS Workshops, 166-171.
    J. D. C. Little (1961), A proof for the queuing formula L = λW, Operations Research 9, 383-387.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from iotrial.model.finding import LoadPoint
from iotrial.model.trial import Treatment, TrialRecord
from iotrial.stats.boundary import LAST, tails_at
from iotrial.stats.looks import LEAST_DF

FEWEST = 2


def load_points(
    records: Iterable[TrialRecord], name: str, final: str, confidence: float
) -> tuple[LoadPoint, ...]:
    """Every load of ``records`` (valid ones) once, by mean latency; the front is marked.

    ``name`` is the metric of the rate, ``final`` the workload of the deciding trials.
    """
    operation = name.partition(".")[0]
    known: dict[Treatment, list[TrialRecord]] = {}
    for record in records:
        if record.value(name):
            known.setdefault(record.trial.treatment, []).append(record)
    for treatment, each in known.items():
        known[treatment] = [r for r in each if r.trial.workload == final] or each
    rates = _Noise([_logs(each, name) for each in known.values()], confidence)
    means = _Noise([_logs(each, f"{operation}.clat.mean") for each in known.values()], confidence)
    points = [
        LoadPoint(
            treatment,
            _mean(each, name) or 0.0,
            _mean(each, f"{operation}.clat.mean"),
            _mean(each, f"{operation}.clat.p99"),
            len(each),
            rates=rates.interval(_logs(each, name)),
            means=means.interval(_logs(each, f"{operation}.clat.mean")),
        )
        for treatment, each in known.items()
    ]
    points.sort(key=lambda point: (point.mean or math.inf, -point.rate))
    marked, most = [], 0.0
    for point in points:
        marked.append(replace(point, front=point.mean is not None and point.rate > most))
        most = max(most, point.rate)
    return tuple(marked)


def knee(points: Sequence[LoadPoint], best: LoadPoint | None) -> LoadPoint | None:
    """The knee of the front, up to the ``best`` load."""
    front = [p for p in points if p.front and p.mean and (best is None or p.rate <= best.rate)]
    if not front:
        return None
    (low, late), (least, most) = (
        (min(found), max(found) or 1.0)
        for found in ([p.mean or 0.0 for p in front], [p.rate for p in front])
    )

    def above(point: LoadPoint) -> float:
        rate = (point.rate - least) / ((most - least) or 1.0)
        return rate - ((point.mean or 0.0) - low) / ((late - low) or 1.0)

    return max(front, key=above)


def _logs(records: Sequence[TrialRecord], name: str) -> list[float]:
    return [math.log(v) for record in records if (v := record.value(name)) and v > 0]


def _mean(records: Sequence[TrialRecord], name: str) -> float | None:
    """Geometric mean over trials."""
    logs = _logs(records, name)
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


class _Noise:
    """The noise of one trial on the log scale, from loads that have several."""

    def __init__(self, loads: Sequence[Sequence[float]], confidence: float) -> None:
        several = [np.array(each) for each in loads if len(each) >= FEWEST]
        self._df = sum(len(each) - 1 for each in several)
        squares = sum(float(((each - each.mean()) ** 2).sum()) for each in several)
        self._sd = math.sqrt(squares / self._df) if self._df else math.nan
        self._error = 1 - confidence

    def interval(self, logs: Sequence[float]) -> tuple[float, float] | None:
        """Of the geometric mean; None for one trial, and where the noise is unknown."""
        if len(logs) < FEWEST or self._df < LEAST_DF:
            return None
        tail = float(tails_at(self._error / 2, np.array([min(len(logs), LAST)]))[0])
        half = -float(stdtrit(self._df, tail)) * self._sd / math.sqrt(len(logs))
        middle = math.fsum(logs) / len(logs)
        return math.exp(max(middle - half, -700.0)), math.exp(min(middle + half, 700.0))
