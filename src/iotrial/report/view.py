"""View: everything a report says, as data.  Renderers add nothing and leave nothing unsaid.

Text in a view is fit to look at (:mod:`iotrial.report.visible`) and not escaped for any format.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

from iotrial.model.doubt import Doubt
from iotrial.model.finding import (
    Ceiling,
    Choice,
    Comparison,
    Finding,
    Interaction,
    Knee,
    RaceStory,
    Share,
    SimpleEffect,
)
from iotrial.model.latency import Latency
from iotrial.model.measurement import Metric, metric
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord, treatment_text
from iotrial.model.workload import Workload
from iotrial.plan.spread import waiting
from iotrial.report import evidence, hosts, scaling, staged, strains, words
from iotrial.report.keepsake import Keepsake, keepsake
from iotrial.report.links import original, raw, source
from iotrial.report.means import means_beside
from iotrial.report.panels import Panel, panels
from iotrial.report.series import Series, series
from iotrial.report.visible import visible, visible_lines
from iotrial.stats.host_effects import HostEffect, host_effects
from iotrial.stats.regress import RESULTS
from iotrial.stats.tradeoffs import Tradeoff, tradeoffs


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


@dataclass(frozen=True, slots=True)
class Number:
    """A value in a base unit (None: not measured) and the link to the raw file it came from."""

    value: float | None
    unit: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class TrialRow:
    """One trial of the table.  Links are relative to the folder that holds ``trials/`` and
    percent-encoded, as are ``folder`` and, below it, ``parts``: the folders of the loads that were
    one trial, none where it was one.  ``name`` is the folder's name to look at.  ``source`` is the
    link to the file an imported run came from, ``line`` where in it.  ``host`` is where its block
    ran, '' where blocks are not spread over hosts.  ``seconds`` since the study's first trial."""

    number: int
    workload: str
    treatment: str
    target: str
    block: int
    attempt: int
    seconds: float
    state: str
    response: Number
    p99: Number
    name: str
    folder: str
    doubts: tuple[str, ...]
    source: str = ""
    line: str = ""
    host: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """Trials by what became of them; ``missing`` are planned and not yet done."""

    planned: int
    valid: int
    invalid: int
    failed: int
    missing: int


