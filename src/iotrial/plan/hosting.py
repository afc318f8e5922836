"""What a study says of several hosts and devices: names that exist, keys that go together.

A part of :mod:`iotrial.plan.check`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iotrial.plan import convert
from iotrial.plan.hostlist import expanded
from iotrial.plan.locate import KeyPath
from iotrial.plan.problem import Problem, choices
from iotrial.plan.schema import FactorTable, StudyFile
from iotrial.plan.target_table import TargetTable

_OWN = ("host", "hosts", "destroy", "create", "remove", "filesystem", "mount", "size")


def hosting(spec: StudyFile) -> Iterator[Problem]:
    """Every problem with where targets are, and with what is loaded together."""
    for name, table in spec.targets.items():
        path: KeyPath = ("targets", name)
        yield from _hosts(path, table, spec)
        yield from _devices(path, table)
        yield from _members(path, name, spec)
    for name, factor in spec.factors.items():
        if factor.count:
            yield from _count(("factors", name), factor, spec)


def _unknown(path: KeyPath, name: str, known: Sequence[str], table: str) -> Problem:
    return Problem(path, f"there is no {name!r} in [{table}]", choices(name, known, f"[{table}]"))


def _hosts(path: KeyPath, table: TargetTable, spec: StudyFile) -> Iterator[Problem]:
    if table.host and table.hosts:
        yield Problem((*path, "hosts"), "host and hosts are both said", "Leave one out.")
        return
    if table.host and table.host not in spec.hosts:
        yield _unknown((*path, "host"), table.host, list(spec.hosts), "hosts")
    try:
        named = expanded(table.hosts)
    except ValueError as error:
        advice = 'For example hosts = "box[1-4]"'
        yield Problem((*path, "hosts"), str(error), advice)
        return
    for name in dict.fromkeys(named):
        if name not in spec.hosts:
            yield _unknown((*path, "hosts"), name, list(spec.hosts), "hosts")
        if named.count(name) > 1:
            yield Problem((*path, "hosts"), f"{name!r} is there twice", "Leave one out.")
    if len(spec.hosts) > 1 and not (table.host or named or table.targets):
        advice = f'For example host = "{next(iter(spec.hosts))}"'
        yield Problem(path, "there are several hosts: which of them is it on?", advice)


def _devices(path: KeyPath, table: TargetTable) -> Iterator[Problem]:
    for at, device in enumerate(table.devices):
        if "/" in device and not device.startswith("/"):
            message = f"{device!r} is neither an absolute path nor an id"
            yield Problem((*path, "devices", at), message, "Begin it with /dev/, or give a serial.")
        if table.devices.index(device) != at:
            yield Problem((*path, "devices", at), f"{device!r} is there twice", "Leave one out.")
    if table.devices and table.filesystem:
        advice = 'Make a target of each, and load them together: targets = ["a", "b"]'
        yield Problem((*path, "filesystem"), "it is made on one device", advice)
    if table.devices and table.create:
        yield Problem((*path, "create"), "it makes one device", "Make a target of each.")
    several = (isinstance(table.destroy, list) and len(table.destroy)) or 1
    if table.destroy and several != max(1, len(table.devices)):
        message = f"{several} for {max(1, len(table.devices))} devices"
        yield Problem((*path, "destroy"), message, "Arm each device, in their order.")


def _members(path: KeyPath, own: str, spec: StudyFile) -> Iterator[Problem]:
    table = spec.targets[own]
    for key in _OWN if table.targets else ():
        if getattr(table, key):
            message = f"{key} is said at the targets that it is made of"
            yield Problem((*path, key), message, "Leave it out here.")
    for at, name in enumerate(table.targets):
        place = (*path, "targets", at)
        if name not in spec.targets:
            yield _unknown(place, name, list(spec.targets), "targets")
        elif spec.targets[name].targets:
            yield Problem(place, f"{name!r} is itself made of others", "Name those.")
        elif table.targets.index(name) != at:
            yield Problem(place, f"{name!r} is there twice", "Leave one out.")


def _count(path: KeyPath, table: FactorTable, spec: StudyFile) -> Iterator[Problem]:
    key = "range" if table.range else "levels"
    known = most(spec, table.count or "hosts")
    for given in convert.values(table):
        value = convert.first(given)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            yield Problem((*path, key), f"{value!r} is no number of {table.count}", "1 or more.")
        elif known and value > known:
            message = f"{value} {table.count} are wanted, and the targets have {known}"
            yield Problem((*path, key), message, "Name more of them, or ask for fewer.")
    others = [name for name, each in spec.factors.items() if each.count == table.count]
    if others[0] != path[1]:
        message = f"{table.count} are already counted by factor {others[0]}"
        yield Problem((*path, "count"), message, "Leave one out.")


def most(spec: StudyFile, what: str) -> int:
    """How many ``hosts`` or ``devices`` a target of the study has at most; 0 where it is wrong."""
    try:
        return max((_has(table, what, spec) for table in spec.targets.values()), default=0)
    except (ValueError, KeyError):
        return 0


def _has(table: TargetTable, what: str, spec: StudyFile) -> int:
    members = [spec.targets[name] for name in table.targets] or [table]
    if what == "devices":
        return sum(max(1, len(each.devices)) for each in members)
    return len({h for each in members for h in expanded(each.hosts) or (each.host,)})
