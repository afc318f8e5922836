"""What would tell a comparison that nobody can tell yet: how many blocks, and how long they take.

The question is about blocks to come, so the noise is that of this study, and the terms are those
under which its results would be seen again: more blocks of the same study, judged by intervals
that hold at all looks together (:mod:`iotrial.stats.anytime`), also where the first of them were
of a number fixed beforehand.  After ``b`` blocks in place of ``n`` a standard error is
``sqrt(n / b)`` times what it is, and the degrees of freedom grow as ``b - 1``.

The difference that is named is the estimate where that is beyond the margin, else the margin.  It
is a difference to plan for, and no statement on what the blocks so far could have told: the power
computed at an estimate says no more than its interval (Hoenig and Heisey 2001).  Within the
margin the verdict may become *same* as well; the blocks are then as many as tell either: a
difference of the margin, two equals, and what was estimated, should it stay.

References:
    J. M. Hoenig and D. M. Heisey (2001), The abuse of power: the pervasive fallacy of power
    calculations for data analysis, The American Statistician 55, 19-24.
    C. Jennison and B. W. Turnbull (2000), *Group Sequential Methods with Applications to Clinical
    Trials*, sections 2.6 and 9 (repeated confidence intervals).
    K. F. Phillips (1990), Power of the two one-sided tests procedure in bioequivalence, Journal of
    Pharmacokinetics and Biopharmaceutics 18, 137-144.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from iotrial.model.finding import Needs
from iotrial.model.results import Results
from iotrial.stats.anytime import quantile_at
from iotrial.stats.boundary import FIRST, LAST, NEAR
from iotrial.stats.power import POWER, excludes, within

LEAST_ERROR = 1e-9
"""No standard error is less, so that noise of 0 (made-up numbers) divides nothing by it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How well one comparison is known: the standard ``error`` of its log ratio after ``blocks``
    blocks (2 at least), with ``df`` degrees of freedom.  ``tail`` is the one-sided error that its
    interval may make at all looks together."""

    error: float
    df: int
    blocks: int
    tail: float

    def after(self, blocks: int) -> tuple[float, float, int]:
        """Standard error, critical value and degrees of freedom after so many blocks."""
        df = max(1, round(self.df * (blocks - 1) / (self.blocks - 1)))
        error = max(self.error, LEAST_ERROR) * math.sqrt(self.blocks / blocks)
        return error, quantile_at(self.tail, blocks, df), df


def blocks_to_differ(seen: Seen, log: float, power: float = POWER) -> int | None:
    """The fewest blocks in all after which a true difference of ``log`` > 0 (log scale) is told
    with that power; None where 2,048 do not."""

    def enough(blocks: int) -> bool:
        error, critical, df = seen.after(blocks)
        return excludes(log / error, critical, df) >= power

    return _fewest(enough)


def blocks_to_equal(seen: Seen, margin: float, power: float = POWER) -> int | None:
    """The fewest blocks after which the interval of two equals lies within ± ``margin`` (log scale)
    with that power; None where 2,048 do not."""

    def enough(blocks: int) -> bool:
        error, critical, df = seen.after(blocks)
        return within(margin / error, critical, df) >= power

    return _fewest(enough)


def blocks_if_it_stays(seen: Seen, estimate: float, margin: float) -> int | None:
    """The fewest blocks after which an interval around ``estimate`` excludes 0 or lies within
    ± ``margin`` (log scale), at the noise seen."""
    room = max(abs(estimate), margin - abs(estimate))

    def enough(blocks: int) -> bool:
        error, critical, _ = seen.after(blocks)
        return critical * error < room

    return _fewest(enough)


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """By bisection: more blocks are never worse.  What is far is reckoned only where it is asked
    for (:data:`~iotrial.stats.boundary.NEAR`)."""
    low, high = FIRST - 1, NEAR
    if not enough(high):
        low, high = high, LAST
        if not enough(high):
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def to_tell(
    seen: Seen, estimate: float, margin: float, *, directed: bool, a_block: float
) -> Needs | None:
    """What a primary comparison with this log ``estimate`` needs.

    ``margin`` is a fraction; ``a_block`` are the seconds of a block.  A metric of which nobody
    said which way is better (not ``directed``) can only be told to be the same: None where the
    estimate is beyond the margin.
    """
    least = math.log1p(margin)
    if abs(estimate) > least:
        blocks = blocks_to_differ(seen, abs(estimate))
        return _priced(seen, estimate, blocks, a_block) if directed else None
    if not least:
        return None
    found = [blocks_to_equal(seen, least), blocks_if_it_stays(seen, estimate, least)]
    found += [blocks_to_differ(seen, least)] if directed else []
    known = [each for each in found if each is not None]
    whole = max(known) if len(known) == len(found) else None
    return _priced(seen, least, whole, a_block, same=True)


def to_hold(seen: Seen, estimate: float, tolerance: float, *, a_block: float) -> Needs | None:
    """What a guardrail needs: to tell the log ``estimate`` from the tolerated change."""
    away = abs(estimate - math.log1p(tolerance))
    return _priced(seen, away, blocks_to_differ(seen, away) if away else None, a_block)


def _priced(
    seen: Seen, log: float, blocks: int | None, a_block: float, *, same: bool = False
) -> Needs:
    difference = abs(math.expm1(min(log, 700.0)))
    if blocks is None:
        return Needs(difference, None, None, None, same)
    more = max(1, blocks - seen.blocks)
    return Needs(difference, seen.blocks + more, more, more * a_block, same)


def seconds_of_a_block(results: Results) -> float:
    """What one more block of the whole study takes: wall time of the trials so far by their
    blocks, chores and what does not count included; where several hosts have a block each at the
    same time, a share of it.  0 where nothing was done."""
    blocks = {record.trial.block for record in results.records}
    spent = math.fsum(record.seconds + record.prepared for record in results.records)
    study = results.study
    abreast = min(len(study.places), study.design.blocks) if study.spread else 1
    return spent / max(len(blocks), 1) / max(abreast, 1)
