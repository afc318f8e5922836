"""What is known by name: kernel parameters, those that are no more and those that do nothing any
more; files of a disk's queue, and I/O schedulers; keywords of multipath.conf; parameters of
modules.

Lists beside this file are made from the sources that their first lines name.  What is gone, with a
version in which it was (2.6.12 where the history does not reach back): the kernel's git history;
Documentation/admin-guide/xfs.rst (removed sysctls), Documentation/networking/ip-sysctl.rst (legacy
options).  Queues: Documentation/ABI/stable/sysfs-block, block/elevator.c; /sys of Linux 6.18.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from iotrial_lint.rule import Version

CLOSE = 0.84
"""How alike two names must be to be taken for one (difflib's ratio): one letter or two."""


def _rows(name: str) -> Iterator[list[str]]:
    text = (files(__package__) / name).read_text("utf-8")
    return (line.split() for line in text.splitlines() if not line.startswith("#"))


def version(text: str) -> Version:
    """``"0.9.4"`` → ``(0, 9, 4)``; what is no number ends it.

    >>> version("6.1.0-18-amd64")
    (6, 1, 0)
    """
    found = re.match(r"\d{1,6}(?:\.\d{1,6})*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


# --- kernel parameters -------------------------------------------------------------------------


@cache
def sysctls() -> frozenset[str]:
    """Names with dots; ``*`` stands for an interface or the like."""
    return frozenset(row[0] for row in _rows("sysctl.txt"))


_ANY = re.compile(
    r"(?P<head>net\.ipv[46]\.(?:conf|neigh)|net\.mpls\.conf|dev\.parport)\.(?P<name>.+)"
    r"\.(?P<tail>[^.]+)"
)


def general(key: str) -> str:
    """A key with ``*`` in place of an interface.

    >>> general("net.ipv4.conf.eth0.rp_filter")
    'net.ipv4.conf.*.rp_filter'
    """
    found = _ANY.fullmatch(key)
    return f"{found['head']}.*.{found['tail']}" if found else key


def is_sysctl(key: str) -> bool:
    """Whether a kernel has it; a pattern matches what it may."""
    if general(key) in sysctls():
        return True
    if not any(mark in key for mark in "*?["):
        return key.startswith(("kernel.sched_domain.", "fs.binfmt_misc.", "dev.parport."))
    head = re.split(r"[*?\[]", key)[0]
    return any(name.startswith(head) for name in sysctls())


@cache
def nearest_sysctl(key: str) -> str:
    """The real name that a wrong one may mean; '' when none is near."""
    wanted = general(key)
    folder, _, name = wanted.rpartition(".")
    found = nearest(name, _folders().get(folder, ()))
    if found:
        whole = f"{folder}.{found}"
        return whole.replace("*", key.split(".")[3]) if "*" in folder else whole
    elsewhere = _places().get(name, ())
    if len(elsewhere) == 1:
        return f"{elsewhere[0]}.{name}"
    kin = [each for each in sysctls() if each[:3] == wanted[:3]]
    return nearest(wanted, kin, 0.92)


@cache
def _folders() -> Mapping[str, tuple[str, ...]]:
    """Names by the folder that they are in."""
    found: dict[str, list[str]] = {}
    for each in sorted(sysctls()):
        folder, _, name = each.rpartition(".")
        found.setdefault(folder, []).append(name)
    return {folder: tuple(names) for folder, names in found.items()}


@cache
def _places() -> Mapping[str, tuple[str, ...]]:
    """Folders by a name that is in them."""
    found: dict[str, list[str]] = {}
    for folder, names in _folders().items():
        for name in names if "*" not in folder else ():
            found.setdefault(name, []).append(folder)
    return {name: tuple(folders) for name, folders in found.items()}


def nearest(name: str, known: Collection[str], cutoff: float = CLOSE) -> str:
    """The known name that is most alike; '' when none is near."""
    alike = [each for each in known if abs(len(each) - len(name)) <= max(3, len(name) // 5)]
    found = difflib.get_close_matches(name, alike, n=1, cutoff=cutoff)
    return found[0] if found else ""


# --- multipath.conf ----------------------------------------------------------------------------


class Keyword(NamedTuple):
    """``first`` and ``until``: the releases of multipath-tools that read it; () is no bound."""

    section: str
    name: str
    first: Version
    until: Version


@cache
def keywords() -> Mapping[tuple[str, str], Keyword]:
    """By section (``devices/device``) and name."""
    return {
        (row[0], row[1]): Keyword(row[0], row[1], version(row[2]), version(row[3]))
        for row in _rows("multipath.txt")
    }


@cache
def names_in(section: str) -> frozenset[str]:
    """Keywords that may stand in a section."""
    return frozenset(name for known, name in keywords() if known == section)


@cache
def sections_of(name: str) -> tuple[str, ...]:
    """Sections in which a keyword may stand."""
    return tuple(section for section, known in keywords() if known == name)


# --- fio -----------------------------------------------------------------------------------------


@cache
def fio_options() -> frozenset[str]:
    """Options beside those of :func:`iotrial.tools.fio_options.option_table`: of rarer engines."""
    return frozenset(row[0] for row in _rows("fio.txt"))


# --- modules -----------------------------------------------------------------------------------


@cache
def modules() -> Mapping[str, frozenset[str]]:
    """Parameters by module, for a few that storage people set."""
    return {row[0]: frozenset(row[1:]) for row in _rows("modules.txt")}


class RemovedParameter(NamedTuple):
    """``since`` is a version without it, ``why`` in words, ``instead`` what to write or do."""

    since: Version
    why: str = ""
    instead: str = ""


_SCHED = "the scheduler's own numbers moved to debugfs, /sys/kernel/debug/sched/"
_SCHED_FIX = "Take the line out; these are no settings to keep (5.13 moved them to debugfs)."
_CONNTRACK = "connection tracking is one for all protocols"
_LOWMEM = "vm.lowmem_reserve_ratio took its place, in another unit"

GONE: dict[str, RemovedParameter] = {
    "vm.lower_zone_protection": RemovedParameter(
        (2, 6, 12), _LOWMEM, "Take the line out; vm.lowmem_reserve_ratio has a good default."
    ),
    "vm.bdflush": RemovedParameter(
        (2, 6, 12), "vm.dirty_* took its place", "vm.dirty_background_ratio = 10"
    ),
    "vm.max-readahead": RemovedParameter(
        (2, 6, 12), "read-ahead is a device's", "queue/read_ahead_kb"
    ),
    "vm.min-readahead": RemovedParameter(
        (2, 6, 12), "read-ahead is a device's", "queue/read_ahead_kb"
    ),
    "vm.pagecache": RemovedParameter((2, 6, 12), "only kernels of RHEL 3 to 5 had it"),
    "vm.inactive_clean_percent": RemovedParameter((2, 6, 12), "only kernels of RHEL 3 had it"),
    "vm.swap_token_timeout": RemovedParameter((3, 5)),
    "vm.nr_pdflush_threads": RemovedParameter((6, 1), "pdflush itself is gone since 2.6.32"),
    "vm.block_dump": RemovedParameter((5, 13), "blktrace and tracepoints tell more"),
    "vm.hugepages_treat_as_movable": RemovedParameter((4, 16)),
    "fs.inode-max": RemovedParameter((2, 6, 12), "inodes are allocated as they are needed"),
    "fs.dquot-max": RemovedParameter((2, 6, 12)),
    "fs.super-max": RemovedParameter((2, 6, 12)),
    "fs.xfs.age_buffer_centisecs": RemovedParameter((4, 0), "", "fs.xfs.xfssyncd_centisecs = 3000"),
    "fs.xfs.xfsbufd_centisecs": RemovedParameter((4, 0), "", "fs.xfs.xfssyncd_centisecs = 3000"),
    "fs.xfs.xfsbufd_centisec": RemovedParameter((4, 0), "", "fs.xfs.xfssyncd_centisecs = 3000"),
    "kernel.rtsig-max": RemovedParameter((2, 6, 12)),
    "kernel.rtsig-nr": RemovedParameter((2, 6, 12)),
    "kernel.maps_protect": RemovedParameter((2, 6, 27), "/proc/PID/maps is protected always"),
    "kernel.exec-shield": RemovedParameter((2, 6, 12), "only kernels of RHEL 4 to 6 had it"),
    "kernel.sched_compat_yield": RemovedParameter((2, 6, 39)),
    **{
        f"kernel.sched_{name}": RemovedParameter((5, 13), _SCHED, _SCHED_FIX)
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
    "kernel.sched_child_runs_first": RemovedParameter(
        (6, 18), "the scheduler of 6.6 has no use for it"
    ),
    "net.core.hot_list_length": RemovedParameter((2, 6, 12)),
    "net.core.mod_cong": RemovedParameter((2, 6, 13)),
    "net.core.no_cong": RemovedParameter((2, 6, 13)),
    "net.core.lo_cong": RemovedParameter((2, 6, 13)),
    "net.ipv4.tcp_tw_recycle": RemovedParameter(
        (4, 12), "it broke clients behind address translation", "Take the line out."
    ),
    "net.ipv4.tcp_abc": RemovedParameter((3, 9)),
    "net.ipv4.tcp_cookie_size": RemovedParameter((3, 10)),
    "net.ipv4.tcp_frto_response": RemovedParameter((3, 10)),
    "net.ipv4.tcp_max_ssthresh": RemovedParameter((4, 0)),
    "net.ipv4.tcp_thin_dupack": RemovedParameter((4, 11)),
    "net.ipv4.tcp_dma_copybreak": RemovedParameter((3, 18)),
    "net.ipv4.tcp_bic": RemovedParameter((2, 6, 13), "", "net.ipv4.tcp_congestion_control = cubic"),
    "net.ipv4.tcp_vegas_cong_avoid": RemovedParameter(
        (2, 6, 13), "", "net.ipv4.tcp_congestion_control = vegas"
    ),
    "net.ipv4.tcp_westwood": RemovedParameter(
        (2, 6, 13), "", "net.ipv4.tcp_congestion_control = westwood"
    ),
    "net.ipv4.ip_conntrack_max": RemovedParameter(
        (4, 9), _CONNTRACK, "net.netfilter.nf_conntrack_max"
    ),
    "net.ipv4.netfilter.ip_conntrack_max": RemovedParameter(
        (4, 9), _CONNTRACK, "net.netfilter.nf_conntrack_max"
    ),
    "net.ipv4.route.secret_interval": RemovedParameter((3, 6), "the route cache is gone"),
    "net.ipv4.route.max_delay": RemovedParameter((3, 6), "the route cache is gone"),
    "net.ipv4.route.min_delay": RemovedParameter((3, 6), "the route cache is gone"),
    "net.ipv4.inet_peer_gc_maxtime": RemovedParameter((3, 1)),
    "net.ipv4.inet_peer_gc_mintime": RemovedParameter((3, 1)),
}
"""Removed."""

_CACHE = "IPv4 has had no route cache since 3.6"

INERT: dict[str, RemovedParameter] = {
    "net.ipv4.tcp_low_latency": RemovedParameter((4, 14), "a legacy option without effect"),
    "net.ipv4.tcp_fack": RemovedParameter((4, 15), "a legacy option without effect"),
    "net.ipv4.route.max_size": RemovedParameter((3, 6), _CACHE),
    "net.ipv4.route.gc_interval": RemovedParameter((3, 6), _CACHE),
    "net.ipv4.route.gc_elasticity": RemovedParameter((3, 6), _CACHE),
    "net.ipv4.route.gc_thresh": RemovedParameter((3, 6), _CACHE),
}
"""Still there, and without effect."""


def gone(key: str) -> RemovedParameter | None:
    """What is known of a removed parameter; None for any other.

    >>> gone("vm.lower_zone_protection").since
    (2, 6, 12)
    """
    return GONE.get(key)


FILES = frozenset({
    "add_random", "atomic_write_boundary_bytes", "atomic_write_max_bytes",
    "atomic_write_unit_max_bytes", "atomic_write_unit_min_bytes", "chunk_sectors", "dax",
    "discard_granularity", "discard_max_bytes", "discard_max_hw_bytes", "discard_zeroes_data",
    "dma_alignment", "fua", "hw_sector_size", "independent_access_ranges", "io_poll",
    "io_poll_delay", "io_timeout", "iostats", "iostats_passthrough", "logical_block_size",
    "max_active_zones", "max_discard_segments", "max_hw_sectors_kb", "max_integrity_segments",
    "max_open_zones", "max_sectors_kb", "max_segment_size", "max_segments", "max_write_streams",
    "minimum_io_size", "nomerges", "nr_requests", "nr_zones", "optimal_io_size",
    "physical_block_size", "read_ahead_kb", "rotational", "rq_affinity", "scheduler",
    "stable_writes", "throttle_sample_time", "virt_boundary_mask", "wbt_lat_usec", "write_cache",
    "write_same_max_bytes", "write_zeroes_max_bytes", "write_zeroes_unmap_max_bytes",
    "write_zeroes_unmap_max_hw_bytes", "write_stream_granularity", "zone_append_max_bytes",
    "zone_write_granularity", "zoned", "zoned_qd1_writes",
})  # fmt: skip

TODAY = frozenset({"none", "mq-deadline", "kyber", "bfq"})
"""Schedulers of a kernel from 5.0 on, where all requests go through blk-mq."""

REMOVED = {"cfq": "bfq", "anticipatory": "mq-deadline", "as": "mq-deadline", "noop": "none"}
"""Schedulers of the single queue, gone with it in 5.0 (anticipatory in 2.6.33), and what of today
comes nearest."""
