"""Family ``sysctl``: kernel parameters, ``/proc/sys/``; any key, as ``sysctl.vm.dirty_ratio``.

The rows below are the keys that storage people turn, each with what is known of it.  Any other
key is made into a row when it is asked for (:func:`row`): it is read, held and restored like
the rest, and what it moves is not known.

A dot in a name is a slash in the path; a slash in a name is a dot in the path, as in sysctl(8)
(``sysctl.net.ipv4.conf.eth0/100.rp_filter``).  A name whose first separator is a slash is written
as the path is (``sysctl.net/ipv4/conf/eth0.100/rp_filter``).

Sources: sysctl.d(5), Documentation/admin-guide/sysctl/{vm,fs,net,kernel}.rst,
Documentation/networking/ip-sysctl.rst, mm/page-writeback.c for the pairs that zero each other.
"""

from __future__ import annotations

import re
from dataclasses import replace

from iotrial.errors import UsageError
from iotrial.model.tunable import Domain, Tunable

FAMILY = "sysctl"
TITLE = "kernel parameters of /proc/sys: writeback, memory, sockets, files"

_KEY = re.compile(r"[a-z0-9_-]+(?:[./][A-Za-z0-9_-]+)+")
_VM = "kernel Documentation/admin-guide/sysctl/vm.rst"
_KERNEL = "kernel Documentation/admin-guide/sysctl/kernel.rst"
_NET = "kernel Documentation/admin-guide/sysctl/net.rst"
_IP = "kernel Documentation/networking/ip-sysctl.rst"
_FS = "kernel Documentation/admin-guide/sysctl/fs.rst"
_LASTS = "until the machine reboots"
_DIRECT = "Direct I/O: it has no dirty pages."
_LOCAL = "Storage that is not reached over TCP."

REFUSED = {
    "kernel.core_pattern": "names a program that the kernel runs",
    "kernel.modprobe": "names a program that the kernel runs",
    "kernel.hotplug": "names a program that the kernel runs",
    "kernel.poweroff_cmd": "names a program that the kernel runs",
    "kernel.reboot-cmd": "is handed to the firmware at a reboot",
    "kernel.usermodehelper": "decides what the kernel may run",
    "fs.binfmt_misc": "decides which program the kernel runs for a file",
    "kernel.modules_disabled": "cannot be undone before a reboot",
    "kernel.kexec_load_disabled": "cannot be undone before a reboot",
    "kernel.kexec_load_limit_panic": "cannot be undone before a reboot",
    "kernel.kexec_load_limit_reboot": "cannot be undone before a reboot",
    "kernel.tainted": "cannot be undone before a reboot",
    "kernel.unprivileged_bpf_disabled": "cannot be undone before a reboot",
    "kernel.yama.ptrace_scope": "cannot always be undone before a reboot",
    "kernel.sysrq-trigger": "is an act, not a setting",
    "vm.drop_caches": "is an act, not a setting",
    "vm.compact_memory": "is an act, not a setting",
    "vm.stat_refresh": "is an act, not a setting",
    "net.ipv4.route.flush": "is an act, not a setting",
    "net.ipv6.route.flush": "is an act, not a setting",
}
"""Keys that are no settings to try, and why.  What lies below one is refused with it."""
_SWAPPED = str.maketrans("./", "/.")


def _between(low: int | None, high: int | None = None) -> Domain:
    return Domain(low=low, high=high)


def _sysctl(  # noqa: PLR0913 (a row of a table)
    key: str,
    summary: str,
    *,
    unit: str = "",
    domain: Domain | None = None,
    moves: tuple[str, ...] = (),
    moot: str = "",
    source: str = "",
    layer: str = "memory",
    risk: str = "",
) -> Tunable:
    takes = domain or Domain()
    return Tunable(
        f"sysctl.{key}",
        path(key),
        summary,
        unit=unit,
        layer=layer,
        lasts=_LASTS,
        risk=risk,
        moot=moot,
        source=source,
        rank=50,
        moves=tuple(f"sysctl.{other}" for other in moves),
        scope="host",
        domain=lambda _raw: takes,
    )


