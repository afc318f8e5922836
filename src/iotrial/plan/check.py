"""What the tables of a study say of each other: names that exist, keys that go together.

Runs on the file's tables, after their types were checked and before they become a Study; so a
problem can be told at the key that has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from iotrial.errors import UsageError
from iotrial.hosts.login import unreachable
from iotrial.plan import convert
from iotrial.plan.hosting import hosting
from iotrial.plan.listening import listening
from iotrial.plan.locate import KeyPath
from iotrial.plan.making import making
from iotrial.plan.over_hosts import over_hosts
from iotrial.plan.problem import Problem, choices, nearest
from iotrial.plan.schema import FactorTable, StudyFile
from iotrial.plan.staging import stage_problems
from iotrial.plan.target_table import TargetTable
from iotrial.tunables import Catalogue, families
from iotrial.tunables.file import problem

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
MOST_TRIALS = 100_000
_PLACES = ("device", "devices", "file", "directory", "loop", "targets")
_VARIED = ("tunable", "option", "options", "targets", "count", "manual")
_KERNEL = {"vm", "net", "fs", "kernel", "dev", "sunrpc"}  # folders of /proc/sys
_KERNEL_NET = {"core", "ipv4", "ipv6", "netfilter", "unix", "bridge", "mptcp", "rds", "sctp"}
_WHOSE = {
    "workload": ("option", "options"),
    "target": ("tunable", "group"),
    "on": ("tunable", "group"),
    "verify": ("manual",),
}


def checks(spec: StudyFile, known: Catalogue) -> Iterator[Problem]:
    """Every problem of one table with another, in no particular order.  ``known`` are the tunables
    that there are, those of the study among them."""
    yield from _names(spec)
    for name, target in spec.targets.items():
        yield from _target(("targets", name), target)
    yield from host_problems(spec)
    for name, knob in spec.knobs.items():
        if why := problem(knob.file):
            yield Problem(("knobs", name, "file"), why)
        if "{value}" not in knob.content:
            message = "{value} is not in it: every level would write the same"
            yield Problem(("knobs", name, "content"), message, 'Such as content = "depth {value}"')
    for name, factor in spec.factors.items():
        yield from _factor(("factors", name), factor, spec, known)
    yield from hosting(spec)
    yield from listening(spec)
    yield from over_hosts(spec)
    yield from _under_test(spec)
    yield from _size(spec)
    yield from _exclude(spec)
    yield from _design(spec)
    yield from _decide(spec)
    yield from stage_problems(spec)


def _names(spec: StudyFile) -> Iterator[Problem]:
    tables: dict[str, Mapping[str, object]] = {
        "hosts": spec.hosts,
        "knobs": spec.knobs,
        "targets": spec.targets,
        "workloads": spec.workloads,
        "factors": spec.factors,
    }
    for table, entries in tables.items():
        for name in entries:
            if not _NAME.fullmatch(name):
                advice = "Use letters, digits, and . _ + - inside; the name appears in results."
                yield Problem((table, name), f"{name!r} cannot be a name", advice)
    for table in ("targets", "workloads"):
        if not tables[table]:
            yield Problem((table,), "at least one is needed", f"For example [{table}.first]")
    if "factor" in spec.factors:
        yield Problem(("factors", "factor"), "'factor' is a word of [[exclude]]", "Rename it.")


def host_problems(spec: StudyFile) -> Iterator[Problem]:
    """What ``[hosts]`` cannot mean."""
    for name, host in spec.hosts.items():
        if "ssh" in host.model_fields_set and not host.ssh.strip():
            message = "it names no machine"
            yield Problem(("hosts", name, "ssh"), message, "Leave ssh out for this machine.")
        elif host.ssh and (problems := unreachable(host.ssh)):
            yield Problem(("hosts", name, "ssh"), *problems)


def _target(path: KeyPath, table: TargetTable) -> Iterator[Problem]:
    said = [place for place in _PLACES if getattr(table, place)]
    if len(said) != 1:
        found = f"both {said[0]} and {said[1]}" if said else "none"
        message = f"a target is one of {', '.join(_PLACES)}; here is {found}"
        yield Problem(
            (*path, said[1]) if said else path, message, 'For example loop = { size = "1GiB" }'
        )
    if table.file and not table.size:
        yield Problem(path, "the file's size is missing", 'For example size = "4GiB"')
    if table.size and not table.file:
        yield Problem((*path, "size"), "only a file has a size here", "Leave it out.")
    if table.loop is not None and not table.loop.size:
        yield Problem((*path, "loop", "size"), "an empty loop device cannot be loaded")
    if table.destroy and not (table.device or table.devices or table.file):
        yield Problem((*path, "destroy"), "only a device or a file needs arming", "Leave it out.")
    yield from making(path, table)
    yield from _absolute(path, table)


def _absolute(path: KeyPath, table: TargetTable) -> Iterator[Problem]:
    if "/" in table.device and not table.device.startswith("/"):
        message = f"{table.device!r} is neither an absolute path nor an id"
        yield Problem((*path, "device"), message, "Begin it with /dev/, or give a serial or WWN.")
    places = {"file": table.file, "directory": table.directory}
    for key, place in places.items():
        if place and not place.startswith("/"):
            yield Problem((*path, key), f"{place!r} is not an absolute path", "Begin it with /")
    if table.loop and table.loop.directory and not table.loop.directory.startswith("/"):
        message = f"{table.loop.directory!r} is not an absolute path"
        yield Problem((*path, "loop", "directory"), message, "Begin it with /")


def _factor(
    path: KeyPath, table: FactorTable, spec: StudyFile, known: Catalogue
) -> Iterator[Problem]:
    said: list[str] = [key for key in _VARIED if getattr(table, key)]
    if isinstance(table.levels, dict):
        said.append("group")
    if len(said) != 1:
        yield _ambiguous(path, said)
        return
    for key, kinds in _WHOSE.items():
        if getattr(table, key) and said[0] not in kinds:
            yield Problem((*path, key), f"{key} does not go with {said[0]}", "Leave it out.")
    yield from _spread(path, table, said[0])
    yield from _references(path, table, spec, known)
    yield from _labels(path, table)


def _ambiguous(path: KeyPath, said: Sequence[str]) -> Problem:
    advice = (
        "Say one of: tunable, option, options, targets, count, manual, levels = { label = { … } }"
    )
    if not said:
        return Problem(path, "it does not say what is varied", advice)
    spelt = ["levels as a table of groups" if key == "group" else key for key in said]
    return Problem(path, f"it varies {' and '.join(spelt)} at once", advice)


def _spread(path: KeyPath, table: FactorTable, kind: str) -> Iterator[Problem]:
    """Levels or a range, and of the right form for what is varied."""
    said = [key for key in ("levels", "range") if getattr(table, key) is not None]
    if kind in {"targets", "options"}:
        for key in said:
            yield Problem((*path, key), f"the {kind} are the levels", "Leave it out.")
        return
    if len(said) != 1:
        found = "both" if said else "neither"
        yield Problem(path, f"either levels or range is needed; here is {found}")
    if table.levels == "available" and kind != "tunable":
        yield Problem((*path, "levels"), '"available" is for a tunable', "List the levels.")
    if isinstance(table.levels, list) and kind != "tunable":
        for at, given in enumerate(table.levels):
            if isinstance(given, list):
                message = "only a tunable can have alternatives"
                yield Problem((*path, "levels", at), message, "Write one value.")
    if table.range and kind not in {"tunable", "option", "count"}:
        yield Problem((*path, "range"), f"{kind} has no range", "List the levels.")
    elif table.range:
        yield from _range(path, table)


def _range(path: KeyPath, table: FactorTable) -> Iterator[Problem]:
    spread = table.range
    if spread is None:
        return
    if not spread.step:
        yield Problem((*path, "range", "step"), "0 leads nowhere", "Use a step of 1 or more.")
    elif spread.to < spread.start:
        yield Problem((*path, "range", "to"), f"{spread.to} is below `from`, {spread.start}")
    elif (count := (spread.to - spread.start) // spread.step + 1) > convert.MOST_LEVELS:
        advice = f"Use a longer step: {convert.MOST_LEVELS} levels at most."
        yield Problem((*path, "range", "step"), f"these are {count} levels", advice)


def _references(
    path: KeyPath, table: FactorTable, spec: StudyFile, known: Catalogue
) -> Iterator[Problem]:
    if table.tunable:
        yield from _tunable((*path, "tunable"), table.tunable, known)
    if table.workload and table.workload not in spec.workloads:
        yield _unknown((*path, "workload"), table.workload, list(spec.workloads), "workloads")
    if table.target and table.target not in spec.targets:
        yield _unknown((*path, "target"), table.target, list(spec.targets), "targets")
    for at, name in enumerate(table.targets):
        if name not in spec.targets:
            yield _unknown((*path, "targets", at), name, list(spec.targets), "targets")
    if isinstance(table.levels, dict):
        for label, group in table.levels.items():
            for name in group:
                yield from _tunable((*path, "levels", label, name), name, known)


def _tunable(path: KeyPath, name: str, known: Catalogue) -> Iterator[Problem]:
    try:
        known.tunable(name)
    except UsageError as unknown:
        family, dot, rest = name.partition(".")
        if family in _KERNEL and (family != "net" or rest.partition(".")[0] in _KERNEL_NET):
            yield Problem(path, unknown.message, f"Did you mean sysctl.{name}?")
        elif dot and family not in families() and not nearest(family, families()):
            message = f"{name!r}: tunables of family {family} are not in this version"
            yield Problem(path, message, f"families: {', '.join(families())}")
        else:
            yield Problem(path, unknown.message, unknown.advice)


def _unknown(path: KeyPath, name: str, known: Sequence[str], table: str) -> Problem:
    return Problem(path, f"there is no {name!r} in [{table}]", choices(name, known, f"[{table}]"))


def _labels(path: KeyPath, table: FactorTable) -> Iterator[Problem]:
    """No level twice or empty, and a baseline that is one of them."""
    labels = [level.label for level in convert.written_levels(table)]
    key = "targets" if table.targets else "options" if table.options else "levels"
    seen: set[str] = set()
    for at, label in enumerate(labels):
        place = (*path, key, label if isinstance(table.levels, dict) or table.options else at)
        if label in seen:
            yield Problem(place, f"level {label!r} is there twice", "Leave one out.")
        seen.add(label)
        if not label.strip() or not label.isprintable():
            yield Problem(place, f"{label!r} cannot name a level")
    baseline = convert.label(table.baseline)
    if baseline and labels and baseline not in labels and not convert.needs_unset(table):
        message = f"{baseline!r} is not one of the levels"
        yield Problem((*path, "baseline"), message, choices(baseline, labels, "levels"))


def _under_test(spec: StudyFile) -> Iterator[Problem]:
    """One target is under test in each trial, and the study must say which."""
    comparing = [name for name, factor in spec.factors.items() if factor.targets]
    for name in comparing[1:]:
        message = f"the targets are already varied by factor {comparing[0]!r}"
        yield Problem(("factors", name, "targets"), message, "Leave one out.")
    staged = {stage.target for stage in spec.stage}
    members = {name for table in spec.targets.values() for name in table.targets}
    whole = [name for name in spec.targets if name not in members]
    names = [name for at, name in enumerate(whole) if not at or name not in staged]
    if len(names) > 1 and not comparing:
        advice = (
            f"Compare them: [factors.storage] targets = {names!r}; load them together:"
            f" [targets.all] targets = {names!r}; or make a study for each."
        ).replace("'", '"')
        yield Problem(("targets", names[1]), "there is more than one target to test", advice)


def _size(spec: StudyFile) -> Iterator[Problem]:
    """A study that no one can wait for is a mistake, and would take as long to plan."""
    counts = {name: max(1, len(convert.levels(each))) for name, each in spec.factors.items()}
    together = [stage.vary for stage in spec.stage] or [list(counts)]
    treatments = sum(math.prod(counts.get(name, 1) for name in names) for names in together)
    trials = treatments * len(spec.workloads) * (spec.design.blocks or convert.BLOCKS)
    if spec.design.kind in {"fraction", "one-at-a-time"}:
        trials = treatments  # far fewer are tried, but they are chosen from all
    if trials > MOST_TRIALS:
        yield Problem(("factors",), f"these are more than {MOST_TRIALS:,} trials", "Vary less.")


def _exclude(spec: StudyFile) -> Iterator[Problem]:
    for at, cell in enumerate(spec.exclude):
        for name, given in cell.items():
            path: KeyPath = ("exclude", at, name)
            if name not in spec.factors:
                if name != "factor":
                    yield _unknown(path, name, list(spec.factors), "factors")
                continue
            labels = [level.label for level in convert.levels(spec.factors[name])]
            for index, value in enumerate(convert.one_or_more(given)):
                label = convert.label(value)
                if labels and label not in labels:
                    place = (*path, index) if isinstance(given, list) else path
                    message = f"{label!r} is not one of the levels of {name}"
                    yield Problem(place, message, choices(label, labels, "levels"))


def _design(spec: StudyFile) -> Iterator[Problem]:
    """Keys of a fraction go with a fraction, and only one of them says how large it is."""
    said = [key for key in ("resolution", "runs") if key in spec.design.model_fields_set]
    for key in said:
        if spec.design.kind != "fraction":
            other = spec.design.kind or "full"
            message = f'it is for kind = "fraction", and this is "{other}"'
            yield Problem(("design", key), message, "Leave it out.")
    if spec.design.kind == "fraction" and len(said) > 1:
        message = "the resolution and the number of runs are both said"
        yield Problem(("design", "runs"), message, "Leave one out: each follows from the other.")


def _decide(spec: StudyFile) -> Iterator[Problem]:
    if isinstance(spec.decide.primary, dict):
        for name in spec.decide.primary:
            if name not in spec.workloads:
                yield _unknown(("decide", "primary", name), name, list(spec.workloads), "workloads")
