"""Parameters of modules, and of the kernel's command line; profiles of tuned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from iotrial_lint.known import REMOVED, modules, nearest
from iotrial_lint.rule import (
    ConfigFile,
    ConfigSetting,
    LintContext,
    RuleMessage,
    Version,
    at,
    rule,
    since,
    spelled,
)


@rule(
    "cmdline-removed",
    "elevator= on the kernel's command line",
    "error",
    ("cmdline", "tuned"),
    reason=(
        "It chose the scheduler of the single queue, which is gone.  The kernel says that it does"
        " not have any effect anymore."
    ),
    source="block/elevator.c: elevator_setup(); commit f382fb0bcef4 (5.0)",
    fix="Choose the scheduler of each device by a udev rule.",
)
def cmdline_removed(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Words of the kernel's command line that do nothing any more."""
    for each in sheet.of("cmdline"):
        if each.name == "elevator" and since(scene, 5, 0):
            yield at(each, "it has no effect from 5.0 on", _rule(each))


def _rule(setting: ConfigSetting) -> str:
    value = REMOVED.get(setting.value, setting.value)
    value = {"deadline": "mq-deadline"}.get(value, value)
    return (
        'in udev\'s rules.d: ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="sd*",'
        f' ENV{{DEVTYPE}}=="disk", ATTR{{queue/scheduler}}="{value}"'
    )


_QUEUES = "options lpfc lpfc_hdw_queue=N"


class _Moved(NamedTuple):
    since: Version
    why: str
    instead: str = ""


_GONE = {
    "scsi_mod.use_blk_mq": _Moved((5, 0), "there is nothing but blk-mq"),
    "dm_mod.use_blk_mq": _Moved((5, 0), "it is accepted and does nothing: all is blk-mq"),
    "nvme.io_timeout": _Moved((4, 6), "it moved to nvme_core", "nvme_core.io_timeout"),
    "nvme.admin_timeout": _Moved((4, 6), "it moved to nvme_core", "nvme_core.admin_timeout"),
    "nvme.shutdown_timeout": _Moved((4, 6), "it moved to nvme_core", "nvme_core.shutdown_timeout"),
    "nvme.max_retries": _Moved((4, 6), "it moved to nvme_core", "nvme_core.max_retries"),
    "nvme.multipath": _Moved((4, 15), "it is one of nvme_core", "nvme_core.multipath"),
    "nvme_core.poll_queues": _Moved((5, 0), "it is one of nvme", "nvme.poll_queues"),
    "nvme_core.write_queues": _Moved((5, 0), "it is one of nvme", "nvme.write_queues"),
    "nvme_core.io_queue_depth": _Moved((4, 13), "it is one of nvme", "nvme.io_queue_depth"),
    "lpfc.lpfc_fcp_wq_count": _Moved((5, 1), "hardware queues took its place", _QUEUES),
    "lpfc.lpfc_fcp_eq_count": _Moved((5, 1), "hardware queues took its place", _QUEUES),
    "lpfc.lpfc_fcp_io_channel": _Moved((5, 1), "hardware queues took its place", _QUEUES),
    "lpfc.lpfc_nvme_io_channel": _Moved((5, 1), "hardware queues took its place", _QUEUES),
    "dm_multipath.use_blk_mq": _Moved((5, 0), "there is nothing but blk-mq"),
}


def removed(name: str, scene: LintContext) -> bool:
    """Whether this rule has something to say of a parameter."""
    found = _GONE.get(name)
    return found is not None and scene.kernel >= found.since


