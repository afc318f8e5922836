"""Swap: the machine paged while the load ran: I/O that nobody asked for, and memory that lacks.

Source: /proc/vmstat ``pswpin`` and ``pswpout``, pages swapped (mm/page_io.c).
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.step import Probe
from iotrial.model.validity import Case, Check, Reading, Snapshot

PLACE = "/proc/vmstat"
PAGES = 256
"""Pages either way below which nothing is said: 1 MiB where a page has 4 KiB."""


def _kept(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("pswp"))


def _pages(snapshot: Snapshot) -> dict[str, int]:
    rows = (line.split() for line in snapshot.text(PLACE).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1}


def judge(case: Case) -> Iterator[Doubt]:
    before, after = _pages(case.before), _pages(case.after)
    moved = {name: after.get(name, 0) - before.get(name, 0) for name in ("pswpin", "pswpout")}
    if sum(moved.values()) >= PAGES:
        yield CHECK.doubt(
            f"the machine swapped: {moved['pswpin']} pages in, {moved['pswpout']} pages out"
        )


CHECK = Check(
    name="swap",
    title="the machine swapped",
    looks_at="/proc/vmstat, `pswpin` and `pswpout`",
    limit="256 pages in and out together",
    remedy="Free memory, take a smaller load (threads, cache, file map), or swapoff -a.",
    source="Documentation/filesystems/proc.rst of the kernel; proc_vmstat(5)",
    reads=lambda _scene: (Reading(Probe(PLACE), _kept),),
    judge=judge,
)
