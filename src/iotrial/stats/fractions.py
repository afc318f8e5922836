"""Regular fractions of two-level factorials: few treatments, and what they cannot tell apart.

A regular 2^(k-p) design tries all combinations of k - p *basic* factors; each further factor is
the sum modulo 2 of some of them, its *generator*.  Sets of factors that sum to nothing are the
*words* of the defining relation; the shortest word's length is the *resolution*: with 3, a main
effect may be mixed with an interaction of two factors; with 4, such interactions with one
another; with 5, neither.  Of two fractions of one size the one with fewer shortest words is
better (minimum aberration).

The generators were found by a search and have the numbers of words that are published; a test
counts them, and repeats the search exhaustively where that is short.

References:
    G. E. P. Box, W. G. Hunter and J. S. Hunter (2005), *Statistics for Experimenters*, 2nd ed.,
    chapter 6 and table 6.22 (fractions, resolution, generators).
    A. Fries and W. G. Hunter (1980), Minimum aberration 2^(k-p) designs, Technometrics 22, 601-608.
    J. Chen, D. X. Sun and C. F. J. Wu (1993), A catalogue of two-level and three-level fractional
    factorial designs with small runs, International Statistical Review 61, 131-145.
    C. F. J. Wu and M. Hamada (2009), *Experiments*, 2nd ed., appendix 5A (up to 128 runs).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from iotrial.errors import UsageError

MOST_FACTORS = 15
MOST_RUNS = 128

_GENERATORS: dict[int, dict[int, tuple[int, ...]]] = {
    4: {3: (3,)},
    8: {4: (7,), 5: (3, 5), 6: (3, 5, 6), 7: (3, 5, 6, 7)},
    16: {
        5: (15,),
        6: (7, 11),
        7: (7, 11, 13),
        8: (7, 11, 13, 14),
        9: (3, 7, 11, 13, 14),
        10: (3, 5, 7, 11, 13, 14),
        11: (3, 5, 7, 9, 11, 13, 14),
        12: (3, 5, 7, 9, 11, 13, 14, 15),
        13: (3, 5, 6, 7, 9, 11, 13, 14, 15),
        14: (3, 5, 6, 7, 9, 10, 11, 12, 13, 14),
        15: (3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15),
    },
    32: {
        6: (31,),
        7: (15, 19),
        8: (15, 19, 21),
        9: (15, 19, 21, 25),
        10: (15, 19, 21, 25, 30),
        11: (7, 11, 13, 21, 25, 31),
        12: (7, 11, 13, 14, 21, 25, 31),
        13: (7, 11, 13, 14, 19, 21, 25, 31),
        14: (7, 11, 13, 14, 19, 21, 22, 25, 31),
        15: (7, 11, 13, 14, 19, 21, 22, 25, 26, 31),
    },
    64: {
        7: (63,),
        8: (31, 39),
        9: (31, 39, 41),
        10: (31, 39, 41, 51),
        11: (31, 39, 41, 42, 51),
        12: (31, 39, 41, 42, 51, 60),
        13: (21, 22, 31, 39, 41, 42, 51),
        14: (11, 13, 21, 31, 39, 41, 51, 52),
        15: (11, 13, 21, 31, 39, 41, 51, 52, 58),
    },
    128: {
        8: (127,),
        9: (31, 103),
        10: (31, 43, 103),
        11: (31, 43, 85, 103),
        12: (31, 43, 85, 103, 121),
        13: (31, 43, 44, 85, 86, 103),
        14: (31, 43, 46, 61, 85, 103, 114),
        15: (31, 43, 46, 61, 67, 85, 103, 114),
    },
}
"""runs → factors → the generators: bit i of one is basic factor i."""


def columns(factors: int, runs: int) -> tuple[int, ...]:
    """The column of each factor: bit i stands for basic factor i.

    With ``runs`` = 2^``factors`` it is the full factorial.  Raises UsageError where no regular
    fraction of at least resolution 3 is known here.
    """
    basic = runs.bit_length() - 1
    if runs == 2**factors and runs <= MOST_RUNS:
        return tuple(1 << bit for bit in range(basic))
    generators = _GENERATORS.get(runs, {}).get(factors)
    if generators is None:
        raise UsageError(
            f"{factors} factors of two levels have no regular fraction of {runs} treatments here",
            advice=f"Known are 4, 8 … {MOST_RUNS} treatments for up to {MOST_FACTORS} factors.",
        )
    return (*(1 << bit for bit in range(basic)), *generators)


def rows(design: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The treatments, one level (0 or 1) a factor; the first has level 0 of every factor."""
    basic = max(design).bit_length()
    for row in range(1 << basic):
        yield tuple((row & column).bit_count() & 1 for column in design)


def smallest(factors: int, resolution: int) -> int | None:
    """The fewest treatments with at least this resolution; all 2^``factors`` where only they
    have it; None where that takes more than :data:`MOST_RUNS`."""
    for runs, known in _GENERATORS.items():
        if runs == 2**factors:
            return runs
        if factors in known and strength(columns(factors, runs)) >= resolution:
            return runs
    return 2**factors if 2**factors <= MOST_RUNS else None


def words(design: tuple[int, ...], length: int) -> tuple[frozenset[int], ...]:
    """The words of the defining relation with ``length`` factors, as sets of factors' places."""
    found = []
    for places in itertools.combinations(range(len(design)), length):
        together = 0
        for place in places:
            together ^= design[place]
        if not together:
            found.append(frozenset(places))
    return tuple(found)


def strength(design: tuple[int, ...]) -> float:
    """The resolution: the length of the shortest word; infinite for a full factorial."""
    for length in range(1, len(design) + 1):
        if words(design, length):
            return length
    return math.inf


def aliases(
    design: tuple[int, ...], effect: frozenset[int], most: int = 2
) -> tuple[frozenset[int], ...]:
    """The effects of at most ``most`` factors that cannot be told from ``effect``."""
    together = 0
    for place in effect:
        together ^= design[place]
    found = []
    for size in range(1, most + 1):
        for places in itertools.combinations(range(len(design)), size):
            rest = together
            for place in places:
                rest ^= design[place]
            if not rest and frozenset(places) != effect:
                found.append(frozenset(places))
    return tuple(found)
