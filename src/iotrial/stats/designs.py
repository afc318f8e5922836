"""Few treatments of many: regular fractions, D-optimal subsets, and what these cannot tell apart.

*Regular fractions.*  A regular 2^(k-p) design tries all combinations of k - p *basic* factors; each
further factor is the sum modulo 2 of some of them, its *generator*.  Sets of factors that sum to
nothing are the *words* of the defining relation; the shortest word's length is the *resolution*:
with 3, a main effect may be mixed with an interaction of two factors; with 4, such interactions
with one another; with 5, neither.  Of two fractions of one size the one with fewer shortest words
is better (minimum aberration).  The generators were found by a search and have the numbers of words
that are published; a test counts them, and repeats the search exhaustively where that is short.

*D-optimal subsets.*  Of the candidates a subset is chosen that makes det X'X large, X being the
subset's rows of the model: the ellipsoid of the estimates is then small.  Rows are exchanged one
for another as long as that helps by more than rounding (Cook and Nachtsheim's form of Fedorov's
algorithm: each row of the subset in turn for its best exchange), from several seeded beginnings.
Effects are coded orthogonally and of equal length, so that the choice does not depend on which
level comes first.  Where an orthogonal design of the size exists the exchange often finds it, but
nothing promises that.

*The alias matrix.*  The responses are thought to be mean + main effects + interactions of two
factors.  What of this a design can estimate is its *model*; what it cannot, it gives up.  With X1
the columns of the model and X2 those given up, the estimates have the expectation b1 + A·b2,
A = X1⁺ X2: a term is mixed with those given up in whose columns its rows of A are not 0.  With
every effect coded to the same length, two columns that cannot be told apart at all have 1 or -1
there.  The model is: all main effects and all interactions of two where the treatments tell them
all apart, else the main effects and those interactions that are orthogonal to everything before
them.  In a regular fraction that is one interaction of each alias chain.

References:
    G. E. P. Box, W. G. Hunter and J. S. Hunter (2005), *Statistics for Experimenters*, 2nd ed.,
    chapter 6 and table 6.22 (fractions, resolution, generators).
    A. Fries and W. G. Hunter (1980), Minimum aberration 2^(k-p) designs, Technometrics 22, 601-608.
    J. Chen, D. X. Sun and C. F. J. Wu (1993), A catalogue of two-level and three-level fractional
    factorial designs with small runs, International Statistical Review 61, 131-145.
    C. F. J. Wu and M. Hamada (2009), *Experiments*, 2nd ed., appendix 5A (up to 128 runs).
    V. V. Fedorov (1972), *Theory of Optimal Experiments*, chapter 3.
    R. D. Cook and C. J. Nachtsheim (1980), A comparison of algorithms for constructing exact
    D-optimal designs, Technometrics 22, 315-324.
    A. C. Atkinson, A. N. Donev and R. D. Tobias (2007), *Optimum Experimental Designs, with SAS*,
    chapters 11 and 12.
    G. E. P. Box and K. B. Wilson (1951), On the experimental attainment of optimum conditions,
    JRSS B 13, 1-45 (the alias matrix).
    R. Mukerjee and C. F. J. Wu (2006), *A Modern Theory of Factorial Designs*, chapter 2.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from iotrial.errors import UsageError
from iotrial.stats.blocks import Floats, Indices

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
            f"no regular fraction of {runs} treatments is available for {factors} factors of two"
            " levels",
            advice=f"Available: 4, 8 … {MOST_RUNS} treatments for up to {MOST_FACTORS} factors.",
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


def confounded(
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


# -- D-optimal subsets ----------------------------------------------------------------------------

STARTS = 60
"""Beginnings at most; fewer where each takes long."""
_WORK = 4e9
"""Multiplications that all beginnings may take together: a second or two."""
_PASSES = 12
_GAIN = 1e-6
"""Of the determinant: a smaller gain is rounding, and would choose by the machine's arithmetic."""
_RIDGE = 1e-6


