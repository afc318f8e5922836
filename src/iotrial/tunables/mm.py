"""Family ``mm``: memory, as far as it meets storage: huge pages, merging of pages, zram.

Swappiness, overcommit, dirty limits, NUMA balancing and the rest of ``/proc/sys`` are rows of
family ``sysctl`` (``sysctl.vm.swappiness``, ``sysctl.kernel.numa_balancing``); zswap is a module
(``module.zswap.enabled``).

Sources: the kernel's Documentation/admin-guide/mm/{transhuge,ksm}.rst,
Documentation/admin-guide/blockdev/zram.rst.
"""

from __future__ import annotations

from iotrial.model.tunable import Domain, Tunable

FAMILY = "mm"
TITLE = "memory: huge pages, page merging, zram"

_THP = "/sys/kernel/mm/transparent_hugepage"
_SOURCE = "kernel Documentation/admin-guide/mm"
_ZRAM = "kernel Documentation/admin-guide/blockdev/zram.rst; measured on 6.18"
_LASTS = "until the machine reboots"
_SMALL = "The load has little memory of its own (fio with small blocks), or maps none of it."
_RESET = "only a reset undoes it, which discards what is on the device"
_ANEW = "give the study an array target whose `create` and `remove` set up the device"


def choices(raw: bytes) -> Domain:
    """``always [madvise] never`` → the three."""
    words = raw.decode("ascii", "replace").replace("[", "").replace("]", "").split()
    return Domain(choices=tuple(words))


def _switch(_raw: bytes) -> Domain:
    return Domain(choices=("0", "1"))


TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        "mm.thp",
        f"{_THP}/enabled",
        "which memory gets huge pages",
        layer="memory",
        lasts=_LASTS,
        pick="chosen",
        risk="Memory that is mapped already keeps its pages: only a load started later sees it.",
        moot=_SMALL,
        source=f"{_SOURCE}/transhuge.rst; measured on 6.18",
        scope="host",
        domain=choices,
    ),
    Tunable(
        "mm.thp_defrag",
        f"{_THP}/defrag",
        "how hard a page fault tries for a huge page: `always` stalls until memory is moved",
        layer="memory",
        lasts=_LASTS,
        pick="chosen",
        moot=f"{_SMALL} Or mm.thp is never.",
        source=f"{_SOURCE}/transhuge.rst; measured on 6.18",
        scope="host",
        domain=choices,
    ),
    Tunable(
        "mm.khugepaged_defrag",
        f"{_THP}/khugepaged/defrag",
        "whether khugepaged may move memory to make huge pages",
        layer="memory",
        lasts=_LASTS,
        moot=f"{_SMALL} Or mm.thp is never.",
        source=f"{_SOURCE}/transhuge.rst; measured on 6.18",
        scope="host",
        domain=_switch,
    ),
    Tunable(
        "mm.ksm",
        "/sys/kernel/mm/ksm/run",
        "whether ksmd looks for equal pages to merge",
        layer="memory",
        lasts=_LASTS,
        risk="Merged pages stay merged at 0. (2 unmerges them: an act, and no level here.)",
        moot="No program has asked for it (madvise): virtual machines do.",
        source=f"{_SOURCE}/ksm.rst; measured on 6.18",
        scope="host",
        domain=_switch,
    ),
    Tunable(
        "mm.zram_algorithm",
        "/sys/block/{device}/comp_algorithm",
        "how a compressed disk in memory compresses",
        layer="zram",
        lasts="until the device is reset",
        pick="chosen",
        risk="Once the device has a size the kernel answers EBUSY.",
        moot="The target is not a zram device.",
        source=_ZRAM,
        domain=choices,
        reload=f"it is taken only before the device has a size; {_ANEW}",
    ),
    Tunable(
        "mm.zram_size",
        "/sys/block/{device}/disksize",
        "how much a compressed disk in memory holds, before compression",
        unit="bytes",
        layer="zram",
        lasts="until the device is reset",
        risk="Once the device has a size the kernel answers EBUSY, and 0 is EINVAL.",
        moot="The target is not a zram device.",
        source=_ZRAM,
        reload=f"it can be set once, and {_RESET}; {_ANEW}",
    ),
)
