"""What two results folders are unlike in: loads that are not the same, and machines.  Pure.

A workload that both folders have by one name is compared only where it did the same: the same tool
with the same options on a target of the same kind and size.  Of imported runs what is alike in all
runs of a workload is known, and nothing else.  What else differs (host, kernel, disk, version of
the tool) is in every change that is seen between the two, and is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from iotrial.model.doubt import Doubt
from iotrial.model.results import Results
from iotrial.model.workload import Workload

_MACHINE = {
    "machine_id": "machine",
    "machine": "model",
    "cpu_model": "CPU",
    "cpus": "CPUs",
    "memory": "memory (bytes)",
    "kernel": "kernel",
    "kernel_parameters": "boot parameters",
    "distribution": "distribution",
    "cpu_governor": "CPU governor",
    "clocksource": "clock",
}
_PLACES = ("filename", "directory", "name", "description")
"""Options that say where a load went, which may be what is asked about."""
_OF_FILE = ("backing_file", "backing_inode")
_SHOWN = 6


def unlike_loads(former: Results, latter: Results) -> dict[str, str]:
    """The workloads that both have and that are not the same load, each with what differs:
    ``iodepth = 4 and 1``."""
    theirs = {each.name: each for each in latter.study.workloads}
    found = {}
    for own in former.study.workloads:
        if other := theirs.get(own.name):
            known = former.study.design.kind == latter.study.design.kind != "recorded"
            said = list(_options(own, other, whole=known)) + (
                list(_targets(former, latter)) if known else []
            )
            if said:
                found[own.name] = "; ".join(said[:_SHOWN])
    return found


def unlike_machines(former: Results, latter: Results) -> Iterator[Doubt]:
    """A doubt for each host that is not what it was, and for tools of other versions."""
    hosts = [name for name in former.facts if name in latter.facts]
    pairs = [(name, former.facts[name], latter.facts[name]) for name in hosts]
    if former.facts and latter.facts and not hosts:
        both = " and ".join((*former.facts, *latter.facts))
        own_facts, other_facts = (next(iter(each.facts.values())) for each in (former, latter))
        pairs = [(both, own_facts, other_facts)]
    names = former.folder.name, latter.folder.name
    for name, own, other in pairs:
        if said := [*_facts(own, other), *_programs(own, other), *_disks(own, other)]:
            yield _doubt(name, said, names)
    if former.study.design.kind == latter.study.design.kind == "recorded":
        own_tools, other_tools = (
            ", ".join(sorted({record.tool for record in each.valid})) for each in (former, latter)
        )
        if own_tools != other_tools:
            yield _doubt("all", [f"tool {own_tools} and {other_tools}"], names)


def _doubt(host: str, said: list[str], names: tuple[str, str]) -> Doubt:
    return Doubt(
        "unlike",
        f"{host}: what differs between {names[0]} and {names[1]}: {'; '.join(said)}",
        "It is in every change that is seen between the two, and may be what you ask about.",
    )


def _options(own: Workload, other: Workload, *, whole: bool) -> Iterator[str]:
    """What the loads differ in; ``whole``: what only one of them says differs too."""
    if own.tool != other.tool:
        yield f"{own.tool} and {other.tool}"
    left, right = dict(own.options), dict(other.options)
    for name in dict.fromkeys((*left, *right)):
        told = name in left and name in right
        if name not in _PLACES and (whole or told) and left.get(name) != right.get(name):
            a, b = (each.get(name, "not said") for each in (left, right))
            yield f"{name} = {a} and {b}"
    for name in ("jobfile", "argv", "cache", "metrics"):
        if getattr(own, name) != getattr(other, name):
            yield f"the {name} differs"


def _targets(former: Results, latter: Results) -> Iterator[str]:
    left, right = ({each.name: each for each in r.study.targets} for r in (former, latter))
    for name in (name for name in left if name in right):
        own, other = left[name], right[name]
        for what in ("kind", "size", "filesystem"):
            a, b = (getattr(each, what, "") for each in (own, other))
            if a != b:
                yield f"{what} of target {name} = {a or 'none'} and {b or 'none'}"


def _facts(own: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for key, name in _MACHINE.items():
        a, b = own.get(key), other.get(key)
        if a and b and a != b:
            yield f"{name} {a} and {b}"


def _programs(own: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    left, right = own.get("programs") or {}, other.get("programs") or {}
    for name in left:
        if right.get(name) and left[name] and left[name] != right[name]:
            yield f"{name} {left[name]} and {right[name]}"


def _disks(own: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    left, right = own.get("targets") or {}, other.get("targets") or {}
    for name in (name for name in left if name in right):
        a, b = (_disk(each.get(name)) for each in (left, right))
        if a != b:
            yield f"disk of {name} {a} and {b}"


def _disk(target: Mapping[str, Any] | None) -> str:
    """What tells a disk from another; nothing of a file that iotrial made."""
    identity = (target or {}).get("identity") or {}
    ids = {n: v for n, v in (identity.get("ids") or {}).items() if n not in _OF_FILE}
    return ", ".join(f"{name} {value}" for name, value in sorted(ids.items()))
