"""Of the load's own course: had it settled, did it stand still, do its numbers agree?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from iotrial.model.measurement import is_offered
from iotrial.model.trial import Doubt
from iotrial.model.validity import IOSample, LateSample, LoadEvidence, check
from iotrial.units import format_seconds
from iotrial.validity import disk

ROUNDS = 5
FEWEST_SECONDS = 10
"""Seconds: two for each round."""
RANGE = 0.20
SLOPE = 0.10


@check(
    "steady-state",
    "the rate was not in a steady state",
    looks_at="the device's bytes, once a second (telemetry), in the time that the load measured",
    limit=(
        "five rounds: a range of 20 % of their mean, a trend of 10 % (SNIA PTS); loads of at"
        " least 10 s that bypass the page cache. fio's own steadystate not attained is INVALID"
    ),
    remedy="Precondition (`prepare`), give it more ramp_time and runtime; or fio's steadystate.",
    source="SNIA Solid State Storage Performance Test Specification (PTS), Enterprise",
    invalid=True,
    reads=disk.stat,
)
def steady_state(case: LoadEvidence) -> Iterator[Doubt]:
    """The rate was not in a steady state while it was measured.

    The rules of the SNIA PTS on the series of the device, once a second: the measured time is
    divided into five rounds.  A steady rate stays within 20 % of the mean of the rounds, and the
    line fitted to the rounds rises or falls by at most 10 % of the mean from the first to the last.
    Loads shorter than ten seconds, loads through the page cache (bursts of writeback) and loads at
    several offered rates are not judged.  The parser of fio reports an unattained ``steadystate``
    of fio itself under the same name; this makes the trial INVALID.

    Source: SNIA, Solid State Storage Performance Test Specification, Enterprise, definition of
    "Steady State".
    """
    window = disk.at_the_end(case)
    rising = any(is_offered(each.metric) for each in case.measurements)
    if not case.scene.direct or rising or len(window) <= FEWEST_SECONDS:
        return
    rates = rounds(window)
    mean = sum(rates) / ROUNDS
    if mean <= 0:
        return
    wide = (max(rates) - min(rates)) / mean
    drift = slope(rates) * (ROUNDS - 1) / mean
    if wide > RANGE or abs(drift) > SLOPE:
        yield steady_state.doubt(
            f"the device was not in a steady state: five rounds of the load differ by {wide:.0%} of"
            f" their mean (limit {RANGE:.0%}) and trend by {drift:+.0%} (limit {SLOPE:.0%})"
        )


def rounds(window: Sequence[IOSample]) -> list[float]:
    """Bytes per second in :data:`ROUNDS` equal parts of the samples."""
    last = len(window) - 1
    edges = [window[round(last * part / ROUNDS)] for part in range(ROUNDS + 1)]
    return [(b.moved - a.moved).total / (b.t - a.t) for a, b in pairwise(edges)]


def slope(values: Sequence[float]) -> float:
    """Of the least-squares line through values one apart."""
    middle = (len(values) - 1) / 2
    spread = sum((place - middle) ** 2 for place in range(len(values)))
    return sum((place - middle) * value for place, value in enumerate(values)) / spread


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


@check(
    "standstill",
    "the host or the device stalled",
    looks_at=(
        "wake-ups of a thread, 20 a second, with /sys/block/DEVICE/stat at each late one"
        " (`pauses.jsonl`; on the local host only); the telemetry, once a second"
    ),
    limit=(
        "stall of the local host of 0.1 s and 1 % (doubt) or 5 % (INVALID) of the measured"
        " time; whole seconds without I/O on a device that otherwise completes 20 or more per"
        " second (doubt)"
    ),
    remedy=(
        "Host: measure without a hypervisor that pauses it and without a program that occupies"
        " all CPUs, or measure longer. Device: check the kernel log (dmesg) for resets, lost"
        " paths, timeouts."
    ),
    source="Documentation/block/stat.rst; late wake-ups measured on two CPUs",
    invalid=True,
    reads=disk.stat,
)
def standstill(case: LoadEvidence) -> Iterator[Doubt]:
    """The host or the device stalled while the load ran.

    On the local host a thread of iotrial wakes twenty times a second while a load runs.  If it
    wakes late by a tenth of a second or more, and the device transfers less meanwhile than in the
    rest of the trial, the whole host stalled: a hypervisor paused it, it was suspended, or a
    process occupied all CPUs.  The lost time is then not a property of the storage, and the trial
    is INVALID above the limit.  This does not bias results: if only the device stalls, the host
    keeps running and the thread wakes in time.  A late thread without an effect on the device is
    ignored.  Without I/O counters of the device, and under a load through the page cache, the
    effect on the load is unknown, and the stall is a doubt.

    A stall of the device alone, for whole seconds, is a doubt: it may be normal for the device and
    then belongs to its rate, or a path was lost or a controller reset.  It is reported if whole
    seconds passed without a completed I/O on a device that completes 20 or more in a usual second
    (by chance, for independent I/Os, one second in 500 million), in less than a fifth of all
    seconds: more is caused by the load, for example by fio's ``thinktime``.  Loads through the page
    cache are not judged, because writeback comes in bursts.

    A load on a remote host is judged by the second rule only.

    Source: Documentation/block/stat.rst; times of late wake-ups measured on two CPUs, as
    iotrial.execute.load.sampler says.
    """
    span = disk.measured(case) or case.seconds
    if span <= 0:
        return
    lost = sum(_lost(case, pause, span) for pause in case.pauses)
    if lost >= LEAST and lost >= DOUBTFUL * span:
        known = not case.scene.buffered and all(each.bytes is not None for each in case.pauses)
        yield standstill.doubt(
            f"this host stalled for {format_seconds(lost)}, {lost / span:.0%} of the measured"
            " time" + ("" if known else "; the effect on the load is unknown"),
            invalid=known and lost >= INVALID * span,
        )
    if silent := _silent(case):
        yield standstill.doubt(f"{case.scene.device} completed no I/O for {format_seconds(silent)}")


def _lost(case: LoadEvidence, pause: LateSample, span: float) -> float:
    """Seconds of a pause that the load lost: those in what it measured, less what the device
    did meanwhile."""
    inside = min(pause.t + pause.seconds, case.seconds) - max(pause.t, case.seconds - span)
    if inside < LEAST:
        return 0.0
    if pause.bytes is None or case.scene.buffered:
        return inside if disk.measured(case) else 0.0  # else perhaps before it began
    device = disk.by_device(case)
    others = [each for each in case.pauses if each.bytes is not None]
    rest = case.seconds - sum(each.seconds for each in others)
    if device is None or rest <= 0:
        return 0.0
    rate = (device.total - sum(each.bytes or 0.0 for each in others)) / rest
    expected = rate * pause.seconds
    return inside * max(0.0, 1 - pause.bytes / expected) if expected > 0 else 0.0


def _silent(case: LoadEvidence) -> float:
    """Seconds in which the device finished nothing, though it finishes much in others."""
    window = disk.at_the_end(case)
    if not case.scene.direct:
        return 0.0
    spans = [(later.t - each.t, later.finished - each.finished) for each, later in pairwise(window)]
    silent = [seconds for seconds, finished in spans if finished == 0]
    usual = [finished / seconds for seconds, finished in spans if finished > 0 and seconds > 0]
    if not usual or median(usual) < USUAL or len(silent) >= OWN_WAY * len(spans):
        return 0.0
    return sum(silent)


LOW, HIGH = 0.8, 1.1
"""Of jobs x depth.  fio's own work between two I/Os is in neither, and under a fifth where storage
is measured at all."""
FEWEST_IOS = 1000
"""I/Os: of fewer those at both ends weigh too much."""
_OPERATIONS = ("read", "write", "trim")


@check(
    "littles-law",
    "rate times latency contradicts the configured queue depth",
    looks_at="fio's IOPS and mean latency (`lat`) of each host, against `numjobs` x `iodepth`",
    limit=(
        f"less than {LOW:.0%} or more than {HIGH:.0%} of jobs x depth, with {FEWEST_IOS:,} I/Os"
        " or more"
    ),
    remedy=(
        "Less: check that all jobs ran to the end, and the CPU of the load (`generator-bound`);"
        " use an asynchronous engine. More: do not use rate or latency of this trial."
    ),
    source="Little 1961; HOWTO of fio (lat, iodepth)",
)
def littles_law(case: LoadEvidence) -> Iterator[Doubt]:
    """Little's law: the mean number of I/Os in flight is the rate times the mean latency.

    A load that keeps its queues filled has jobs x depth I/Os in flight, so IOPS x mean latency
    must equal that number.  Less: some jobs were idle for part of the time, ended early, or waited
    for something other than I/O.  More: the numbers are inconsistent (a wrong clock, jobs missing
    from the sum).  With several hosts each host is checked separately.

    It is checked if the tool states its number of I/Os in flight: fio with a number of jobs and a
    depth, without a rate, think time, syncs or verification, and with direct I/O.

    Source: J. D. C. Little (1961), A proof for the queuing formula L = λW, Operations Research
    9(3).
    """
    depth, found = case.scene.depth, in_flight(case)
    if not depth or found is None or not case.scene.direct:
        return
    if not LOW <= found / depth <= HIGH:
        yield littles_law.doubt(
            f"IOPS times mean latency gives {found:.1f} I/Os in flight, but the configured depth"
            f" is {depth:.0f}: {found / depth:.0%}"
        )


def in_flight(case: LoadEvidence) -> float | None:
    """How many I/Os the load's own numbers say were in flight; None where they do not say."""
    total, ios = 0.0, 0.0
    for operation in _OPERATIONS:
        rate, latency = (case.own(f"{operation}.{what}") for what in ("iops", "lat.mean"))
        if rate and latency is None:
            return None
        total += (rate or 0.0) * (latency or 0.0)
        ios += case.own(f"{operation}.ios") or (rate or 0.0) * case.seconds
    return total if total and ios >= FEWEST_IOS else None
