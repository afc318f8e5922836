"""Profiles of tuned."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial_lint.known import nearest
from iotrial_lint.rule import Said, Scene, at, rule, since
from iotrial_lint.sheet import Sheet


@rule(
    "tuned-inert",
    "an option of tuned that does nothing any more",
    "warning",
    ("tuned",),
    reason=(
        "The plugin writes a file, or remounts with an option, that today's kernels do not have."
    ),
    source="tuned/plugins/plugin_disk.py, plugin_mounts.py; Documentation/admin-guide/xfs.rst",
    fix="Take it out.",
)
def tuned_inert(sheet: Sheet, scene: Scene) -> Iterator[Said]:
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
def tuned_unknown(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    """Plugins and options that tuned does not have."""
    known = _FREE | _OPTIONS.keys()
    typed = {entry.section[0]: entry.section[1] for entry in sheet.entries}
    for line, name in sheet.sections:
        plugin = typed.get(name, name)
        if plugin not in known:
            near = nearest(plugin, known, 0.7)
            hint = f"; the nearest is {near}" if near else ""
            yield Said(line, f"[{name}]", f"tuned has no plugin {plugin!r}{hint}", "type=PLUGIN")
    for entry in sheet.entries:
        options = _OPTIONS.get(entry.section[1])
        if options and entry.key not in options | _ANY:
            near = nearest(entry.key, options, 0.7)
            hint = f"; the nearest is {near}" if near else ""
            yield at(entry, f"the plugin {entry.section[1]} has no such option{hint}")
