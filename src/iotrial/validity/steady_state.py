"""Steady state: the rate was still on its way somewhere while it was measured.

The rules of SNIA's PTS on the device's own series, once a second: the time that the load measured
is cut into five rounds.  Steady is what keeps within 20 % of their mean, and whose straight line
through the rounds rises or falls by no more than 10 % of the mean from the first to the last.
Loads of less than ten seconds, and those through the page cache (whose writeback comes
in waves), are not judged.  fio's own ``steadystate`` not attained is said by its parser under the
same name, and makes the trial INVALID.

Source: SNIA, Solid State Storage Performance Test Specification, Enterprise, definition of
"Steady State".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from iotrial.model.doubt import Doubt
from iotrial.model.validity import Case, Check, Sample
from iotrial.validity import moved

ROUNDS = 5
FEWEST = 10
"""Seconds: two for each round."""
RANGE = 0.20
SLOPE = 0.10


def judge(case: Case) -> Iterator[Doubt]:
    window = moved.at_the_end(case)
    if not case.scene.direct or len(window) <= FEWEST:
        return
    rates = rounds(window)
    mean = sum(rates) / ROUNDS
    if mean <= 0:
        return
    wide = (max(rates) - min(rates)) / mean
    drift = slope(rates) * (ROUNDS - 1) / mean
    if wide > RANGE or abs(drift) > SLOPE:
        yield CHECK.doubt(
            f"the device was not in a steady state: five rounds of the load differ by {wide:.0%} of"
            f" their mean (limit {RANGE:.0%}) and trend by {drift:+.0%} (limit {SLOPE:.0%})"
        )


def rounds(window: Sequence[Sample]) -> list[float]:
    """Bytes per second in :data:`ROUNDS` equal parts of the samples."""
    last = len(window) - 1
    edges = [window[round(last * part / ROUNDS)] for part in range(ROUNDS + 1)]
    return [(b.moved - a.moved).total / (b.t - a.t) for a, b in pairwise(edges)]


def slope(values: Sequence[float]) -> float:
    """Of the least-squares line through values one apart."""
    middle = (len(values) - 1) / 2
    spread = sum((place - middle) ** 2 for place in range(len(values)))
    return sum((place - middle) * value for place, value in enumerate(values)) / spread


CHECK = Check(
    name="steady-state",
    title="the rate had not settled",
    looks_at="the device's bytes, once a second (telemetry), in the time that the load measured",
    limit="five rounds: a range of 20 % of their mean, a trend of 10 % (SNIA PTS); loads of 10 s"
    " and more that go past the page cache. fio's own steadystate not attained is INVALID",
    remedy="Precondition (`prepare`), give it more ramp_time and runtime; or fio's steadystate.",
    source="SNIA Solid State Storage Performance Test Specification (PTS), Enterprise",
    invalid=True,
    reads=moved.stat,
    judge=judge,
)