def coded(levels: int) -> Floats:
    """(levels, levels - 1): orthogonal contrasts of squared length ``levels``, summing to 0."""
    table = np.zeros((levels, levels - 1))
    for column in range(levels - 1):
        table[: column + 1, column] = -1.0
        table[column + 1, column] = column + 1
    return np.asarray(table * np.sqrt(levels / (table**2).sum(axis=0)))


def model(cells: Sequence[Sequence[int]], levels: Sequence[int], order: int) -> Floats:
    """The rows of ``cells`` (places of their levels) in the model with all effects of up to
    ``order`` factors (0: the mean alone): (cells, parameters)."""
    sizes = range(1, order + 1)
    terms = (itertools.combinations(range(len(levels)), size) for size in sizes)
    return _matrix(cells, levels, itertools.chain.from_iterable(terms))


def _matrix(cells: Sequence[Sequence[int]], levels: Sequence[int], terms: Iterable[Term]) -> Floats:
    ones = np.ones((len(cells), 1))
    return np.hstack([ones, *(block(cells, levels, term) for term in terms)])


def block(cells: Sequence[Sequence[int]], levels: Sequence[int], factors: Sequence[int]) -> Floats:
    """The columns of one effect: of one factor, or of the interaction of several."""
    places = np.asarray(cells, dtype=np.intp).reshape(len(cells), len(levels))
    columns = np.ones((len(cells), 1))
    for factor in factors:
        own = coded(levels[factor])[places[:, factor]]
        columns = (columns[:, :, None] * own[:, None, :]).reshape(len(cells), -1)
    return columns


def parameters(levels: Sequence[int], order: int) -> int:
    """How many parameters the model has: the fewest treatments that can tell them apart."""
    total = 1
    for size in range(1, order + 1):
        for factors in itertools.combinations(levels, size):
            product = 1
            for count in factors:
                product *= count - 1
            total += product
    return total


def subset(rows: Floats, size: int, first: int = 0) -> tuple[int, ...] | None:
    """The places of ``size`` different rows with a large det X'X, in ascending order.

    ``first`` is a row that must be among them (the treatment in force).  Seeded: the same rows
    give the same subset.  None where no subset of this size tells all parameters apart.
    """
    if size >= len(rows):
        everything = tuple(range(len(rows)))
        return everything if _full_rank(rows) else None
    best: tuple[float, tuple[int, ...]] | None = None
    pass_work = 4 * size * len(rows) * rows.shape[1] ** 2
    for start in range(max(1, min(STARTS, int(_WORK / pass_work)))):
        # Seeded on purpose: a choice that can be had again, not a secret.
        chance = random.Random(f"{size}:{start}")
        others = [place for place in range(len(rows)) if place != first]
        chosen = np.array([first, *chance.sample(others, size - 1)], dtype=np.intp)
        value = _exchange(rows, chosen)
        if best is None or value > best[0] + _GAIN:
            best = value, tuple(sorted(chosen.tolist()))
    if best is None or not _full_rank(rows[list(best[1])]):
        return None
    return best[1]


def _full_rank(rows: Floats) -> bool:
    return bool(np.linalg.matrix_rank(rows) == rows.shape[1])


def _exchange(rows: Floats, chosen: Indices) -> float:
    """Improve ``chosen`` in place; the logarithm of the determinant reached."""
    ridge = _RIDGE * np.eye(rows.shape[1])
    for _ in range(_PASSES):
        improved = False
        for at in range(1, len(chosen)):
            spread = np.asarray(np.linalg.inv(rows[chosen].T @ rows[chosen] + ridge), np.float64)
            gain = _gains(rows, spread, rows[chosen[at]])
            gain[chosen] = 1.0
            best = int(np.argmax(np.round(gain, 6)))
            if gain[best] > 1 + _GAIN * 10:
                chosen[at] = best
                improved = True
        if not improved:
            break
    return round(float(np.linalg.slogdet(rows[chosen].T @ rows[chosen] + ridge)[1]), 6)


