"""Settings of a disk's queue and its I/O scheduler; rules of udev: how they are written."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

from iotrial.model.tunable import Domain
from iotrial.tunables import families
from iotrial_lint.known import FILES, REMOVED, TODAY, nearest
from iotrial_lint.parsers.fio import jobs
from iotrial_lint.rule import (
    ConfigFile,
    ConfigLine,
    ConfigSetting,
    HostDisk,
    LintContext,
    RuleMessage,
    at,
    host_rule,
    named,
    rule,
    since,
    whole,
)


@rule(
    "depth-before-scheduler",
    "nr_requests or iosched/ before the scheduler",
    "warning",
    ("udev", "tuned"),
    reason=(
        "Writing queue/scheduler makes a new scheduler with its own defaults, and nr_requests"
        " again."
    ),
    source="block/blk-mq-sched.c: blk_mq_init_sched()",
    fix="Write the scheduler first.",
)
def depth_before_scheduler(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """nr_requests that is written before the scheduler, which resets it."""
    early: dict[tuple[object, ...], ConfigSetting] = {}
    for each in sheet.of("queue"):
        place = (each.entry.group, each.entry.section, each.how)
        if each.name == "nr_requests" or each.name.startswith("iosched/"):
            early[place] = each
        elif each.name == "scheduler" and place in early:
            before = early.pop(place)
            yield at(before, "the scheduler is written after it, and resets it")


_MOST = 1024  # blk-mq drivers offer at most BLK_MQ_MAX_DEPTH = 10240; disks mostly 32 to 1023


@rule(
    "depth-without-scheduler",
    "a large nr_requests with no scheduler",
    "warning",
    ("udev", "tuned"),
    reason=(
        "With `none` requests use the device's own tags: nr_requests can only be lowered below"
        " them, and a larger value is refused (Invalid argument)."
    ),
    source="block/blk-mq.c: blk_mq_update_nr_requests()",
    fix="Leave nr_requests out, or take a scheduler.",
)
def depth_without_scheduler(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """A large nr_requests together with no scheduler."""
    chosen: dict[tuple[object, ...], ConfigSetting] = {}
    for each in sheet.of("queue"):
        place = (each.entry.group, each.entry.section)
        if each.name == "scheduler":
            chosen[place] = each
        elif each.name == "nr_requests" and since(scene, 5, 0):
            scheduler = chosen.get(place)
            if (
                scheduler
                and scheduler.value in ("none", "noop")
                and (whole(each.value) or 0) >= _MOST
            ):
                what = f"without a scheduler the device's own depth is the most, and {each.value}"
                yield at(each, f"{what} is refused above it")


@rule(
    "queue-file-unknown",
    "a file of a queue that is misspelt",
    "error",
    ("udev", "tuned"),
    reason="udev reports it in its log and continues; an echo reports nothing.",
    source="Documentation/ABI/stable/sysfs-block",
    fix="Take the real name.",
)
def queue_file_unknown(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Files of a queue that do not exist."""
    for each in sheet.of("queue"):
        if each.name in FILES or each.name.startswith(("iosched", "device/", "mq/")):
            continue
        near = nearest(each.name, FILES, 0.7)
        if near:
            yield at(each, f"there is no queue/{each.name}; the nearest is queue/{near}")


_OTHERWISE = {
    "write_cache": Domain(choices=("write back", "write through", "none")),
    "wbt_lat_usec": Domain(low=-1),  # -1 is the default of the device
    # What is above 2 is taken for another: see queue-taken-for-another.
    "rq_affinity": Domain(low=0),
    "nomerges": Domain(low=0),
}
"""Where a file says more than the value that is read back afterwards, or a rule of its own does."""


@functools.cache
def _domains() -> Mapping[str, Domain]:
    """Of the catalogue, as a file below ``queue/`` is called."""
    rows = (row for row in families()["queue"] if row.name != "queue.scheduler")
    names = ((row.name.removeprefix("queue.").replace(".", "/"), row) for row in rows)
    return {name: row.domain(b"") for name, row in names} | _OTHERWISE


