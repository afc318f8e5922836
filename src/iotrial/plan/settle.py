"""What a stage comes to: its factors' levels, judged and kept.

Pairs of levels, with intervals that hold together for the stage (:mod:`iotrial.stats.levels`),
each workload and factor with its share by the number of its comparisons; then the rule that the
stage names (:mod:`iotrial.stats.levels`, :mod:`iotrial.plan.subset`).
"""

from __future__ import annotations

import math
from dataclasses import replace

from iotrial.model.finding import Finding, StageProgress, slim
from iotrial.model.study import Factor, StageDecision, Study, Then, ordered
from iotrial.model.trial import Treatment
from iotrial.plan import tune
from iotrial.plan.design import applies, cells
from iotrial.plan.subset import may_matter as screened
from iotrial.stats.judge import judge
from iotrial.stats.levels import (
    PairwiseGains,
    PairwiseIntervals,
    StageFactor,
    decide,
    judged,
    pairwise,
)
from iotrial.stats.race import WorkloadRace, raced
from iotrial.stats.responses import asked
from iotrial.units import format_change


def settle(course: StageProgress) -> tuple[StageDecision, ...]:
    """What each factor came to, in the study's order; nothing for a stage that confirms."""
    stage, study = course.stage, course.study
    if stage.then in ("confirm", "worth"):
        return _worths(course) if stage.then == "worth" else ()
    varied = [factor for factor in study.factors if factor.name in stage.vary]
    alone = tuple(_alone(factor) for factor in varied if len(factor.levels) == 1)
    several = [factor for factor in varied if len(factor.levels) > 1]
    if not several:
        return alone
    if not course.results.records:
        found = [_unknown(factor) for factor in several]
    elif stage.then == "tune":
        found = tune.recommended(study, several, course.results.records)
    elif stage.then == "screen" and len(several) > 1:
        found = _screened(course, several)
    elif study.design.kind == "race":
        found = _raced(course, several)
    else:
        found = _decided(course, several)
    return (*alone, *found)


def _worths(course: StageProgress) -> tuple[StageDecision, ...]:
    """Back at its baseline what is not needed in the combination."""
    found = judge(course.results).findings if course.results.records else ()
    decisions = []
    for each in found:
        name = each.level.removeprefix(tune.WITHOUT)
        if not each.primary or name == each.level:
            continue
        base, new = course.baselines[name], course.so_far.stands[name]
        worth = format_change(1 / each.ratio)
        if each.low and each.high:
            worth += f" ({format_change(1 / each.high)} … {format_change(1 / each.low)})"
        stands, why = new, f"{worth} in the combination"
        if limit := _exceeded(course, each.level):
            why = f"needed: without it {limit} is above its limit; {worth} in the combination"
        elif each.verdict in ("same", "better"):
            stands, why = base, f"not needed: {worth} in the combination"
        elif each.verdict == "cannot-tell":
            stands, why = base, f"not shown to be needed: {worth} in the combination"
            if _seems_needed(course.study, each):
                stands, why = (
                    new,
                    f"kept, though not shown to be needed: {worth} in the combination",
                )
        decisions.append(StageDecision(name, (base, new), (stands,), stands, why))
    if any(each.stands != course.baselines[each.factor] for each in decisions):
        return tuple(decisions)
    # Of two that do the same, neither is needed, but one of them is: the proof is of all.
    return tuple(
        replace(each, kept=each.levels[1:], stands=each.levels[1], why=f"{each.why}; {_TOGETHER}")
        for each in decisions
    )


_TOGETHER = "kept, since none of them is needed by itself"


def _seems_needed(study: Study, without: Finding) -> bool:
    """Whether a factor of which nothing is shown seems to be worth more than the margin, and more
    than chance often makes one seem: half of its half interval, a standard error or two."""
    if not (without.low and without.high):
        return False
    gain = math.log(without.ratio) * (-1 if study.metrics.higher(without.metric) else 1)
    half = math.log(without.high / without.low) / 2
    return gain > max(math.log1p(study.decide.margin), half / 2)