def _gains(rows: Floats, spread: Floats, out: Floats) -> Floats:
    """By what the determinant is multiplied when row ``out`` gives way to each row (Fedorov's
    delta, plus 1)."""
    d_in = np.einsum("ij,jk,ik->i", rows, spread, rows, optimize=True)
    d_out = float(out @ spread @ out)
    d_both = rows @ spread @ out
    return np.asarray((1 + d_in) * (1 - d_out) + d_both**2)


# -- the alias matrix -----------------------------------------------------------------------------

Term = tuple[int, ...]
"""The places of the factors of an effect: one for a main effect, two for an interaction."""
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Alias:
    """``term`` cannot be told from ``wholly``, and is partly mixed with ``partly``."""

    term: Term
    wholly: tuple[Term, ...] = ()
    partly: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class DesignModel:
    """``terms`` that ``matrix`` (cells, parameters) has columns for; ``span`` is where each
    term's are, the mean being column 0.  ``given_up`` are the terms it has none for."""

    terms: tuple[Term, ...]
    given_up: tuple[Term, ...]
    matrix: Floats
    span: tuple[slice, ...]

    def columns(self, term: Term) -> slice:
        return self.span[self.terms.index(term)]


def estimable(cells: Sequence[Sequence[int]], levels: Sequence[int]) -> DesignModel:
    """The model that ``cells`` (places of their levels, of ``levels`` each) can estimate.

    Its main effects are there even where the cells do not tell them apart: what can be said of
    one is for the caller to ask of the matrix.
    """
    mains: list[Term] = [(place,) for place in range(len(levels))]
    pairs: list[Term] = list(itertools.combinations(range(len(levels)), 2))
    whole = _matrix(cells, levels, [*mains, *pairs])
    wanted = parameters(levels, 2)
    if wanted <= len(cells) and np.linalg.matrix_rank(whole) == wanted:
        return _of(cells, levels, [*mains, *pairs], [])
    kept, matrix = list(mains), _matrix(cells, levels, mains)
    for pair in pairs:
        own = block(cells, levels, pair)
        own_rank = int(np.linalg.matrix_rank(own))
        if np.abs(matrix.T @ own).max() < ROUNDING * len(cells) and own_rank == own.shape[1]:
            kept.append(pair)
            matrix = np.hstack([matrix, own])
    return _of(cells, levels, kept, [pair for pair in pairs if pair not in kept])


def aliases(cells: Sequence[Sequence[int]], levels: Sequence[int]) -> tuple[Alias, ...]:
    """Every term of the model that is mixed with something given up."""
    model = estimable(cells, levels)
    if not model.given_up:
        return ()
    inverse = np.linalg.pinv(model.matrix)
    shares = {other: np.abs(inverse @ block(cells, levels, other)) for other in model.given_up}
    found = []
    for term in model.terms:
        own = model.columns(term)
        mixed = {other: float(share[own].max()) for other, share in shares.items()}
        wholly = tuple(other for other, share in mixed.items() if abs(share - 1) < ROUNDING)
        partly = tuple(
            other for other, share in mixed.items() if share > ROUNDING and other not in wholly
        )
        if wholly or partly:
            found.append(Alias(term, wholly, partly))
    return tuple(found)


def _of(
    cells: Sequence[Sequence[int]],
    levels: Sequence[int],
    terms: Sequence[Term],
    given_up: Sequence[Term],
) -> DesignModel:
    spans, at = [], 1
    for term in terms:
        width = int(np.prod([levels[place] - 1 for place in term]))
        spans.append(slice(at, at + width))
        at += width
    return DesignModel(tuple(terms), tuple(given_up), _matrix(cells, levels, terms), tuple(spans))
