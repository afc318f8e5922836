"""When a study can be looked at first and last.  Light: a plan asks without NumPy."""

from __future__ import annotations

import math

LAST = 2048
"""The last look.  Intervals that hold at all looks hold up to this one."""
LEAST_DF = 3
"""With fewer degrees of freedom a difference would have to be dozens of standard errors."""


def first_look(treatments: int) -> int:
    """The first block after which ``treatments`` treatments can be told apart: with
    (blocks - 1)(treatments - 1) >= 3 degrees of freedom, after two blocks at least.

    >>> [first_look(k) for k in (2, 3, 4, 16)]
    [4, 3, 2, 2]
    """
    return max(2, math.ceil(LEAST_DF / max(treatments - 1, 1)) + 1)
