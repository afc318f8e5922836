"""What an open race would still take, if differences and noise stay as they were seen.

A treatment is decided once it is told from the kept one (either is dropped), or once the interval
of their difference lies inside the margin.  Both need a half width below a known one, and half
widths fall with the blocks as the boundary and the noise say: the first number of blocks at which
either holds is what is said.  It is an expectation and no promise, for the estimate moves too.

References:
    C. Jennison and B. W. Turnbull (2000), *Group Sequential Methods with Applications to Clinical
    Trials*, sections 2.6 (unknown variance) and 10.2 (what is expected, given the data so far).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from iotrial.stats.blocks import Floats, Indices
from iotrial.stats.boundary import FIRST, LAST, NEAR, against_one, extremes, tails_at
from iotrial.stats.looks import LEAST_DF
from iotrial.stats.race import SAME_SHARE, Race


@dataclass(frozen=True, slots=True)
class Terms:
    """A race's own: how many ``treatments`` it began with, ``margin`` on the log scale, and the
    ``confidence`` of all its claims together."""

    treatments: int
    margin: float
    confidence: float


def blocks_to_decide(terms: Terms, difference: float, sd: float, *, left: int = 0) -> int:
    """After how many blocks two treatments are decided whose logs differ by ``difference``.

    ``sd`` is the noise of one trial on the log scale; ``left`` how many treatments are still in
    the race (0: all).  At most :data:`~iotrial.stats.boundary.LAST`.
    """
    racing = max(left or terms.treatments, 2)
    error, away = 1 - terms.confidence, abs(difference)
    drop = extremes(racing, error)
    settle = against_one(terms.treatments - 1, error * SAME_SHARE)
    for last in (NEAR, LAST):
        blocks = np.arange(FIRST, last + 1)
        to_drop, to_settle = (_half(level, blocks, racing, sd) for level in (drop, settle))
        enough = (to_drop < away) | (away + to_settle < terms.margin)
        if enough.any():
            return int(blocks[np.argmax(enough)])
    return LAST


def _half(level: float, blocks: Indices, racing: int, sd: float) -> Floats:
    """Half widths after each of ``blocks`` for an error of ``level``, infinite before the first
    look."""
    df = (blocks - 1) * (racing - 1)
    half = -stdtrit(np.maximum(df, 1), tails_at(level, blocks)) * sd * np.sqrt(2 / blocks)
    return np.where(df >= LEAST_DF, half, math.inf)


def ahead(race: Race, terms: Terms) -> dict[int, int]:
    """Open treatment (but for the kept one) → blocks it still needs, 1 or more.

    Empty where nothing is open, and before the first look.  One that was not yet measured beside
    the kept one needs as many as the slowest of the others.
    """
    if not race.looks or race.decided:
        return {}
    standing = [race.standing(each) for each in range(race.size)]
    left = sum(not each.dropped for each in standing)
    still = [each for each in race.active if each != race.kept]
    found: dict[int, int] = {}
    for each in still:
        both = min(standing[each].blocks, standing[race.kept].blocks)
        if both:
            whole = blocks_to_decide(terms, standing[each].estimate, race.sd, left=left)
            found[each] = max(1, whole - both)
    slowest = max(found.values(), default=1)
    return {each: found.get(each, slowest) for each in still}
