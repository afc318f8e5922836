"""Workloads that run beside others: which they are, and what is wrong with them.

A load is seldom alone on a device: a backup runs while a database answers.  ``beside`` of a
workload, or a factor that varies it, names another one that runs at the same time.  That one has no
trials of its own; what it measures belongs to the trials of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from iotrial.model.study import Factor, Study
from iotrial.model.workload import ALONE, BESIDE, Workload
from iotrial.plan.design import applies
from iotrial.plan.parts import several
from iotrial.plan.problem import KeyPath, StudyProblem, choices
from iotrial.tunables.cgroup import of_neighbour


def beside_of(workload: Workload, factors: Sequence[Factor]) -> tuple[str, ...]:
    """The workloads that may run beside this one: always, or at a level of a factor."""
    varied = [
        str(level.option)
        for factor in factors
        if factor.subject == BESIDE and applies(factor, workload.name)
        for level in factor.levels
    ]
    return tuple(
        dict.fromkeys(name for name in (workload.beside, *varied) if name not in ("", ALONE))
    )


def with_neighbours(
    workloads: Sequence[Workload], factors: Sequence[Factor]
) -> tuple[Workload, ...]:
    """The workloads, those marked that only run beside others."""
    named = {name for each in workloads for name in beside_of(each, factors)}
    return tuple(replace(each, neighbour=each.name in named) for each in workloads)


def beside_problems(study: Study) -> Iterator[StudyProblem]:
    """What is wrong with workloads that run beside others."""
    for workload in study.workloads:
        yield from _of_workload(study, workload)
    yield from _of_groups(study)
    if not any(workload.neighbour for workload in study.workloads):
        return
    if not study.judged:
        what = "every workload runs beside another: none has trials"
        yield StudyProblem(("workloads",), what, "Add the workload that is judged.")
    aside = {workload.name for workload in study.workloads if workload.neighbour}
    for factor in study.factors:
        if factor.workload in aside:
            what = f"{factor.workload} runs beside others, and has no trials to vary"
            advice = "Write a workload for each form of it, and let a factor vary `beside`."
            yield StudyProblem(("factors", factor.name, "workload"), what, advice)
    yield from _excluded(study)


def _of_workload(study: Study, workload: Workload) -> Iterator[StudyProblem]:
    path: KeyPath = ("workloads", workload.name)
    known = {each.name: each for each in study.workloads}
    targets = [target.name for target in study.targets]
    if workload.beside == workload.name:
        others = [name for name in known if name != workload.name]
        what = f"{workload.name} cannot run beside itself"
        advice = f"Name another workload: {', '.join(others)}." if others else "Add a workload."
        yield StudyProblem((*path, "beside"), what, advice)
        return
    if workload.target and not workload.neighbour:
        what = "target is for a workload that runs beside others"
        advice = "Remove it: trials are on the target of the study."
        yield StudyProblem((*path, "target"), what, advice)
    elif workload.target and workload.target not in targets:
        what = f"[targets] has no {workload.target!r}"
        yield StudyProblem((*path, "target"), what, choices(workload.target, targets, "targets"))
    if workload.neighbour and workload.offered:
        what = f"{workload.name} runs beside others: its result is none of theirs"
        advice = "Let it offer one rate: rate_iops among its options."
        yield StudyProblem((*path, "offered"), what, advice)
    for name in () if workload.neighbour else beside_of(workload, study.factors):
        key = (*path, "beside") if name == workload.beside else _factor(study, name)
        if name not in known:
            what = f"[workloads] has no {name!r}"
            yield StudyProblem(key, what, choices(name, [*known, ALONE], "workloads"))
        elif known[name].beside:
            what = f"{name} runs beside others, and has a workload beside itself"
            yield StudyProblem(("workloads", name, "beside"), what, "Remove it.")


def _of_groups(study: Study) -> Iterator[StudyProblem]:
    """Settings of the control group of a neighbour that there is not."""
    if any(workload.neighbour for workload in study.workloads):
        return
    for factor in study.factors:
        names = [name for level in factor.levels for name, _ in level.settings]
        if name := next(filter(of_neighbour, names), ""):
            what = f"{name} belongs to a workload that runs beside another, and none does"
            advice = "Add `beside` to a workload, or name the setting without `beside.`"
            yield StudyProblem(("factors", factor.name), what, advice)


def _factor(study: Study, name: str) -> KeyPath:
    """The level that names a workload."""
    for factor in study.factors:
        for at, level in enumerate(factor.levels):
            if factor.subject == BESIDE and level.option == name:
                return "factors", factor.name, "levels", at
    return ("factors",)


def _excluded(study: Study) -> Iterator[StudyProblem]:
    """Where loads do not run beside others yet."""
    served = next((each.name for each in study.workloads if each.start == "server"), "")
    found: tuple[tuple[bool, KeyPath, str], ...] = (
        (bool(study.stages), ("stage", 0), "stages"),
        (study.design.kind == "saturate", ("design", "kind"), "a search for the highest value"),
        (len(study.places) > 1, ("hosts",), "several hosts"),
        (several(study), ("targets",), "targets of several devices"),
        (bool(served), ("workloads", served, "start"), 'start = "server"'),
    )
    for there, path, what in found:
        if there:
            message = f"{what} and workloads beside others exclude each other"
            yield StudyProblem(path, message, "Remove `beside`, or write a study for each.")
            return
