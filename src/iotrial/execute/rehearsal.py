"""Rehearsal: every distinct treatment held once, before the first trial."""

from __future__ import annotations

from dataclasses import replace

from iotrial.errors import SettingLost, SettingRefused
from iotrial.execute.hosts import Hosts
from iotrial.execute.preflight import aside, refused_by
from iotrial.model.study import Study
from iotrial.model.trial import Trial, treatment_text
from iotrial.plan.aa import detour
from iotrial.plan.foreseen import trials_at_most


def _distinct(study: Study) -> list[Trial]:
    """A trial of each treatment and target; of an A/A study all, for each has a detour."""
    if study.aa:
        return list(trials_at_most(study))
    if study.spread:  # a block has them all
        study = replace(study, design=replace(study.design, blocks=1))
    first: dict[object, Trial] = {}
    for trial in trials_at_most(study):
        first.setdefault((trial.target, trial.workload, trial.treatment, trial.stage), trial)
    return list(first.values())


def rehearse(hosts: Hosts) -> None:
    """Hold every distinct treatment once, before the first trial, then release.

    Raises StudyError naming each cell that the kernel refuses.
    """
    problems = []
    tried = set()
    trials = _distinct(hosts.study)
    wanted = [(trial, hosts.wanted(trial)) for trial in trials]
    for trial in trials:
        other = replace(trial, treatment=detour(hosts.study, trial))
        wanted.append((other, hosts.wanted(trial, aside)))
    for trial, settings in wanted:
        known = tuple(settings.items())
        if known in tried:
            continue
        tried.add(known)
        try:
            hosts.hold(settings)
        except (SettingRefused, SettingLost) as error:
            if isinstance(error, SettingRefused) and error.everywhere:
                raise
            problems.append(f"cell {treatment_text(trial.treatment)}: {error.message}")
    hosts.release()
    if problems:
        raise refused_by(problems)
