"""Outline of a study on several hosts, or on several targets at once.  Only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

from iotrial.execute.at_once import at_once
from iotrial.execute.crew import Reach, together
from iotrial.execute.facts import gather, numbers
from iotrial.execute.kernels import kernel_of, refuse_twins
from iotrial.execute.outline import Looked, Outline, aimed, look, treatments, words
from iotrial.execute.post import aimed_at
from iotrial.execute.preflight import refusals
from iotrial.model.folding import folded
from iotrial.model.host import Host
from iotrial.model.study import Study
from iotrial.model.tool import Aimed
from iotrial.model.topology import Topology
from iotrial.model.trial import Trial
from iotrial.model.tunable import Setting
from iotrial.plan.available import combined, with_available
from iotrial.plan.design import settings as settings_of
from iotrial.plan.design import workload_of
from iotrial.plan.foreseen import trials_at_most
from iotrial.plan.parts import parts, parts_of, share
from iotrial.tools import executed, tool


def outline_of_many(reach: Reach, study: Study, *, in_turn: bool = False) -> Outline:
    """Look at every host and say what would be done.  What is set is named ``box1:sda``; what is
    one kernel's, once for each host.  Pretended hosts are looked at ``in_turn``.

    Raises as the run would for a target that is refused, and HostUnreachable.
    """
    with ExitStack() as stack:
        hosts = {place.name: stack.enter_context(reach(place)) for place in study.places}
        if len(hosts) > 1:
            refuse_twins({name: kernel_of(host) for name, host in hosts.items()})
        return _outline(hosts, study, in_turn=in_turn)


def _outline(hosts: dict[str, Host], study: Study, *, in_turn: bool) -> Outline:
    places = {place.name: place for place in study.places}
    shares = {name: share(study, place) for name, place in places.items()}
    looks = {name: _looking(hosts[name], shares[name]) for name in hosts}
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
        commands=_commands(hosts, study, trials, seen),
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


def _looking(host: Host, study: Study) -> Callable[[], Looked]:
    return lambda: look(host, study)


def _aimed(study: Study, name: str, seen: dict[str, Looked]) -> Aimed:
    """What the first part of a target is: the others are taken to be like it."""
    part = parts(study, name)[0]
    return aimed(seen[part.host].aims[part.target.name])


def _settings(
    study: Study, shares: dict[str, Study], seen: dict[str, Looked], trial: Trial
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


def _commands(
    hosts: dict[str, Host], study: Study, trials: tuple[Trial, ...], seen: dict[str, Looked]
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
