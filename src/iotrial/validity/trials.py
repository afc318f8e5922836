"""Valid trials of a study by workload and treatment: what checks of whole studies look at."""

from __future__ import annotations

from collections import defaultdict
from math import exp, log

from iotrial.model.results import Results
from iotrial.model.trial import Treatment, TrialRecord

RATES = ("read.bw", "write.bw", "mixed.bw", "read.iops", "write.iops")


def primary(results: Results, workload: str) -> str:
    """The metric that the study decides a workload by; '' where it says none."""
    return dict(results.study.decide.primary).get(workload, "")


def grouped(results: Results, workload: str) -> dict[Treatment, list[TrialRecord]]:
    """Treatment → its valid trials in the order of execution."""
    found: dict[Treatment, list[TrialRecord]] = defaultdict(list)
    for record in results.valid:
        if record.trial.workload == workload:
            found[record.trial.treatment].append(record)
    return found


def mean(records: list[TrialRecord], metric: str) -> float:
    """Geometric mean of a metric over trials; 0 where one of them has none."""
    values = [record.value(metric) for record in records]
    if not values or not all(value and value > 0 for value in values):
        return 0.0
    return exp(sum(log(value) for value in values if value) / len(values))
