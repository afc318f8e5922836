"""Power: what a design can resolve before it is run, and what would tell what nobody can tell yet.

*Before*: noise and size in, smallest effect out.  A difference is resolved when its simultaneous
interval excludes 1; the smallest difference a design resolves is the one for which that happens
with the asked probability (power).  The interval of one cell against another over b blocks has the
standard error sd·sqrt(2/b) and (b-1)(k-1) degrees of freedom.  The critical value is the one that
suffices whatever the comparisons' correlations, so the promise is slightly cautious.  A main effect
of a factorial is averaged over several pairs of cells and resolves less than this says.

*After*: how many blocks would tell, and how long they take.  The question is about blocks to come,
so the noise is that of this study, and the terms are those under which its results would be seen
again: more blocks of the same study, judged by intervals that hold at all looks together
(:mod:`iotrial.stats.critical`), also where the first of them were of a number fixed beforehand.
After ``b`` blocks in place of ``n`` a standard error is ``sqrt(n / b)`` times what it is, and the
degrees of freedom grow as ``b - 1``.

The difference that is named is the estimate where that is beyond the margin, else the margin.  It
is a difference to plan for, and no statement on what the blocks so far could have told: the power
computed at an estimate says no more than its interval (Hoenig and Heisey 2001).  Within the
margin the verdict may become *same* as well; the blocks are then as many as tell either: a
difference of the margin, two equals, and what was estimated, should it stay.

References:
    J. Cohen (1988), *Statistical Power Analysis for the Behavioral Sciences*, 2nd ed., chapter 2.
    G. W. Oehlert (2000), *A First Course in Design and Analysis of Experiments*, chapter 7
    (noncentral t).
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
from functools import lru_cache

import numpy as np
from scipy.special import gammainccinv, ndtr

from iotrial.errors import UsageError
from iotrial.model.finding import RequiredBlocks
from iotrial.model.results import Results
from iotrial.stats import unequal
from iotrial.stats.blocks import SHARE, Floats, change_of
from iotrial.stats.critical import FIRST, NEAR, Look, average_over_sd, root, workload_confidence
from iotrial.stats.verdict import LAST

POWER = 0.8
MOST_BLOCKS = 100_000
NODES = 32
"""Of the quadrature over the noise of the other comparisons."""


def resolvable(  # noqa: PLR0913, PLR0917  a power calculation has six terms
    noise_sd: float,
    blocks: int,
    cells: int,
    comparisons: int,
    confidence: float,
    power: float = POWER,
) -> float:
    """The smallest relative difference (0.053: one is 5.3 % above the other) the design resolves.

    ``noise_sd`` is the standard deviation of one trial on the log scale (0.05: about 5 %),
    ``cells`` the treatments of one workload, ``comparisons`` the primary comparisons of the
    whole study.  ``math.inf`` where nothing can ever be resolved: one block leaves no measure of
    noise, one cell nothing to compare.  Raises UsageError for terms out of range.
    """
    _check(noise_sd, confidence, power)
    if blocks < 2 or cells < 2 or comparisons < 1:  # noqa: PLR2004
        return math.inf
    own = min(comparisons, cells - 1)
    error = 1 - workload_confidence(confidence, own, comparisons)
    critical = float(unequal.critical("one", own + 1, np.array(blocks - 1.0), error))
    error = noise_sd * math.sqrt(2 / blocks)
    return detectable(error, critical, blocks - 1, (blocks - 1) * (cells - 2), power)


def blocks_needed(  # noqa: PLR0913, PLR0917  a power calculation has six terms
    effect: float,
    noise_sd: float,
    cells: int,
    comparisons: int,
    confidence: float,
    power: float = POWER,
) -> int | None:
    """The fewest blocks that resolve a relative difference ``effect`` > 0; at least 2.

    None where no number of blocks up to 100,000 does.  Raises UsageError.
    """
    if not effect > 0:
        raise UsageError(
            f"an effect of {effect} cannot be resolved", advice="give an effect above 0"
        )

    def enough(blocks: int) -> bool:
        return resolvable(noise_sd, blocks, cells, comparisons, confidence, power) <= effect

    low, high = 1, 2
    while not enough(high):
        low, high = high, high * 2
        if high > MOST_BLOCKS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def detectable(
    standard_error: float, critical: float, df: float, rest: float, power: float = POWER
) -> float:
    """The relative difference whose interval (estimate ± ``critical`` standard errors, log scale)
    excludes 1 with probability ``power``.  ``standard_error`` is the true one, which the
    comparison's own values estimate with ``df`` degrees of freedom and the pooled noise with
    ``rest`` more (:mod:`iotrial.stats.unequal`)."""
    return change_of(_detected_shift(critical, df, rest, power) * standard_error)


@lru_cache(maxsize=1024)  # the comparisons of a balanced study differ by their errors alone
def _detected_shift(critical: float, df: float, rest: float, power: float) -> float:
    """In true standard errors."""
    reach = _reach(critical, df)
    return root(lambda d: excludes(d, critical, df, rest) - power, 0.0, reach)


def excludes(shift: float, critical: float, df: float, rest: float) -> float:
    """P(|T| > ``critical``) for a true effect of ``shift`` true standard errors."""
    s, weights = _average_over_errors(df, rest)
    return float(weights @ (ndtr(shift - critical * s) + ndtr(-shift - critical * s)))


def within(room: float, critical: float, df: float, rest: float) -> float:
    """The power of *same*: the probability that the whole interval of two equals (estimate ±
    ``critical`` estimated standard errors) lies within ± ``room``, which is in true standard
    errors."""
    s, weights = _average_over_errors(df, rest)
    return float(weights @ np.clip(2 * ndtr(room - critical * s) - 1, 0.0, None))


@lru_cache(maxsize=256)
def _average_over_errors(df: float, rest: float) -> tuple[Floats, Floats]:
    """Nodes and weights to average over (estimated / true standard error) of a comparison among
    equally noisy treatments: the larger of its own and a share of the pooled one."""
    own, weights = average_over_sd(df)
    if rest < 1:
        return own, weights
    others, their = average_over_sd(rest, nodes=NODES)
    pooled = np.add.outer(df * own**2, rest * others**2) / (df + rest)
    s = np.sqrt(np.maximum((own**2)[:, None], SHARE**2 * pooled))
    return s.ravel(), np.multiply.outer(weights, their).ravel()


def _reach(critical: float, df: float) -> float:
    """A shift that is surely seen: far beyond the critical value at the largest likely sd."""
    return critical * math.sqrt(gammainccinv(df / 2, 1e-9) * 2 / df) + 10.0


def _check(noise_sd: float, confidence: float, power: float) -> None:
    if not (noise_sd >= 0 and math.isfinite(noise_sd)):
        raise UsageError(f"{noise_sd} is not a standard deviation", advice="0.05 is 5 %")
    if not 0 < confidence < 1:
        raise UsageError(f"a confidence of {confidence} is not between 0 and 1")
    if not 1 - confidence < power < 1:
        raise UsageError(f"a power of {power} is not between {1 - confidence:.3g} and 1")


# -- what would tell what nobody can tell yet -----------------------------------------------------

LEAST_ERROR = 1e-9
"""No standard error is less, so that noise of 0 (made-up numbers) divides nothing by it."""


@dataclass(frozen=True, slots=True)
class ComparisonPrecision:
    """How well one comparison is known: the standard ``error`` of its log ratio after ``blocks``
    blocks (2 at least), with ``df`` degrees of freedom of its own and those of the pooled noise.
    ``treatments`` are those of its family, the baseline included; ``level`` is what the family may
    err by, at all looks together; ``planned`` how many blocks it was to have at most, where it may
    end before (0: not)."""

    error: float
    df: float
    pooled: float
    blocks: int
    treatments: int
    level: float
    planned: int = 0

    @property
    def rest(self) -> float:
        """What the pooled noise has beside the comparison's own degrees of freedom."""
        return max(self.pooled - self.df, 0.0)

    def after(self, blocks: int) -> tuple[float, float, float, float]:
        """Standard error, critical value, own degrees of freedom and those beside them, after so
        many blocks."""
        more = (blocks - 1) / (self.blocks - 1)
        df = max(1.0, self.df * more)
        error = max(self.error, LEAST_ERROR) * math.sqrt(self.blocks / blocks)
        look = Look(blocks, self.planned)
        of_family = unequal.critical_at(look, "one", self.treatments, np.array(df), self.level)
        return error, float(of_family), df, self.rest * more


