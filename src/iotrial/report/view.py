"""View: everything a report says, as data.  Renderers add nothing and leave nothing unsaid.

Text in a view is fit to look at (:mod:`iotrial.report.words`) and not escaped for any format.
Links lead to the files its numbers came from; none leads out of the results folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from urllib.parse import quote

from iotrial.judgement import Judged
from iotrial.judgement import parts as judgement
from iotrial.judgement.judged import TrialCounts
from iotrial.judgement.parts import VerdictRow, metric_named
from iotrial.judgement.utilisation import HostUtilisation, TreatmentUsage, Utilisation
from iotrial.model.finding import Ceiling, Difference, Finding, LevelChoice, LevelSearch
from iotrial.model.measurement import Metric, beside, of_section, sectioned
from iotrial.model.results import ORIGINALS, BootRecord, LatencyDistribution, Results
from iotrial.model.trial import Doubt, TrialRecord, treatment_text
from iotrial.report import evidence, staged, words
from iotrial.report.blocks import Section
from iotrial.report.keepsake import KeepSummary, keepsake
from iotrial.report.panels import Panel, panels
from iotrial.report.sections import added
from iotrial.report.series import Series, TrialSeries, curves, series
from iotrial.report.words import visible, visible_lines
from iotrial.stats.host_effects import HostEffect


@dataclass(frozen=True, slots=True)
class LinkedNumber:
    """A value in a base unit (None: not measured) and the link to the raw file it came from."""

    value: float | None
    unit: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class TrialView:
    """One trial of the table.  Links are relative to the folder that holds ``trials/`` and
    percent-encoded, as are ``folder`` and, below it, ``parts``: the folders of the loads that were
    one trial, none where it was one.  ``name`` is the folder's name to look at.  ``source`` is the
    link to the file an imported run came from, ``line`` where in it.  ``host`` is where its block
    ran, '' where blocks are not spread over hosts.  ``seconds`` is when it began, since the
    study's first trial."""

    number: int
    workload: str
    treatment: str
    target: str
    block: int
    attempt: int
    seconds: float
    state: str
    response: LinkedNumber
    p99: LinkedNumber
    name: str
    folder: str
    doubts: tuple[str, ...]
    source: str = ""
    line: str = ""
    host: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView(judgement.WorkloadFindings):
    """A part of the judgement with what is drawn of it.  ``workload`` is what it is called."""

    tool: str
    options: str
    series: Series
    curves: tuple[TrialSeries, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportView:
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
    parts: tuple[WorkloadView, ...]
    counts: TrialCounts
    trials: tuple[TrialView, ...]
    doubts: tuple[Doubt, ...]
    failures: tuple[Doubt, ...]
    doubt_groups: tuple[evidence.DoubtGroup, ...]
    machines: tuple[evidence.HostFacts, ...]
    tools: tuple[str, ...]
    settings: evidence.ObservedSettings
    commands: tuple[evidence.RecordedCommand, ...]
    more_commands: int
    study_text: str
    digest: str
    started: float | None
    seconds: float
    pretended: bool = False
    terms: words.Wording = words.TRIALS
    latencies: tuple[LatencyDistribution, ...] = ()
    stages: tuple[staged.StageRow, ...] = ()
    choices: tuple[LevelChoice, ...] = ()
    kept: KeepSummary | None = None
    ceiling: Ceiling | None = None
    search: LevelSearch | None = None
    hosts: tuple[HostUtilisation, ...] = ()
    block_hosts: tuple[HostEffect, ...] = ()
    boots: tuple[BootRecord, ...] = ()
    borne: tuple[Utilisation, ...] = ()
    usages: tuple[TreatmentUsage, ...] = ()
    panels: tuple[Panel, ...] = ()
    differences: tuple[Difference, ...] | None = None
    added: tuple[Section, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the primary ones of every workload first."""
        rows = [row for part in self.parts for row in part.findings]
        rows += [
            row for part in self.parts for row in (*part.guardrails, *part.secondary, *part.others)
        ]
        return tuple(row.finding for row in rows)

    def usages_of(self, part: WorkloadView) -> tuple[TreatmentUsage, ...]:
        """How busy hosts and devices were under a workload, where this is its last part."""
        last = next(each for each in reversed(self.parts) if each.load.name == part.load.name)
        own = tuple(each for each in self.usages if each.workload == part.load.name)
        return own if part is last else ()

    def level(self, row: VerdictRow) -> str:
        """A level, with its factor where several are varied."""
        several = len({finding.factor for finding in self.findings}) > 1
        return f"{row.finding.factor}={row.finding.level}" if several else row.finding.level


def span(results: Results) -> tuple[float | None, float]:
    """When the first trial began (None: nothing was done), and the seconds to the end of all."""
    started = min((r.started for r in results.records if r.started > 0), default=None)
    ended = max((record.started + record.seconds for record in results.records), default=0.0)
    return started, ended - started if started is not None else 0.0


def view(judged: Judged) -> ReportView:
    """Everything a report says of what results came to."""
    results, comparison = judged.results, judged.comparison
    study = results.study
    doubts, failures = evidence.doubts(results), evidence.failures(results)
    commands, more = evidence.commands(results)
    started, seconds = span(results)
    return ReportView(
        study=visible(study.name),
        question=visible(comparison.question or study.question),
        answer=answer(judged),
        method=visible(comparison.method),
        margin=study.decide.margin,
        confidence=study.decide.confidence,
        blocks=study.design.blocks,
        parts=tuple(_parts(judged)),
        counts=judged.counts,
        trials=_trials(results, judged.responses),
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
        seconds=seconds,
        pretended=results.pretended,
        terms=words.RUNS if study.design.kind == "recorded" else words.TRIALS,
        latencies=results.latencies,
        stages=tuple(map(staged.row, comparison.stages)),
        choices=tuple(map(staged.shown, comparison.choices)),
        kept=keepsake(judged),
        ceiling=comparison.ceiling,
        search=comparison.search,
        hosts=judged.hosts,
        block_hosts=judged.block_hosts,
        boots=results.boots,
        borne=judged.utilisation,
        usages=judged.usages,
        panels=panels(comparison.grids),
        differences=comparison.differences,
        added=added(judged),
    )


def answer(judged: Judged) -> str:
    """The recommendation, fit to look at."""
    return visible(judged.comparison.recommendation) or "No answer yet."


def named(part: judgement.WorkloadFindings) -> judgement.WorkloadFindings:
    """A part whose names are fit to look at; that of a stage says which."""
    stage = f"stage {part.stage}: " if part.stage else ""
    return replace(
        part,
        workload=stage + visible(part.workload),
        metric=_shown_metric(part.metric),
        findings=tuple(map(_shown, part.findings)),
        guardrails=tuple(map(_shown, part.guardrails)),
        secondary=tuple(map(_shown, part.secondary)),
        others=tuple(map(_shown, part.others)),
    )


def _parts(judged: Judged) -> Iterator[WorkloadView]:
    """Every part; the last one of a workload with its trials over time."""
    last = {(part.stage, part.load.name): part for part in judged.parts}
    for part in judged.parts:
        drawn = _drawn(judged, part)
        if part is last[part.stage, part.load.name]:
            metric = judged.responses.get(part.load.name, part.metric.name)
            own = curves(_of_part(judged, part), part.load.name, metric)
            drawn = replace(drawn, curves=own)
        yield drawn


def _of_part(judged: Judged, part: judgement.WorkloadFindings) -> Results:
    """The results of a part's stage, or of the whole study."""
    if not part.stage:
        return judged.results
    stages = judged.comparison.stages
    return next(each.results for each in stages if each.stage.number == part.stage)


def _drawn(judged: Judged, part: judgement.WorkloadFindings) -> WorkloadView:
    results = _of_part(judged, part)
    told = named(part)
    return WorkloadView(
        **{field.name: getattr(told, field.name) for field in fields(told)},
        tool=visible(part.load.tool),
        options=visible(" ".join(f"{name}={value}" for name, value in part.load.options)),
        series=series(results, part.workload, part.metric.name),
    )


def _shown_metric(metric: Metric) -> Metric:
    return metric if metric.title != metric.name else replace(metric, title=visible(metric.name))


def _shown(row: VerdictRow) -> VerdictRow:
    finding = replace(
        row.finding,
        workload=visible(row.finding.workload),
        metric=visible(row.finding.metric),
        factor=visible(row.finding.factor),
        level=visible(row.finding.level),
        baseline=visible(row.finding.baseline),
    )
    return replace(row, finding=finding, metric=_shown_metric(row.metric))


def _trials(results: Results, responses: Mapping[str, str]) -> tuple[TrialView, ...]:
    start = min((record.started for record in results.records), default=0.0)
    metrics = {
        workload: metric_named(name, results.study.metrics) for workload, name in responses.items()
    }
    nothing = Metric("", "", None, "")
    return tuple(
        _trial(record, metrics.get(record.trial.workload, nothing), record.started - start)
        for record in results.records
    )


def _latency(record: TrialRecord, response: str) -> str:
    """The 99th percentile of the response's operation, or of the slowest of them."""
    own = beside(response, "clat.p99")
    section = sectioned(response)[1]
    end = of_section(".clat.p99", section)
    every = [m for m in record.measurements if m.job == "all" and m.metric.endswith(end)]
    return max(every, key=lambda m: (m.metric == own, m.value)).metric if every else own


def _trial(record: TrialRecord, response: Metric, seconds: float) -> TrialView:
    trial = record.trial
    folder = quote(os.fsencode(trial.folder), safe="")
    latency = _latency(record, response.name)
    checks = [visible(doubt.check) for doubt in record.doubts]
    origin, line = _parted(record.source)
    return TrialView(
        number=trial.number,
        workload=visible(trial.workload),
        treatment=visible(treatment_text(trial.treatment)),
        target=visible(trial.target),
        block=trial.block,
        attempt=trial.attempt,
        seconds=seconds,
        state=record.state,
        response=_number(record, response.name, response.display_unit, folder),
        p99=_number(record, latency, "s", folder),
        name=visible(trial.folder),
        folder=folder,
        doubts=tuple([*checks, visible(record.error)] if record.error else checks),
        source=_original(origin),
        line=visible(line),
        host=visible(trial.host),
        parts=tuple(quote(os.fsencode(part)) for part in record.parts),
    )


def _number(record: TrialRecord, name: str, unit: str, folder: str) -> LinkedNumber:
    for found in record.measurements:
        if found.metric == name and found.job == "all" and not found.censored:
            origin, _ = _parted(record.source)
            return LinkedNumber(found.value, unit, _original(origin) or _raw(folder, found.raw))
    return LinkedNumber(None, unit)


def _parted(text: str) -> tuple[str, str]:
    """``originals/a.csv:12`` → the file and the line."""
    file, colon, line = text.rpartition(":")
    return (file, line) if colon and line.isdecimal() else (text, "")


def _original(file: str) -> str:
    """A link to an original; empty where it would lead out of the folder."""
    parts = file.split("/")
    if parts[0] != ORIGINALS or {"", ".", ".."} & set(parts):
        return ""
    return "/".join(quote(os.fsencode(part), safe="") for part in parts)


def _raw(folder: str, file: str) -> str:
    """``trials/0007-3fa9c1/fio.json``; empty where ``file`` would lead out of the folder."""
    parts = file.split("/")
    if not file or {"", ".", ".."} & set(parts):
        return ""
    return "/".join(["trials", folder, *(quote(os.fsencode(part), safe="") for part in parts)])
