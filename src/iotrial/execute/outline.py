"""Outline: what a study would do on a host.  Only reads; the host is as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iotrial.errors import IotrialError
from iotrial.execute.bench import reach_of
from iotrial.execute.facts import gather, numbers
from iotrial.execute.making import expected, planned
from iotrial.execute.offer import offer
from iotrial.execute.preflight import refusals
from iotrial.execute.reach import within
from iotrial.execute.targets import ready
from iotrial.execute.topology import topology
from iotrial.execute.trial import aimed_at
from iotrial.model.host import Host
from iotrial.model.study import Study
from iotrial.model.target import MOUNT_POINT, Aim, Target
from iotrial.model.tool import Aimed
from iotrial.model.topology import Topology
from iotrial.model.trial import Treatment, Trial
from iotrial.model.tunable import Setting
from iotrial.plan.available import Offer, with_available
from iotrial.plan.design import cells, workload_of
from iotrial.plan.design import settings as settings_of
from iotrial.plan.foreseen import trials_at_most
from iotrial.tools import executed, tool


@dataclass(frozen=True, slots=True)
class Outline:
    """``settings`` per treatment and ``commands`` per workload (of its first trial), both as
    they would be; ``targets`` in words, ``topologies`` what lies below each; ``refused`` what the
    kernel is known to refuse; ``notes`` what could not be looked at without doing it."""

    study: Study
    trials: tuple[Trial, ...]
    settings: tuple[tuple[Treatment, tuple[Setting, ...]], ...]
    commands: tuple[tuple[str, tuple[str, ...]], ...]
    targets: tuple[str, ...]
    topologies: dict[str, Topology]
    aimed: dict[str, Aimed]
    refused: tuple[str, ...]
    notes: tuple[str, ...]


def outline(host: Host, study: Study) -> Outline:
    """Look at the targets and the kernel and say what would be done.

    Raises as the run would for a target that is refused.
    """
    looked = look(host, study)
    aims, topologies, named = looked.aims, looked.topologies, looked.named
    offered = looked.offered
    notes = [*looked.notes, *offered.notes(study)]
    study = with_available(study, offered)
    trials = trials_at_most(study)
    per_treatment = {
        trial.treatment: settings_of(study, trial, named) for trial in reversed(trials)
    }
    return Outline(
        study=study,
        trials=trials,
        settings=tuple(  # a race of many treatments does not try all of them in its first blocks
            (cell, per_treatment[cell])
            for cell in treatments(study, trials)
            if cell in per_treatment
        ),
        commands=_commands(host, study, trials, aims),
        targets=tuple(f"{name}: {words(aim)}" for name, aim in aims.items()),
        topologies=named,
        aimed={name: aimed(aim) for name, aim in aims.items()},
        refused=tuple(dict.fromkeys(refusals(host, study, topologies))),
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen on one host: by target, what is aimed at, what lies below it, and the same
    with the names that it will have."""

    aims: dict[str, Aim]
    topologies: dict[str, Topology]
    named: dict[str, Topology]
    offered: Offer
    notes: tuple[str, ...]


def look(host: Host, study: Study) -> Looked:
    """Look at the targets on a host.  Raises as the run would for one that is refused."""
    notes: list[str] = []
    aims = {target.name: _aim(host, study, target, notes) for target in study.targets}
    topologies = {name: _below(host, aim) for name, aim in aims.items()}
    named = {name: _named(aim, topologies[name]) for name, aim in aims.items()}
    return Looked(aims, topologies, named, offer(host, study, topologies), tuple(notes))


def treatments(study: Study, trials: Sequence[Trial]) -> tuple[Treatment, ...]:
    """Every treatment, in the study's order; of a study in stages in that of its trials."""
    parts = [] if study.stages else [study]
    own = (c for part in parts for w in part.workloads for c in cells(part, w.name))
    return tuple(dict.fromkeys(own) or dict.fromkeys(trial.treatment for trial in trials))


def _below(host: Host, aim: Aim) -> Topology:
    """What lies below a target; of a loop device that is not made yet, its stand-in, which is
    asked as if it were a loop device whatever it is."""
    found = topology(host, aim)
    if aim.target.made:
        return planned(aim, found)
    if aim.target.kind != "loop":
        return found
    plain = Topology.of_disk(aim.device).nodes
    kept = (node for node in found.nodes if node.scope in ("cpu", "cgroup"))
    return Topology((*plain, *kept))


def _named(aim: Aim, below: Topology) -> Topology:
    """The same with the name that the loop device has not got yet."""
    if aim.target.kind != "loop":
        return below
    if aim.target.made:
        return planned(replace(aim, device="loopN"), below)
    kept = (node for node in below.nodes if node.scope in ("cpu", "cgroup"))
    return Topology((*Topology.of_disk("loopN").nodes, *kept))


def _aim(host: Host, study: Study, target: Target, notes: list[str]) -> Aim:
    """A target's aim.  A loop device is not made: another one stands in to be asked what its
    queue takes."""
    if target.kind != "loop":
        if target.create or target.mount:
            notes.append(f"target {target.name} is made by the study: it could not be looked at")
        if target.made:
            return expected(host, target)
        return ready(host, target, reach_of(study, target))
    try:
        names = host.list("/sys/block")
    except IotrialError:
        names = []
    likely = sorted(names, key=lambda name: (not name.startswith("loop"), name.startswith("dm-")))
    stand_in = next(iter(likely), "")
    if stand_in:
        notes.append(
            f"target {target.name} does not exist yet: what its queue takes was asked of {stand_in}"
        )
    aim = Aim(target, MOUNT_POINT if target.filesystem else "/dev/loopN", stand_in, None)
    if not target.filesystem:
        within(host, aim, reach_of(study, target))
    return aim


def _commands(
    host: Host, study: Study, trials: tuple[Trial, ...], aims: dict[str, Aim]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    facts = numbers(gather(host, (), sorted({executed(w).program for w in study.workloads})))
    found: dict[str, tuple[str, ...]] = {}
    for trial in trials:
        if trial.workload not in found:
            workload = workload_of(study, trial)
            there = aimed_at(aims[trial.target])
            found[trial.workload] = tool(workload.tool).command(workload, there, facts).argv
    return tuple((w.name, found[w.name]) for w in study.workloads if w.name in found)


def aimed(aim: Aim) -> Aimed:
    if aim.target.filesystem:
        return aimed_at(aim)
    whole = aim.identity.size if aim.identity and aim.target.kind == "device" else 0
    return replace(aimed_at(aim), size=aim.target.size or whole)


def words(aim: Aim) -> str:
    made = f" with {aim.target.filesystem} on it" if aim.target.filesystem else ""
    if aim.target.kind == "loop":
        return f"a loop device that iotrial makes{made} and removes"
    if aim.target.made:
        return f"{aim.target.path}{made}, made and removed"
    device = f" on {aim.device}" if aim.device and aim.device not in aim.path else ""
    return f"{aim.path}{device}"