def path(key: str) -> str:
    """The file of a key.

    >>> path("net.ipv4.conf.eth0/100.rp_filter")
    '/proc/sys/net/ipv4/conf/eth0.100/rp_filter'
    """
    return "/proc/sys/" + dotted(key).translate(_SWAPPED)


def dotted(key: str) -> str:
    """The one spelling of a key.  Its first separator says what the others are (sysctl.d(5)).

    >>> dotted("kernel/core_pattern"), dotted("net/ipv4/conf/eth0.100/rp_filter")
    ('kernel.core_pattern', 'net.ipv4.conf.eth0/100.rp_filter')
    """
    first = next((sign for sign in key if sign in "./"), ".")
    return key.translate(_SWAPPED) if first == "/" else key


def row(name: str) -> Tunable | None:
    """The row of any key, made when asked for; None for a name that is no key.

    Raises UsageError for a key that is no setting to try.
    """
    key = name.removeprefix(f"{FAMILY}.")
    if key == name or not _KEY.fullmatch(key):
        return None
    meant = dotted(key)
    # Some readers of what is kept take every dot for a slash, and leave slashes (tuned's
    # plugin_sysctl.py): a key is refused where any of them would come to a refused one.
    anyhow = key.replace("/", ".")
    for refused, why in REFUSED.items():
        if anyhow == refused or anyhow.startswith(f"{refused}."):
            raise UsageError(f"{name}: {anyhow} {why}", advice="Remove it from the study.")
    for known in TUNABLES:
        if known.name == f"{FAMILY}.{meant}":
            return replace(known, name=name)
    return _sysctl(
        key,
        "a kernel parameter that iotrial knows nothing more of",
        layer=meant.partition(".")[0],
        risk="What a write to it moves is not known, and not restored.",
    )


