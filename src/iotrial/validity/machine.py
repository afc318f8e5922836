"""Of the machine around the load: tasks that waited, memory that lacked, a clock that jumped."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.step import Probe
from iotrial.model.trial import Doubt
from iotrial.model.validity import CheckReading, LoadEvidence, Snapshot, check
from iotrial.validity import processor

MEMORY = 0.01
CPU = 0.25
_FOREIGN = 0.05
"""Share of all CPU time that others used, without which waiting for a CPU is the load's own."""


@check(
    "pressure",
    "tasks stalled for memory or CPU",
    looks_at="/proc/pressure/memory and /proc/pressure/cpu, `some`",
    limit="1 % of the time for memory; 25 % for CPU, if other processes used 5 % of the CPU time",
    remedy="Check `top` and `systemd-cgtop`: the host needs free memory and CPUs.",
    source="Documentation/accounting/psi.rst of the kernel",
    reads=(
        lambda _scene: (
            *(CheckReading(Probe(_place(what)), str.strip) for what in ("memory", "cpu")),
            processor.PROCESSES,
            processor.LOOKER,
        )
    ),
)
def pressure(case: LoadEvidence) -> Iterator[Doubt]:
    """Tasks waited for memory or for a CPU while the load ran.

    The kernel's pressure stall information does not name the cause.  A storage load seldom needs
    memory; stalls for CPU are reported only if processes other than the load used CPU time.  I/O
    pressure is not judged: a storage load waits for storage by design (``foreign-io`` detects other
    users of the device).

    Source: Documentation/accounting/psi.rst: ``some``, total stall time in microseconds.
    """
    share = _stalled(case, "memory")
    if share >= MEMORY:
        yield pressure.doubt(f"tasks stalled for memory during {share:.0%} of the load")
    share = _stalled(case, "cpu")
    if share >= CPU and processor.share_of_others(case) >= _FOREIGN:
        yield pressure.doubt(f"tasks stalled for CPU during {share:.0%} of the load")


def _stalled(case: LoadEvidence, what: str) -> float:
    first, last = (_total(each, what) for each in (case.before, case.after))
    if first is None or last is None or case.elapsed <= 0:
        return 0.0
    return (last - first) / 1e6 / case.elapsed


def _total(snapshot: Snapshot, what: str) -> int | None:
    for line in snapshot.text(_place(what)).splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2])
    return None


def _place(what: str) -> str:
    return f"/proc/pressure/{what}"


PLACE = "/proc/vmstat"
PAGES = 256
"""Pages either way below which nothing is said: 1 MiB where a page has 4 KiB."""


def _kept(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("pswp"))


def _pages(snapshot: Snapshot) -> dict[str, int]:
    rows = (line.split() for line in snapshot.text(PLACE).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1}


@check(
    "swap",
    "the host swapped",
    looks_at="/proc/vmstat, `pswpin` and `pswpout`",
    limit="256 pages in and out in total",
    remedy="Free memory, take a smaller load (threads, cache, file map), or swapoff -a.",
    source="Documentation/filesystems/proc.rst of the kernel; proc_vmstat(5)",
    reads=lambda _scene: (CheckReading(Probe(PLACE), _kept),),
)
def swap(case: LoadEvidence) -> Iterator[Doubt]:
    """The host paged while the load ran: additional I/O, and a lack of memory.

    Source: /proc/vmstat ``pswpin`` and ``pswpout``, pages swapped (mm/page_io.c).
    """
    before, after = _pages(case.before), _pages(case.after)
    moved = {name: after.get(name, 0) - before.get(name, 0) for name in ("pswpin", "pswpout")}
    if sum(moved.values()) >= PAGES:
        yield swap.doubt(
            f"the host swapped: {moved['pswpin']} pages in, {moved['pswpout']} pages out"
        )


SECONDS = 1
SLEPT = 2.0
"""Seconds: the link, and a machine that is busy, come between the two clocks."""
_UPTIME = "/proc/uptime"


@check(
    "clock",
    "the clock was set, or the host was suspended",
    looks_at="/proc/stat, `btime`; /proc/uptime against the monotonic clock",
    limit="1 s (doubt); 2 s of suspend (INVALID)",
    remedy=(
        "Let NTP slew the clock instead of setting it (chrony, ntpd -x); disable suspend"
        " during measurements."
    ),
    source="proc_stat(5), proc_uptime(5), clock_gettime(2)",
    invalid=True,
    reads=lambda _scene: (processor.STAT, CheckReading(Probe(_UPTIME), str.strip)),
)
def clock(case: LoadEvidence) -> Iterator[Doubt]:
    """The clock was set during the load, or the host was suspended.

    ``btime`` of /proc/stat is the wall clock less the time since boot, in whole seconds: slewing
    (NTP) does not change it, setting the clock does.  ``/proc/uptime`` includes the time in
    suspend, the monotonic clock does not.

    Sources: proc_stat(5), proc_uptime(5), clock_gettime(2) (CLOCK_MONOTONIC, CLOCK_BOOTTIME).
    """
    first, last = _boot(case.before), _boot(case.after)
    if first is not None and last is not None and abs(last - first) >= SECONDS:
        yield clock.doubt(f"the clock was set by {last - first:+d} s during the load")
    began, ended = _uptime(case.before), _uptime(case.after)
    if began is not None and ended is not None and ended - began - case.elapsed > SLEPT:
        lost = ended - began - case.elapsed
        yield clock.doubt(f"the host was suspended for {lost:.0f} s during the load", invalid=True)


def _boot(snapshot: Snapshot) -> int | None:
    for line in snapshot.text(processor.PLACE).splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return None


def _uptime(snapshot: Snapshot) -> float | None:
    words = snapshot.text(_UPTIME).split()
    return float(words[0]) if words else None
