"""What a stage comes to: its factors' levels, judged and kept.

Pairs of levels, with intervals that hold together for the stage (:mod:`iotrial.stats.pairwise`),
each workload and factor with its share by the number of its comparisons; then the rule that the
stage names (:mod:`iotrial.stats.winners`, :mod:`iotrial.plan.screen`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iotrial.model.finding import Finding
from iotrial.model.stage import Kept, Then
from iotrial.model.study import Factor
from iotrial.plan.convert import ordered
from iotrial.plan.design import applies
from iotrial.plan.screen import kept as screened
from iotrial.stats.judge import judge
from iotrial.stats.pairwise import Judged, Pairs, judged, pairwise
from iotrial.stats.winners import Case, decide

if TYPE_CHECKING:
    from iotrial.plan.stages import Course


def settle(course: Course) -> tuple[Kept, ...]:
    """What each varied factor came to, in the study's order; nothing for a stage that confirms."""
    stage, study = course.stage, course.study
    if stage.then == "confirm":
        return ()
    varied = [factor for factor in study.factors if factor.name in stage.vary]
    alone = tuple(_alone(factor) for factor in varied if len(factor.levels) == 1)
    several = [factor for factor in varied if len(factor.levels) > 1]
    if not several:
        return alone
    if not course.results.records:
        return (*alone, *(_unknown(factor) for factor in several))
    if stage.then == "screen" and len(several) > 1:
        return (*alone, *_screened(course, several))
    return (*alone, *_decided(course, several))


def _alone(factor: Factor) -> Kept:
    label = factor.levels[0].label
    return Kept(factor.name, (label,), (label,), label, "no other level is left")


def _unknown(factor: Factor) -> Kept:
    labels = tuple(level.label for level in factor.levels)
    return Kept(factor.name, labels, labels, factor.baseline, "every combination is excluded")


def _screened(course: Course, several: list[Factor]) -> list[Kept]:
    """All levels of the factors that may matter; the others at their baseline."""
    matter = screened(course.study, judge(course.results).findings)
    found = []
    for factor in several:
        labels = tuple(level.label for level in factor.levels)
        left, why = course.so_far.left[factor.name], "may matter"
        if factor.name not in matter:
            left = (factor.baseline,)
            why = f"does not matter: {' and '.join(labels)} are the same within the margin"
        found.append(Kept(factor.name, labels, left, factor.baseline, why))
    return found


def _decided(course: Course, several: list[Factor]) -> list[Kept]:
    study, results = course.study, course.results
    loads = [w.name for w in study.workloads if w.name in dict(study.decide.primary)]
    pairs: dict[tuple[str, str], Pairs] = {
        (name, factor.name): pairwise(results, name, factor.name)
        for name in loads
        for factor in several
        if applies(factor, name)
    }
    family = max(1, sum(each.count for each in pairs.values()))
    broken = _broken(course)
    found = []
    for factor in several:
        share = study.decide.confidence
        own: list[tuple[str, Judged]] = []
        for (load, name), each in pairs.items():
            if name == factor.name and each.labels:
                part = share ** (each.count / family)
                own.append((load, judged(each, study.decide.margin, part)))
        together = sum(each.pairs.count for _, each in own) / family
        labels = tuple(level.label for level in factor.levels)
        case = Case(
            factor=factor.name,
            labels=labels,
            order=ordered(labels),
            baseline=base if (base := course.baselines[factor.name]) in labels else "",
            broken=frozenset(level for name, level in broken if name == factor.name),
            workloads=tuple(own),
            margin=study.decide.margin,
            confidence=share**together,
        )
        then: Then = course.stage.then
        if then == "screen" or (then == "knee" and not case.order):
            then = "best"
        found.append(decide(case, then))
    return found


def _broken(course: Course) -> set[tuple[str, str]]:
    """(factor, level) of the levels that broke a guardrail."""
    if not course.study.decide.guardrails:
        return set()
    findings: tuple[Finding, ...] = judge(course.results).findings
    return {(f.factor, f.level) for f in findings if not f.primary and f.verdict == "worse"}
