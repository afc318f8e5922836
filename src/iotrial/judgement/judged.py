"""Judged: findings, and all that is concluded beside them.  :func:`judge` makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from iotrial.judgement import noise
from iotrial.judgement.diagnostics import diagnosed
from iotrial.judgement.parts import WorkloadFindings, parts, responses
from iotrial.judgement.stages import judge_stages
from iotrial.judgement.utilisation import (
    HostUtilisation,
    TreatmentUsage,
    Utilisation,
    usages,
    where,
)
from iotrial.judgement.utilisation import rows as host_rows
from iotrial.model.finding import Comparison
from iotrial.model.results import Results
from iotrial.model.trial import Doubt
from iotrial.plan.design import waiting
from iotrial.stats.host_effects import HostEffect, host_effects
from iotrial.stats.judge import judge as judge_design
from iotrial.stats.paired import judge_recorded, opposites


@dataclass(frozen=True, slots=True)
class TrialCounts:
    """Trials by what became of them; ``missing`` are planned and not yet done."""

    planned: int
    valid: int
    invalid: int
    failed: int
    missing: int


@dataclass(frozen=True, slots=True)
class Judged:
    """What results came to.

    ``results`` are those that were judged, with every doubt about the whole study in its
    ``doubts``.  ``parts`` holds each workload's findings with the numbers and trade-offs beside
    them, and the steps of factors that count; ``responses`` the metric that answers for each
    workload.  ``hosts`` is what each of several hosts contributed, ``block_hosts`` what they differ
    by where blocks are spread over them, ``utilisation`` what CPUs, links, adapters, devices and
    paths bore, ``usages`` how busy hosts and devices were under each treatment.  ``noise`` is what
    an A/A study found, empty for any other.
    """

    results: Results
    comparison: Comparison
    parts: tuple[WorkloadFindings, ...]
    responses: Mapping[str, str]
    counts: TrialCounts
    hosts: tuple[HostUtilisation, ...]
    block_hosts: tuple[HostEffect, ...]
    utilisation: tuple[Utilisation, ...]
    noise: tuple[noise.WorkloadNoise, ...] = ()
    usages: tuple[TreatmentUsage, ...] = ()

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Those about the whole study; each trial has its own."""
        return self.results.doubts


def judge(results: Results) -> Judged:
    """What these results come to.  Reads nothing but ``results`` and changes nothing.

    Raises FormatError where a trial's log of rates is not one.
    """
    if results.study.stages:
        comparison, doubts = judge_stages(results, _judged)
        return completed(replace(results, doubts=(*results.doubts, *doubts)), comparison)
    judged = completed(*_judged(results))
    if results.study.aa is None:
        return judged
    answer = noise.answer(judged.noise)
    return replace(judged, comparison=replace(judged.comparison, recommendation=answer))


def _judged(results: Results) -> tuple[Results, Comparison]:
    """The findings of one design, and its results with the doubts that all of it shows."""
    doubts = results.doubts
    if results.study.design.kind == "recorded":
        hidden = tuple(opposites(results))
        comparison = judge_recorded(results, hidden)
        doubts = (*(each.doubt for each in hidden), *doubts)
    else:
        comparison = judge_design(results)
    return replace(results, doubts=(*doubts, *diagnosed(results, comparison))), comparison


def trial_counts(results: Results) -> TrialCounts:
    states = [record.state for record in results.records]
    missing = len(waiting(results.planned, results.records))
    return TrialCounts(
        len(results.records) + missing,
        states.count("valid"),
        states.count("invalid"),
        states.count("failed"),
        missing,
    )


def completed(results: Results, comparison: Comparison) -> Judged:
    """Findings that were made otherwise (of two folders), with all that stands beside them."""
    answering = responses(results, comparison)
    return Judged(
        results=results,
        comparison=comparison,
        parts=parts(results, comparison, answering),
        responses=answering,
        counts=trial_counts(results),
        hosts=host_rows(results, answering),
        block_hosts=host_effects(results),
        utilisation=where(results),
        noise=noise.noise(results),
        usages=() if results.study.design.kind == "recorded" else usages(results),
    )
