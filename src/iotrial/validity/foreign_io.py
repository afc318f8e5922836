"""Foreign I/O: the device moved more than the load did.

The load's own bytes are held against the sectors that the device counted.  Only loads that are
known to go past the page cache are judged in the direction that they use: read-ahead and
writeback move more, and at other times, than was asked for.  In a direction that the load does
not use at all (writes under a load that only reads) everything is foreign, whatever the cache.

What the load did before it measured cannot be told from foreign I/O by totals alone, so the
smaller of two accounts counts: the load's rate over the whole time that it lived, and the
telemetry of those seconds only that it measured.  A load of a second or two has no such telemetry:
there the load may have been faster before it measured than while it did (a 1 s load whose first
0.6 s were 1.9 times as fast was seen to be taken for foreign I/O), and its rate counts twice for
that time.  Such a load hides foreign I/O up to the share of its start-up; one of ten seconds
nearly none.

On a file system the load lays files out, and its writes bring a journal and metadata with them
(measured on ext4 and xfs: 0.4 to 3.5 times the data where each write is followed by fsync).
There only the second account counts, writes of a load that writes are not judged, and others are
a doubt at most: they may be the writeback of what was laid out.
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.validity import Case, Check
from iotrial.units import format_bytes
from iotrial.validity import moved
from iotrial.validity.moved import OPERATIONS

DOUBTFUL = 0.05
INVALID = 0.15
"""Shares of what the load moved.  By the second account, undisturbed loads of ten seconds on loop
devices (ext4, xfs) showed -0.03 to 0.013 on a busy machine of two CPUs; by the first, of one
second, always less than 0."""
HASTE = 2.0
"""How much faster a short load may have been before it measured."""
LEAST = 8 * 2**20
"""Bytes below which nothing is said: a superblock, a partition table read by udev."""


def judge(case: Case) -> Iterator[Doubt]:
    device, own = moved.by_device(case), moved.by_load(case)
    span = moved.measured(case)
    if device is None or own is None or not span or not case.seconds:
        return  # of 0 s: it was over before the moment that it was to begin at
    for operation in OPERATIONS:
        excess = _excess(case, operation, device.of(operation), own.of(operation))
        share = excess / (own.total * case.seconds / span)
        if excess < LEAST or share < DOUBTFUL:
            continue
        verb = {"read": "read", "write": "wrote"}[operation]
        what = (
            f"{case.scene.device} {verb} about {format_bytes(int(excess))} that the load did not"
            f" ask for, {share:.0%} of what the load moved"
        )
        perhaps_own = operation == "write" and case.scene.kind != "device"
        yield CHECK.doubt(what, invalid=share >= INVALID and not perhaps_own)


def _excess(case: Case, operation: str, counted: float, asked: float) -> float:
    """Bytes of one direction that are not the load's; 0 where nobody can tell."""
    scene = case.scene
    used = bool({"read": scene.reads, "write": scene.writes}[operation] or asked)
    on_files = scene.kind != "device"
    if used and (not scene.direct or not asked or (operation == "write" and on_files)):
        return 0.0
    span = moved.measured(case)
    rate = asked / span
    window = moved.at_the_end(case)
    accounts = []
    if not on_files:
        before = (case.seconds - span) * (1.0 if window else HASTE)
        accounts.append(counted - rate * (span + before))
    if window:
        grown = window[-1].moved.of(operation) - window[0].moved.of(operation)
        accounts.append((grown / (window[-1].t - window[0].t) - rate) * case.seconds)
    return max(0.0, min(accounts, default=0.0))


CHECK = Check(
    name="foreign-io",
    title="somebody else uses the device",
    looks_at="/sys/block/DEVICE/stat before and after the load, and once a second in between;"
    " the bytes that the load says it moved",
    limit="more than 5 % (doubt) or 15 % (INVALID) beyond the load's own bytes, and at least 8 MiB;"
    " reads and writes apart. Of loads of a second or two, only what twice their rate before"
    " they measured does not explain. Loads that may be buffered are judged only in the"
    " direction that they do not use;"
    " on file systems writes are a doubt at most, and none under a load that writes",
    remedy="Find who it is (iotop, fatrace, lsof on the device, other partitions of it, a backup)"
    " and stop them; for writes right after a chore, let `settle` be longer.",
    source="Documentation/block/stat.rst of the kernel; limits measured on loop devices",
    invalid=True,
    reads=moved.stat,
    judge=judge,
)