@rule(
    "module-removed",
    "a parameter of a module that was removed or moved",
    "error",
    ("modprobe", "tuned", "cmdline"),
    reason="The module says `unknown parameter … ignored` once, when it is loaded.",
    source="drivers/scsi/lpfc, drivers/nvme/host, drivers/md, drivers/scsi of Linux 4.5 to 6.1",
    fix="Take it out.",
)
def module_removed(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Parameters of modules that are no more, or moved to another module."""
    for each in sheet.of("module"):
        if removed(each.name, scene):
            found = _GONE[each.name]
            what = f"it is not a parameter from {spelled(found.since)} on: {found.why}"
            yield at(each, what, _line(each, found.instead))


def _line(setting: ConfigSetting, instead: str) -> str:
    if not instead or instead.startswith("options"):
        return instead
    if setting.entry.section[:1] != ("options",):
        return f"{instead}={setting.value}"
    module, _, name = instead.partition(".")
    return f"options {module} {name}={setting.value}"


@rule(
    "module-unknown",
    "a parameter that a module does not have",
    "error",
    ("modprobe", "tuned", "cmdline"),
    reason="The module says `unknown parameter … ignored` once, when it is loaded.",
    source="modinfo of the host; for a few modules the sources of Linux 6.1",
    fix="Check `modinfo -p MODULE`.",
)
def module_unknown(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Parameters that a module does not have."""
    for each in sheet.of("module"):
        module, _, name = each.name.partition(".")
        asked = scene.modules.get(module)
        known = asked if asked is not None else modules().get(module)
        plain = name.replace("-", "_")
        if known is None or plain in known or removed(each.name, scene) or name == "dyndbg":
            continue
        near = nearest(plain, known)
        if near:
            line = f"options {module} {near}={each.value}"
            yield at(each, f"{module} has no parameter {name}; the nearest is {near}", line)
        else:
            yield at(each, f"{module} has no parameter {name}")


_POLLED = ("nvme.poll_queues", "virtio_blk.poll_queues")


@rule(
    "poll-queues",
    "queues for polling",
    "note",
    ("modprobe", "tuned", "cmdline"),
    reason=(
        "From 5.0 on a device polls on queues of their own.  They are taken from the others, and"
        " stay idle unless a program asks for polling (IORING_SETUP_IOPOLL, RWF_HIPRI)."
    ),
    source="drivers/nvme/host/pci.c: poll_queues; io_uring_setup(2); preadv2(2)",
    fix="Remove it, unless the program polls.",
)
def poll_queues(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Queues for polling, which nothing polls by itself."""
    for each in sheet.of("module"):
        if each.name in _POLLED and each.value not in ("0", "") and since(scene, 5, 0):
            yield at(each, "only I/O that asks to be polled uses them (fio: hipri=1)")


@rule(
    "tuned-inert",
    "an obsolete option of tuned, without effect",
    "warning",
    ("tuned",),
    reason=(
        "The plugin writes a file, or remounts with an option, that today's kernels do not have."
    ),
    source="tuned/plugins/plugin_disk.py, plugin_mounts.py; Documentation/admin-guide/xfs.rst",
    fix="Take it out.",
)
def tuned_inert(sheet: ConfigFile, scene: LintContext) -> Iterator[RuleMessage]:
    """Options of tuned that do nothing on kernels of today."""
    for entry in sheet.entries:
        if entry.section[1] == "mounts" and entry.key == "disable_barriers" and since(scene, 4, 19):
            yield at(
                entry, "XFS takes no nobarrier from 4.19 on; ext4 may be broken by a power cut"
            )
        elif entry.section[1] == "disk" and entry.key == "scheduler_quantum" and since(scene, 5, 0):
            yield at(entry, "it is a number of CFQ, which is gone from 5.0 on")


_ANY = frozenset({"type", "enabled", "devices", "devices_udev_regex", "replace", "priority",
                  "uname_regex", "cpuinfo_regex", "script_pre", "script_post", "drop",
                  "prepend", "append"})  # fmt: skip

_FREE = frozenset({
    "sysctl", "sysfs", "modules", "service", "scheduler", "variables", "script", "bootloader",
    "systemd", "main", "rtentsk", "acpi", "uncore",
})  # fmt: skip

_OPTIONS = {
    "disk": frozenset({
        "dynamic", "elevator", "apm", "spindown", "readahead", "readahead_multiply",
        "scheduler_quantum",
    }),
    "cpu": frozenset({
        "load_threshold", "latency_low", "latency_high", "force_latency", "governor",
        "sampling_down_factor", "energy_perf_bias", "min_perf_pct", "max_perf_pct", "no_turbo",
        "pm_qos_resume_latency_us", "energy_performance_preference", "boost",
        "hwp_dynamic_boost",
    }),
    "net": frozenset({
        "dynamic", "wake_on_lan", "nf_conntrack_hashsize", "features", "coalesce", "pause", "ring",
        "channels", "txqueuelen", "mtu",
    }),
    "vm": frozenset({
        "transparent_hugepages", "transparent_hugepage", "transparent_hugepage.defrag",
        "dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio",
    }),
    "mounts": frozenset({"disable_barriers"}),
    "irqbalance": frozenset({"banned_cpus"}),
    "irq": frozenset({"mode", "affinity"}),
    "audio": frozenset({"timeout", "reset_controller"}),
    "video": frozenset({"radeon_powersave", "panel_power_savings"}),
    "usb": frozenset({"autosuspend"}),
    "scsi_host": frozenset({"alpm"}),
    "selinux": frozenset({"avc_cache_threshold"}),
    "eeepc_she": frozenset({
        "load_threshold_normal", "load_threshold_powersave", "she_powersave", "she_normal",
    }),
}  # fmt: skip


@rule(
    "tuned-unknown",
    "a plugin or an option that tuned does not have",
    "error",
    ("tuned",),
    reason="tuned writes a line into its log, and applies the rest of the profile.",
    source="tuned 2.20 and what later releases added, tuned/plugins/*.py; tuned.conf(5)",
    fix="Take the real name.",
)
def tuned_unknown(sheet: ConfigFile, _scene: LintContext) -> Iterator[RuleMessage]:
    """Plugins and options that tuned does not have."""
    known = _FREE | _OPTIONS.keys()
    typed = {entry.section[0]: entry.section[1] for entry in sheet.entries}
    for line, name in sheet.sections:
        plugin = typed.get(name, name)
        if plugin not in known:
            near = nearest(plugin, known, 0.7)
            hint = f"; the nearest is {near}" if near else ""
            yield RuleMessage(
                line, f"[{name}]", f"tuned has no plugin {plugin!r}{hint}", "type=PLUGIN"
            )
    for entry in sheet.entries:
        options = _OPTIONS.get(entry.section[1])
        if options and entry.key not in options | _ANY:
            near = nearest(entry.key, options, 0.7)
            hint = f"; the nearest is {near}" if near else ""
            yield at(entry, f"the plugin {entry.section[1]} has no such option{hint}")
