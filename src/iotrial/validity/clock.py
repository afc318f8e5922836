"""Clock: somebody set the clock under the load, or the machine slept.

``btime`` of /proc/stat is the wall clock less the time since boot, in whole seconds: slewing (NTP)
does not move it, setting the clock does.  ``/proc/uptime`` goes on while the machine is suspended,
the monotonic clock does not.

Sources: proc_stat(5), proc_uptime(5), clock_gettime(2) (CLOCK_MONOTONIC, CLOCK_BOOTTIME).
"""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.model.doubt import Doubt
from iotrial.model.step import Probe
from iotrial.model.validity import Case, Check, Reading, Snapshot
from iotrial.validity import processor

SECONDS = 1
SLEPT = 2.0
"""Seconds: the link, and a machine that is busy, come between the two clocks."""
_UPTIME = "/proc/uptime"


def judge(case: Case) -> Iterator[Doubt]:
    first, last = _boot(case.before), _boot(case.after)
    if first is not None and last is not None and abs(last - first) >= SECONDS:
        yield CHECK.doubt(f"the clock was set by {last - first:+d} s while the load ran")
    began, ended = _uptime(case.before), _uptime(case.after)
    if began is not None and ended is not None and ended - began - case.elapsed > SLEPT:
        lost = ended - began - case.elapsed
        yield CHECK.doubt(f"the machine was asleep for {lost:.0f} s under the load", invalid=True)


def _boot(snapshot: Snapshot) -> int | None:
    for line in snapshot.text(processor.PLACE).splitlines():
        if line.startswith("btime "):
            return int(line.split()[1])
    return None


def _uptime(snapshot: Snapshot) -> float | None:
    words = snapshot.text(_UPTIME).split()
    return float(words[0]) if words else None


CHECK = Check(
    name="clock",
    title="the clock jumped, or the machine slept",
    looks_at="/proc/stat, `btime`; /proc/uptime against the monotonic clock",
    limit="1 s (doubt); 2 s asleep (INVALID)",
    remedy="Let the clock be slewed and not set (chrony, ntpd -x); forbid suspend while measuring.",
    source="proc_stat(5), proc_uptime(5), clock_gettime(2)",
    invalid=True,
    reads=lambda _scene: (processor.STAT, Reading(Probe(_UPTIME), str.strip)),
    judge=judge,
)