TUNABLES: tuple[Tunable, ...] = (
    _sysctl(
        "vm.dirty_ratio",
        "share of memory that may be dirty before a writer must write back itself",
        unit="%",
        domain=_between(0, 100),
        moves=("vm.dirty_bytes",),
        moot=_DIRECT,
        source=_VM,
        risk="A high share can stall every writer for seconds.",
    ),
    _sysctl(
        "vm.dirty_bytes",
        "the same limit in bytes; the one of the two written last counts, the other reads 0",
        unit="bytes",
        domain=_between(1),
        moves=("vm.dirty_ratio",),
        moot=_DIRECT,
        source=_VM,
    ),
    _sysctl(
        "vm.dirty_background_ratio",
        "share of memory that may be dirty before the kernel begins to write back",
        unit="%",
        domain=_between(0, 100),
        moves=("vm.dirty_background_bytes",),
        moot=_DIRECT,
        source=_VM,
    ),
    _sysctl(
        "vm.dirty_background_bytes",
        "the same in bytes; the one of the two written last counts, the other reads 0",
        unit="bytes",
        domain=_between(1),
        moves=("vm.dirty_background_ratio",),
        moot=_DIRECT,
        source=_VM,
    ),
    _sysctl(
        "vm.dirty_expire_centisecs",
        "age at which dirty data is written back",
        unit="1/100 s",
        domain=_between(0),
        moot=_DIRECT,
        source=_VM,
    ),
    _sysctl(
        "vm.dirty_writeback_centisecs",
        "how often the kernel looks for data to write back; 0: never",
        unit="1/100 s",
        domain=_between(0),
        moot=_DIRECT,
        source=_VM,
    ),
    _sysctl(
        "vm.swappiness",
        "how readily anonymous memory is swapped rather than page cache given up",
        domain=_between(0, 200),
        moot="No swap, or memory enough.",
        source=_VM,
    ),
    _sysctl(
        "vm.vfs_cache_pressure",
        "how readily inodes and directory entries are given up; 100 is even-handed",
        domain=_between(0),
        source=_VM,
    ),
    _sysctl(
        "vm.min_free_kbytes",
        "memory kept free for allocations that cannot wait",
        unit="KiB",
        domain=_between(0),
        source=_VM,
        risk="Too high a value leaves no memory to use, and the OOM killer comes.",
    ),
    _sysctl(
        "vm.watermark_scale_factor",
        "how early memory is reclaimed, and how much at a time, in 1/10000 of it",
        unit="1/10000",
        domain=_between(1, 1000),
        moot="Memory enough for all that is read and written.",
        source=_VM,
    ),
    _sysctl(
        "vm.zone_reclaim_mode",
        "whether a node reclaims its own memory before it takes another's; bits: 1, 2 (writes), 4",
        domain=_between(0, 7),
        moot="One NUMA node.",
        source=_VM,
    ),
    _sysctl(
        "vm.stat_interval",
        "how often each CPU adds its counts to the statistics of memory",
        unit="s",
        domain=_between(1),
        moot="The load does not wait for a CPU.",
        source=_VM,
    ),
    _sysctl(
        "kernel.numa_balancing",
        "whether pages move to the node that uses them: 0 no, 1 yes, 2 between kinds of memory",
        domain=_between(0, 3),
        layer="processor",
        moot="One NUMA node.",
        source=_KERNEL,
    ),
    _sysctl(
        "kernel.sched_autogroup_enabled",
        "whether the processes of a session share CPU time as one group",
        domain=Domain(choices=("0", "1")),
        layer="processor",
        moot="CPUs enough; or systemd gives each service a group of its own.",
        source="sched(7)",
    ),
    _sysctl(
        "kernel.timer_migration",
        "whether timers of an idle CPU move to a busy one",
        domain=Domain(choices=("0", "1")),
        layer="processor",
        moot="One CPU, or all of them busy.",
        source="kernel/time/timer.c",
    ),
    _sysctl(
        "vm.page-cluster",
        "pages read together from swap, as a power of two",
        domain=_between(0, 31),
        moot="No swap.",
        source=_VM,
    ),
    _sysctl(
        "fs.file-max",
        "open files in the whole system",
        domain=_between(0),
        layer="files",
        moot="Far fewer are open.",
        source=_FS,
    ),
    _sysctl(
        "fs.aio-max-nr",
        "asynchronous I/O requests (libaio) in the whole system",
        domain=_between(0),
        layer="files",
        moot="io_uring; or jobs times depth stays below it.",
        source=_FS,
    ),
    *(
        _sysctl(
            f"net.core.{name}",
            f"{what} of a socket's {side} buffer",
            unit="bytes",
            domain=_between(1),
            layer="network",
            moot=_LOCAL,
            source=_NET,
        )
        for name, what, side in (
            ("rmem_default", "size at the start", "receive"),
            ("rmem_max", "largest size an application may ask for", "receive"),
            ("wmem_default", "size at the start", "send"),
            ("wmem_max", "largest size an application may ask for", "send"),
        )
    ),
    _sysctl(
        "net.ipv4.tcp_rmem",
        "least, first and largest size of a TCP socket's receive buffer",
        unit="bytes",
        layer="network",
        moot=f"{_LOCAL} With tcp_moderate_rcvbuf=0 the largest size is never reached.",
        source=_IP,
    ),
    _sysctl(
        "net.ipv4.tcp_wmem",
        "least, first and largest size of a TCP socket's send buffer",
        unit="bytes",
        layer="network",
        moot=_LOCAL,
        source=_IP,
    ),
    _sysctl(
        "net.ipv4.tcp_moderate_rcvbuf",
        "whether TCP sizes the receive buffer itself",
        domain=Domain(choices=("0", "1")),
        layer="network",
        moot=_LOCAL,
        source=_IP,
    ),
    _sysctl(
        "net.ipv4.ipfrag_low_thresh",
        "memory for fragments down to which they are dropped; never above ipfrag_high_thresh",
        unit="bytes",
        domain=_between(0),
        layer="network",
        moot=f"{_LOCAL} Or nothing is fragmented.",
        source=_IP,
    ),
    _sysctl(
        "net.ipv4.ipfrag_high_thresh",
        "memory for fragments at which they begin to be dropped",
        unit="bytes",
        domain=_between(0),
        layer="network",
        moot=f"{_LOCAL} Or nothing is fragmented.",
        source=_IP,
    ),
    _sysctl(
        "net.ipv4.ip_local_port_range",
        "first and last port of outgoing connections",
        layer="network",
        moot="Far fewer connections are made.",
        source=_IP,
    ),
)
