"""Uneven paths: one path of several carried more than its share, or one adapter, or one NUMA node.

Paths of a multipath map or an NVMe namespace, and members of an array that stripes, are meant to
carry alike.  The kernel's counters of each are read before and after the load.  Paths that carry
nothing are not counted among the others: with asymmetric access (ALUA, ANA) some only stand by;
but where all goes through one, or through one adapter of two, it is said.

Sources: Documentation/block/stat.rst; multipath.conf(5) (path_selector, path_grouping_policy,
prio); counts of independent I/Os vary by their square root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import sqrt

from iotrial.model.doubt import Doubt
from iotrial.model.step import Probe
from iotrial.model.validity import Case, Check, Reading, Scene
from iotrial.stats.causes import UNEVEN, apart

ENOUGH = 100
"""I/Os of each path on average, below which shares are chance."""
IDLE = 0.01
"""Of an even share: a path with less stands by."""
SIGMAS = 4.0
_FINISHED = (0, 4)
_PAIR = 2


def _place(disk: str) -> str:
    return f"/sys/block/{disk}/stat"


def reads(scene: Scene) -> Iterable[Reading]:
    return [Reading(Probe(_place(disk))) for disk, _, _ in scene.ways]


def judge(case: Case) -> Iterator[Doubt]:
    done = dict(_done(case))
    if len(done) < _PAIR or sum(done.values()) < ENOUGH * len(done):
        return
    of = f"the {len(done)} paths and members of {case.scene.device}"
    used = _used(done)
    if len(used) == 1:
        yield CHECK.doubt(f"all I/O of {of} went through {next(iter(used))}")
        return
    if said := _beyond_chance(used, f"of the I/O of {of}"):
        yield CHECK.doubt(said)
    for what, column in (("adapter", 1), ("NUMA node", 2)):
        sums: dict[str, int] = {}
        for way in case.scene.ways:
            if way[column] and way[0] in done:
                name = f"node {way[column]}" if column > 1 else way[column]
                sums[name] = sums.get(name, 0) + done[way[0]]
        carrying = _used(sums)
        if len(sums) > 1 and len(carrying) == 1:
            idle = ", ".join(name for name in sums if name not in carrying)
            went = f"went through {what} {next(iter(carrying))}, and nothing through {idle}"
            yield CHECK.doubt(f"all I/O of {of} {went}")
        elif said := _beyond_chance(carrying, f"of the I/O of {of}, by {what}"):
            yield CHECK.doubt(said)


def _done(case: Case) -> Iterator[tuple[str, int]]:
    """Each path and how many I/Os it finished between the snapshots."""
    for disk, _, _ in case.scene.ways:
        first, last = (_finished(s.text(_place(disk))) for s in (case.before, case.after))
        if first is not None and last is not None and last >= first:
            yield disk, last - first


def _finished(text: str) -> int | None:
    fields = text.split()
    if len(fields) <= _FINISHED[1]:
        return None
    return sum(int(fields[place]) for place in _FINISHED)


def _used(done: Mapping[str, int]) -> dict[str, int]:
    mean = sum(done.values()) / len(done) if done else 0.0
    return {name: count for name, count in done.items() if count > IDLE * mean}


def _beyond_chance(done: Mapping[str, int], words: str) -> str:
    """Who carried how much, where that is far from even; else ''."""
    found = apart(done)
    mean = sum(done.values()) / len(done) if done else 0.0
    if not found or abs(found[1] - 1) * mean < SIGMAS * sqrt(mean):
        return ""
    most = max(done, key=lambda name: done[name])
    return (
        f"{most} carried {done[most] / sum(done.values()):.0%} {words} (even: {1 / len(done):.0%})"
    )


CHECK = Check(
    name="uneven-paths",
    title="the load was not spread evenly over paths, adapters or NUMA nodes",
    looks_at="`/sys/block/PATH/stat` of each path of a multipath map or NVMe namespace, and of each"
    " member of an array that stripes; where the topology says that they hang",
    limit=f"{UNEVEN:.0%} above or below an even share, more than chance would do; or all of it"
    " through one of several. Paths that carry nothing count as standing by",
    remedy="Of paths: look at the path selector and at priorities (`multipath -ll`,"
    " `nvme list-subsys`), and spread ports over adapters. Of members: at the chunk size against"
    " blocks, alignment and the range that is loaded.",
    source="Documentation/block/stat.rst; multipath.conf(5)",
    reads=reads,
    judge=judge,
)
