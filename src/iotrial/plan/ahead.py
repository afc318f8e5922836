"""How much of a study may still come, where it ends as soon as it knows, and how its races stand.

A race, and a design with ``stop = "decided"``, are planned block by block; they take all their
blocks at most.  A search is planned trial by trial.  Stages lay levels aside, and take no more
than if they laid none aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan import race, saturate
from iotrial.plan.design import cells
from iotrial.plan.race import Stand
from iotrial.plan.spread import waiting
from iotrial.plan.stages import next_trials


def open_ended(study: Study) -> bool:
    """Whether the study may end before everything it may come to is done."""
    design = study.design
    ending = design.kind in ("race", "saturate") or design.stop == "decided"
    return bool(study.stages) or ending


def all_blocks(study: Study) -> tuple[Trial, ...]:
    """Every trial of a study without stages if it never ends early; those of later blocks stand
    for whatever will be chosen then, as many in each as in the first."""
    trials = next_trials(study, (), ())
    if not open_ended(study):
        return trials
    if study.design.kind == "saturate":
        return saturate.at_most(study, trials)
    first = [trial for trial in trials if trial.block == 1]
    blocks = range(1, study.design.blocks + 1)
    return tuple(replace(trial, block=block) for block in blocks for trial in first)


def standing(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]
) -> tuple[Stand, ...]:
    """How each race of the study, or of the stage it is in, stands; none where it is no race."""
    if study.stages:
        from iotrial.plan.stages import courses  # noqa: PLC0415  it asks for designs here

        now = courses(study, planned, done)[-1]
        return standing(now.study, now.results.planned, now.results.records)
    if study.design.kind == "saturate":
        racing = saturate.finalists(study, planned)
        return race.standing(study, {saturate.workloads(study)[1]: racing}, planned, done)
    if study.design.kind != "race":
        return ()
    treatments = {workload.name: cells(study, workload.name) for workload in study.workloads}
    return race.standing(study, treatments, planned, done)


def most_left(
    study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord], stands: Sequence[Stand]
) -> int:
    """How many trials may still come at most, those that are planned and not done included;
    ``stands`` is how the study's races stand.

    INVALID trials that are to come are not reckoned with.
    """
    pending = len(waiting(planned, done))
    if not open_ended(study) or not pending:
        return pending
    if study.stages:
        from iotrial.plan.foreseen import each_study  # noqa: PLC0415  as above
        from iotrial.plan.stages import varies  # noqa: PLC0415

        whole = sum(len(all_blocks(part)) for part in each_study(study) if varies(part))
        return max(pending, whole - len(planned) + pending)
    if study.design.kind == "saturate":
        return saturate.most_left(study, planned, done)
    still = {workload.name: len(cells(study, workload.name)) for workload in study.workloads}
    if study.design.kind == "race":
        still |= {each.workload: each.racing for each in stands}
    for name, count in still.items():
        reached = max((trial.block for trial in planned if trial.workload == name), default=0)
        pending += count * max(study.design.blocks - reached, 0)
    return pending