def _exceeded(course: StageProgress, label: str) -> str:
    """The limited metric whose geometric mean at a level is above its limit; '' for none."""
    own = [r for r in course.results.records if label in dict(r.trial.treatment).values()]
    for metric, limit in course.study.decide.limits:
        values = [value for record in own if (value := record.value(metric))]
        if values and math.fsum(map(math.log, values)) / len(values) > math.log(limit):
            return metric
    return ""


def _raced(course: StageProgress, several: list[Factor]) -> list[StageDecision]:
    """What a race kept: the baselines where they are among the best of every workload, else the
    first treatment that is."""
    results = slim(course.results)
    study, base = results.study, {f.name: course.baselines[f.name] for f in several}
    treatments = {each.name: cells(study, each.name) for each in study.judged}
    races = raced(study, treatments, results.records, base)
    good = [
        [cell for at, cell in enumerate(each.cells) if at == each.race.kept or _tied(each, at)]
        for each in races
    ]
    everywhere = [cell for cell in treatments[races[0].workload] if all(cell in g for g in good)]
    standing = tuple(base.items())
    open_ones = [each.workload for each in races if not each.race.decided]
    taken, why = standing, "the workloads disagree"
    if standing in everywhere:
        why = "no treatment is better: no reason to change"
    elif open_ones and not all(_lost(each, standing) for each in races):
        why = f"best treatment not decided yet for {', '.join(open_ones)}"
    elif everywhere:
        taken, why = everywhere[0], "won the race"
        if len(everywhere) > 1:
            why = f"the first of {len(everywhere)} treatments within the margin of the best"
    found = dict(taken)
    return [
        StageDecision(
            factor.name,
            tuple(level.label for level in factor.levels),
            (found.get(factor.name, factor.baseline),),
            found.get(factor.name, factor.baseline),
            why,
        )
        for factor in several
    ]


def _tied(each: WorkloadRace, at: int) -> bool:
    return each.race.standing(at).same


def _lost(each: WorkloadRace, cell: Treatment) -> bool:
    """Whether a treatment is out of the race, or was never in it."""
    return cell not in each.cells or bool(each.race.standing(each.cells.index(cell)).dropped)


def _alone(factor: Factor) -> StageDecision:
    label = factor.levels[0].label
    return StageDecision(factor.name, (label,), (label,), label, "no other level remains")


def _unknown(factor: Factor) -> StageDecision:
    labels = tuple(level.label for level in factor.levels)
    return StageDecision(
        factor.name, labels, labels, factor.baseline, "every combination is excluded"
    )


def _screened(course: StageProgress, several: list[Factor]) -> list[StageDecision]:
    """All levels of the factors that may matter; the others at their baseline."""
    matter = screened(course.study, judge(course.results).findings)
    found = []
    for factor in several:
        labels = tuple(level.label for level in factor.levels)
        left, why = course.so_far.left[factor.name], "may matter"
        if factor.name not in matter:
            left = (factor.baseline,)
            why = f"does not matter: {' and '.join(labels)} are the same within the margin"
        found.append(StageDecision(factor.name, labels, left, factor.baseline, why))
    return found


def _decided(course: StageProgress, several: list[Factor]) -> list[StageDecision]:
    study, results = course.study, course.results
    pairs: dict[tuple[str, str], PairwiseGains] = {
        (study.decide.named(load, metric), factor.name): pairwise(
            results, load, metric, factor.name
        )
        for load, metric in asked(study)
        for factor in several
        if applies(factor, load)
    }
    family = max(1, sum(each.count for each in pairs.values()))
    broken = _broken(course)
    found = []
    for factor in several:
        share = study.decide.confidence
        own: list[tuple[str, PairwiseIntervals]] = []
        for (load, name), each in pairs.items():
            if name == factor.name and each.labels:
                part = share ** (each.count / family)
                own.append((load, judged(each, study.decide.margin, part)))
        together = sum(each.pairs.count for _, each in own) / family
        labels = tuple(level.label for level in factor.levels)
        case = StageFactor(
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


def _broken(course: StageProgress) -> set[tuple[str, str]]:
    """(factor, level) of the levels that broke a guardrail."""
    if not course.study.decide.guardrails:
        return set()
    findings: tuple[Finding, ...] = judge(course.results).findings
    return {(f.factor, f.level) for f in findings if not f.primary and f.verdict == "worse"}
