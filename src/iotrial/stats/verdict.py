"""Verdicts: read from the interval and the margin alone; and when a study can be looked at.

``same`` comes first: an interval inside the margin says that whatever difference there is does
not matter, even where it excludes 1.  A margin m is symmetric on the ratio: [1 / (1 + m), 1 + m].
Because the verdicts only read a simultaneous interval, they are all right together with the
interval's confidence, and no p-value is needed.

Light: a plan asks for the first and the last look without NumPy.

References:
    D. J. Schuirmann (1987), A comparison of the two one-sided tests procedure …, Journal of
    Pharmacokinetics and Biopharmaceutics 15, 657-680 (equivalence from an interval).
    J. W. Tukey (1991), The philosophy of multiple comparisons, Statistical Science 6, 100-116
    (which way, or "uncertain"; never "no effect" from a failure to see one).
"""

from __future__ import annotations

import math

from iotrial.model.finding import Verdict


def verdict(low: float, high: float, margin: float, *, higher_is_better: bool | None) -> Verdict:
    """The verdict on a ratio level / baseline with the interval [``low``, ``high``].

    ``margin`` is a fraction.  For latency and times (``higher_is_better`` False) better means a
    ratio below 1.  A metric without a direction (None) can be the same, never better or worse.
    """
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return "same"
    if higher_is_better is None or low <= 1 <= high:
        return "cannot-tell"
    return "better" if (low > 1) is higher_is_better else "worse"


def guardrail(
    low: float, high: float, tolerance: float, *, higher_is_better: bool | None
) -> Verdict:
    """The verdict on a guardrail: was the tolerated change exceeded?

    ``tolerance`` is the largest tolerated relative change, signed: 0.1 tolerates a ratio up to
    1.1, −0.05 one down to 0.95.  At 0 the metric's direction says which change is the bad one
    (a rise, unless higher is better).  ``worse``: the whole interval is beyond the limit;
    ``same``: all of it is within, a change for the good included; else ``cannot-tell``.
    Never ``better``: a guardrail is not what the study set out to improve.
    """
    limit = 1 + tolerance
    if tolerance < 0 or (tolerance == 0 and higher_is_better):
        return "same" if low >= limit else "worse" if high < limit else "cannot-tell"
    return "same" if high <= limit else "worse" if low > limit else "cannot-tell"


# -- ranks: from how many blocks on ----------------------------------------------------------------

RANK_BLOCKS = 8
"""Blocks below which ranks say nothing beside an interval (:mod:`iotrial.stats.ranks`)."""


def rank_blocks(comparisons: int, level: float) -> int:
    """The fewest blocks after which ranks can tell one of so many comparisons: n blocks give no
    p below 2/2ⁿ, which must be ``level`` / ``comparisons`` at most.

    >>> [rank_blocks(m, 0.05) for m in (1, 6, 7, 100)]
    [8, 8, 9, 12]
    """
    return max(RANK_BLOCKS, math.ceil(math.log2(2 * max(comparisons, 1) / level) - 1e-9))


# -- looks ----------------------------------------------------------------------------------------

LAST = 2048
"""The last look.  Intervals that hold at all looks hold up to this one."""
LEAST_DF = 3
"""With fewer degrees of freedom a difference would have to be dozens of standard errors."""


def first_look(treatments: int) -> int:
    """The first block after which ``treatments`` treatments can be told apart: with
    (blocks - 1)(treatments - 1) >= 3 degrees of freedom, after three blocks at least.

    >>> [first_look(k) for k in (2, 3, 4, 16)]
    [4, 3, 3, 3]
    """
    return max(3, math.ceil(LEAST_DF / max(treatments - 1, 1)) + 1)
