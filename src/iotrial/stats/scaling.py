"""Scaling: how much of n times as much equipment arrives.

The efficiency of a level of a *count* (arrays, hosts …) is the ratio of its rate to the baseline's,
divided by the ratio of the counts: 1 is linear, 0.9 loses a tenth.

Source: N. J. Gunther (2007), *Guerrilla Capacity Planning*, chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass

from iotrial.model.finding import Finding
from iotrial.model.measurement import METRICS, Metrics
from iotrial.model.study import Study

COUNTS = (
    "arrays", "hosts", "nodes", "clients", "servers", "devices", "disks", "drives", "volumes",
    "luns", "paths", "controllers", "targets",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scaling:
    """Efficiency and the ends of its interval (None: no interval)."""

    efficiency: float
    low: float | None
    high: float | None


def counting(study: Study) -> frozenset[str]:
    """The factors of a study that count something: those that say so, or are named for it."""
    return frozenset(
        factor.name
        for factor in study.factors
        if factor.kind == "count" or factor.name.lower() in COUNTS
    )


def scaling(
    finding: Finding, metrics: Metrics = METRICS, counts: Container[str] = ()
) -> Scaling | None:
    """The efficiency of a finding on a rate and a count; None for any other.  ``metrics`` are those
    of the study, ``counts`` factors that count, whatever their names."""
    counted = finding.factor in counts or finding.factor.lower() in COUNTS
    if not counted or not metrics.higher(finding.metric):
        return None
    try:
        more = float(finding.level) / float(finding.baseline)
    except (ValueError, ZeroDivisionError):
        return None
    if not math.isfinite(finding.ratio) or finding.bound or not more > 0:
        return None
    ends = (None if end is None else end / more for end in (finding.low, finding.high))
    return Scaling(finding.ratio / more, *ends)
