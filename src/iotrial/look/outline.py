"""Outline: what a study would do on a host.  Only reads; the host is as it was.

Outline of a study on several hosts, or on several targets at once.  Only reads.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from iotrial.errors import IotrialError
from iotrial.hosts.at_once import at_once
from iotrial.look.facts import gather, numbers
from iotrial.look.kernels import kernel_of, refuse_twins
from iotrial.look.offer import offer
from iotrial.look.reach import reach_of, within
from iotrial.look.refusals import refusals
from iotrial.look.targets import of_host, ready
from iotrial.look.topology import topology
from iotrial.model.host import Reader
from iotrial.model.hostlist import folded
from iotrial.model.study import Study
from iotrial.model.target import (
    MOUNT_POINT,
    PreparedTarget,
    Scope,
    Target,
    Topology,
    TopologyNode,
)
from iotrial.model.tool import LoadAccess, ToolTarget, aimed_at
from iotrial.model.trial import Treatment, Trial
from iotrial.model.tunable import Setting
from iotrial.plan.ahead import trials_at_most
from iotrial.plan.available import HostCapabilities, combined, with_available
from iotrial.plan.design import cells, workload_of
from iotrial.plan.design import settings as settings_of
from iotrial.plan.parts import parts, parts_of, share, together
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
    aimed: dict[str, ToolTarget]
    refused: tuple[str, ...]
    notes: tuple[str, ...]


def outline(host: Reader, study: Study) -> Outline:
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
class _HostView:
    """What was seen on one host: by target, what is aimed at, what lies below it, and the same
    with the names that it will have."""

    aims: dict[str, PreparedTarget]
    topologies: dict[str, Topology]
    named: dict[str, Topology]
    offered: HostCapabilities
    notes: tuple[str, ...]


def look(host: Reader, study: Study) -> _HostView:
    """Look at the targets on a host.  Raises as the run would for one that is refused."""
    notes: list[str] = []
    aims = {target.name: _aim(host, study, target, notes) for target in study.targets}
    topologies = {name: _below(host, aim) for name, aim in aims.items()}
    named = {name: _named(aim, topologies[name]) for name, aim in aims.items()}
    return _HostView(aims, topologies, named, offer(host, study, topologies), tuple(notes))


def treatments(study: Study, trials: Sequence[Trial]) -> tuple[Treatment, ...]:
    """Every treatment, in the study's order; of a study in stages in that of its trials."""
    parts = [] if study.stages else [study]
    own = (c for part in parts for w in part.judged for c in cells(part, w.name))
    return tuple(dict.fromkeys(own) or dict.fromkeys(trial.treatment for trial in trials))


def _below(host: Reader, aim: PreparedTarget) -> Topology:
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


def _named(aim: PreparedTarget, below: Topology) -> Topology:
    """The same with the name that the loop device has not got yet."""
    if aim.target.kind != "loop":
        return below
    if aim.target.made:
        return planned(replace(aim, device="loopN"), below)
    kept = (node for node in below.nodes if node.scope in ("cpu", "cgroup"))
    return Topology((*Topology.of_disk("loopN").nodes, *kept))


def _aim(host: Reader, study: Study, target: Target, notes: list[str]) -> PreparedTarget:
    """A target's aim.  A loop device is not made: another one stands in to be asked what its
    queue takes."""
    if target.kind != "loop":
        if target.create or target.mount:
            notes.append(f"target {target.name} is created by the study: not checked yet")
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
            f"target {target.name} does not exist yet: values accepted by its queue were checked"
            f" on {stand_in}"
        )
    aim = PreparedTarget(target, MOUNT_POINT if target.filesystem else "/dev/loopN", stand_in, None)
    if not target.filesystem:
        within(host, aim, reach_of(study, target))
    return aim


