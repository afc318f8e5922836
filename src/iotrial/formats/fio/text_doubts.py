"""What makes a group of fio's text output less believable, beside what a single job shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from iotrial.formats.fio.report import Job
from iotrial.model.doubt import Doubt

_DISK = re.compile(
    r"(?P<name>\S{1,255}): ios=\d+/\d+,(?: sectors=\d+/\d+,)? merge=\d+/\d+, "
    r"ticks=(?P<read>\d{1,20})/(?P<write>\d{1,20}), in_queue=(?P<queue>\d{1,20}), util=[\d.na-]+%"
    r"(?P<aggregate>, aggrios=\d+/\d+,(?: aggsectors=\d+/\d+,)? aggrmerge=\d+/\d+, "
    r"aggrticks=(?P<aread>\d{1,20})/(?P<awrite>\d{1,20}), aggrin_queue=(?P<aqueue>\d{1,20}), "
    r"aggrutil=[\d.na-]+%)?"
)
_32_BITS = 2**32
_IN_FLIGHT = 1.2  # tolerated share above what the job asked to have in flight
_LONG_ENOUGH = 1.0


def overflows(disks: Sequence[str]) -> Iterator[Doubt]:
    """Disks whose ticks (ms) no longer fit 32 bits: fio up to 2.1 adds those of an array's members
    up in 32 bits, and before 5.0 the kernel itself counts in 32.

    Source: ``struct disk_util_agg`` in diskutil.h of fio 2.1.10; Documentation/iostats of Linux.
    """
    found = [match for line in disks if (match := _DISK.fullmatch(line))]
    for index, disk in enumerate(found):
        ticks = int(disk["read"]) + int(disk["write"])
        missing = round((int(disk["queue"]) - ticks) / _32_BITS)
        if missing and abs(int(disk["queue"]) - ticks - missing * _32_BITS) < _32_BITS // 20:
            yield _overflow(disk["name"], "the time in its queue and the time of its I/Os")
        if disk["aggregate"]:
            members = found[index + 1 :]
            ends = [at for at, each in enumerate(members) if each["aggregate"]]
            yield from _aggregate(disk, members[: ends[0]] if ends else members)


def _aggregate(disk: re.Match[str], members: Sequence[re.Match[str]]) -> Iterator[Doubt]:
    for said, each in (("aread", "read"), ("awrite", "write"), ("aqueue", "queue")):
        total = sum(int(member[each]) for member in members)
        if not members or total < _32_BITS or total // len(members) == int(disk[said]):
            continue
        if total % _32_BITS // len(members) == int(disk[said]):
            yield _overflow(disk["name"], f"the {each} ticks of its {len(members)} members")
            return


def _overflow(name: str, what: str) -> Doubt:
    return Doubt(
        "overflow",
        f"disk {name}: {what} overflowed 32 bits",
        "do not use fio's disk statistics of this run; its other numbers are not touched",
    )


def in_flight(jobs: Sequence[Job], allowed: int) -> Iterator[Doubt]:
    """Little's law: I/Os a second × their time is how many are in flight, and no more than
    ``allowed`` can be."""
    if not allowed:
        return
    flying, seconds = 0.0, 0.0
    for one in jobs:
        for each in one.directions:
            stage = each.latencies.get("lat") or each.latencies.get("clat")
            if stage and not (each.operation == "mixed" and len(one.directions) > 1):
                flying += each.ios * stage.mean
                seconds = max(seconds, each.seconds)
    if seconds >= _LONG_ENOUGH and flying / seconds > allowed * _IN_FLIGHT:
        what = f"{flying / seconds:.0f} I/Os in flight by rate and latency, at most {allowed} asked"
        yield Doubt("inconsistent", what, "do not use these numbers before you know why")
