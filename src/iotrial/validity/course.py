"""Of the load's own course: had it settled, did it stand still, do its numbers agree?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

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
    "the rate had not settled",
    looks_at="the device's bytes, once a second (telemetry), in the time that the load measured",
    limit=(
        "five rounds: a range of 20 % of their mean, a trend of 10 % (SNIA PTS); loads of 10 s"
        " and more that go past the page cache. fio's own steadystate not attained is INVALID"
    ),
    remedy="Precondition (`prepare`), give it more ramp_time and runtime; or fio's steadystate.",
    source="SNIA Solid State Storage Performance Test Specification (PTS), Enterprise",
    invalid=True,
    reads=disk.stat,
)
def steady_state(case: LoadEvidence) -> Iterator[Doubt]:
    """The rate was still on its way somewhere while it was measured.

    The rules of SNIA's PTS on the device's own series, once a second: the time that the load
    measured is cut into five rounds.  Steady is what keeps within 20 % of their mean, and whose
    straight line through the rounds rises or falls by no more than 10 % of the mean from the first
    to the last. Loads of less than ten seconds, and those through the page cache (whose writeback
    comes in waves), are not judged.  fio's own ``steadystate`` not attained is said by its parser
    under the same name, and makes the trial INVALID.

    Source: SNIA, Solid State Storage Performance Test Specification, Enterprise, definition of
    "Steady State".
    """
    window = disk.at_the_end(case)
    if not case.scene.direct or len(window) <= FEWEST_SECONDS:
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
    "the machine stood still, or the device did",
    looks_at=(
        "a thread's own wake-ups, 20 a second, with /sys/block/DEVICE/stat at those that were"
        " late (`pauses.jsonl`; on this machine only); the telemetry, once a second"
    ),
    limit=(
        "0.1 s and 1 % (doubt) or 5 % (INVALID) of the time measured were lost while this machine"
        " stood still; whole seconds without I/O of a device that finishes 20 and more in others"
        " (doubt)"
    ),
    remedy=(
        "Of the machine: measure where no hypervisor pauses it and no program keeps all CPUs,"
        " or longer. Of the device: see the kernel's log (dmesg) for resets, lost paths, timeouts."
    ),
    source="Documentation/block/stat.rst; late wake-ups measured on two CPUs",
    invalid=True,
    reads=disk.stat,
)
def standstill(case: LoadEvidence) -> Iterator[Doubt]:
    """The machine stood still while the load ran, or the device did.

    On this machine a thread of iotrial wakes twenty times a second while a load runs.  Where it
    woke late by a tenth of a second and more, and the device moved less meanwhile than its rate in
    the rest of the trial, then nothing ran: a hypervisor that paused this machine, a suspend,
    something that kept all CPUs.  What the load lost by that is its rate's doing no more: it makes
    the trial INVALID from a share of its time on.  That does not choose among results: a device
    that stalls by itself leaves the machine running, and the thread wakes in time.  A thread that
    alone was late, while the device went on, is nothing.  Where the device does not count its I/O,
    and under a load through the page cache, nobody can tell, and it is a doubt.

    A device that stood still by itself, for whole seconds, is a doubt: perhaps it does that, then
    it is part of its rate; perhaps a path was lost or a controller reset.  It is said where whole
    seconds passed without one finished I/O on a device that finishes 20 and more in a usual second
    (by chance, were they independent, that is one second of 500 million), and in less than a fifth
    of all seconds: more is the load's own way, such as fio's ``thinktime``.  Loads through the
    page cache are not judged: writeback comes in waves.

    A load of a host far away is judged by the second rule only.

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
            f"this machine stood still for {format_seconds(lost)}, {lost / span:.0%} of the time"
            " that was measured" + ("" if known else "; whether the load did, nobody can tell"),
            invalid=known and lost >= INVALID * span,
        )
    if silent := _silent(case):
        yield standstill.doubt(f"{case.scene.device} finished no I/O for {format_seconds(silent)}")


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
    "rate and latency do not make the I/Os that were to be in flight",
    looks_at="fio's IOPS and mean latency (`lat`) of each host, against `numjobs` x `iodepth`",
    limit=(
        f"less than {LOW:.0%} or more than {HIGH:.0%} of jobs x depth, of {FEWEST_IOS:,}"
        " I/Os or more"
    ),
    remedy=(
        "Less: look whether all jobs ran to the end, and at the load's CPU (`generator-bound`);"
        " use an asynchronous engine. More: trust neither rate nor latency of this trial."
    ),
    source="Little 1961; HOWTO of fio (lat, iodepth)",
)
def littles_law(case: LoadEvidence) -> Iterator[Doubt]:
    """What is in flight on average is the rate times the time that one takes.

    A load that keeps its queues filled has jobs x depth I/Os in flight, so that IOPS x mean
    latency must come to that.  Less: some jobs did nothing for part of the time, ended early, or
    waited for something else than I/O.  More: the numbers do not belong to each other (a clock
    that was wrong, jobs that were not added up).  Each host of several is looked at by itself.

    It is looked at where the tool says how many it keeps in flight: fio with a number of jobs and
    a depth, without a rate, think time, syncs or verification, and past the page cache.

    Source: J. D. C. Little (1961), A proof for the queuing formula L = λW, Operations Research
    9(3).
    """
    depth, found = case.scene.depth, in_flight(case)
    if not depth or found is None or not case.scene.direct:
        return
    if not LOW <= found / depth <= HIGH:
        yield littles_law.doubt(
            f"IOPS times mean latency is {found:.1f} I/Os in flight, but the load was to keep"
            f" {depth:.0f}: {found / depth:.0%}"
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
