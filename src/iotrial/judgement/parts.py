"""Parts: the findings of each workload, with the means and the costs beside them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from iotrial.judgement.utilisation import ScalingLevel, steps
from iotrial.model.finding import (
    Comparison,
    Finding,
    Interaction,
    Knee,
    RaceResult,
    SimpleEffect,
    VarianceShare,
)
from iotrial.model.measurement import Metric, Metrics
from iotrial.model.results import Results
from iotrial.model.trial import Treatment
from iotrial.model.workload import Workload
from iotrial.stats.regress import RESULTS
from iotrial.stats.tradeoffs import MeanInterval, Tradeoff, extents, tradeoffs

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
    return _means(found)


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
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for record in results.valid:
        value = record.value(name) if record.trial.workload == workload else None
        if value is not None and value > 0:
            for cell in record.trial.treatment:
                found[cell].append(math.log(value))
    return _means(found)


def _means(logs: Mapping[tuple[str, str], Sequence[float]]) -> Means:
    return {cell: math.exp(fmean(values)) for cell, values in logs.items()}


# -- parts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A finding with what a reader needs beside it.

    ``value`` and ``base`` are geometric means of the valid trials at the level and at the
    baseline, in ``metric.unit`` (None: no trial); ``tolerated`` is a guardrail's largest relative
    change (0 for a primary finding).
    """

    finding: Finding
    metric: Metric
    value: float | None
    base: float | None
    tolerated: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFindings:
    """One workload, or one metric of several that answer for it: its primary findings and
    guardrails.  ``stage`` is the number of the stage that it is of, 0 where there are none.
    ``secondary`` are those of the second family, ``others`` findings on metrics that nobody asked
    about: imported results have many.
    ``interactions``, ``simple`` effects and ``shares`` are of the primary metric, where several
    factors are varied; ``means`` of the primary metric with the interval of each, by treatment
    (empty: of recorded runs, between folders); ``tradeoffs`` what it costs in latency and CPU;
    ``race`` how its decision was reached, where it was a race; ``knees`` where more of an ordered
    factor gives no more; ``scaling`` the steps of factors that count, and what was seen at each.
    """

    workload: str
    load: Workload
    metric: Metric
    findings: tuple[VerdictRow, ...]
    guardrails: tuple[VerdictRow, ...]
    resolvable: float | None
    stage: int = 0
    secondary: tuple[VerdictRow, ...] = ()
    others: tuple[VerdictRow, ...] = ()
    interactions: tuple[Interaction, ...] = ()
    simple: tuple[SimpleEffect, ...] = ()
    shares: tuple[VarianceShare, ...] = ()
    means: tuple[tuple[Treatment, MeanInterval], ...] = ()
    tradeoffs: tuple[Tradeoff, ...] = ()
    race: RaceResult | None = None
    knees: tuple[Knee, ...] = ()
    scaling: tuple[ScalingLevel, ...] = ()


def responses(results: Results, comparison: Comparison) -> dict[str, str]:
    """The metric that answers for each workload: the study's, else the findings'."""
    found = {f.workload: f.metric for f in reversed(comparison.findings) if f.primary}
    return found | results.study.decide.leading


def parts(
    results: Results, comparison: Comparison, answering: Mapping[str, str]
) -> tuple[WorkloadFindings, ...]:
    """Those of each stage, or of the study.  ``answering`` are its :func:`responses`."""
    staged = tuple(
        replace(part, stage=each.stage.number)
        for each in comparison.stages
        if each.comparison.findings
        for part in _parts(each.results, each.comparison, responses(each.results, each.comparison))
    )
    return staged or _parts(results, comparison, answering)


def _parts(
    results: Results, comparison: Comparison, answering: Mapping[str, str]
) -> tuple[WorkloadFindings, ...]:
    """One part a workload; or, where several metrics answer for it, one for each of them."""
    within = any(f.factor != RESULTS for f in comparison.findings)  # else between two folders
    planned = within and results.study.design.kind != "recorded"
    costs = tradeoffs(results) if planned else ()
    found: list[WorkloadFindings] = []
    for workload in _workloads(results, comparison):
        of_this = [f for f in comparison.findings if f.workload == workload.name]
        answers = list(dict.fromkeys(f.metric for f in of_this if f.primary))
        shown = answers if len(answers) > 1 else [answering.get(workload.name, "")]
        for name in shown:
            own = [f for f in of_this if f.primary and (f.metric == name or len(shown) == 1)]
            beside: list[Finding] = []
            if name == shown[-1]:
                beside += [f for f in of_this if not f.primary]
                beside += [f for f in comparison.secondary if f.workload == workload.name]
            part = _part(results, workload, name, (own, beside))
            if planned:
                means = extents(results, workload.name, name)
                part = replace(part, means=tuple(means.items()))
            found.append(_of_factors(part, comparison, costs))
    return tuple(found)


def _of_factors(
    part: WorkloadFindings, comparison: Comparison, costs: tuple[Tradeoff, ...]
) -> WorkloadFindings:
    """The same with what concerns several factors, or several metrics."""
    own = part.workload, part.metric.name
    told = dict(comparison.resolvable)
    return replace(
        part,
        resolvable=told.get(" ".join(own), told.get(part.workload)),
        interactions=tuple(e for e in comparison.interactions if (e.workload, e.metric) == own),
        simple=tuple(each for each in comparison.simple if (each.workload, each.metric) == own),
        shares=tuple(each for each in comparison.shares if (each.workload, each.metric) == own),
        tradeoffs=tuple(each for each in costs if (each.workload, each.gain) == own),
        race=next((each for each in comparison.races if each.workload == part.workload), None),
        knees=tuple(each for each in comparison.knees if (each.workload, each.metric) == own),
    )


def _workloads(results: Results, comparison: Comparison) -> tuple[Workload, ...]:
    """The study's, after what the findings call by another name: all of them together."""
    known = {workload.name for workload in results.study.judged}
    more = dict.fromkeys(f.workload for f in comparison.findings if f.workload not in known)
    return (*(Workload(name, "") for name in more), *results.study.judged)


def _part(
    results: Results,
    workload: Workload,
    response: str,
    findings: tuple[list[Finding], list[Finding]],
) -> WorkloadFindings:
    own, beside = findings
    asked = dict(results.study.decide.guardrails)
    rest = [each for each in beside if not each.secondary]
    return WorkloadFindings(
        workload=workload.name,
        load=workload,
        metric=metric_named(response, results.study.metrics),
        findings=_rows(results, own),
        guardrails=_rows(results, [each for each in rest if each.metric in asked]),
        resolvable=None,
        secondary=_rows(results, [each for each in beside if each.secondary]),
        others=_rows(results, [each for each in rest if each.metric not in asked]),
        scaling=steps(results, own),
    )


def _rows(results: Results, findings: list[Finding]) -> tuple[VerdictRow, ...]:
    tolerated = dict(results.study.decide.guardrails)
    return tuple(
        VerdictRow(
            finding,
            metric_named(finding.metric, results.study.metrics),
            side.latter if side else known.get((finding.factor, finding.level)),
            side.former if side else known.get((finding.factor, finding.baseline)),
            0.0 if finding.primary else tolerated.get(finding.metric, 0.0),
        )
        for finding, known in zip(findings, means_beside(results, findings), strict=True)
        for side in (finding.compared,)
    )


def metric_named(name: str, known: Metrics) -> Metric:
    """The metric of this name, also where nobody knows it."""
    try:
        return known.metric(name)
    except KeyError:
        return Metric(name, "", None, name)
