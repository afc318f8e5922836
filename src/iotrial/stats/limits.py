"""Limits: is a treatment's latency below what the study allows?

The mean of the logs of a metric, over the trials of each treatment, against the log of the limit.
The noise is one variance, pooled over the treatments of the race; the interval is one treatment's
own at the study's confidence, and holds at all looks together (:mod:`iotrial.stats.boundary`).
A treatment whose whole interval lies above the limit is out; one whose whole interval lies below
keeps it; of the others nobody can tell yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from iotrial.model.trial import TrialRecord
from iotrial.stats.boundary import LAST, tails_at
from iotrial.stats.looks import LEAST_DF


class Limits:
    """What was seen of the limited metrics.  ``limits`` are (metric, limit in its base unit)."""

    def __init__(
        self, limits: Sequence[tuple[str, float]], confidence: float, treatments: int
    ) -> None:
        self._limits = tuple(limits)
        self._error = 1 - confidence
        self._seen: dict[str, list[list[float]]] = {
            name: [[] for _ in range(treatments)] for name, _ in limits
        }

    def add(self, treatment: int, record: TrialRecord) -> None:
        for name, seen in self._seen.items():
            value = record.value(name)
            if value is not None and math.isfinite(value) and value > 0:
                seen[treatment].append(math.log(value))

    def interval(self, treatment: int, name: str) -> tuple[float, float] | None:
        """Ends of the metric's geometric mean; None while the noise is unknown."""
        own = self._seen[name][treatment]
        means = [math.fsum(each) / len(each) if each else 0.0 for each in self._seen[name]]
        squares = math.fsum(
            (value - mean) ** 2
            for each, mean in zip(self._seen[name], means, strict=True)
            for value in each
        )
        df = sum(len(each) - 1 for each in self._seen[name] if each)
        if not own or df < LEAST_DF:
            return None
        tail = float(tails_at(self._error / 2, np.array([min(len(own), LAST)]))[0])
        half = -float(stdtrit(df, tail)) * math.sqrt(squares / df / len(own))
        mean = means[treatment]
        return math.exp(max(mean - half, -700.0)), math.exp(min(mean + half, 700.0))

    def broken(self, treatment: int) -> tuple[str, ...]:
        """The names of the limits that the treatment exceeds."""
        return tuple(
            name
            for name, limit in self._limits
            if (ends := self.interval(treatment, name)) is not None and ends[0] > limit
        )

    def waiting(self) -> set[int]:
        """The treatments of which a limit is neither kept nor exceeded."""
        size = max((len(each) for each in self._seen.values()), default=0)
        return {each for each in range(size) if not self.kept(each) and not self.broken(each)}

    def kept(self, treatment: int) -> bool:
        """Whether every limit is kept."""
        return all(
            (ends := self.interval(treatment, name)) is not None and ends[1] <= limit
            for name, limit in self._limits
        )
