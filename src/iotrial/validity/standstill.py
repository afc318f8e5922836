"""Standstill: the machine stood still while the load ran, or the device did.

On this machine a thread of iotrial wakes twenty times a second while a load runs.  Where it woke
late by a tenth of a second and more, and the device moved less meanwhile than its rate in the rest
of the trial, then nothing ran: a hypervisor that paused this machine, a suspend, something that
kept all CPUs.  What the load lost by that is its rate's doing no more: it makes the trial INVALID
from a share of its time on.  That does not choose among results: a device that stalls by itself
leaves the machine running, and the thread wakes in time.  A thread that alone was late, while the
device went on, is nothing.  Where the device does not count its I/O, and under a load through the
page cache, nobody can tell, and it is a doubt.

A device that stood still by itself, for whole seconds, is a doubt: perhaps it does that, then it
is part of its rate; perhaps a path was lost or a controller reset.  It is said where whole seconds
passed without one finished I/O on a device that finishes 20 and more in a usual second (by chance,
were they independent, that is one second of 500 million), and in less than a fifth of all seconds:
more is the load's own way, such as fio's ``thinktime``.  Loads through the page cache are not
judged: writeback comes in waves.

A load of a host far away is judged by the second rule only.

Source: Documentation/block/stat.rst; times of late wake-ups measured on two CPUs, as
iotrial.execute.load.sampler says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from iotrial.model.doubt import Doubt
from iotrial.model.validity import Case, Check, Pause
from iotrial.units import format_seconds
from iotrial.validity import moved

DOUBTFUL = 0.01
"""Share of the time measured that was lost: the smallest margin that anybody asks for."""
INVALID = 0.05
"""As for time that was stolen: more than the differences that studies look for."""
LEAST = 0.1
"""Seconds, of one standstill."""
USUAL = 20
"""I/Os that finish in a usual second, below which a second without any may be chance."""
OWN_WAY = 0.2
"""Share of seconds without I/O from which on the load is like that."""


def judge(case: Case) -> Iterator[Doubt]:
    span = moved.measured(case) or case.seconds
    if span <= 0:
        return
    lost = sum(_lost(case, pause, span) for pause in case.pauses)
    if lost >= LEAST and lost >= DOUBTFUL * span:
        known = not case.scene.buffered and all(each.bytes is not None for each in case.pauses)
        yield CHECK.doubt(
            f"this machine stood still for {format_seconds(lost)}, {lost / span:.0%} of the time"
            " that was measured" + ("" if known else "; whether the load did, nobody can tell"),
            invalid=known and lost >= INVALID * span,
        )
    if silent := _silent(case):
        yield CHECK.doubt(f"{case.scene.device} finished no I/O for {format_seconds(silent)}")


def _lost(case: Case, pause: Pause, span: float) -> float:
    """Seconds of a pause that the load lost: those in what it measured, less what the device
    did meanwhile."""
    inside = min(pause.t + pause.seconds, case.seconds) - max(pause.t, case.seconds - span)
    if inside < LEAST:
        return 0.0
    if pause.bytes is None or case.scene.buffered:
        return inside if moved.measured(case) else 0.0  # else perhaps before it began
    device = moved.by_device(case)
    others = [each for each in case.pauses if each.bytes is not None]
    rest = case.seconds - sum(each.seconds for each in others)
    if device is None or rest <= 0:
        return 0.0
    rate = (device.total - sum(each.bytes or 0.0 for each in others)) / rest
    expected = rate * pause.seconds
    return inside * max(0.0, 1 - pause.bytes / expected) if expected > 0 else 0.0


def _silent(case: Case) -> float:
    """Seconds in which the device finished nothing, though it finishes much in others."""
    window = moved.at_the_end(case)
    if not case.scene.direct:
        return 0.0
    spans = [(later.t - each.t, later.finished - each.finished) for each, later in pairwise(window)]
    silent = [seconds for seconds, finished in spans if finished == 0]
    usual = [finished / seconds for seconds, finished in spans if finished > 0 and seconds > 0]
    if not usual or median(usual) < USUAL or len(silent) >= OWN_WAY * len(spans):
        return 0.0
    return sum(silent)


CHECK = Check(
    name="standstill",
    title="the machine stood still, or the device did",
    looks_at="a thread's own wake-ups, 20 a second, with /sys/block/DEVICE/stat at those that were"
    " late (`pauses.jsonl`; on this machine only); the telemetry, once a second",
    limit="0.1 s and 1 % (doubt) or 5 % (INVALID) of the time measured were lost while this machine"
    " stood still; whole seconds without I/O of a device that finishes 20 and more in others"
    " (doubt)",
    remedy="Of the machine: measure where no hypervisor pauses it and no program keeps all CPUs,"
    " or longer. Of the device: see the kernel's log (dmesg) for resets, lost paths, timeouts.",
    source="Documentation/block/stat.rst; late wake-ups measured on two CPUs",
    invalid=True,
    reads=moved.stat,
    judge=judge,
)
