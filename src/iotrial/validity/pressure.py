"""Pressure: tasks waited for memory or for a CPU while the load ran.

The kernel's stall accounting does not say who made others wait.  A storage load seldom wants
memory; that tasks waited for a CPU is said only where others than the load used some of it.
Pressure on I/O is not judged: a load that measures storage waits for storage, that is its work
(:mod:`iotrial.validity.foreign_io` looks for others on the device).

Source: Documentation/accounting/psi.rst: ``some``, total stall time in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.step import Probe
from iotrial.model.validity import Case, Check, Reading, Snapshot
from iotrial.validity import other_cpu

MEMORY = 0.01
CPU = 0.25
_FOREIGN = 0.05
"""Share of all CPU time that others used, without which waiting for a CPU is the load's own."""


def judge(case: Case) -> Iterator[Doubt]:
    share = _stalled(case, "memory")
    if share >= MEMORY:
        yield CHECK.doubt(f"tasks waited for memory during {share:.0%} of the load")
    share = _stalled(case, "cpu")
    if share >= CPU and other_cpu.share(case) >= _FOREIGN:
        yield CHECK.doubt(f"tasks waited for a CPU during {share:.0%} of the load")


def _stalled(case: Case, what: str) -> float:
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


CHECK = Check(
    name="pressure",
    title="tasks waited for memory or CPU",
    looks_at="/proc/pressure/memory and /proc/pressure/cpu, `some`",
    limit="1 % of the time for memory; 25 % for CPU, where others used 5 % of the CPU time",
    remedy="See `top` and `systemd-cgtop`: give the machine memory and CPUs to spare.",
    source="Documentation/accounting/psi.rst of the kernel",
    reads=lambda _scene: (
        *(Reading(Probe(_place(what)), str.strip) for what in ("memory", "cpu")),
        other_cpu.ALL,
        other_cpu.LOOKER,
    ),
    judge=judge,
)
