"""Cached: the load was answered by memory and not by the device.

Where the device counts, its bytes are held against the load's: a load that read more than the
device did got the rest from the page cache (buffered), or from blocks that were never written
(direct I/O on a sparse file reads nothing at all).  Where nothing counts (a network mount), the
size of what is read against the size of the memory has to do.

Sources: Documentation/block/stat.rst; Documentation/admin-guide/mm/concepts.rst (page cache);
Phoronix Test Suite issue 417 (11.7 GB/s from four disks).
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.step import Probe
from iotrial.model.validity import Case, Check, Moved, Reading, Scene
from iotrial.units import format_bytes
from iotrial.validity import moved

SHARE = 0.10
"""Of what was read: below it, the cache makes less difference than most margins."""
_TIMES_MEMORY = 2


def judge(case: Case) -> Iterator[Doubt]:
    scene, device, own = case.scene, moved.by_device(case), moved.by_load(case)
    if not scene.reads:
        return
    if scene.device and own is not None and own.read and _counts(case, device):
        yield from _counted(case, device.read if device else 0.0, own.read)
    elif scene.buffered and not _first_time(case):
        yield from _presumed(case)


def _counts(case: Case, device: Moved | None) -> bool:
    """Whether the device keeps count: one that moved nothing may not (iostats 0), unless the
    settings say that it does."""
    if device is not None:
        return True
    return case.after.text(_iostats(case.scene.device)) == "1"


def _counted(case: Case, delivered: float, read: float) -> Iterator[Doubt]:
    share = 1 - delivered / read
    if share < SHARE:
        return
    how = (
        f"the page cache answered ({case.scene.buffered})"
        if case.scene.buffered
        else "blocks that were never written, or a cache above the device, answered"
    )
    yield CHECK.doubt(
        f"the load read {format_bytes(int(read))}, and {case.scene.device} only"
        f" {format_bytes(int(delivered))}: of {share:.0%} {how}"
    )


def _first_time(case: Case) -> bool:
    """Whether all is read for the first time after the caches were dropped."""
    read = case.own("read.bytes") or (case.own("read.bw") or 0.0) * case.seconds
    return case.scene.cache in ("drop", "remount") and read <= case.scene.size


def _presumed(case: Case) -> Iterator[Doubt]:
    scene = case.scene
    if not scene.size or scene.size >= _TIMES_MEMORY * scene.memory:
        return
    yield CHECK.doubt(
        f"reads go through the page cache ({scene.buffered}), and {format_bytes(scene.size)} are"
        f" read where memory has {format_bytes(int(scene.memory))}: they may be answered from there"
    )


def _iostats(device: str) -> str:
    return f"/sys/block/{device}/queue/iostats"


def _reads(scene: Scene) -> Iterator[Reading]:
    yield from moved.stat(scene)
    if scene.device:
        yield Reading(Probe(_iostats(scene.device)), str.strip)


CHECK = Check(
    name="cached",
    title="memory answered, not the device",
    looks_at="/sys/block/DEVICE/stat and queue/iostats; the bytes that the load says it read;"
    " without a device that counts: whether reads are buffered, their size, and MemTotal",
    limit="more than 10 % of what was read did not come from the device; or, where nobody counts,"
    " buffered reads of less than twice the memory",
    remedy='Use direct I/O; or more than twice the memory; or cache = "drop" and read once;'
    " write every block before you read it.",
    source="Documentation/block/stat.rst of the kernel",
    reads=_reads,
    judge=judge,
)
