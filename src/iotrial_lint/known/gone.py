"""Kernel parameters that are no more, and those that do nothing any more, with the version.

Sources: the kernel's git history; Documentation/admin-guide/xfs.rst (removed sysctls),
Documentation/networking/ip-sysctl.rst (legacy options).  A version is one in which it was gone;
where the history does not reach back, 2.6.12 (its first).
"""

from __future__ import annotations

from typing import NamedTuple

from iotrial_lint.rule import Version


class Gone(NamedTuple):
    """``since`` is a version without it, ``why`` in words, ``instead`` what to write or do."""

    since: Version
    why: str = ""
    instead: str = ""


_SCHED = "the scheduler's own numbers moved to debugfs, /sys/kernel/debug/sched/"
_SCHED_FIX = "Take the line out; these are no settings to keep (5.13 moved them to debugfs)."
_CONNTRACK = "connection tracking is one for all protocols"
_LOWMEM = "vm.lowmem_reserve_ratio took its place, in another unit"

GONE: dict[str, Gone] = {
    "vm.lower_zone_protection": Gone(
        (2, 6, 12), _LOWMEM, "Take the line out; vm.lowmem_reserve_ratio has a good default."
    ),
    "vm.bdflush": Gone((2, 6, 12), "vm.dirty_* took its place", "vm.dirty_background_ratio = 10"),
    "vm.max-readahead": Gone((2, 6, 12), "read-ahead is a device's", "queue/read_ahead_kb"),
    "vm.min-readahead": Gone((2, 6, 12), "read-ahead is a device's", "queue/read_ahead_kb"),
    "vm.pagecache": Gone((2, 6, 12), "only kernels of RHEL 3 to 5 had it"),
    "vm.inactive_clean_percent": Gone((2, 6, 12), "only kernels of RHEL 3 had it"),
    "vm.swap_token_timeout": Gone((3, 5)),
    "vm.nr_pdflush_threads": Gone((6, 1), "pdflush itself is gone since 2.6.32"),
    "vm.block_dump": Gone((5, 13), "blktrace and tracepoints tell more"),
    "vm.hugepages_treat_as_movable": Gone((4, 16)),
    "fs.inode-max": Gone((2, 6, 12), "inodes are allocated as they are needed"),
    "fs.dquot-max": Gone((2, 6, 12)),
    "fs.super-max": Gone((2, 6, 12)),
    "fs.xfs.age_buffer_centisecs": Gone((4, 0), "", "fs.xfs.xfssyncd_centisecs = 3000"),
    "fs.xfs.xfsbufd_centisecs": Gone((4, 0), "", "fs.xfs.xfssyncd_centisecs = 3000"),
    "fs.xfs.xfsbufd_centisec": Gone((4, 0), "", "fs.xfs.xfssyncd_centisecs = 3000"),
    "kernel.rtsig-max": Gone((2, 6, 12)),
    "kernel.rtsig-nr": Gone((2, 6, 12)),
    "kernel.maps_protect": Gone((2, 6, 27), "/proc/PID/maps is protected always"),
    "kernel.exec-shield": Gone((2, 6, 12), "only kernels of RHEL 4 to 6 had it"),
    "kernel.sched_compat_yield": Gone((2, 6, 39)),
    **{
        f"kernel.sched_{name}": Gone((5, 13), _SCHED, _SCHED_FIX)
        for name in (
            "min_granularity_ns",
            "latency_ns",
            "wakeup_granularity_ns",
            "migration_cost",
            "migration_cost_ns",
            "nr_migrate",
            "tunable_scaling",
        )
    },
    "kernel.sched_child_runs_first": Gone((6, 18), "the scheduler of 6.6 has no use for it"),
    "net.core.hot_list_length": Gone((2, 6, 12)),
    "net.core.mod_cong": Gone((2, 6, 13)),
    "net.core.no_cong": Gone((2, 6, 13)),
    "net.core.lo_cong": Gone((2, 6, 13)),
    "net.ipv4.tcp_tw_recycle": Gone(
        (4, 12), "it broke clients behind address translation", "Take the line out."
    ),
    "net.ipv4.tcp_abc": Gone((3, 9)),
    "net.ipv4.tcp_cookie_size": Gone((3, 10)),
    "net.ipv4.tcp_frto_response": Gone((3, 10)),
    "net.ipv4.tcp_max_ssthresh": Gone((4, 0)),
    "net.ipv4.tcp_thin_dupack": Gone((4, 11)),
    "net.ipv4.tcp_dma_copybreak": Gone((3, 18)),
    "net.ipv4.tcp_bic": Gone((2, 6, 13), "", "net.ipv4.tcp_congestion_control = cubic"),
    "net.ipv4.tcp_vegas_cong_avoid": Gone(
        (2, 6, 13), "", "net.ipv4.tcp_congestion_control = vegas"
    ),
    "net.ipv4.tcp_westwood": Gone((2, 6, 13), "", "net.ipv4.tcp_congestion_control = westwood"),
    "net.ipv4.ip_conntrack_max": Gone((4, 9), _CONNTRACK, "net.netfilter.nf_conntrack_max"),
    "net.ipv4.netfilter.ip_conntrack_max": Gone(
        (4, 9), _CONNTRACK, "net.netfilter.nf_conntrack_max"
    ),
    "net.ipv4.route.secret_interval": Gone((3, 6), "the route cache is gone"),
    "net.ipv4.route.max_delay": Gone((3, 6), "the route cache is gone"),
    "net.ipv4.route.min_delay": Gone((3, 6), "the route cache is gone"),
    "net.ipv4.inet_peer_gc_maxtime": Gone((3, 1)),
    "net.ipv4.inet_peer_gc_mintime": Gone((3, 1)),
}
"""Removed."""

_CACHE = "IPv4 has had no route cache since 3.6"

INERT: dict[str, Gone] = {
    "net.ipv4.tcp_low_latency": Gone((4, 14), "a legacy option without effect"),
    "net.ipv4.tcp_fack": Gone((4, 15), "a legacy option without effect"),
    "net.ipv4.route.max_size": Gone((3, 6), _CACHE),
    "net.ipv4.route.gc_interval": Gone((3, 6), _CACHE),
    "net.ipv4.route.gc_elasticity": Gone((3, 6), _CACHE),
    "net.ipv4.route.gc_thresh": Gone((3, 6), _CACHE),
}
"""Still there, and without effect."""


def gone(key: str) -> Gone | None:
    """What is known of a removed parameter; None for any other.

    >>> gone("vm.lower_zone_protection").since
    (2, 6, 12)
    """
    return GONE.get(key)
