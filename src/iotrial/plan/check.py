"""What the tables of a study say of each other: names that exist, keys that go together.

Runs on the file's tables, after their types were checked and before they become a Study; so a
problem can be told at the key that has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from iotrial.errors import UsageError
from iotrial.hosts.login import unreachable
from iotrial.hosts.via import problem_of
from iotrial.model.hostlist import expanded
from iotrial.model.listen import parse
from iotrial.model.study import ordered
from iotrial.model.target import FILESYSTEMS
from iotrial.plan import convert
from iotrial.plan.problem import NAME, KeyPath, StudyProblem, choices, nearest
from iotrial.plan.schema import (
    FactorTable,
    KnobTable,
    MountTable,
    OfferedTable,
    StageTable,
    StudyFile,
    TargetTable,
    WorkloadTable,
)
from iotrial.tunables import Catalogue, families
from iotrial.tunables.file import problem

MOST_TRIALS = 100_000
_PLACES = ("device", "devices", "file", "directory", "loop", "targets")
_VARIED = ("tunable", "boot", "option", "options", "targets", "count", "manual")
_KERNEL = {"vm", "net", "fs", "kernel", "dev", "sunrpc"}  # folders of /proc/sys
_KERNEL_NET = {"core", "ipv4", "ipv6", "netfilter", "unix", "bridge", "mptcp", "rds", "sctp"}
_WHOSE = {
    "workload": ("option", "options"),
    "target": ("tunable", "boot", "group"),
    "on": ("tunable", "group"),
    "verify": ("manual",),
}
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECRET = re.compile(r"(?:^|,)(?:pass|passwd|password|secret)=")
_OWN = ("host", "hosts", "destroy", "create", "remove", "filesystem", "format", "mount", "size")
_KEY: KeyPath = ("design", "blocks_over")
_FEWEST = 2
_MOST_RATES = 20
_PERCENTILE = re.compile(r"p[5-9]\d(\.\d{1,2})?")


def checks(spec: StudyFile, known: Catalogue) -> Iterator[StudyProblem]:
    """Every problem of one table with another, in no particular order.  ``known`` are the tunables
    that there are, those of the study among them."""
    for at, cell in enumerate(spec.exclude):
        if "factor" in cell:
            message = "factor is not supported by this version of iotrial"
            advice = 'Exclude levels instead: scheduler = ["bfq"]'
            yield StudyProblem(("exclude", at, "factor"), message, advice)
    yield from _names(spec)
    for name, target in spec.targets.items():
        yield from _target(("targets", name), target)
    yield from host_problems(spec)
    for name, knob in spec.knobs.items():
        yield from _knob(("knobs", name), knob)
    for name, factor in spec.factors.items():
        yield from _factor(("factors", name), factor, spec, known)
    for name, load in spec.workloads.items():
        if load.offered is not None:
            yield from _offered(("workloads", name), load, load.offered)
        if load.recorded is not None:
            yield from _recorded(("workloads", name), load)
    yield from _hosting(spec)
    yield from _listening(spec)
    yield from _over_hosts(spec)
    yield from _under_test(spec)
    yield from _size(spec)
    yield from _exclude(spec)
    yield from _design(spec)
    yield from _decide(spec)
    yield from _stage_problems(spec)


def _names(spec: StudyFile) -> Iterator[StudyProblem]:
    tables: dict[str, Mapping[str, object]] = {
        "hosts": spec.hosts,
        "knobs": spec.knobs,
        "targets": spec.targets,
        "workloads": spec.workloads,
        "factors": spec.factors,
    }
    for table, entries in tables.items():
        for name in entries:
            if not NAME.fullmatch(name):
                advice = "Use letters, digits, and . _ + - inside; the name appears in results."
                yield StudyProblem((table, name), f"{name!r} is not a valid name", advice)
    for table in ("targets", "workloads"):
        if not tables[table]:
            yield StudyProblem((table,), "at least one is required", f"For example [{table}.first]")
    if "factor" in spec.factors:
        yield StudyProblem(
            ("factors", "factor"), "'factor' is a keyword of [[exclude]]", "Rename it."
        )


def host_problems(spec: StudyFile) -> Iterator[StudyProblem]:
    """What ``[hosts]`` cannot mean."""
    for name, host in spec.hosts.items():
        if "ssh" in host.model_fields_set and not host.ssh.strip():
            message = "ssh does not name a host"
            yield StudyProblem(("hosts", name, "ssh"), message, "Remove ssh for this host.")
        elif host.ssh and (problems := unreachable(host.ssh)):
            yield StudyProblem(("hosts", name, "ssh"), *problems)
        ways = [key for key in ("ssh", "via", "shell") if key in host.model_fields_set]
        if len(ways) > 1:
            message = f"both {ways[0]} and {ways[1]} are given"
            yield StudyProblem(("hosts", name, ways[1]), message, "Remove one.")
        elif "shell" in ways and not (host.shell and all(map(str.strip, host.shell))):
            message = "shell does not name a command"
            advice = 'For example shell = ["podman", "exec", "-i", "box", "sh"]'
            yield StudyProblem(("hosts", name, "shell"), message, advice)
        elif "via" in host.model_fields_set and (wrong := problem_of(host.via)):
            yield StudyProblem(("hosts", name, "via"), *wrong)


def _knob(path: KeyPath, knob: KnobTable) -> Iterator[StudyProblem]:
    message = "{value} is missing: every level would write the same"
    if knob.write:
        if knob.file or knob.content or knob.reload:
            what = "a setting has a file or a command that writes it, not both"
            yield StudyProblem((*path, "write"), what, "Remove write, or file, content and reload.")
        if not any("{value}" in word for word in knob.write):
            yield StudyProblem((*path, "write"), message, 'For example write = ["set", "{value}"]')
        return
    if not knob.file:
        what = "file is missing, or write"
        yield StudyProblem(path, what, "Give file and content, or the command that writes it.")
        return
    if why := problem(knob.file):
        yield StudyProblem((*path, "file"), why)
    if "{value}" not in knob.content:
        yield StudyProblem((*path, "content"), message, 'For example content = "depth {value}"')


def _recorded(path: KeyPath, load: WorkloadTable) -> Iterator[StudyProblem]:
    """What a recording cannot be for."""
    if load.tool not in ("replay", "fio"):
        what = f"{load.tool} does no recording again; replay does, and fio a load like it"
        yield StudyProblem((*path, "recorded"), what, 'Use tool = "replay".')
    if load.jobfile:
        what = "a workload has a job file or a recording, not both"
        yield StudyProblem((*path, "jobfile"), what, "Remove one.")
    if load.offered is not None:
        what = "a recording has rates of its own"
        yield StudyProblem((*path, "offered"), what, "Remove it.")


def _offered(path: KeyPath, load: WorkloadTable, table: OfferedTable) -> Iterator[StudyProblem]:
    """What offered rates cannot mean."""
    here = (*path, "offered")
    if load.tool != "fio":
        yield StudyProblem(here, f"{load.tool} offers no rates; fio does", "Remove it.")
    if load.jobfile:
        what = "offered rates make a job file of their own"
        yield StudyProblem((*path, "jobfile"), what, "Write its options under `options`.")
    if len(table.within) != 1 or not all(map(_PERCENTILE.fullmatch, table.within)):
        what = "one percentile of the response time is bounded, p50 to p99.99"
        yield StudyProblem((*here, "within"), what, 'For example within = { p99 = "2ms" }')
    elif not all(table.within.values()):
        yield StudyProblem((*here, "within"), "no I/O takes 0 seconds", "Give a longer time.")
    yield from _rates(here, table)


def _rates(here: KeyPath, table: OfferedTable) -> Iterator[StudyProblem]:
    spread = [key for key, value in _spread_of(table).items() if value is not None]
    if bool(table.rates) == bool(spread):
        what = "the rates are a list, or from, to and steps"
        example = 'For example from = "500", to = "8k", steps = 5'
        yield StudyProblem(here, what, "Remove one of them." if table.rates else example)
    elif table.rates:
        yield from _listed(here, table.rates)
    elif missing := [key for key in _spread_of(table) if key not in spread]:
        what = f"{' and '.join(missing)} of the rates {'are' if missing[1:] else 'is'} missing"
        yield StudyProblem(here, what, 'For example from = "500", to = "8k", steps = 5')
    elif table.steps is not None and table.start is not None and table.to is not None:
        if not _FEWEST <= table.steps <= _MOST_RATES:
            what = f"{table.steps} rates; a curve has {_FEWEST} to {_MOST_RATES}"
            yield StudyProblem((*here, "steps"), what)
        elif table.to < table.start + table.steps:
            what = f"`to` ({table.to}) is not above `from` ({table.start}) by so many steps"
            yield StudyProblem((*here, "to"), what, "Raise it.")
        elif len(set(convert.offered_rates(table))) < table.steps:
            what = f"{table.steps} rates from {table.start} to {table.to} are not all different"
            yield StudyProblem((*here, "steps"), what, "Use fewer steps.")


def _spread_of(table: OfferedTable) -> dict[str, int | None]:
    return {"from": table.start, "to": table.to, "steps": table.steps}


def _listed(here: KeyPath, rates: Sequence[int]) -> Iterator[StudyProblem]:
    if not _FEWEST <= len(rates) <= _MOST_RATES:
        what = f"{len(rates)} rates; a curve has {_FEWEST} to {_MOST_RATES}"
        yield StudyProblem((*here, "rates"), what)
    for at, (low, high) in enumerate(pairwise(rates), 1):
        if high <= low:
            what = f"{high} does not follow {low}: the rates ascend"
            yield StudyProblem((*here, "rates", at), what, "Sort them, each once.")
            return


def _target(path: KeyPath, table: TargetTable) -> Iterator[StudyProblem]:
    said = [place for place in _PLACES if getattr(table, place)]
    if len(said) != 1:
        found = f"both {said[0]} and {said[1]}" if said else "none"
        message = f"a target is one of {', '.join(_PLACES)}; found {found}"
        yield StudyProblem(
            (*path, said[1]) if said else path, message, 'For example loop = { size = "1GiB" }'
        )
    if table.file and not table.size:
        yield StudyProblem(path, "the file's size is missing", 'For example size = "4GiB"')
    if table.size and not table.file:
        yield StudyProblem((*path, "size"), "size is for a file only", "Remove it.")
    if table.loop is not None and not table.loop.size:
        yield StudyProblem((*path, "loop", "size"), "a loop device needs a size above 0")
    if table.destroy and not (table.device or table.devices or table.file):
        yield StudyProblem(
            (*path, "destroy"), "destroy is for a device or a file only", "Remove it."
        )
    yield from _making(path, table)
    yield from _absolute(path, table)


def _absolute(path: KeyPath, table: TargetTable) -> Iterator[StudyProblem]:
    if "/" in table.device and not table.device.startswith("/"):
        message = f"{table.device!r} is neither an absolute path nor a serial or WWN"
        yield StudyProblem(
            (*path, "device"), message, "Start it with /dev/, or give a serial or WWN."
        )
    places = {"file": table.file, "directory": table.directory}
    for key, place in places.items():
        if place and not place.startswith("/"):
            yield StudyProblem(
                (*path, key), f"{place!r} is not an absolute path", "Start it with /"
            )
    if table.loop and table.loop.directory and not table.loop.directory.startswith("/"):
        message = f"{table.loop.directory!r} is not an absolute path"
        yield StudyProblem((*path, "loop", "directory"), message, "Start it with /")


def _factor(
    path: KeyPath, table: FactorTable, spec: StudyFile, known: Catalogue
) -> Iterator[StudyProblem]:
    said: list[str] = [key for key in _VARIED if getattr(table, key)]
    if isinstance(table.levels, dict):
        said.append("group")
    if len(said) != 1:
        yield _ambiguous(path, said)
        return
    for key, kinds in _WHOSE.items():
        if getattr(table, key) and said[0] not in kinds:
            yield StudyProblem(
                (*path, key), f"{key} cannot be combined with {said[0]}", "Remove it."
            )
    yield from _spread(path, table, said[0])
    yield from _references(path, table, spec, known)
    yield from _labels(path, table)


def _ambiguous(path: KeyPath, said: Sequence[str]) -> StudyProblem:
    advice = (
        "Set one of: tunable, boot, option, options, targets, count, manual,"
        " levels = { label = { … } }"
    )
    if not said:
        return StudyProblem(path, "the factor does not name what it varies", advice)
    spelt = ["levels as a table of groups" if key == "group" else key for key in said]
    return StudyProblem(path, f"the factor has both {' and '.join(spelt)}", advice)


def _spread(path: KeyPath, table: FactorTable, kind: str) -> Iterator[StudyProblem]:
    """Levels or a range, and of the right form for what is varied."""
    said = [key for key in ("levels", "range") if getattr(table, key) is not None]
    if kind in {"targets", "options"}:
        for key in said:
            yield StudyProblem((*path, key), f"the {kind} are the levels", "Remove it.")
        return
    if len(said) != 1:
        found = "both" if said else "neither"
        yield StudyProblem(path, f"either levels or range is required; found {found}")
    if table.levels == "available" and kind != "tunable":
        advice = (
            "List the levels; of kernels their releases." if kind == "boot" else "List the levels."
        )
        yield StudyProblem((*path, "levels"), '"available" is for a tunable', advice)
    if isinstance(table.levels, list) and kind != "tunable":
        for at, given in enumerate(table.levels):
            if isinstance(given, list):
                message = "only a tunable can have alternatives"
                yield StudyProblem((*path, "levels", at), message, "Write one value.")
    if table.range and kind not in {"tunable", "boot", "option", "count"}:
        yield StudyProblem((*path, "range"), f"{kind} has no range", "List the levels.")
    elif table.range:
        yield from _range(path, table)


def _range(path: KeyPath, table: FactorTable) -> Iterator[StudyProblem]:
    spread = table.range
    if spread is None:
        return
    if not spread.step:
        yield StudyProblem(
            (*path, "range", "step"), "a step of 0 is not possible", "Use a step of 1 or more."
        )
    elif spread.to < spread.start:
        yield StudyProblem(
            (*path, "range", "to"), f"`to` ({spread.to}) is below `from` ({spread.start})"
        )
    elif (count := (spread.to - spread.start) // spread.step + 1) > convert.MOST_LEVELS:
        advice = f"Use a larger step: {convert.MOST_LEVELS} levels at most."
        yield StudyProblem((*path, "range", "step"), f"the range has {count} levels", advice)


def _references(
    path: KeyPath, table: FactorTable, spec: StudyFile, known: Catalogue
) -> Iterator[StudyProblem]:
    if table.tunable:
        yield from _tunable((*path, "tunable"), table.tunable, known)
    if table.boot:
        yield from _tunable((*path, "boot"), convert.tunable_of(table), known)
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


def _tunable(path: KeyPath, name: str, known: Catalogue) -> Iterator[StudyProblem]:
    try:
        known.tunable(name)
    except UsageError as unknown:
        family, dot, rest = name.partition(".")
        if family in _KERNEL and (family != "net" or rest.partition(".")[0] in _KERNEL_NET):
            yield StudyProblem(path, unknown.message, f"Did you mean sysctl.{name}?")
        elif dot and family not in families() and not nearest(family, families()):
            message = f"{name!r}: tunables of family {family} are not in this version"
            yield StudyProblem(path, message, f"families: {', '.join(families())}")
        else:
            yield StudyProblem(path, unknown.message, unknown.advice)


def _unknown(path: KeyPath, name: str, known: Sequence[str], table: str) -> StudyProblem:
    return StudyProblem(path, f"[{table}] has no {name!r}", choices(name, known, f"[{table}]"))


def _labels(path: KeyPath, table: FactorTable) -> Iterator[StudyProblem]:
    """No level twice or empty, and a baseline that is one of them."""
    labels = [level.label for level in convert.written_levels(table)]
    key = "targets" if table.targets else "options" if table.options else "levels"
    seen: set[str] = set()
    for at, label in enumerate(labels):
        place = (*path, key, label if isinstance(table.levels, dict) or table.options else at)
        if label in seen:
            yield StudyProblem(place, f"level {label!r} occurs twice", "Remove one.")
        seen.add(label)
        if not label.strip() or not label.isprintable():
            yield StudyProblem(place, f"{label!r} is not a valid name of a level")
    baseline = convert.label(table.baseline)
    if baseline and labels and baseline not in labels and not convert.needs_unset(table):
        message = f"{baseline!r} is not one of the levels"
        yield StudyProblem((*path, "baseline"), message, choices(baseline, labels, "levels"))


def _under_test(spec: StudyFile) -> Iterator[StudyProblem]:
    """One target is under test in each trial, and the study must say which."""
    comparing = [name for name, factor in spec.factors.items() if factor.targets]
    for name in comparing[1:]:
        message = f"factor {comparing[0]!r} already varies the targets"
        yield StudyProblem(("factors", name, "targets"), message, "Remove one.")
    staged = {stage.target for stage in spec.stage}
    members = {name for table in spec.targets.values() for name in table.targets}
    whole = [name for name in spec.targets if name not in members]
    beside = {table.target for table in spec.workloads.values()}
    whole = [name for name in whole if name not in beside] or whole
    names = [name for at, name in enumerate(whole) if not at or name not in staged]
    if len(names) > 1 and not comparing:
        advice = (
            f"To compare them: [factors.storage] targets = {names!r}; to load them together:"
            f" [targets.all] targets = {names!r}; or write a study for each."
        ).replace("'", '"')
        yield StudyProblem(("targets", names[1]), "the study has several targets", advice)


def _size(spec: StudyFile) -> Iterator[StudyProblem]:
    """A study that no one can wait for is a mistake, and would take as long to plan."""
    counts = {name: max(1, len(convert.levels(each))) for name, each in spec.factors.items()}
    together = [stage.vary for stage in spec.stage] or [list(counts)]
    treatments = sum(math.prod(counts.get(name, 1) for name in names) for names in together)
    trials = treatments * len(spec.workloads) * (spec.design.blocks or convert.BLOCKS)
    if spec.design.kind in {"fraction", "one-at-a-time"}:
        trials = treatments  # far fewer are tried, but they are chosen from all
    if spec.design.kind == "tune":
        trials = 0  # it never enumerates them
    if trials > MOST_TRIALS:
        yield StudyProblem(
            ("factors",),
            f"the study has more than {MOST_TRIALS:,} trials",
            "Use fewer factors or levels.",
        )


def _exclude(spec: StudyFile) -> Iterator[StudyProblem]:
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
                    yield StudyProblem(place, message, choices(label, labels, "levels"))


def _design(spec: StudyFile) -> Iterator[StudyProblem]:
    """Keys of a fraction go with a fraction, and only one of them says how large it is."""
    said = [key for key in ("resolution", "runs") if key in spec.design.model_fields_set]
    for key in said:
        if spec.design.kind != "fraction":
            other = spec.design.kind or "full"
            message = f'it is for kind = "fraction", not "{other}"'
            yield StudyProblem(("design", key), message, "Remove it.")
    if spec.design.kind == "fraction" and len(said) > 1:
        message = "both resolution and runs are given"
        yield StudyProblem(("design", "runs"), message, "Remove one: each follows from the other.")


def _decide(spec: StudyFile) -> Iterator[StudyProblem]:
    for key, given in (("primary", spec.decide.primary), ("secondary", spec.decide.secondary)):
        for name in given if isinstance(given, dict) else ():
            if name not in spec.workloads:
                yield _unknown(("decide", key, name), name, list(spec.workloads), "workloads")
    if spec.decide.secondary and spec.design.kind == "saturate":
        message = "a search for the highest value has no second family"
        yield StudyProblem(("decide", "secondary"), message, "Remove it.")


def _making(path: KeyPath, table: TargetTable) -> Iterator[StudyProblem]:
    """Every problem with what is made for one target."""
    if table.filesystem:
        yield from _filesystem((*path, "filesystem"), table)
    yield from _format((*path, "format"), table)
    if table.mount is not None:
        yield from _mount((*path, "mount"), table, table.mount)
    yield from _commands(path, table)


def _filesystem(path: KeyPath, table: TargetTable) -> Iterator[StudyProblem]:
    if not (table.device or table.loop):
        yield StudyProblem(path, "filesystem is for a device or a loop device", "Remove it.")
    if table.filesystem not in FILESYSTEMS:
        message = f"iotrial cannot create file system {table.filesystem!r}"
        yield StudyProblem(path, message, choices(table.filesystem, FILESYSTEMS, "it creates"))


_KEPT = {
    **dict.fromkeys(("ext2", "ext3", "ext4"), frozenset({"-F", "-n", "-S", "-U", "-V", "-z"})),
    "xfs": frozenset({"-f", "-N", "-p", "-V"}),
    "btrfs": frozenset({
        "-f", "--force", "-U", "--uuid", "--device-uuid", "-r", "--rootdir", "-V", "--version",
    }),
}  # fmt: skip
"""Options that are not left to a study: by which mkfs forces, writes less or elsewhere, or is known
by another UUID."""
_OPTION = re.compile(r"-[A-Za-z]|--[a-z][a-z-]*(=.*)?")
_ELSEWHERE = re.compile(
    r"/|\b(device|dev|name|logdev|rtdev|file|uuid|label|partlabel|partuuid|id)=", re.IGNORECASE
)


def _format(path: KeyPath, table: TargetTable) -> Iterator[StudyProblem]:
    """Options of mkfs by which it would write to another disk, or to one that is in use; and words
    that are no options, of which it would make a device."""
    if table.format and not table.filesystem:
        yield StudyProblem(path, "format is for a target with a filesystem", "Add filesystem.")
    value = False  # whether the word before may have this one as its value
    for word in table.format:
        option = word.startswith("-")
        if not word or not word.isprintable() or "{" in word or "}" in word:
            yield StudyProblem(path, f"{word!r} is not an option of mkfs")
        elif option and not _OPTION.fullmatch(word):
            message = f"{word}: an option and its value are two words"
            yield StudyProblem(path, message, 'For example format = ["-O", "^has_journal"]')
        elif word.partition("=")[0] in _KEPT.get(table.filesystem, ()):
            message = f"{word} is not left to a study: iotrial sets the UUID and forces nothing"
            yield StudyProblem(path, message, "Remove it.")
        elif _ELSEWHERE.search(word):
            message = f"{word} may name another device, which nothing has armed"
            yield StudyProblem(path, message, "Remove it, or make the target with `create`.")
        elif not option and not value:
            message = f"{word} follows no option, so mkfs would take it for a device"
            yield StudyProblem(path, message, 'For example format = ["-O", "^has_journal"]')
        value = option and "=" not in word


def _mount(path: KeyPath, table: TargetTable, mount: MountTable) -> Iterator[StudyProblem]:
    if not table.directory:
        advice = "Give the mount point as `directory`; on a device use `filesystem`."
        yield StudyProblem(path, "mount needs a directory", advice)
    if table.create:
        yield StudyProblem(path, "create and mount exclude each other", "Mount in `create`.")
    if not mount.source or mount.source.startswith("-") or not mount.source.isprintable():
        yield StudyProblem((*path, "source"), f"{mount.source!r} is not a mount source")
    if re.match(r"(LABEL|UUID|PARTLABEL|PARTUUID|ID)=", mount.source):
        message = f"{mount.source!r} would be resolved by mount(8)"
        yield StudyProblem((*path, "source"), message, "Give its path in /dev/disk/.")
    if not _TYPE.fullmatch(mount.type):
        yield StudyProblem((*path, "type"), f"{mount.type!r} is not a file system type")
    if re.search(r"[\s\x00-\x1f]", mount.options):
        advice = 'Separate options by commas alone: options = "noatime,rsize=65536"'
        yield StudyProblem((*path, "options"), f"{mount.options!r} contains blanks", advice)
    if _SECRET.search(mount.options):
        advice = "The results folder contains the study: name a file, credentials=/root/secret."
        yield StudyProblem((*path, "options"), "a study must not contain a password", advice)


def _commands(path: KeyPath, table: TargetTable) -> Iterator[StudyProblem]:
    if table.create and not table.remove:
        message = "create needs remove, which deletes the target again"
        yield StudyProblem(
            (*path, "create"), message, 'For example remove = ["mdadm", "--stop", …]'
        )
    if table.remove and not table.create:
        yield StudyProblem((*path, "remove"), "remove needs create", "Remove it.")
    if table.create and not (table.device.startswith("/") or table.directory):
        advice = "Give the path of the `device` or `directory` that it creates."
        yield StudyProblem((*path, "create"), "create needs a device or a directory", advice)
    for key in ("create", "remove"):
        given = getattr(table, key)
        several = [given] if given and isinstance(given[0], str) else given
        if any(not argv or not argv[0] for argv in several):
            yield StudyProblem((*path, key), "the command is empty")


def _hosting(spec: StudyFile) -> Iterator[StudyProblem]:
    """Every problem with where targets are, and with what is loaded together."""
    for name, table in spec.targets.items():
        path: KeyPath = ("targets", name)
        yield from _hosts(path, table, spec)
        yield from _devices(path, table)
        yield from _members(path, name, spec)
    for name, factor in spec.factors.items():
        if factor.count:
            yield from _count(("factors", name), factor, spec)


def _hosts(path: KeyPath, table: TargetTable, spec: StudyFile) -> Iterator[StudyProblem]:
    if table.host and table.hosts:
        yield StudyProblem((*path, "hosts"), "both host and hosts are given", "Remove one.")
        return
    if table.host and table.host not in spec.hosts:
        yield _unknown((*path, "host"), table.host, list(spec.hosts), "hosts")
    try:
        named = expanded(table.hosts)
    except ValueError as error:
        advice = 'For example hosts = "box[1-4]"'
        yield StudyProblem((*path, "hosts"), str(error), advice)
        return
    for name in dict.fromkeys(named):
        if name not in spec.hosts:
            yield _unknown((*path, "hosts"), name, list(spec.hosts), "hosts")
        if named.count(name) > 1:
            yield StudyProblem((*path, "hosts"), f"{name!r} occurs twice", "Remove one.")
    if len(spec.hosts) > 1 and not (table.host or named or table.targets):
        advice = f'For example host = "{next(iter(spec.hosts))}"'
        yield StudyProblem(path, "the target does not name one of the hosts", advice)


def _devices(path: KeyPath, table: TargetTable) -> Iterator[StudyProblem]:
    for at, device in enumerate(table.devices):
        if "/" in device and not device.startswith("/"):
            message = f"{device!r} is neither an absolute path nor a serial"
            yield StudyProblem(
                (*path, "devices", at), message, "Start it with /dev/, or give a serial."
            )
        if table.devices.index(device) != at:
            yield StudyProblem((*path, "devices", at), f"{device!r} occurs twice", "Remove one.")
    if table.devices and table.filesystem:
        advice = 'Write a target for each, and load them together: targets = ["a", "b"]'
        yield StudyProblem((*path, "filesystem"), "filesystem is for one device", advice)
    if table.devices and table.create:
        yield StudyProblem(
            (*path, "create"), "create is for one device", "Write a target for each."
        )
    several = (isinstance(table.destroy, list) and len(table.destroy)) or 1
    if table.destroy and several != max(1, len(table.devices)):
        message = f"{several} for {max(1, len(table.devices))} devices"
        yield StudyProblem(
            (*path, "destroy"), message, "Give one serial or WWN per device, in their order."
        )


def _members(path: KeyPath, own: str, spec: StudyFile) -> Iterator[StudyProblem]:
    table = spec.targets[own]
    for key in _OWN if table.targets else ():
        if getattr(table, key):
            message = f"{key} belongs to the member targets"
            yield StudyProblem((*path, key), message, "Remove it here.")
    for at, name in enumerate(table.targets):
        place = (*path, "targets", at)
        if name not in spec.targets:
            yield _unknown(place, name, list(spec.targets), "targets")
        elif spec.targets[name].targets:
            yield StudyProblem(place, f"{name!r} itself has members", "Name its members instead.")
        elif table.targets.index(name) != at:
            yield StudyProblem(place, f"{name!r} occurs twice", "Remove one.")


def _count(path: KeyPath, table: FactorTable, spec: StudyFile) -> Iterator[StudyProblem]:
    key = "range" if table.range else "levels"
    known = most(spec, table.count or "hosts")
    for given in convert.values(table):
        value = convert.first(given)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            yield StudyProblem(
                (*path, key), f"{value!r} is not a number of {table.count}", "Give 1 or more."
            )
        elif known and value > known:
            message = f"{value} {table.count} required, the targets have {known}"
            yield StudyProblem((*path, key), message, "Name more, or reduce the number.")
    others = [name for name, each in spec.factors.items() if each.count == table.count]
    if others[0] != path[1]:
        message = f"factor {others[0]} already counts {table.count}"
        yield StudyProblem((*path, "count"), message, "Remove one.")


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


def _listening(spec: StudyFile) -> Iterator[StudyProblem]:
    """Addresses that are none, that are too wide, or that nobody connects to."""
    served = any(each.start == "server" for each in spec.workloads.values())
    for name, table in spec.hosts.items():
        if "listen" not in table.model_fields_set:
            continue
        path = ("hosts", name, "listen")
        try:
            place = parse(table.listen)
        except ValueError as error:
            yield StudyProblem(path, str(error))
            continue
        if place.loopback and (table.ssh or table.via or table.shell):
            message = f"{place.address} is reachable from {name} only"
            yield StudyProblem(
                path, message, "Remove listen to use the tunnel through its SSH connection."
            )
        if not served:
            advice = 'Remove it, or set start = "server" there.'
            yield StudyProblem(
                path, 'no workload has start = "server": no server to listen', advice
            )


def _over_hosts(spec: StudyFile) -> Iterator[StudyProblem]:
    """Every problem of ``blocks_over = "hosts"``."""
    if spec.design.blocks_over != "hosts":
        return
    if spec.design.kind in {"race", "saturate", "tune"}:
        what = (
            f"a {spec.design.kind} decides after each block, but blocks_over runs them concurrently"
        )
        yield StudyProblem(_KEY, what, 'Use kind = "full", or remove blocks_over.')
    if spec.design.stop == "decided":
        what = 'stop = "decided" looks after each block, but blocks_over runs them concurrently'
        yield StudyProblem(_KEY, what, "Remove one of them.")
    if spec.stage:
        yield StudyProblem(
            _KEY,
            "blocks_over cannot be combined with stages",
            "Write a study for each stage, or remove it.",
        )
    yield from _on_the_same_hosts(spec)
    for name, factor in spec.factors.items():
        path: KeyPath = ("factors", name)
        if factor.count == "hosts":
            what = "each trial is on one host: its number cannot be varied"
            yield StudyProblem((*path, "count"), what, "Remove the factor or blocks_over.")
        if factor.manual:
            what = "manual levels cannot be set on several hosts at the same time"
            yield StudyProblem((*path, "manual"), what, "Remove the factor or blocks_over.")
        if name == "host":
            yield StudyProblem(
                path, "results use this name for the host of a block", "Rename the factor."
            )


def _on_the_same_hosts(spec: StudyFile) -> Iterator[StudyProblem]:
    """Every target is on all of the hosts."""
    said = {}
    for name, table in spec.targets.items():
        try:
            said[name] = () if table.targets else expanded(table.hosts) or (table.host,)
        except ValueError:
            return  # told at its key
    every = list(dict.fromkeys(host for hosts in said.values() for host in hosts if host))
    if len(every) < 2:  # noqa: PLR2004 (one host has its blocks one after the other)
        advice = 'Name several, for example [targets.disk] hosts = "box[1-4]"'
        yield StudyProblem(_KEY, "the targets are not on several hosts", advice)
        return
    for name, hosts in said.items():
        if hosts and (missing := [host for host in every if host not in hosts]):
            shown = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")  # noqa: PLR2004
            what = f"the target is not on {shown}; every block needs every target"
            key = "host" if spec.targets[name].host else "hosts"
            yield StudyProblem(("targets", name, key), what, "Name the same hosts at each target.")


def _stage_problems(spec: StudyFile) -> Iterator[StudyProblem]:
    """Every problem of a stage with the rest of the file."""
    for at, table in enumerate(spec.stage):
        path: KeyPath = ("stage", at)
        yield from _varied(path, table, spec)
        yield from _fixed(path, table, spec)
        yield from _loaded(path, table, spec)
        yield from _ranged(path, table, spec)
        yield from _then(path, table, spec)
    if spec.design.kind == "tune":
        if spec.stage:
            message = "a search for the best levels has stages of its own"
            yield StudyProblem(("stage", 0), message, 'Remove them, or the kind "tune".')
        else:
            yield from _baselines(spec)
    if spec.stage:
        yield from _staged_factors(spec)


def _varied(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[StudyProblem]:
    for at, name in enumerate(table.vary):
        if name not in spec.factors:
            yield _unknown((*path, "vary", at), name, list(spec.factors), "factors")
        elif name in table.vary[:at]:
            yield StudyProblem((*path, "vary", at), f"{name} occurs twice", "Remove one.")
        elif name in table.fix:
            message = f"{name} is both varied and fixed"
            yield StudyProblem((*path, "fix", name), message, "Remove one.")
        elif _idle(table, spec.factors[name], spec):
            message = f"no workload of this stage has option {name}"
            yield StudyProblem((*path, "vary", at), message, "Add its workload, or remove it.")
    if not table.vary and table.then != "confirm":
        yield StudyProblem((*path, "vary"), "no factor is varied", 'For example vary = ["rsize"]')
    if table.vary and table.then == "confirm":
        message = (
            "a confirm stage varies no factor: it compares all baselines with all selected levels"
        )
        yield StudyProblem((*path, "vary"), message, "Remove it.")


def _idle(table: StageTable, factor: FactorTable, spec: StudyFile) -> bool:
    return bool(factor.workload) and factor.workload not in (table.workloads or spec.workloads)


def _fixed(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[StudyProblem]:
    loads = [name for name in table.workloads or spec.workloads if name in spec.workloads]
    options = list(dict.fromkeys(key for name in loads for key in convert.own_options(spec, name)))
    for name, value in table.fix.items():
        if name in spec.factors:
            labels = [level.label for level in convert.levels(spec.factors[name])]
            if labels and convert.label(value) not in labels:
                message = f"{convert.label(value)!r} is not one of the levels of {name}"
                advice = choices(convert.label(value), labels, "levels")
                yield StudyProblem((*path, "fix", name), message, advice)
        elif name not in options:
            message = f"{name!r} is neither a factor nor an option of the workloads of this stage"
            advice = choices(name, [*spec.factors, *options], "there are")
            yield StudyProblem((*path, "fix", name), message, advice)


def _loaded(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[StudyProblem]:
    for at, name in enumerate(table.workloads):
        if name not in spec.workloads:
            yield _unknown((*path, "workloads", at), name, list(spec.workloads), "workloads")
    for name in table.options:
        if name not in spec.workloads or name not in (table.workloads or spec.workloads):
            message = f"{name!r} is not a workload of this stage"
            advice = choices(name, table.workloads or list(spec.workloads), "workloads")
            yield StudyProblem((*path, "options", name), message, advice)
    if table.target and table.target not in spec.targets:
        yield _unknown((*path, "target"), table.target, list(spec.targets), "targets")
    if table.target and (several := [n for n, each in spec.factors.items() if each.targets]):
        message = f"factor {several[0]} sets the targets"
        yield StudyProblem((*path, "target"), message, "Remove it.")


def _ranged(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[StudyProblem]:
    if table.range is None:
        return
    swept = convert.swept_by(spec, table)
    if len(swept) != 1:
        found = " and ".join(name for name, _ in swept) or "none"
        message = f"it is for one varied factor with a range; found {found}"
        yield StudyProblem(
            (*path, "range"), message, "Give the factor `range` instead of `levels`."
        )
        return
    name, spread = swept[0]
    sweep = convert.sweep_of(table, spread)
    end = spread.to if sweep.to is None else sweep.to
    if table.range.step == 0:
        yield StudyProblem(
            (*path, "range", "step"), "a step of 0 is not possible", "Use a step of 1 or more."
        )
    elif not spread.start <= sweep.origin <= end <= spread.to:
        message = f"the range is outside that of {name}: {spread.start} to {spread.to}"
        yield StudyProblem(
            (*path, "range"), message, f"Widen the range of {name}, or narrow this one."
        )
    elif (end - sweep.origin) // sweep.step >= convert.MOST_LEVELS:
        message = f"the range has more than {convert.MOST_LEVELS} levels"
        yield StudyProblem((*path, "range", "step"), message, "Use a larger step.")


def _then(path: KeyPath, table: StageTable, spec: StudyFile) -> Iterator[StudyProblem]:
    if table.then == "confirm" and path[-1] == 0:
        message = "no earlier stage selects a level to confirm"
        yield StudyProblem((*path, "then"), message, "Add a stage before it.")
    if table.then == "screen" and len(table.vary) < _FEWEST:
        message = "screening needs at least two factors"
        yield StudyProblem((*path, "then"), message, 'Use then = "best".')
    if table.then == "screen" and table.kind:
        message = "a screening stage has a fixed design, a fraction of resolution 3"
        yield StudyProblem((*path, "kind"), message, "Remove it.")
    if table.kind == "race" and table.then not in ("best", "confirm"):
        message = "a race measures treatments other than the best too seldom for this"
        yield StudyProblem((*path, "kind"), message, 'Remove it, or use then = "best".')
    numeric = [name for name in table.vary if name in spec.factors and _ordered(spec.factors[name])]
    if table.then == "knee" and table.vary and not numeric:
        message = "a knee needs a factor with numeric levels"
        yield StudyProblem((*path, "then"), message, 'Use then = "best".')


def _ordered(table: FactorTable) -> bool:
    return bool(ordered([level.label for level in convert.levels(table)]))


def _staged_factors(spec: StudyFile) -> Iterator[StudyProblem]:
    """What stages need of the factors: that they are varied, and a baseline that the file says,
    for what is chosen in one stage must be known before the next."""
    varied = {name for table in spec.stage for name in table.vary}
    fixed = {name for table in spec.stage for name in table.fix}
    for name in spec.factors:
        if name not in varied | fixed:
            advice = "Add it to `vary` of a stage, or remove it."
            yield StudyProblem(("factors", name), "no stage varies it", advice)
    yield from _baselines(spec)


def _baselines(spec: StudyFile) -> Iterator[StudyProblem]:
    for name, table in spec.factors.items():
        kind = convert.factor_kind(table)
        if kind in ("tunable", "group") and convert.label(table.baseline) == "":
            advice = 'For the value at the start: baseline = "unset"'
            if kind == "group":
                advice = 'For example an empty group: levels = { off = {}, … } and baseline = "off"'
            message = "a study in stages needs a baseline for each factor"
            yield StudyProblem(("factors", name), message, advice)
