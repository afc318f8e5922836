"""How ``iotrial plan`` shows a study in stages: each with its trials and time, at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iotrial.model.study import Study
from iotrial.plan.course import Course
from iotrial.plan.estimate import Estimate, estimate
from iotrial.plan.foreseen import at_most, each_study
from iotrial.plan.given_up import GivenUp, given_up
from iotrial.plan.stages import varies
from iotrial.units import format_wait


def rounds(study: Study) -> str:
    """What comes between the number of trials and their time."""
    if study.stages:
        return f"{len(study.stages)} stages at most, up to"
    return f"{study.design.blocks} blocks, about"


def lines(study: Study) -> Iterator[str]:
    """``stage 2: rsize, narrow; read on client: at most 60 trials in 3 blocks, 2 min``."""
    for course in at_most(study):
        costs, part = _costs(course), course.study
        loads = ", ".join(each.name for each in part.workloads)
        on = f"{loads} on {', '.join(each.name for each in part.whole)}"
        head = f"stage {course.stage.number}: {course.words}; {on}: at most"
        if costs is None:
            yield f"{head} nothing to do"
        else:
            blocks = f"{part.design.blocks} blocks"
            yield f"{head} {costs.trials} trials in {blocks}, {format_wait(costs.seconds)}"


def document(study: Study) -> dict[str, Any]:
    """The same as data; empty for a study without stages."""
    return {"stages": [_data(each) for each in at_most(study)]} if study.stages else {}


def all_given_up(study: Study) -> list[GivenUp]:
    """What the design gives up, in every stage."""
    return [each for part in each_study(study) for each in given_up(part) if part.workloads]


def _data(course: Course) -> dict[str, object]:
    costs = _costs(course)
    return {
        "stage": course.stage.number,
        "vary": list(course.stage.vary),
        "then": course.stage.then,
        "targets": [each.name for each in course.study.whole],
        "workloads": [each.name for each in course.study.workloads],
        "blocks": course.study.design.blocks,
        "trials": costs.trials if costs else 0,
        "seconds": costs.seconds if costs else 0.0,
    }


def _costs(course: Course) -> Estimate | None:
    return estimate(course.study) if varies(course.study) else None
