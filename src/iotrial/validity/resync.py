"""Resync: an md array rebuilt, reshaped or checked itself while the load ran.

Of an array that the target is, or whose members lie on the target's disks, it makes the trial
INVALID; elsewhere on the machine it is a doubt (shared adapters, shared CPU).  A scrub of btrfs,
ZFS or LVM's raid is not in /proc: the device's own counters show it
(:mod:`iotrial.validity.foreign_io`).

Source: Documentation/admin-guide/md.rst (sync_action); drivers/md/md.c, status_resync().
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.step import Probe
from iotrial.model.validity import Case, Check, Reading, Scene

PLACE = "/proc/mdstat"
_ARRAY = re.compile(r"^(md\S*) : (.*)$")
_WORK = re.compile(r"\b(resync|recovery|reshape|check|repair)\s*=\s*([0-9.]+%)")
_MEMBER = re.compile(r"\b([\w/!-]+)\[\d+\]")
_PARTITION = re.compile(r"((?:s|h|v|xv)d[a-z]+)\d+|((?:nvme\d+n|mmcblk|md|loop)\d+)p\d+")


def judge(case: Case) -> Iterator[Doubt]:
    at_work = {**_at_work(case.before.text(PLACE)), **_at_work(case.after.text(PLACE))}
    for array, (what, members) in at_work.items():
        ours = array == case.scene.device or bool({array, *members} & _disks(case.scene))
        where = "which the target lies on" if ours else "which the target does not lie on"
        yield CHECK.doubt(f"{array}, {where}, is at work on itself: {what}", invalid=ours)


def _disks(scene: Scene) -> set[str]:
    return {_whole(name) for name in (*scene.disks, scene.device) if name}


def _whole(name: str) -> str:
    """The disk of a partition.

    >>> [_whole(name) for name in ("nvme0n1p2", "sda3", "md0", "nvme0n1", "loop5")]
    ['nvme0n1', 'sda', 'md0', 'nvme0n1', 'loop5']
    """
    found = _PARTITION.fullmatch(name)
    return next(filter(None, found.groups())) if found else name


def _at_work(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Array → what it does, and the disks that its members lie on."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    array, members = "", frozenset[str]()
    for line in text.splitlines():
        if head := _ARRAY.match(line):
            array, members = head[1], frozenset(map(_whole, _MEMBER.findall(head[2])))
        elif array and (work := _WORK.search(line)):
            found[array] = (f"{work[1]} at {work[2]}", members)
    return found


CHECK = Check(
    name="resync",
    title="an array was at work on itself",
    looks_at="/proc/mdstat before and after the load",
    limit="any resync, recovery, reshape, check or repair that has begun: INVALID where the target"
    " lies on the array or shares a disk with it, else a doubt",
    remedy="Wait until it has ended, or: echo idle > /sys/block/mdN/md/sync_action",
    source="Documentation/admin-guide/md.rst of the kernel",
    invalid=True,
    reads=lambda _scene: (Reading(Probe(PLACE), str.strip),),
    judge=judge,
)