@dataclass(frozen=True, slots=True)
class Part:
    """One workload: its primary findings and guardrails, and the numbers of its charts.
    ``others`` are findings on metrics that nobody asked about: imported results have many.
    ``interactions``, ``simple`` effects and ``shares`` are of the primary metric, where several
    factors are varied; ``tradeoffs`` what it costs in latency and CPU; ``race`` how its decision
    was reached, where it was a race; ``knees`` where more of an ordered factor gives no more;
    ``scaling`` the steps of factors that count, and what was seen at each."""

    workload: str
    metric: Metric
    tool: str
    options: str
    findings: tuple[VerdictRow, ...]
    guardrails: tuple[VerdictRow, ...]
    resolvable: float | None
    series: Series
    others: tuple[VerdictRow, ...] = ()
    interactions: tuple[Interaction, ...] = ()
    simple: tuple[SimpleEffect, ...] = ()
    shares: tuple[Share, ...] = ()
    tradeoffs: tuple[Tradeoff, ...] = ()
    race: RaceStory | None = None
    knees: tuple[Knee, ...] = ()
    scaling: tuple[scaling.Step, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """Everything a report says.  ``margin`` and ``confidence`` are fractions; ``started`` is
    seconds since the epoch (None: nothing was done), ``seconds`` from the first trial's start to
    the last one's end.  ``pretended``: the numbers are made up, which every shape says first."""

    study: str
    question: str
    answer: str
    method: str
    margin: float
    confidence: float
    blocks: int
    parts: tuple[Part, ...]
    counts: Counts
    trials: tuple[TrialRow, ...]
    doubts: tuple[Doubt, ...]
    failures: tuple[Doubt, ...]
    doubt_groups: tuple[evidence.DoubtGroup, ...]
    machines: tuple[evidence.Machine, ...]
    tools: tuple[str, ...]
    settings: evidence.Settings
    commands: tuple[evidence.Command, ...]
    more_commands: int
    study_text: str
    digest: str
    started: float | None
    seconds: float
    pretended: bool = False
    terms: words.Terms = words.TRIALS
    latencies: tuple[Latency, ...] = ()
    stages: tuple[staged.StageRow, ...] = ()
    choices: tuple[Choice, ...] = ()
    kept: Keepsake | None = None
    ceiling: Ceiling | None = None
    hosts: tuple[hosts.HostRow, ...] = ()
    block_hosts: tuple[HostEffect, ...] = ()
    borne: tuple[strains.Borne, ...] = ()
    panels: tuple[Panel, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the primary ones of every workload first."""
        rows = [row for part in self.parts for row in part.findings]
        rows += [row for part in self.parts for row in (*part.guardrails, *part.others)]
        return tuple(row.finding for row in rows)


def view(results: Results, comparison: Comparison) -> View:
    """Everything a report on ``results`` says, given what the statistics found."""
    study = results.study
    doubts, failures = evidence.doubts(results), evidence.failures(results)
    commands, more = evidence.commands(results)
    started = min((r.started for r in results.records if r.started > 0), default=None)
    ended = max((record.started + record.seconds for record in results.records), default=0.0)
    return View(
        study=visible(study.name),
        question=visible(comparison.question or study.question),
        answer=visible(comparison.recommendation) or "There is no answer yet.",
        method=visible(comparison.method),
        margin=study.decide.margin,
        confidence=study.decide.confidence,
        blocks=study.design.blocks,
        parts=_parts_of_stages(comparison) or _parts(results, comparison),
        counts=_counts(results),
        trials=_trials(results, _responses(results, comparison)),
        doubts=doubts,
        failures=failures,
        doubt_groups=evidence.grouped((*doubts, *failures)),
        machines=evidence.machines(results),
        tools=evidence.tools(results),
        settings=evidence.settings(results),
        commands=commands,
        more_commands=more,
        study_text=visible_lines(study.text),
        digest=visible(study.digest),
        started=started,
        seconds=ended - started if started is not None else 0.0,
        pretended=results.pretended,
        terms=words.RUNS if study.design.kind == "recorded" else words.TRIALS,
        latencies=results.latencies,
        stages=tuple(map(staged.row, comparison.stages)),
        choices=tuple(map(staged.shown, comparison.choices)),
        kept=keepsake(results, comparison),
        ceiling=comparison.ceiling,
        hosts=hosts.rows(results, _responses(results, comparison)),
        block_hosts=host_effects(results),
        borne=strains.where(results),
        panels=panels(comparison.grids),
    )


def _parts_of_stages(comparison: Comparison) -> tuple[Part, ...]:
    """The parts of each stage, which its workload's name then tells."""
    return tuple(
        replace(part, workload=f"stage {each.stage.number}: {part.workload}")
        for each in comparison.stages
        if each.comparison.findings
        for part in _parts(each.results, each.comparison)
    )


def _responses(results: Results, comparison: Comparison) -> dict[str, str]:
    """The metric that answers for each workload: the study's, else the findings'."""
    found = {f.workload: f.metric for f in reversed(comparison.findings) if f.primary}
    return found | dict(results.study.decide.primary)


def _metric(name: str) -> Metric:
    try:
        return metric(name)
    except KeyError:
        return Metric(name, "", None, visible(name))


def _counts(results: Results) -> Counts:
    states = [record.state for record in results.records]
    missing = len(waiting(results.planned, results.records))
    return Counts(
        len(results.records) + missing,
        states.count("valid"),
        states.count("invalid"),
        states.count("failed"),
        missing,
    )


def _parts(results: Results, comparison: Comparison) -> tuple[Part, ...]:
    """One part a workload; or, where several metrics answer for it, one for each of them."""
    responses = _responses(results, comparison)
    within = any(f.factor != RESULTS for f in comparison.findings)  # else between two folders
    costs = tradeoffs(results) if within and results.study.design.kind != "recorded" else ()
    parts: list[Part] = []
    for workload in _workloads(results, comparison):
        of_this = [f for f in comparison.findings if f.workload == workload.name]
        answers = list(dict.fromkeys(f.metric for f in of_this if f.primary))
        shown = answers if len(answers) > 1 else [responses.get(workload.name, "")]
        for name in shown:
            own = [f for f in of_this if f.primary and (f.metric == name or len(shown) == 1)]
            beside = [f for f in of_this if not f.primary] if name == shown[-1] else []
            part = _part(results, workload, name, (own, beside), comparison)
            parts.append(_of_factors(part, workload.name, comparison, costs))
    return tuple(parts)


def _of_factors(
    part: Part, workload: str, comparison: Comparison, costs: tuple[Tradeoff, ...]
) -> Part:
    """The same with what concerns several factors, or several metrics."""
    return replace(
        part,
        interactions=tuple(each for each in comparison.interactions if each.workload == workload),
        simple=tuple(each for each in comparison.simple if each.workload == workload),
        shares=tuple(each for each in comparison.shares if each.workload == workload),
        tradeoffs=tuple(each for each in costs if each.workload == workload),
        race=next((each for each in comparison.races if each.workload == workload), None),
        knees=tuple(each for each in comparison.knees if each.workload == workload),
    )


def _workloads(results: Results, comparison: Comparison) -> tuple[Workload, ...]:
    """The study's, after what the findings call by another name: all of them together."""
    known = {workload.name for workload in results.study.workloads}
    more = dict.fromkeys(f.workload for f in comparison.findings if f.workload not in known)
    return (*(Workload(name, "") for name in more), *results.study.workloads)


def _part(
    results: Results,
    workload: Workload,
    response: str,
    findings: tuple[list[Finding], list[Finding]],
    comparison: Comparison,
) -> Part:
    own, beside = findings
    asked = dict(results.study.decide.guardrails)
    return Part(
        workload=visible(workload.name),
        metric=_metric(response),
        tool=visible(workload.tool),
        options=visible(" ".join(f"{name}={value}" for name, value in workload.options)),
        findings=_rows(results, own),
        guardrails=_rows(results, [each for each in beside if each.metric in asked]),
        resolvable=dict(comparison.resolvable).get(workload.name),
        series=series(results, workload.name, response),
        others=_rows(results, [each for each in beside if each.metric not in asked]),
        scaling=scaling.steps(results, own),
    )


def _rows(results: Results, findings: list[Finding]) -> tuple[VerdictRow, ...]:
    tolerated = dict(results.study.decide.guardrails)
    rows = []
    for finding, known in zip(findings, means_beside(results, findings), strict=True):
        rows.append(
            VerdictRow(
                _shown(finding),
                _metric(finding.metric),
                known.get((finding.factor, finding.level)),
                known.get((finding.factor, finding.baseline)),
                0.0 if finding.primary else tolerated.get(finding.metric, 0.0),
            )
        )
    return tuple(rows)


def _shown(finding: Finding) -> Finding:
    return replace(
        finding,
        workload=visible(finding.workload),
        metric=visible(finding.metric),
        factor=visible(finding.factor),
        level=visible(finding.level),
        baseline=visible(finding.baseline),
    )


def _trials(results: Results, responses: Mapping[str, str]) -> tuple[TrialRow, ...]:
    start = min((record.started for record in results.records), default=0.0)
    metrics = {workload: _metric(name) for workload, name in responses.items()}
    nothing = Metric("", "", None, "")
    return tuple(
        _trial(record, metrics.get(record.trial.workload, nothing), record.started - start)
        for record in results.records
    )


def _latency(record: TrialRecord, response: str) -> str:
    """The 99th percentile of the response's operation, or of the slowest of them."""
    own = response.partition(".")[0] + ".clat.p99"
    every = [m for m in record.measurements if m.job == "all" and m.metric.endswith(".clat.p99")]
    return max(every, key=lambda m: (m.metric == own, m.value)).metric if every else own


def _trial(record: TrialRecord, response: Metric, seconds: float) -> TrialRow:
    trial = record.trial
    folder = quote(os.fsencode(trial.folder), safe="")
    latency = _latency(record, response.name)
    checks = [visible(doubt.check) for doubt in record.doubts]
    origin, line = source(record.source)
    return TrialRow(
        number=trial.number,
        workload=visible(trial.workload),
        treatment=visible(treatment_text(trial.treatment)),
        target=visible(trial.target),
        block=trial.block,
        attempt=trial.attempt,
        seconds=seconds,
        state=record.state,
        response=_number(record, response.name, response.unit, folder),
        p99=_number(record, latency, "s", folder),
        name=visible(trial.folder),
        folder=folder,
        doubts=tuple([*checks, visible(record.error)] if record.error else checks),
        source=original(origin),
        line=visible(line),
        host=visible(trial.host),
        parts=tuple(quote(os.fsencode(part)) for part in record.parts),
    )


def _number(record: TrialRecord, name: str, unit: str, folder: str) -> Number:
    for found in record.measurements:
        if found.metric == name and found.job == "all" and not found.censored:
            origin, _ = source(record.source)
            return Number(found.value, unit, original(origin) or raw(folder, found.raw))
    return Number(None, unit)
