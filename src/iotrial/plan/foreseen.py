"""What a study in stages may come to, before anything of it is measured.

Each stage with as many levels as can be left for it: so that its trials, time and bytes are known
at most, and every level is looked at and tried out before the first trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

from iotrial.model.stage import Kept
from iotrial.model.study import Study
from iotrial.model.trial import Trial
from iotrial.model.workload import Workload
from iotrial.plan.course import Course
from iotrial.plan.design import with_option
from iotrial.plan.stages import begin, course_of, next_trials, targets_of, trials_of, varies
from iotrial.plan.subset import baseline_first

_COMBINATIONS = 5000
"""Up to so many are looked at one by one."""


def at_most(study: Study) -> tuple[Course, ...]:
    """Every stage with as many levels as can be left for it; of a study without stages none."""
    found: list[Course] = []
    so_far, before = begin(study), 0
    for stage in study.stages:
        if stage.then == "confirm":
            so_far = replace(so_far, stands=_others(study))
        course = course_of(study, stage, so_far, ((), (), before))
        found.append(course)
        before += course.study.design.blocks if varies(course.study) else 0
        so_far = so_far.after(tuple(_most(course)))
    return tuple(found)


def _others(study: Study) -> dict[str, str]:
    """For each factor a level that is not its baseline, as far as it has one."""
    return {factor.name: baseline_first(factor)[-1] for factor in study.factors}


def _most(course: Course) -> Iterator[Kept]:
    """The most that a stage can leave."""
    for factor in course.study.factors:
        labels = course.so_far.left.get(factor.name, ())
        if factor.name in course.stage.vary:
            tried = tuple(level.label for level in factor.levels)
            left = labels if course.stage.then == "screen" else tried
            left = left if course.stage.then in ("narrow", "screen") else (factor.baseline,)
            yield Kept(factor.name, tried, left, course.so_far.stands[factor.name], "")


def trials_at_most(study: Study) -> tuple[Trial, ...]:
    """All trials that the study may have, as far as is known before it begins."""
    if not study.stages:
        return next_trials(study, (), ())
    found: list[Trial] = []
    for course in at_most(study):
        if varies(course.study):
            found += trials_of(study, course, len(found))
    return tuple(found)


def each_study(study: Study) -> tuple[Study, ...]:
    """The study of each stage at most; of a study without stages itself."""
    return tuple(course.study for course in at_most(study)) if study.stages else (study,)


def loads_on(study: Study, target: str) -> tuple[Workload, ...]:
    """Every load that may be aimed at a target: its workloads as stages have them, at every
    combination of the levels that set options.  Where those are very many: at every pair."""
    found = (load for each in _written_on(study, target) for load in _varied(study, each))
    return tuple(dict.fromkeys(found))


def _written_on(study: Study, target: str) -> tuple[Workload, ...]:
    if not study.stages:
        return study.workloads
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
            varied = load
            for name, value in chain.from_iterable(levels):
                varied = with_option(varied, name, value)
            yield varied
