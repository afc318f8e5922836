"""How much of a study may still come, where it ends as soon as it knows, and how its races stand.

A race, and a design with ``stop = "decided"``, are planned block by block; they take all their
blocks at most.  A search is planned trial by trial.  Of a study in stages, each stage counts with
as many levels as can be left for it: so its trials, time and bytes are known at most, and every
level is looked at and tried out before the first trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, product

from iotrial.model.finding import StageProgress
from iotrial.model.study import StageDecision, Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.workload import Workload
from iotrial.plan import race, saturate, tune
from iotrial.plan.design import cells, waiting
from iotrial.plan.race import RaceStanding
from iotrial.plan.stages import (
    begin,
    course_of,
    courses,
    next_trials,
    targets_of,
    trials_of,
    varies,
)
from iotrial.plan.subset import baseline_first

_COMBINATIONS = 5000
"""Up to so many are looked at one by one."""
_FEWEST_FAILED = 2
"""One trial may fail by itself."""


def open_ended(study: Study) -> bool:
    """Whether the study may end before everything it may come to is done."""
    design = study.design
    ending = design.kind in ("race", "saturate", "tune") or design.stop == "decided"
    return bool(study.stages) or ending


def all_blocks(study: Study) -> tuple[Trial, ...]:
    """Every trial of a study without stages if it never ends early; those of later blocks stand
    for whatever will be chosen then, as many in each as in the first."""
    trials = next_trials(study, (), ())
    if not open_ended(study):
        return trials
    if study.design.kind == "saturate":
        return saturate.at_most(study, trials)
    if study.design.kind == "tune":
        return tuple(replace(trials[0], block=n) for n in range(1, tune.most(study.factors) + 1))
    first = [trial for trial in trials if trial.block == 1]
    blocks = range(1, study.design.blocks + 1)
    return tuple(replace(trial, block=block) for block in blocks for trial in first)


def standing(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> tuple[RaceStanding, ...]:
    """How each race of the study, or of the stage it is in, stands; none where it is no race."""
    if study.stages:
        now = courses(study, planned, done)[-1]
        return standing(now.study, now.results.planned, now.results.records)
    if study.design.kind == "saturate":
        racing = saturate.finalists(study, planned)
        return race.standing(study, {saturate.workloads(study)[1]: racing}, planned, done)
    if study.design.kind != "race":
        return ()
    treatments = {workload.name: cells(study, workload.name) for workload in study.judged}
    return race.standing(study, treatments, planned, done)


def most_left(
    study: Study,
    planned: Sequence[Trial],
    done: Sequence[TrialRecord],
    stands: Sequence[RaceStanding],
) -> int:
    """How many trials may still come at most, those that are planned and not done included;
    ``stands`` is how the study's races stand.

    INVALID trials that are to come are not reckoned with.
    """
    pending = len(waiting(planned, done))
    if not open_ended(study) or not pending:
        return pending
    if study.stages:
        whole = sum(len(all_blocks(part)) for part in each_study(study) if varies(part))
        return max(pending, whole - len(planned) + pending)
    if study.design.kind == "saturate":
        return saturate.most_left(study, planned, done)
    still = {workload.name: len(cells(study, workload.name)) for workload in study.judged}
    if study.design.kind == "race":
        still |= {each.workload: each.racing for each in stands}
    for name, count in still.items():
        reached = max((trial.block for trial in planned if trial.workload == name), default=0)
        pending += count * max(study.design.blocks - reached, 0)
    return pending


def all_failed(study: Study, records: Sequence[TrialRecord]) -> str:
    """Why further blocks would be as much in vain as all before them; '' where they would not.  A
    search goes on: it tries loads one after another, and another one may work."""
    failed = [record for record in records if record.state == "failed"]
    if study.design.kind == "saturate" or len(failed) < max(len(records), _FEWEST_FAILED):
        return ""
    reason = failed[-1].error.partition("\n")[0]
    return (
        f"all {len(failed)} trials so far failed, the last one: {reason.rstrip('.')}. "
        "Correct the cause; the same command again goes on with the next block, a changed study "
        "needs another --out"
    )


def stages_at_most(study: Study) -> tuple[StageProgress, ...]:
    """Every stage with as many levels as can be left for it; of a study without stages none."""
    found: list[StageProgress] = []
    so_far, before = begin(study), 0
    for stage in study.stages:
        if stage.then in ("confirm", "worth"):
            so_far = replace(so_far, stands=_others(study))
        course = course_of(study, stage, so_far, ((), (), before))
        found.append(course)
        before += course.study.design.blocks if varies(course.study) else 0
        so_far = so_far.after(tuple(_most(course)))
    return tuple(found)


def _others(study: Study) -> dict[str, str]:
    """For each factor a level that is not its baseline, as far as it has one."""
    return {factor.name: baseline_first(factor)[-1] for factor in study.factors}


def _most(course: StageProgress) -> Iterator[StageDecision]:
    """The most that a stage can leave."""
    for factor in course.study.factors:
        labels = course.so_far.left.get(factor.name, ())
        if factor.name in course.stage.vary:
            tried = tuple(level.label for level in factor.levels)
            left = labels if course.stage.then == "screen" else tried
            left = left if course.stage.then in ("narrow", "screen") else (factor.baseline,)
            yield StageDecision(factor.name, tried, left, course.so_far.stands[factor.name], "")


def trials_at_most(study: Study) -> tuple[Trial, ...]:
    """All trials that the study may have, as far as is known before it begins."""
    if not study.stages:
        return next_trials(study, (), ())
    found: list[Trial] = []
    for course in stages_at_most(study):
        if varies(course.study):
            found += trials_of(study, course, len(found))
    return tuple(found)


def each_study(study: Study) -> tuple[Study, ...]:
    """The study of each stage at most; of a study without stages itself."""
    return tuple(course.study for course in stages_at_most(study)) if study.stages else (study,)


def loads_on(study: Study, target: str) -> tuple[Workload, ...]:
    """Every load that may be aimed at a target: its workloads as stages have them, at every
    combination of the levels that set options.  Where those are very many: at every pair."""
    found = (load for each in _written_on(study, target) for load in _varied(study, each))
    return tuple(dict.fromkeys(found))


def _written_on(study: Study, target: str) -> tuple[Workload, ...]:
    if not study.stages:
        return tuple(each for each in study.workloads if each.target in ("", target))
    found = [
        study.workload(name, stage.number)
        for stage in study.stages
        if target in [each.name for each in targets_of(study, stage)]
        for name in stage.workloads or [workload.name for workload in study.workloads]
    ]
    return tuple(dict.fromkeys(found)) or study.workloads  # a part: whatever may be aimed at it


def _varied(study: Study, load: Workload) -> Iterator[Workload]:
    """A level may make a load that reads one that writes (``rw``, ``size``, ``unlink``)."""
    axes = [
        tuple(dict.fromkeys(factor.options(level) for level in factor.levels))
        for factor in study.factors
        if factor.workload in ("", load.name) and any(map(factor.options, factor.levels))
    ]
    whole = math.prod(map(len, axes)) <= _COMBINATIONS
    for some in [axes] if whole else combinations(axes, min(2, len(axes))):
        for levels in product(*some):
            yield load.with_options(chain.from_iterable(levels))
