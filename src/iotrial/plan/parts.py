"""What a trial loads at the same time: its (host, target) pairs; and each host's share of a study.

A trial names one target, as it always did.  What that comes to follows from the study alone, so
nothing more is written down: the target on each of its hosts; of ``devices`` each; of a target
made of ``targets`` each of them; and of these the first *n* hosts, and the first *n* on each host,
where a factor counts them.  ``docs/decisions/0017-many-hosts.md`` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from iotrial.model.study import Factor, Stage, Study, StudyHost
from iotrial.model.target import HostTarget, Target, Topology
from iotrial.model.trial import Treatment, Trial


def single(target: Target) -> tuple[Target, ...]:
    """A target's devices, each as a target of its own: ``disk#1``, ``disk#2``; any other as it
    is."""
    if not target.devices:
        return (target,)
    armed = target.armed or ("",) * len(target.devices)
    return tuple(
        replace(
            target, name=f"{target.name}#{number}", path=path, destroy=key, devices=(), armed=()
        )
        for number, (path, key) in enumerate(zip(target.devices, armed, strict=True), 1)
    )


def on(study: Study, target: Target, place: StudyHost) -> tuple[Target, ...]:
    """What a target comes to on one machine, in the study's order; empty where it is not."""
    if target.of:
        return tuple(each for name in target.of for each in on(study, study.target(name), place))
    return single(target) if place.name in (target.hosts or (study.place.name,)) else ()


def parts(study: Study, name: str) -> tuple[HostTarget, ...]:
    """Every part of the target of this name, host by host."""
    target = study.target(name)
    return tuple(
        HostTarget(place.name, each) for place in study.places for each in on(study, target, place)
    )


def parts_of(study: Study, trial: Trial) -> tuple[HostTarget, ...]:
    """What a trial loads."""
    found = parts(study, trial.target)
    if trial.host:
        return tuple(part for part in found if part.host == trial.host)
    if (most := counted(study, trial.treatment, "hosts")) is not None:
        hosts = list(dict.fromkeys(part.host for part in found))[:most]
        found = tuple(part for part in found if part.host in hosts)
    if (most := counted(study, trial.treatment, "devices")) is not None:
        first = {part for host in {p.host for p in found} for part in _first(found, host, most)}
        found = tuple(part for part in found if part in first)
    return found


def _first(found: tuple[HostTarget, ...], host: str, most: int) -> tuple[HostTarget, ...]:
    return tuple(part for part in found if part.host == host)[:most]


def counted(study: Study, treatment: Treatment, what: str) -> int | None:
    """How many ``hosts`` or ``devices`` a treatment has take part; None where it does not say."""
    for name, label in treatment:
        factor = study.factor(name)
        if factor.kind == "count" and factor.subject == what:
            return int(label)
    return None


def needed_by(study: Study, trial: Trial) -> set[str]:
    """The hosts that a trial needs: those it loads, and those a factor's own target is on."""
    if trial.host:
        return {trial.host}
    named = {study.factor(name).target for name, _ in trial.treatment} - {""}
    elsewhere = {part.host for name in named for part in parts(study, name)}
    return elsewhere | {part.host for part in parts_of(study, trial)}


def several(study: Study) -> bool:
    """Whether there may be trials on more than one part, or parts on more than one machine."""
    return len(study.places) > 1 or any(
        len(parts(study, target.name)) > 1 for target in study.targets
    )


def share(study: Study, place: StudyHost) -> Study:
    """The study as one machine sees it: what is on it, each part a target of its own.  A factor
    that is about a target elsewhere sets nothing here, and a stage loads what it has here."""
    here = [each for target in study.targets if not target.of for each in on(study, target, place)]
    known = {each for target in study.targets if on(study, target, place) for each in [target.name]}
    return replace(
        study,
        hosts=(place,),
        targets=tuple(here),
        factors=tuple(_here(factor, known) for factor in study.factors),
        stages=tuple(_stage(study, stage, place) for stage in study.stages),
        aa=study.aa and replace(study.aa, of=study.aa.of and share(study.aa.of, place)),
    )


def _here(factor: Factor, known: set[str]) -> Factor:
    if not factor.target or factor.target in known:
        return factor
    bare = (replace(level, settings=(), alternatives=()) for level in factor.levels)
    return replace(factor, levels=tuple(bare))


def _stage(study: Study, stage: Stage, place: StudyHost) -> Stage:
    """A stage without a target has that of the study, of which one machine may have none."""
    if any(factor.kind == "target" for factor in study.factors):
        return stage
    target = study.target(stage.target) if stage.target else study.targets[0]
    return replace(stage, here=tuple(each.name for each in on(study, target, place)))


def alone_on(study: Study, place: StudyHost) -> Study:
    """The study as if one of its hosts were the only one: for blocks that are spread over hosts."""
    return replace(
        study,
        hosts=(place,),
        targets=tuple(
            replace(target, hosts=(place.name,) if target.hosts else ()) for target in study.targets
        ),
        aa=study.aa and replace(study.aa, of=study.aa.of and alone_on(study.aa.of, place)),
    )


def names_on(study: Study, place: StudyHost) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each target of the study that one machine has, with the names of what it comes to there."""
    for target in study.targets:
        if found := on(study, target, place):
            yield target.name, tuple(each.name for each in found)


def together(
    study: Study, place: StudyHost, known: Mapping[str, Topology]
) -> Iterator[tuple[str, Topology]]:
    """What lies below each target of the study here: of several parts, below all of them."""
    for name, names in names_on(study, place):
        nodes = dict.fromkeys(node for each in names for node in known[each].nodes)
        yield name, Topology(tuple(nodes))