def _commands(
    host: Reader, study: Study, trials: tuple[Trial, ...], aims: dict[str, PreparedTarget]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    facts = numbers(gather(host, (), sorted({executed(w).program for w in study.workloads})))
    found: dict[str, tuple[str, ...]] = {}
    for trial in trials:
        if trial.workload not in found:
            workload = workload_of(study, trial)
            there = aimed_at(aims[trial.target])
            found[trial.workload] = tool(workload.tool).command(workload, there, facts).argv
    first = trials[0].target if trials else study.targets[0].name
    for each in study.workloads:
        if each.neighbour:
            there = aimed_at(aims[each.target or first])
            found[each.name] = tool(each.tool).command(each, there, facts).argv
    return tuple((w.name, found[w.name]) for w in study.workloads if w.name in found)


def aimed(aim: PreparedTarget) -> ToolTarget:
    if aim.target.filesystem:
        return aimed_at(aim)
    whole = aim.identity.size if aim.identity and aim.target.kind == "device" else 0
    return replace(aimed_at(aim), size=aim.target.size or whole)


def words(aim: PreparedTarget) -> str:
    how = f" ({shlex.join(aim.target.format)})" if aim.target.format else ""
    made = f" with {aim.target.filesystem}{how} on it" if aim.target.filesystem else ""
    if aim.target.kind == "loop":
        return f"a loop device that iotrial creates{made} and removes"
    if aim.target.made:
        return f"{aim.target.path}{made}, created and removed"
    device = f" on {aim.device}" if aim.device and aim.device not in aim.path else ""
    return f"{aim.path}{device}"


def outline_of_many(hosts: Mapping[str, Reader], study: Study, *, in_turn: bool = False) -> Outline:
    """Look at every host, by name, and say what would be done.  What is set is named
    ``box1:sda``; what is one kernel's, once for each host.  Pretended hosts are looked at
    ``in_turn``.

    Raises as the run would for a target that is refused, and HostUnreachable.
    """
    if len(hosts) > 1:
        refuse_twins({name: kernel_of(host) for name, host in hosts.items()})
    places = {place.name: place for place in study.places}
    shares = {name: share(study, place) for name, place in places.items()}
    looks = {name: partial(look, host, shares[name]) for name, host in hosts.items()}
    seen, errors = at_once(looks, in_turn=in_turn)
    if errors:
        raise next(iter(errors.values()))
    offered = combined(seen[name].offered for name in hosts)
    notes = [*_alike({name: seen[name].notes for name in hosts})]
    notes += offered.notes(study)
    study = with_available(study, offered)
    shares = {name: share(study, place) for name, place in places.items()}
    below = {
        name: {**seen[name].topologies, **dict(together(study, place, seen[name].topologies))}
        for name, place in places.items()
    }
    trials = trials_at_most(study)
    first = {trial.treatment: trial for trial in reversed(trials)}
    return Outline(
        study=study,
        trials=trials,
        settings=tuple(
            (cell, _settings(study, shares, seen, first[cell]))
            for cell in treatments(study, trials)
        ),
        commands=_commands_of_many(hosts, study, trials, seen),
        targets=tuple(
            f"{name}/{at}: {words(aim)}" for name in hosts for at, aim in seen[name].aims.items()
        ),
        topologies={f"{n}/{at}": each for n in hosts for at, each in seen[n].named.items()},
        aimed={target.name: _aimed(study, target.name, seen) for target in study.targets},
        refused=tuple(
            _alike({n: refusals(host, shares[n], below[n]) for n, host in hosts.items()})
        ),
        notes=tuple(dict.fromkeys(notes)),
    )


def _alike(said: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """What hosts say, each sentence once, with those that say it: ``h[1-3]: …``."""
    who: dict[str, dict[str, None]] = {}
    for host, sentences in said.items():
        for each in sentences:
            who.setdefault(each, {})[host] = None
    yield from (f"{folded([*hosts])}: {each}" for each, hosts in who.items())


def _aimed(study: Study, name: str, seen: dict[str, _HostView]) -> ToolTarget:
    """What the first part of a target is: the others are taken to be like it."""
    part = parts(study, name)[0]
    return aimed(seen[part.host].aims[part.target.name])


def _settings(
    study: Study, shares: dict[str, Study], seen: dict[str, _HostView], trial: Trial
) -> tuple[Setting, ...]:
    found: dict[Setting, None] = {}
    for part in parts_of(study, trial):
        place = shares[part.host].place
        named: dict[str, Topology] = seen[part.host].named
        named = {**named, **dict(together(study, place, named))}
        own = replace(trial, target=part.target.name)
        for each in settings_of(shares[part.host], own, named):
            found[replace(each, device=f"{part.host}:{each.device}")] = None
    return tuple(found)


def _commands_of_many(
    hosts: Mapping[str, Reader], study: Study, trials: tuple[Trial, ...], seen: dict[str, _HostView]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Of each workload's first trial, what its first part is told."""
    programs = sorted({executed(each).program for each in study.workloads})
    found: dict[str, tuple[str, ...]] = {}
    for trial in trials:
        if trial.workload not in found:
            part = parts_of(study, trial)[0]
            facts = numbers(gather(hosts[part.host], (), programs))
            workload = workload_of(study, trial)
            there = aimed_at(seen[part.host].aims[part.target.name])
            found[trial.workload] = tool(workload.tool).command(workload, there, facts).argv
    return tuple((w.name, found[w.name]) for w in study.workloads if w.name in found)


def expected(host: Reader, target: Target) -> PreparedTarget:
    """What the aim will be, as far as it can be said without making anything.

    Raises TargetRefused where a file system may not be made on the device."""
    if target.filesystem and not target.create:
        below = ready(host, target, LoadAccess(reads=True, writes=True))
        return PreparedTarget(target, MOUNT_POINT, below.device, below.identity)
    name = PurePosixPath(target.path).name if target.kind == "device" else ""
    point = MOUNT_POINT if target.filesystem else target.path
    return of_host(PreparedTarget(target, point, name, None), host)


def planned(aim: PreparedTarget, below: Topology) -> Topology:
    """What will lie below it: that of its device, if there is one, under a mount."""
    lasting = [node for node in below.nodes if node.scope in ("cpu", "cgroup")]
    found = below.nodes if aim.identity else (*Topology.of_disk(aim.device).nodes, *lasting)
    if aim.target.create and not aim.target.filesystem:
        return Topology(tuple(found))
    under: tuple[tuple[Scope, str], ...] = (("device", aim.device),) if aim.device else ()
    mounts = [node for node in found if node.scope != "mount"]
    return Topology((TopologyNode("mount", aim.path, under), *mounts))
