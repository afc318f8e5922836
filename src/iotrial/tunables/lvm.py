"""Family ``lvm``: logical volumes, through lvchange(8) and lvs(8); a volume is ``group/name``.

Sources: lvchange(8), lvs(8), lvmraid(7), lvmcache(7) of LVM 2.03.16.  Read-ahead and
recovery rates were held and restored on 6.1 in a virtual machine; the rest was not measured.

All of it stands in the metadata of the volume group: it outlives a reboot, and lvs reads it from
the disks.  Where lvmlockd guards a group, both commands need its lock.

The *stripes* of a volume cannot be changed while it is there.  They are compared as targets, each
made for the study and removed after it::

    [targets.four]
    device = "/dev/vg/four"
    create = [["lvcreate", "--yes", "--stripes", "4", "--size", "8G", "--name", "four", "vg"]]
    remove = [["lvremove", "--yes", "vg/four"]]

Left out on purpose: ``--writemostly`` and ``--writebehind`` (shown as a letter of the members'
attributes, not as a value that can be read back), ``--cachesettings`` (unset and default are
indistinguishable), ``--discards`` and ``--zero`` of pools (they may lose or show data).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from iotrial.model.tunable import Domain, Tunable, literal

FAMILY = "lvm"
TITLE = "logical volumes: read-ahead, recovery rate, cache"

_UNMEASURED = "not measured"
_SEEN = "seen on 6.1 with LVM 2.03.16"
_PAGE = 8
_LASTS = "for good: it stands in the metadata of the volume group"
_NO_RAID = "The volume is not a RAID of LVM, or no resync runs during the trial."
_NO_CACHE = "The volume has no cache."

DomainOf = Callable[[bytes], Domain]


def _pages(value: str) -> str:
    """LVM rounds up to whole pages, and 0 is what ``none`` reads as."""
    if value == "none":
        return "none reads as 0: ask for 0"
    uneven = value.isdigit() and int(value) % _PAGE
    return f"{value} sectors are not whole pages of {_PAGE}" if uneven else ""


def _row(
    name: str,
    column: tuple[str, str],
    summary: str,
    change: tuple[str, ...],
    domain: DomainOf,
    **more: Any,  # noqa: ANN401
) -> Tunable:
    """``column`` is that of lvs, and the unit asked for.  ``pick`` is the first word of the last
    line: a volume without such a value shows a blank."""
    shown = ("lvs", "--noheadings", "--nosuffix", "-o", column[0], "--units", column[1])
    return Tunable(
        f"lvm.{name}",
        "",
        summary,
        layer="lvm",
        scope="volume",
        lasts=_LASTS,
        durable=True,
        domain=domain,
        read=(*shown, "{device}"),
        pick="field",
        change=(("lvchange", *change, "{device}"),),
        **{"source": f"lvchange(8), lvs(8); {_UNMEASURED}", **more},
    )


RATE = """\
said=$(lvs --noheadings --nosuffix --units k -o "segtype,$2" "$1") || exit
set -- $said
case ${1-} in
    raid*) echo "${2:-0}" ;;
esac
"""
"""Arguments: volume, column.  lvs shows a blank for a RAID whose rate is 0, and for no RAID."""


def _rate(name: str, column: str, summary: str, change: str, risk: str) -> Tunable:
    row = _row(
        name,
        (column, "k"),
        summary,
        (change, "{value}k"),
        lambda _raw: Domain(low=0, high=2**31 - 1),
        unit="KiB/s for each member",
        risk=risk,
        moot=_NO_RAID,
        source=f"lvchange(8), lvs(8); {_SEEN}",
    )
    return replace(row, read=("sh", "-c", literal(RATE), "iotrial-rate", "{device}", column))


TUNABLES: tuple[Tunable, ...] = (
    _row(
        "read_ahead",
        ("lv_read_ahead", "s"),
        "how far a sequential reader of the volume is read ahead; auto: the kernel chooses",
        ("--readahead", "{value}"),
        lambda _raw: Domain(low=0, high=2**31 - 1, words=("auto",), rule=_pages),
        unit="sectors",
        rank=20,
        moves=("queue.read_ahead_kb",),
        risk=(
            "Rounded up to whole pages (8 sectors); 0 is what reads where `none` was asked for."
            " An active volume gets it at once, and its queue/read_ahead_kb with it."
        ),
        moot="Direct I/O does not go through the page cache.",
        source=f"lvchange(8) --readahead; lvs(8); {_SEEN}",
    ),
    _rate(
        "min_recovery_rate",
        "raid_min_recovery_rate",
        "speed that a resync of a RAID volume may have even while there is other I/O; 0: none",
        "--minrecoveryrate",
        "Resync takes the members from the load.",
    ),
    _rate(
        "max_recovery_rate",
        "raid_max_recovery_rate",
        "speed that a resync of a RAID volume never exceeds; 0: no limit",
        "--maxrecoveryrate",
        "A low limit leaves the volume unprotected for long.",
    ),
    _row(
        "cache_mode",
        ("cache_mode", "b"),
        "when a write to a cached volume is done: writethrough, writeback or passthrough",
        ("--yes", "--cachemode", "{value}"),
        lambda _raw: Domain(choices=("writethrough", "writeback", "passthrough")),
        rank=40,
        risk=(
            "writeback loses data when the cache device fails. Leaving it writes back all that"
            " is dirty, which can take hours. passthrough forgets what was cached: the former"
            " hit rate comes back slowly."
        ),
        moot=f"{_NO_CACHE} Or reads only.",
        source=f"lvmcache(7) --cachemode; {_UNMEASURED}",
    ),
    _row(
        "cache_policy",
        ("cache_policy", "b"),
        "how a cached volume decides what stays in the cache: smq, mq",
        ("--yes", "--cachepolicy", "{value}"),
        lambda _raw: Domain(choices=("smq", "mq")),
        rank=40,
        risk="The new policy starts without what the old one knew. mq is smq since 4.6.",
        moot=_NO_CACHE,
        source=f"lvmcache(7) --cachepolicy; {_UNMEASURED}",
    ),
)
