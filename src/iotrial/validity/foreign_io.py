"""Foreign I/O: the device moved more than the load did.

The load's own bytes are held against the sectors that the device counted.  Only loads that go
past the page cache are judged in the direction that they use: read-ahead and writeback move more,
and at other times, than was asked for.  In a direction that the load does not use at all (writes
under a load that only reads) nearly everything is foreign, whatever the cache.

What the load did before it measured cannot be told from foreign I/O by totals alone, so the
smaller of two accounts counts (:mod:`iotrial.validity.moved`).  A load of one second therefore
hides foreign I/O up to the share of its start-up; one of ten seconds nearly none.  On files and
directories only the second account counts, because files may be laid out by the load.
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.validity import Case, Check, Moved
from iotrial.units import format_bytes
from iotrial.validity import moved
from iotrial.validity.moved import OPERATIONS

DOUBTFUL = 0.05
INVALID = 0.15
"""Shares of what the load moved.  Undisturbed loads on loop devices stay below 0.01 at any length;
the metadata of ext4 and xfs (journal, inode times) below 0.03 in a load of ten seconds."""
LEAST = 8 * 2**20
"""Bytes below which nothing is said: a superblock, a partition table read by udev."""


def judge(case: Case) -> Iterator[Doubt]:
    device, own = moved.by_device(case), moved.by_load(case)
    if device is None or own is None:
        return
    span = moved.measured(case)
    for operation in OPERATIONS:
        excess = _excess(case, operation, device, own)
        share = excess / (own.total * (case.seconds / span if span else 1.0))
        if excess < LEAST or share < DOUBTFUL:
            continue
        verb = {"read": "read", "write": "wrote"}[operation]
        what = (
            f"{case.scene.device} {verb} about {format_bytes(int(excess))} that the load did not"
            f" ask for, {share:.0%} of what the load moved"
        )
        yield CHECK.doubt(what, invalid=share >= INVALID)


def _excess(case: Case, operation: str, device: Moved, own: Moved) -> float:
    """Bytes of one direction that are not the load's; 0 where nobody can tell."""
    used = {"read": case.scene.reads, "write": case.scene.writes}[operation]
    counted, asked = device.of(operation), own.of(operation)
    if not used and not asked:
        return counted
    span = moved.measured(case)
    if case.scene.buffered or not asked or not span:
        return 0.0
    whole = counted - asked * case.seconds / span
    window = moved.at_the_end(case)
    if window:
        grown = window[-1].moved.of(operation) - window[0].moved.of(operation)
        rate = grown / (window[-1].t - window[0].t)
        return max(0.0, min(whole, (rate - asked / span) * case.seconds))
    return max(0.0, whole) if case.scene.kind == "device" else 0.0


CHECK = Check(
    name="foreign-io",
    title="somebody else uses the device",
    looks_at="/sys/block/DEVICE/stat before and after the load, and once a second in between;"
    " the bytes that the load says it moved",
    limit="more than 5 % (doubt) or 15 % (INVALID) beyond the load's own bytes, and at least 8 MiB;"
    " reads and writes apart. Buffered loads are judged only in the direction that they do not use",
    remedy="Find who it is (iotop, fatrace, lsof on the device, other partitions of it, a backup)"
    " and stop them; for writes right after a chore, let `settle` be longer.",
    source="Documentation/block/stat.rst of the kernel; limits measured on loop devices",
    invalid=True,
    reads=moved.stat,
    judge=judge,
)
