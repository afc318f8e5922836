"""The knee: the smallest level of an ordered factor that is as good as the best.

Many settings help up to a point and then no more: more asynchronous writes, deeper queues, longer
read-ahead.  Beyond the knee more costs (memory, latency) and gives nothing.  A level is *as good as
the best* when no level is better than it by more than the margin; whether the others above it are
better, worse or wavy does not matter.

Level k is shown to be as good when, against every other level j, the lower confidence bound of
its gain is above minus the margin.  "Some j is better by more" is a union of hypotheses, so each
comparison may be made at the full level α of the hypothesis, without a share for each j (the
intersection-union principle).  Over the levels, tests go from the top downwards.  A strict order
would stop at the first level that fails, which is the top itself where the curve falls again.  So
the fallback procedure is used: half of α belongs to the top level, the other half is spread
evenly over the rest, and a level that passes hands all it had on to the next one below.  On the
usual plateau hardly anything is lost to the strict order; elsewhere each level has its own share.
The probability that any level is wrongly called as good as the best is at most α, whatever the
shape of the curve, and so is that of a knee that is too small.

References:
    R. L. Berger (1982), Multiparameter hypothesis testing and acceptance sampling, Technometrics
    24, 295-300 (intersection-union).
    J. C. Hsu and R. L. Berger (1999), Stepwise confidence intervals without multiplicity
    adjustment for dose-response and toxicity studies, JASA 94, 468-482 (stepping down a dose).
    B. L. Wiens and A. Dmitrienko (2005), The fallback procedure for evaluating a single family of
    hypotheses, Journal of Biopharmaceutical Statistics 15, 929-942.
    D. J. Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680 (margins).
    W. Maurer and F. Bretz (2013), Multiple testing in group sequential trials using graphical
    approaches, Statistics in Biopharmaceutical Research 5, 311-320 (a share that is handed on is
    spent over the looks as if it had been there from the first).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrial.stats.anytime import quantile_at
from iotrial.stats.pairwise import Pairs

TOP = 0.5
"""The share of α that belongs to the largest level."""


@dataclass(frozen=True, slots=True)
class Step:
    """One level's test: ``low`` is the lower confidence bound of its ratio to whichever level is
    best (1: none is better; nan: unknown), at the share ``alpha`` that it was tested with."""

    level: str
    low: float
    alpha: float
    as_good: bool


def steps(
    pairs: Pairs, order: Sequence[str], margin: float, confidence: float, *, look: int = 0
) -> tuple[Step, ...]:
    """The tests from the last of ``order`` (the largest level) to the first.

    ``margin`` is a fraction.  Every level with data counts as possibly the best, also one that is
    not in ``order``; levels of ``order`` without data are left out.  ``look`` is the block after
    which the study was looked at, 0 where that is done once.
    """
    tested = [label for label in reversed(order) if label in pairs.labels]
    alpha, handed = 1 - confidence, 0.0
    found: list[Step] = []
    for place, label in enumerate(tested):
        own = alpha * (TOP if place == 0 else (1 - TOP) / (len(tested) - 1))
        if len(tested) == 1:
            own = alpha
        share = own + handed
        low = _low(pairs, label, share, look)
        as_good = low >= -math.log1p(margin)
        handed = share if as_good else 0.0
        found.append(Step(label, math.exp(low), share, as_good))
    return tuple(found)


def knee(found: Sequence[Step]) -> str:
    """The smallest level that was shown to be as good as the best; '' where none was."""
    return next((step.level for step in reversed(found) if step.as_good), "")


def _low(pairs: Pairs, label: str, alpha: float, look: int) -> float:
    """The lower bound of the level's gain over whichever other level is best, on the log scale."""
    at = pairs.labels.index(label)
    others = np.delete(np.arange(len(pairs.labels)), at)
    if not others.size:
        return 0.0
    if not pairs.df:
        return math.nan
    critical = quantile_at(alpha, look, pairs.df)
    return float(np.min(pairs.gain[at, others] - critical * pairs.error[at, others]))
