"""Whether the latencies of a fio log are microseconds or nanoseconds, where it does not say.

fio counts microseconds before 2.99 and nanoseconds since; a log with a priority is of 3.18 or
later.  The others are decided by this rule, the first that holds:

1. An I/O cannot have lasted longer than its job had run.  Where lines would say so in
   microseconds, and more of them than could have been in flight when a ramp ended, the unit is
   nanoseconds.
2. A hundredth of the values are below 40: no device answers in 40 ns.  Microseconds.
3. The latencies added up and divided by the time are the I/Os in flight.  More than 256 in
   microseconds: nanoseconds; else microseconds.  Of averages, where nobody knows how many I/Os
   they stand for: a mean of 20,000 or more is nanoseconds.  A doubt says that this was judged.
"""

from __future__ import annotations

from dataclasses import dataclass

from iotrial.model.trial import Doubt

MICRO, NANO = 1e-6, 1e-9
UNIT = "fio-log-unit"
QUICK = 40
_SHARE = 0.01
_FLIGHT = 256
_PROOF = 4096
_MEAN = 20_000
_SUBMIT = 500


@dataclass(frozen=True, slots=True)
class Evidence:
    """``early``: lines that in µs would have begun before their job; ``quick``: values below
    :data:`QUICK`; ``total``: the sum of all ``count`` values; ``seconds``: the log's time."""

    count: int
    total: int
    early: int
    quick: int
    seconds: float
    averages: bool
    kind: str

    @property
    def flight(self) -> float:
        """I/Os in flight, if the values are microseconds."""
        return self.total * MICRO / max(self.seconds, 0.001)


def tick_of(seen: Evidence) -> tuple[float, tuple[Doubt, ...]]:
    """The unit of the values in seconds, and a doubt where it was judged."""
    if seen.averages:
        if seen.early:
            return NANO, ()
        judged = NANO if seen.total >= _MEAN * seen.count else MICRO
    elif seen.early and seen.flight > _PROOF:
        return NANO, ()
    elif seen.quick >= max(1.0, seen.count * _SHARE):
        return MICRO, ()
    elif seen.kind == "slat":  # submitting keeps no queue: half a microsecond or half a millisecond
        judged = NANO if seen.total >= _SUBMIT * seen.count else MICRO
    elif seen.flight > _FLIGHT:
        judged = NANO
        if seen.early:
            return judged, ()
    else:
        judged = MICRO if not seen.early or seen.flight < 1 else NANO
    return judged, (judged_doubt(judged, "its latencies"),)


def judged_doubt(tick: float, whose: str) -> Doubt:
    """That the unit of a log's latencies was judged."""
    unit, other = ("nano", "micro") if tick == NANO else ("micro", "nano")
    return Doubt(
        UNIT,
        f"the log does not say its unit; {whose} are taken for {unit}seconds, and would be "
        f"{'1000 times' if tick == NANO else 'a thousandth of'} what is said, were they "
        f"{other}seconds",
        "compare with fio's own output of the run: fio counts microseconds before 2.99, "
        "nanoseconds since",
    )
