"""What a run of a study executes that iotrial does not bring: the study's own commands, so that a
person can see them before, and plugins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iotrial import plugins
from iotrial.model.study import Study


@dataclass(frozen=True, slots=True)
class Command:
    """``where`` in the study, and ``when`` it is executed."""

    where: str
    when: str
    argv: tuple[str, ...]


def commands(study: Study) -> tuple[Command, ...]:
    """In the order of the study's tables, each once."""
    found = (*_knobs(study), *_targets(study), *_chores(study), *_manual(study))
    return tuple(dict.fromkeys(found))


def added(study: Study) -> dict[str, str]:
    """The plugins that a run of it uses, where each comes from and which version: ``tools pread`` →
    ``…/pread.py sha256:0123456789ab``.  A check of validity looks at every load."""
    loads = {workload.tool for workload in study.workloads}
    knobs = {name for f in study.factors for level in f.levels for name, _ in level.settings}
    used = {"tools": loads, "tunables": {name.partition(".")[0] for name in knobs}}
    return {
        f"{kind} {plugin.name}": str(plugin.origin)
        for kind in ("tools", "tunables", "validity")
        for plugin in plugins.added(kind)
        if plugin.name in used.get(kind, (plugin.name,))
    }


def _knobs(study: Study) -> Iterator[Command]:
    for knob in study.knobs:
        if knob.read:
            read = tuple(word.format(device="") for word in knob.read)
            yield Command(knob.name, "will be read by", read)
        for act in knob.how("", "{value}") if knob.how and knob.read else ():
            if act.kind == "run":
                yield Command(knob.name, "after its file is written or given back", act.argv)


def _targets(study: Study) -> Iterator[Command]:
    for target in study.targets:
        for argv in target.create:
            yield Command(f"targets.{target.name}", "makes it", argv)
        for argv in target.remove:
            yield Command(f"targets.{target.name}", "removes it", argv)
        if what := target.mount:
            options = ("-o", what.options) if what.options else ()
            argv = ("mount", "-t", what.type, *options, what.source, target.path)
            yield Command(f"targets.{target.name}", "mounts it", argv)


def _chores(study: Study) -> Iterator[Command]:
    for load in study.workloads:
        for when, chores in (("before", load.prepare), ("after", load.cleanup)):
            for chore in chores:
                if chore.argv:
                    yield Command(f"workloads.{load.name}", f"{when} each {chore.each}", chore.argv)
        for argv in load.evidence:
            yield Command(f"workloads.{load.name}", "after each load, its output kept", argv)


def _manual(study: Study) -> Iterator[Command]:
    for factor in study.factors:
        if factor.verify:
            yield Command(f"factors.{factor.name}", "says which level is there", factor.verify)
