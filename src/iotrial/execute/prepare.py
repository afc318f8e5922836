"""Prepare: facts, levels, journalled groups, a rehearsal: everything that must be known, or
refused, before there is a results folder.

Rehearsal: every distinct treatment held once, before the first trial.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from iotrial import store as stores
from iotrial.errors import SettingLost, SettingRefused, StudyError
from iotrial.execute.hosts import Hosts
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.chores import ChoreRunner
from iotrial.execute.load.served import check_paths
from iotrial.execute.preflight import check_levels, check_options, check_resume, refused_by
from iotrial.execute.session import HostSession
from iotrial.execute.settings import tuning
from iotrial.execute.spread import by_itself
from iotrial.execute.trial import aside
from iotrial.look.facts import gather, numbers
from iotrial.look.kernels import likeness
from iotrial.look.machine import same_kernel
from iotrial.look.offer import offer, wants
from iotrial.look.topology_words import warnings
from iotrial.model.study import Factor, Study
from iotrial.model.trial import Doubt, Trial, treatment_text
from iotrial.plan.aa import at_baseline, detour, with_levels
from iotrial.plan.ahead import trials_at_most
from iotrial.plan.available import HostCapabilities, combined, with_available
from iotrial.plan.design import baselines
from iotrial.plan.estimate import used_plugins
from iotrial.plan.placement import ways
from iotrial.plan.prior import target_doubts
from iotrial.tools import executed
from iotrial.tunables import catalogue_of, written


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
    refused: list[SettingRefused | SettingLost] = []
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
            refused.append(error)
    hosts.release()
    if problems:
        whole = refused_by(problems)
        whole.refused = tuple(refused)
        raise whole


_RENAMED = "This host has another name for the same value."
_ABSENT = (
    "The other settings of the level are applied. Correct the name if it is misspelt;"
    " this level differs between hosts."
)
_PLACED = (
    "Distribute ports and paths evenly, or consider it in the conclusions; `iotrial"
    " doctor` shows the topology."
)
_HERE = "iotrial itself uses resources of that host; measure without [hosts] instead."


def prepare(hosts: Hosts, folder: Path, interruption: Interruption) -> stores.Store:
    """Make the hosts ready for the first trial, and the results ``folder`` to put it in."""
    written = hosts.study
    offered = combined(hosts.each(_offer).values())
    hosts.adopt(with_available(written, offered))
    hosts.each(check_levels)
    for session in hosts.sessions.values():  # one after the other: who comes first, sets
        _own(hosts, session)
    hosts.doubts += [Doubt("name-here", what, _RENAMED) for what in offered.renamed(written)]
    hosts.doubts += [Doubt("not-here", what, _ABSENT) for what in offered.absent()]
    facts = hosts.each(lambda session: _facts(session, folder))
    stand = standing(hosts)
    hosts.adopt(at_baseline(hosts.study, stand))
    if hosts.study.spread:
        hosts.doubts += likeness(facts)
    _rehearse(hosts)
    store = stores.create(folder, with_levels(written, stand), offered)
    hosts.adopt(store.study)
    hosts.doubts += [doubt for m in hosts.sessions.values() for doubt in m.doubts]
    _write(hosts, store, facts)
    hosts.adopt(store.results().study)
    store.study = hosts.study
    hosts.prepared = lambda session: _again(hosts, session, folder, interruption)
    for session in hosts.sessions.values():
        hosts.upkeep[session.name] = _upkeep(hosts, session, folder, interruption)
    _begin_session(hosts, store, facts)
    return store


def _rehearse(hosts: Hosts) -> None:
    """Where blocks are spread over hosts, all treatments on each."""
    if not hosts.study.spread:
        rehearse(hosts)
        return
    hosts.each(lambda session: rehearse(by_itself(hosts, session.place)))


def _offer(session: HostSession) -> HostCapabilities:
    return offer(session.host, session.study, session.topologies)


def _own(hosts: Hosts, session: HostSession) -> None:
    """Owe what factors will change on one host, but for what another of its kernel owns."""
    mine = {
        device: [name for name in names if hosts.owner(session, device, name) == session.name]
        for device, names in _tuned(session).items()
    }
    tuned = {device: names for device, names in mine.items() if names}
    session.group = tuning.own(
        session.host,
        session.journal,
        [n for ns in tuned.values() for n in ns],
        neighbour=any(workload.neighbour for workload in session.study.workloads),
    )
    session.own_groups(tuned)


def _facts(session: HostSession, folder: Path, *, booted: bool = False) -> dict[str, Any]:
    if same_kernel(session.host):
        what = (
            f"{session.host.name} is this host, or a namespace of it: one kernel, one set of CPUs"
        )
        session.doubts.append(Doubt("same-kernel", what, _HERE))
    programs = sorted({executed(w).program for w in session.study.workloads})
    facts = gather(session.host, tuple(session.aims.values()), programs)
    if used := used_plugins(session.study):
        facts["plugins"] = used
    session.numbers = numbers(facts)
    check_options(session.study, session.numbers)
    check_paths(session.study, session.aims)
    check_resume(folder, session, facts, booted=booted)
    facts["placement"] = {
        name: {way.disk: way.words() for way in ways(session.topologies[name])}
        for name in session.aims
    }
    every = (node for below in session.topologies.values() for node in below.nodes)
    asked = {n.name: dict(n.about).get("of", "") for n in every if n.scope == "irq"}
    facts |= {"interrupts": asked} if asked else {}  # a number is another one after a boot
    odd = dict.fromkeys(
        line for name in session.aims for line in warnings(session.topologies[name])
    )
    where = f"{session.name}: " if session.place.way else ""
    session.doubts += [Doubt("placement", where + line, _PLACED) for line in odd]
    session.doubts += target_doubts(session.study.design.prior, facts)
    return facts


def _again(hosts: Hosts, session: HostSession, folder: Path, interruption: Interruption) -> None:
    """A host that was lost, or booted, and is back: as before, as far as it is the same machine."""
    _own(hosts, session)
    _facts(session, folder, booted=hosts.boots.booted(session.name))
    before = hosts.upkeep[session.name]
    hosts.upkeep[session.name] = _upkeep(hosts, session, folder, interruption)
    if hosts.boots.booted(session.name):
        hosts.upkeep[session.name].resume(before)


def _upkeep(
    hosts: Hosts, session: HostSession, folder: Path, interruption: Interruption
) -> ChoreRunner:
    place = folder / "hosts" / session.name if hosts.several else folder
    return ChoreRunner(session, place, interruption, session.numbers, hosts.said)


def _write(hosts: Hosts, store: stores.Store, facts: Mapping[str, dict[str, Any]]) -> None:
    stand = standing(hosts)
    for name, told in facts.items():
        told["baselines"] = stand
        if hosts.study.aa:
            told["aa"] = {"arms": hosts.study.aa.arms, "levels": dict(hosts.study.aa.levels)}
        doubts = hosts.doubts if name == hosts.first.name else []
        host = hosts.sessions[name].host
        told["doubts"] = [{"check": d.check, "what": d.what, "advice": d.advice} for d in doubts]
        store.write_facts(host.name, told)


def _begin_session(hosts: Hosts, store: stores.Store, facts: Mapping[str, dict[str, Any]]) -> None:
    said = {
        name: {
            "token": hosts.sessions[name].journal.token,
            "boot_id": told["boot_id"],
            "targets": told["targets"],
        }
        for name, told in facts.items()
    }
    alone = next(iter(said.values())) if len(said) == 1 else {"hosts": said}
    store.begin_session({"started": time.time(), **alone})


def standing(hosts: Hosts) -> dict[str, str]:
    """The label of each factor's baseline level, as :func:`iotrial.plan.design.baselines`.

    Raises StudyError where the hosts stand at different levels and the study names none.
    """
    sessions = list(hosts.sessions.values())
    votes = [
        (
            session.name,
            session.in_force(),
            baselines(session.study, session.in_force(), session.topologies),
        )
        for session in sessions
    ]
    found: dict[str, str] = {}
    for factor in hosts.study.factors:
        told = [(name, said) for name, force, said in votes if _speaks(factor, force)] or [
            (name, said) for name, _, said in votes[:1]
        ]
        labels = {name: said[factor.name] for name, said in told if factor.name in said}
        if len(set(labels.values())) > 1:
            where = ", ".join(f"{name} at {label}" for name, label in labels.items())
            message = f"factor {factor.name}: the hosts are at different levels: {where}"
            advice = "Set `baseline` to one of them, or set the same level on all hosts."
            raise StudyError(message, key=f"factors.{factor.name}", advice=advice)
        found |= dict.fromkeys([factor.name] if labels else [], next(iter(labels.values()), ""))
    return found


def _speaks(factor: Factor, in_force: Mapping[tuple[str, str], str]) -> bool:
    """Whether a host owns anything that the factor sets."""
    names = {written(name) for level in factor.levels for name, _ in level.settings}
    return any(name in names for _, name in in_force)


def _tuned(session: HostSession) -> dict[str, list[str]]:
    """Device → names of the tunables that any factor sets on it ('' for the host's own), and of
    those that they move on another layer (the ports behind a map); what moves others first,
    because it goes back first."""
    known = catalogue_of(session.study)
    found: dict[tuple[str, str], int] = {}
    for each in wants(session.study, session.topologies):
        if known.tunable(each.name).place:
            continue  # a rule: what it puts where is wanted by its own names
        rank = known.tunable(each.name).rank
        found |= {(device, each.name): rank for device in each.devices}
        for row in known.group([each.name]):
            if any(row.device_problem(device) for device in each.devices):
                below = (t.names(row.scope) for t in session.topologies.values())
                found |= {(device, row.name): row.rank for device in chain(*below)}
    names: dict[str, list[str]] = {}
    for device, name in sorted(found, key=lambda pair: (found[pair], pair)):
        names.setdefault(device, []).append(name)
    return names
