"""Prepare: facts, levels, journalled groups, a rehearsal: everything that must be known, or
refused, before there is a results folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from iotrial import store as stores
from iotrial.errors import StudyError
from iotrial.execute.hosts import Crew, Member
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.served import check_paths
from iotrial.execute.load.upkeep import Upkeep
from iotrial.execute.preflight import check_levels, check_options, check_resume
from iotrial.execute.rehearsal import rehearse
from iotrial.execute.session import Bench
from iotrial.execute.settings import cgroups
from iotrial.execute.spread import solo
from iotrial.look.facts import gather, numbers
from iotrial.look.kernels import likeness
from iotrial.look.machine import same_kernel
from iotrial.look.offer import offer, wants
from iotrial.look.topology import warnings
from iotrial.model.doubt import Doubt
from iotrial.model.study import Factor
from iotrial.plan.aa import at_baseline, with_levels
from iotrial.plan.available import Offer, combined, with_available
from iotrial.plan.design import baselines
from iotrial.plan.executed import added
from iotrial.plan.placement import ways
from iotrial.plan.prior import target_doubts
from iotrial.tools import executed
from iotrial.tunables import catalogue_of

_RENAMED = "It is the same value by the name it has here."
_ABSENT = "The rest of the level is applied. Mend the name if it is misspelt; compare with care."
_PLACED = "Spread ports and paths evenly, or take it into account; `iotrial doctor` shows the tree."
_HERE = "The controller takes a share of it; measure without [hosts] instead."


def prepare(crew: Crew, folder: Path, interruption: Interruption) -> stores.Store:
    """Make the crew ready for its first trial, and the results ``folder`` to put it in."""
    written = crew.study
    offered = combined(crew.each(_offer).values())
    crew.adopt(with_available(written, offered))
    crew.each(lambda member: check_levels(member.bench))
    for member in crew.members.values():  # one after the other: who comes first, sets
        _own(crew, member)
    crew.doubts += [Doubt("name-here", what, _RENAMED) for what in offered.renamed(written)]
    crew.doubts += [Doubt("not-here", what, _ABSENT) for what in offered.absent()]
    facts = crew.each(lambda member: _facts(member, folder))
    stand = standing(crew)
    crew.adopt(at_baseline(crew.study, stand))
    if crew.study.spread:
        crew.doubts += likeness(facts)
    _rehearse(crew)
    store = stores.create(folder, with_levels(written, stand), offered)
    crew.adopt(store.study)
    crew.doubts += [doubt for m in crew.members.values() for doubt in m.bench.doubts]
    _write(crew, store, facts)
    crew.adopt(store.results().study)
    store.study = crew.study
    crew.prepared = lambda member: _again(crew, member, folder, interruption)
    for member in crew.members.values():
        member.upkeep = _upkeep(crew, member, folder, interruption)
    _begin_session(crew, store, facts)
    return store


def _rehearse(crew: Crew) -> None:
    """Where blocks are spread over hosts, all treatments on each."""
    if not crew.study.spread:
        rehearse(crew)
        return
    crew.each(lambda member: rehearse(solo(crew, member.place)))


def _offer(member: Member) -> Offer:
    return offer(member.bench.host, member.bench.study, member.bench.topologies)


def _own(crew: Crew, member: Member) -> None:
    """Owe what factors will change on one host, but for what another of its kernel owns."""
    bench = member.bench
    mine = {
        device: [name for name in names if crew.owner(member, device, name) == member.name]
        for device, names in _tuned(bench).items()
    }
    tuned = {device: names for device, names in mine.items() if names}
    bench.group = cgroups.own(bench.host, bench.journal, [n for ns in tuned.values() for n in ns])
    bench.own_groups(tuned)


def _facts(member: Member, folder: Path) -> dict[str, Any]:
    bench = member.bench
    if same_kernel(bench.host):
        what = f"{bench.host.name} is this very machine, or a namespace of it: one kernel, one CPU"
        bench.doubts.append(Doubt("same-kernel", what, _HERE))
    programs = sorted({executed(w).program for w in bench.study.workloads})
    facts = gather(bench.host, tuple(bench.aims.values()), programs)
    if used := added(bench.study):
        facts["plugins"] = used
    member.numbers = numbers(facts)
    check_options(bench.study, member.numbers)
    check_paths(bench.study, bench.aims)
    check_resume(folder, bench, facts)
    facts["placement"] = {
        name: {way.disk: way.words() for way in ways(bench.topologies[name])} for name in bench.aims
    }
    odd = dict.fromkeys(line for name in bench.aims for line in warnings(bench.topologies[name]))
    where = f"{member.name}: " if member.place.ssh else ""
    bench.doubts += [Doubt("placement", where + line, _PLACED) for line in odd]
    bench.doubts += target_doubts(bench.study.design.prior, facts)
    return facts


def _again(crew: Crew, member: Member, folder: Path, interruption: Interruption) -> None:
    """A host that was lost and is back: as before, as far as it is the same machine."""
    _own(crew, member)
    _facts(member, folder)
    member.upkeep = _upkeep(crew, member, folder, interruption)


def _upkeep(crew: Crew, member: Member, folder: Path, interruption: Interruption) -> Upkeep:
    place = folder / "hosts" / member.name if crew.several else folder
    return Upkeep(member.bench, place, interruption, member.numbers, crew.said)


def _write(crew: Crew, store: stores.Store, facts: Mapping[str, dict[str, Any]]) -> None:
    stand = standing(crew)
    for name, told in facts.items():
        told["baselines"] = stand
        if crew.study.aa:
            told["aa"] = {"arms": crew.study.aa.arms, "levels": dict(crew.study.aa.levels)}
        doubts = crew.doubts if name == crew.chief.name else []
        host = crew.members[name].bench.host
        told["doubts"] = [{"check": d.check, "what": d.what, "advice": d.advice} for d in doubts]
        store.write_facts(host.name, told)


def _begin_session(crew: Crew, store: stores.Store, facts: Mapping[str, dict[str, Any]]) -> None:
    said = {
        name: {
            "token": crew.members[name].bench.journal.token,
            "boot_id": told["boot_id"],
            "targets": told["targets"],
        }
        for name, told in facts.items()
    }
    alone = next(iter(said.values())) if len(said) == 1 else {"hosts": said}
    store.begin_session({"started": time.time(), **alone})


def standing(crew: Crew) -> dict[str, str]:
    """The label of each factor's baseline level, as :func:`iotrial.plan.design.baselines`.

    Raises StudyError where the hosts stand at different levels and the study names none.
    """
    members = list(crew.members.values())
    votes = [
        (
            member.name,
            member.bench.in_force(),
            baselines(member.bench.study, member.bench.in_force(), member.bench.topologies),
        )
        for member in members
    ]
    found: dict[str, str] = {}
    for factor in crew.study.factors:
        told = [(name, said) for name, force, said in votes if _speaks(factor, force)] or [
            (name, said) for name, _, said in votes[:1]
        ]
        labels = {name: said[factor.name] for name, said in told if factor.name in said}
        if len(set(labels.values())) > 1:
            where = ", ".join(f"{name} at {label}" for name, label in labels.items())
            message = f"factor {factor.name}: the hosts stand at different levels: {where}"
            advice = "Say which of them is the `baseline`, or set the hosts alike."
            raise StudyError(message, key=f"factors.{factor.name}", advice=advice)
        found |= dict.fromkeys([factor.name] if labels else [], next(iter(labels.values()), ""))
    return found


def _speaks(factor: Factor, in_force: Mapping[tuple[str, str], str]) -> bool:
    """Whether a host owns anything that the factor sets."""
    names = {name for level in factor.levels for name, _ in level.settings}
    return any(name in names for _, name in in_force)


def _tuned(bench: Bench) -> dict[str, list[str]]:
    """Device → names of the tunables that any factor sets on it ('' for the host's own), and of
    those that they move on another layer (the ports behind a map); what moves others first,
    because it goes back first."""
    known = catalogue_of(bench.study)
    found: dict[tuple[str, str], int] = {}
    for each in wants(bench.study, bench.topologies):
        rank = known.tunable(each.name).rank
        found |= {(device, each.name): rank for device in each.devices}
        for row in known.group([each.name]):
            if any(row.device_problem(device) for device in each.devices):
                below = (t.names(row.scope) for t in bench.topologies.values())
                found |= {(device, row.name): row.rank for device in chain(*below)}
    names: dict[str, list[str]] = {}
    for device, name in sorted(found, key=lambda pair: (found[pair], pair)):
        names.setdefault(device, []).append(name)
    return names
