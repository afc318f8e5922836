"""Latency: percentiles of one latency over all runs of a treatment, from their histograms."""

from __future__ import annotations

from dataclasses import dataclass

from iotrial.model.trial import Treatment


@dataclass(frozen=True, slots=True)
class Percentile:
    """``value`` in seconds that the share ``p`` (in percent) of the I/Os did not exceed;
    ``beyond``: it lies in the last bin, and is a lower bound."""

    p: float
    value: float
    beyond: bool = False


@dataclass(frozen=True, slots=True)
class Latency:
    """``name`` is the latency's (``read.clat``); ``runs`` is how many were added up, bin by bin,
    and ``ios`` how many I/Os they had."""

    workload: str
    treatment: Treatment
    name: str
    runs: int
    ios: int
    percentiles: tuple[Percentile, ...]