def blocks_to_differ(seen: ComparisonPrecision, log: float, power: float = POWER) -> int | None:
    """The fewest blocks in all after which a true difference of ``log`` > 0 (log scale) is told
    with that power; None where 2,048 do not."""

    def enough(blocks: int) -> bool:
        error, critical, df, rest = seen.after(blocks)
        return excludes(log / error, critical, df, rest) >= power

    return _fewest(enough)


def blocks_to_equal(seen: ComparisonPrecision, margin: float, power: float = POWER) -> int | None:
    """The fewest blocks after which the interval of two equals lies within ± ``margin`` (log scale)
    with that power; None where 2,048 do not."""

    def enough(blocks: int) -> bool:
        error, critical, df, rest = seen.after(blocks)
        return within(margin / error, critical, df, rest) >= power

    return _fewest(enough)


def blocks_if_it_stays(seen: ComparisonPrecision, estimate: float, margin: float) -> int | None:
    """The fewest blocks after which an interval around ``estimate`` excludes 0 or lies within
    ± ``margin`` (log scale), at the noise seen."""
    room = max(abs(estimate), margin - abs(estimate))

    def enough(blocks: int) -> bool:
        error, critical, *_ = seen.after(blocks)
        return critical * error < room

    return _fewest(enough)


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """By bisection: more blocks are never worse.  What is far is reckoned only where it is asked
    for (:data:`~iotrial.stats.critical.NEAR`)."""
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
    seen: ComparisonPrecision, estimate: float, margin: float, *, directed: bool, a_block: float
) -> RequiredBlocks | None:
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


def to_hold(
    seen: ComparisonPrecision, estimate: float, tolerance: float, *, a_block: float
) -> RequiredBlocks | None:
    """What a guardrail needs: to tell the log ``estimate`` from the tolerated change."""
    away = abs(estimate - math.log1p(tolerance))
    return _priced(seen, away, blocks_to_differ(seen, away) if away else None, a_block)


def _priced(
    seen: ComparisonPrecision, log: float, blocks: int | None, a_block: float, *, same: bool = False
) -> RequiredBlocks:
    difference = abs(change_of(log))
    if blocks is None:
        return RequiredBlocks(difference, None, None, None, same)
    more = max(1, blocks - seen.blocks)
    return RequiredBlocks(difference, seen.blocks + more, more, more * a_block, same)


def seconds_of_a_block(results: Results) -> float:
    """What one more block of the whole study takes: wall time of the trials so far by their
    blocks, chores and what does not count included; where several hosts have a block each at the
    same time, a share of it.  0 where nothing was done."""
    blocks = {record.trial.block for record in results.records}
    spent = math.fsum(record.seconds + record.prepared for record in results.records)
    study = results.study
    abreast = min(len(study.places), study.design.blocks) if study.spread else 1
    return spent / max(len(blocks), 1) / max(abreast, 1)