@rule(
    "queue-out-of-range",
    "a file of a queue at a value it does not take",
    "error",
    ("udev", "tuned"),
    reason="The kernel refuses it (Invalid argument), or makes another value of it.",
    source="Documentation/ABI/stable/sysfs-block; block/blk-sysfs.c",
    fix="Take a value within the bounds.",
)
def queue_out_of_range(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Files of a queue at values that the kernel refuses or ignores."""
    for each in sheet.of("queue"):
        domain = _domains().get(each.name)
        reset = each.name == "max_sectors_kb" and each.value == "0"  # to the device's own, from 6.3
        if domain and not any(mark in each.value for mark in "$%") and each.value and not reset:
            why = domain.refusal(each.value)
            if why:
                yield at(each, why)


_HIGHEST = 2

_TAKEN = {
    "nomerges": "is taken for 1: 2 alone looks for no merge at all",
    "rq_affinity": "changes nothing: what was in force stays",
}


@rule(
    "queue-taken-for-another",
    "a file of a queue at a number that the kernel takes for another",
    "warning",
    ("udev", "tuned"),
    reason=(
        "The kernel knows 0, 1 and 2, and answers to a higher number with no error (seen on 6.18)."
    ),
    source="block/blk-sysfs.c: queue_nomerges_store, queue_rq_affinity_store",
    fix="Write 0, 1 or 2.",
)
def queue_taken_for_another(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Files of a queue at numbers that the kernel takes without a word, for another or for
    nothing."""
    for each in sheet.of("queue"):
        taken = _TAKEN.get(each.name)
        if taken and re.fullmatch(r"\d{1,9}", each.value) and int(each.value) > _HIGHEST:
            yield at(each, f"{each.value} {taken}")


@host_rule(
    "read-ahead-below",
    "read-ahead that is set below the device that is read",
    "note",
    reason=(
        "A filesystem takes the read-ahead of the device it lies on.  What is set on the paths or"
        " disks below never counts; and none counts for direct I/O."
    ),
    source="Documentation/ABI/stable/sysfs-block: read_ahead_kb; mm/readahead.c",
    fix="Set it on the map or array.",
)
def read_ahead_below(scene: LintContext) -> Iterator[RuleMessage]:
    """Read-ahead of a map that is not that of what it is made of."""
    disks = {disk.name: disk for disk in scene.disks}
    for disk in scene.disks:
        own = whole(disk.queue.get("read_ahead_kb", ""))
        below = {
            disks[name].queue.get("read_ahead_kb", "") for name in disk.slaves if name in disks
        }
        if own is not None and below and max(map(_number, below)) > own:
            what = f"{own} KiB, and {max(map(_number, below))} below: only the uppermost counts"
            yield RuleMessage(0, f"{disk.name} queue/read_ahead_kb", what, file="(in force)")


def _number(text: str) -> int:
    return whole(text) or 0


@rule(
    "read-ahead-direct",
    "read-ahead beside jobs with direct=1",
    "note",
    ("udev", "tuned"),
    reason=(
        "Direct I/O has no page cache to read ahead into: whatever the value, such jobs do not see"
        " it."
    ),
    source="mm/readahead.c; open(2): O_DIRECT",
    fix="Remove it, or measure with buffered reads.",
)
def read_ahead_direct(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Read-ahead for loads that bypass the page cache."""
    ahead = [each for each in sheet.of("queue") if each.name == "read_ahead_kb"]
    # Loads are looked at only where it matters: each rule sees each of a thousand files.
    if ahead and _all_direct(scene):
        for each in ahead:
            yield at(each, "all jobs that are judged with it have direct=1, and read nothing ahead")


def _all_direct(scene: LintContext) -> bool:
    """Whether there are jobs, and none of them goes through the page cache."""
    loads = [other for other in scene.sheets if other.kind == "fio" and other.sections]
    return bool(loads) and all(job.direct for other in loads for job in jobs(other))


def _host_requests_below_depth(scene: LintContext) -> Iterator[RuleMessage]:
    for disk in scene.disks:
        requests = whole(disk.queue.get("nr_requests", ""))
        if requests is not None and requests < disk.depth:
            what = f"{requests} is below device/queue_depth = {disk.depth}"
            fix = f"echo {2 * disk.depth} > /sys/block/{disk.name}/queue/nr_requests"
            yield RuleMessage(0, f"{disk.name} queue/nr_requests", what, fix, "(in force)")


@rule(
    "requests-below-depth",
    "nr_requests below the device's depth",
    "warning",
    ("udev",),
    reason=(
        "The queue above hands out fewer requests than the device could hold: its depth is never"
        " reached."
    ),
    source=(
        "Documentation/ABI/stable/sysfs-block: nr_requests; drivers/scsi/scsi_sysfs.c: queue_depth"
    ),
    fix="Take at least the depth; twice of it is what the kernel does by itself.",
    host=_host_requests_below_depth,
)
def requests_below_depth(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """nr_requests below what the device takes at once."""
    groups: dict[tuple[object, ...], dict[str, ConfigSetting]] = {}
    for each in sheet.of("queue"):
        if whole(each.value) is not None:
            groups.setdefault((each.entry.group, each.entry.section), {})[each.name] = each
    for group in groups.values():
        requests, depth = group.get("nr_requests"), group.get("device/queue_depth")
        if requests and depth and (whole(requests.value) or 0) < (whole(depth.value) or 0):
            yield at(requests, f"{requests.value} is below device/queue_depth = {depth.value}")


def _host_scheduler_on_map(scene: LintContext) -> Iterator[RuleMessage]:
    disks = {disk.name: disk for disk in scene.disks}
    for disk in scene.disks:
        above = _chosen(disk)
        below = [_chosen(disks[name]) for name in disk.slaves if name in disks]
        if disk.name.startswith("dm-") and above not in ("", "none") and any(below):
            paths = ", ".join(dict.fromkeys(filter(None, below)))
            what = f"{above} orders I/O above the paths, which have {paths}"
            yield RuleMessage(0, f"{disk.name} queue/scheduler", what, file="(in force)")


@rule(
    "scheduler-on-map",
    "an I/O scheduler on a map instead of its paths",
    "warning",
    ("udev",),
    reason=(
        "A map that takes whole bios (LVM, or multipath with queue_mode bio) has no scheduler at"
        " all. One that takes requests can have one, but merging and ordering for a disk happen in"
        " its paths; two of them order twice."
    ),
    source="drivers/md/dm-rq.c; block/elevator.c; Documentation/admin-guide/device-mapper",
    fix="Set it on the paths, and none on the map.",
    host=_host_scheduler_on_map,
)
def scheduler_on_map(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """A scheduler for a multipath map."""
    for each in sheet.of("queue"):
        if each.name == "scheduler" and each.on == "dm" and since(scene, 5, 0):
            what = "a map of device-mapper gets it, and not its paths"
            yield at(each, what, 'for the paths: KERNEL=="sd*", ATTR{queue/scheduler}="…"')


def _chosen(disk: HostDisk) -> str:
    words = disk.queue.get("scheduler", "").split()
    return next((word.strip("[]") for word in words if word.startswith("[")), "")


@rule(
    "scheduler-removed",
    "an I/O scheduler that was removed",
    "error",
    ("udev", "tuned"),
    reason="The kernel refuses the name (Invalid argument), and the device keeps its default.",
    source=(
        "block/elevator.c; commits f382fb0bcef4 (5.0, the single queue goes), 492af6350a5c (2.6.33)"
    ),
    fix="Use one of none, mq-deadline, kyber and bfq: they are others, so measure again.",
)
def scheduler_removed(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """I/O schedulers that kernels have no more."""
    for each in sheet.of("queue"):
        value = each.value.strip()
        if each.name != "scheduler" or value not in REMOVED:
            continue
        if since(scene, 5, 0):
            what = f"there is no {value} from 5.0 on; the nearest is {REMOVED[value]}"
            yield at(each, what, _line(each, REMOVED[value]))
        elif value in ("anticipatory", "as") and since(scene, 2, 6, 33):
            yield at(each, f"there is no {value} from 2.6.33 on", _line(each, "deadline"))


def _line(setting: ConfigSetting, value: str) -> str:
    if setting.entry.key == "elevator":
        return f"elevator={value}"
    return f'ATTR{{queue/scheduler}}="{value}"'


@rule(
    "scheduler-renamed",
    "an I/O scheduler under its old name",
    "warning",
    ("udev", "tuned"),
    reason=(
        "From 5.0 on `deadline` is an alias of mq-deadline.  What was measured of the one says"
        " nothing of the other."
    ),
    source="block/mq-deadline.c: elevator_alias",
    fix="Write mq-deadline.",
)
def scheduler_renamed(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """deadline is mq-deadline now."""
    for each in sheet.of("queue"):
        if each.name == "scheduler" and each.value == "deadline" and since(scene, 5, 0):
            fix = 'ATTR{queue/scheduler}="mq-deadline"'
            if each.entry.key == "elevator":
                fix = "elevator=mq-deadline"
            yield at(each, "it becomes mq-deadline, which is another scheduler", fix)


@rule(
    "scheduler-unknown",
    "an unknown I/O scheduler",
    "error",
    ("udev", "tuned"),
    reason="The kernel refuses the name (Invalid argument), and the device keeps its default.",
    source="block/elevator.c",
    fix="Use one of none, mq-deadline, kyber and bfq.",
)
def scheduler_unknown(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """I/O schedulers that never were."""
    for each in sheet.of("queue"):
        value = each.value.strip()
        if each.name != "scheduler" or value in TODAY | REMOVED.keys() | {"deadline", ""}:
            continue
        if "$" in value or "%" in value:
            continue
        near = nearest(value, TODAY, 0.6)
        hint = f"; the nearest is {near}" if near else ""
        yield at(each, f"no kernel has an I/O scheduler {value!r}{hint}")


@rule(
    "udev-echo",
    "a setting written by a shell",
    "note",
    ("udev",),
    reason=(
        "RUN is done after all rules, in a process of its own: an echo that the kernel refuses is"
        " told to no one, and && leaves out what follows.  ATTR and SYSCTL are written by udev in"
        " order, and what fails is in its log."
    ),
    source="udev(7): RUN, ATTR, SYSCTL",
    fix='ATTR{queue/…}="…"',
)
def udev_echo(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """A shell that writes what udev can write itself."""
    found: dict[ConfigLine, list[str]] = {}
    for each in sheet.settings:
        if each.how == "echo":
            found.setdefault(each.entry, []).append(_itself(each, scene))
    for entry, words in found.items():
        what = "a shell is started to write settings, and its failure is not reported"
        yield at(entry, what, ", ".join(words))


def _itself(setting: ConfigSetting, scene: LintContext) -> str:
    """The same as udev writes it, by the names of today."""
    if setting.family != "queue":
        return f'SYSCTL{{{setting.name}}}="{setting.value}"'
    value = setting.value
    if setting.name == "scheduler" and since(scene, 5, 0):
        value = REMOVED.get(value, value)
    return f'ATTR{{queue/{setting.name}}}="{value}"'


@rule(
    "udev-goto",
    "a GOTO that leads nowhere",
    "error",
    ("udev",),
    reason=(
        "udev goes forward only and within one file; a GOTO without a LABEL is left out, and the"
        " rules it should skip are applied."
    ),
    source="udev(7): LABEL, GOTO",
    fix="Put the LABEL behind the rules that are to be skipped.",
)
def udev_goto(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """GOTO without its LABEL."""
    labels = {entry.value: entry.line for entry in sheet.entries if entry.key == "LABEL"}
    for entry in sheet.entries:
        if entry.key == "GOTO" and labels.get(entry.value, 0) <= entry.line:
            where = "stands before it" if entry.value in labels else "is not in this file"
            yield at(entry, f"its LABEL {entry.value!r} {where}")


@rule(
    "udev-name",
    "NAME for a block device",
    "warning",
    ("udev",),
    reason=(
        "Device nodes are made by the kernel.  Since udev 174 NAME counts for network interfaces"
        " only."
    ),
    source="udev(7): NAME",
    fix='Give it a link: SYMLINK+="…"',
)
def udev_name(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """NAME on what is not a network interface."""
    for group in sheet.groups():
        for entry in group:
            if entry.key != "NAME" or entry.sign not in ("=", ":=", "+="):
                continue
            if entry.value in ("%k", "$kernel"):
                yield at(entry, "it has no effect: a device has its kernel name", "Take NAME out.")
            elif _of_block(group):
                what = "the name of a block device cannot be changed: it is ignored"
                yield at(entry, what, f'SYMLINK+="{entry.value}"')


def _of_block(group: tuple[ConfigLine, ...]) -> bool:
    return any(
        entry.sign == "=="
        and (
            (entry.key in ("SUBSYSTEM", "SUBSYSTEMS", "BUS") and entry.value in ("block", "scsi"))
            or (entry.key == "KERNEL" and entry.value.startswith(("sd", "dm-", "nvme", "hd")))
        )
        for entry in group
    )


_ASKED = frozenset({
    "ACTION", "DEVPATH", "KERNEL", "KERNELS", "SUBSYSTEM", "SUBSYSTEMS", "DRIVER", "DRIVERS",
    "ATTRS", "TAGS", "TEST", "RESULT", "CONST",
})  # fmt: skip

_SET = frozenset({"RUN", "OWNER", "GROUP", "MODE", "SECLABEL", "OPTIONS", "LABEL", "GOTO"})

_MATCH = ("==", "!=")


@rule(
    "udev-operator",
    "= where == is meant, or the other way round",
    "error",
    ("udev",),
    reason="udev leaves the whole rule out (invalid operator).",
    source="udev(7), operators; systemd src/udev/udev-rules.c",
    fix="Compare with ==, set with = or +=.",
)
def udev_operator(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Asking where something is to be set, and setting where something is to be asked."""
    for entry in sheet.entries:
        if entry.key in _ASKED and entry.sign not in _MATCH:
            what = f"{entry.key} can only be asked: {entry.sign} is not a comparison"
            yield at(entry, what, f'{named(entry)}=="{entry.value}"')
        elif entry.key in _SET and entry.sign in _MATCH:
            right = "+=" if entry.key == "RUN" else "="
            what = f"{entry.key} can only be set: {entry.sign} is not an assignment"
            yield at(entry, what, f'{named(entry)}{right}"{entry.value}"')


_INSTEAD = {
    "BUS": "SUBSYSTEMS",
    "ID": "KERNELS",
    "SYSFS": "ATTRS",
    "PLACE": "",
    "WAIT_FOR": "",
    "WAIT_FOR_SYSFS": "",
    "MODALIAS": "",
}

_KEYS_REMOVED = frozenset(_INSTEAD)


@rule(
    "udev-removed-key",
    "a key that udev reads no more",
    "error",
    ("udev",),
    reason=(
        "A rule with a key that udev does not know is left out altogether: all it would set stays"
        " as it is.  SYSFS, BUS and ID went in udev 174 (2011), WAIT_FOR in systemd 222."
    ),
    source="udev(7); systemd commit 289a1821a4a7 (udev 174), pull request 434 (WAIT_FOR)",
    fix=(
        "Write SUBSYSTEMS, KERNELS and ATTRS for a parent device; SUBSYSTEM and ATTR for the"
        " device itself."
    ),
)
def udev_removed_key(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Keys that udev reads no more."""
    for entry in sheet.entries:
        if entry.key in _KEYS_REMOVED:
            what = f"udev no longer knows {named(entry)}, and skips the whole rule"
            yield at(entry, what, _today(entry))


def _today(entry: ConfigLine) -> str:
    instead = _INSTEAD[entry.key]
    if not instead:
        return f"Take {entry.key} out."
    part = f"{{{entry.part}}}" if entry.part else ""
    return f'{instead}{part}{entry.sign}"{entry.value}"'


_REMOVED = ("last_rule", "ignore_device", "ignore_remove", "all_partitions", "event_timeout")


@rule(
    "udev-removed-option",
    "an option that udev reads no more",
    "warning",
    ("udev",),
    reason=(
        "last_rule, ignore_device and the like went with udev 174 to 182: rules behind it are"
        " applied now."
    ),
    source="udev(7): OPTIONS",
    fix="Skip rules with GOTO and LABEL.",
)
def udev_removed_option(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """OPTIONS that udev reads no more."""
    for entry in sheet.entries:
        if entry.key == "OPTIONS":
            for word in entry.value.replace(",", " ").split():
                if word.partition("=")[0] in _REMOVED:
                    yield at(entry, f"udev ignores {word}: it is no longer an option")


KEYS = frozenset({
    "ACTION", "DEVPATH", "KERNEL", "KERNELS", "NAME", "SYMLINK", "SUBSYSTEM", "SUBSYSTEMS",
    "DRIVER", "DRIVERS", "ATTR", "ATTRS", "SYSCTL", "ENV", "CONST", "TAG", "TAGS", "TEST",
    "PROGRAM", "RESULT", "OWNER", "GROUP", "MODE", "SECLABEL", "RUN", "LABEL", "GOTO", "IMPORT",
    "OPTIONS",
})  # fmt: skip

_PARTS = frozenset({"ATTR", "ATTRS", "SYSCTL", "ENV", "CONST", "SECLABEL", "IMPORT"})

_NO_PART = frozenset({
    "ACTION", "DEVPATH", "KERNEL", "KERNELS", "NAME", "SYMLINK", "SUBSYSTEM", "SUBSYSTEMS",
    "DRIVER", "DRIVERS", "TAG", "TAGS", "PROGRAM", "RESULT", "OWNER", "GROUP", "MODE", "LABEL",
    "GOTO", "OPTIONS",
})  # fmt: skip


@rule(
    "udev-unknown-key",
    "a key that udev does not know",
    "error",
    ("udev",),
    reason="A rule with a key that udev does not know is left out altogether.",
    source="udev(7); systemd src/udev/udev-rules.c",
    fix="Take the real key.",
)
def udev_unknown_key(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Keys that udev never knew."""
    for entry in sheet.entries:
        if entry.key in _KEYS_REMOVED:
            continue
        if entry.key not in KEYS:
            near = nearest(entry.key.upper(), KEYS, 0.7)
            hint = f"; the nearest is {near}" if near else ""
            yield at(entry, f"udev has no key {entry.key}{hint}")
        elif entry.key in _PARTS and not entry.part:
            yield at(entry, f"{entry.key} needs a name in braces: {entry.key}{{name}}")
        elif entry.key in _NO_PART and entry.part:
            yield at(entry, f"{entry.key} takes nothing in braces: {named(entry)}")
