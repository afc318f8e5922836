"""Means: of the valid trials at each level of each factor, beside what was found of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.model.trial import Treatment

Means = dict[tuple[str, str], float]
"""(Factor, label) → geometric mean in the metric's base unit."""
Logs = Mapping[str, tuple[Treatment, float]]
"""Folder → treatment and logarithm of one metric, of the runs that have it."""


def means_beside(results: Results, findings: Sequence[Finding]) -> list[Means]:
    """Of each finding of one workload, what stands beside it."""
    names = {finding.metric for finding in findings}
    if results.study.design.kind == "recorded":
        logs = {name: logs_of(results, findings[0].workload, name) for name in names}
        return [of_cells(logs[finding.metric], finding) for finding in findings]
    if results.study.exclude:
        return [of_counterparts(results, finding) for finding in findings]
    means = {name: means_of(results, findings[0].workload, name) for name in names}
    return [means[finding.metric] for finding in findings]


def logs_of(results: Results, workload: str, name: str) -> Logs:
    """Of the valid runs of a workload with a positive value."""
    return {
        record.trial.folder: (record.trial.treatment, math.log(value))
        for record in results.valid
        if record.trial.workload == workload
        and (value := record.value(name)) is not None
        and value > 0
    }


def of_cells(logs: Logs, finding: Finding) -> Means:
    """Geometric means at the level and at the baseline of a finding's own runs alone: what has no
    counterpart says nothing of the change."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    sides = {(finding.factor, finding.level), (finding.factor, finding.baseline)}
    for folder in finding.trials:
        treatment, log = logs.get(folder, ((), 0.0))
        for cell in sides.intersection(treatment):
            found[cell].append(log)
    return {cell: math.exp(math.fsum(values) / len(values)) for cell, values in found.items()}


def of_counterparts(results: Results, finding: Finding) -> Means:
    """Of the treatments that differ in nothing but this factor.  Where a design leaves some out,
    the others would show by how much those are faster, and not the level."""
    factor = finding.factor
    told = tuple(r for r in results.valid if r.trial.workload == finding.workload)
    level, base = (
        {_rest(r.trial.treatment, factor) for r in told if (factor, each) in r.trial.treatment}
        for each in (finding.level, finding.baseline)
    )
    both = level & base
    mine = tuple(r for r in told if _rest(r.trial.treatment, factor) in both)
    return means_of(replace(results, records=mine or told), finding.workload, finding.metric)


def _rest(treatment: Treatment, factor: str) -> Treatment:
    return tuple(cell for cell in treatment if cell[0] != factor)


def means_of(results: Results, workload: str, name: str) -> Means:
    """Geometric mean over the valid trials of a workload, for every (factor, label)."""
    logs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in results.records:
        if record.trial.workload == workload and record.state == "valid":
            value = record.value(name)
            if value is not None and value > 0:
                for cell in record.trial.treatment:
                    logs[cell].append(math.log(value))
    return {cell: math.exp(math.fsum(values) / len(values)) for cell, values in logs.items()}
