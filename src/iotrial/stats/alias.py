"""Which effects a set of treatments tells apart, and which it mixes: the alias matrix.

The responses are thought to be mean + main effects + interactions of two factors.  What of this a
design can estimate is its *model*; what it cannot, it gives up.  With X1 the columns of the model
and X2 those given up, the estimates have the expectation b1 + A·b2, A = X1⁺ X2: a term is mixed
with those given up in whose columns its rows of A are not 0.  With every effect coded to the same
length, two columns that cannot be told apart at all have 1 or -1 there.

The model is: all main effects and all interactions of two where the treatments tell them all
apart, else the main effects and those interactions that are orthogonal to everything before them.
In a regular fraction that is one interaction of each alias chain.

References:
    G. E. P. Box and K. B. Wilson (1951), On the experimental attainment of optimum conditions,
    JRSS B 13, 1-45 (the alias matrix).
    R. Mukerjee and C. F. J. Wu (2006), *A Modern Theory of Factorial Designs*, chapter 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrial.stats.blocks import Floats
from iotrial.stats.optimal import block, parameters

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
class Model:
    """``terms`` that ``matrix`` (cells, parameters) has columns for; ``span`` is where each
    term's are, the mean being column 0.  ``given_up`` are the terms it has none for."""

    terms: tuple[Term, ...]
    given_up: tuple[Term, ...]
    matrix: Floats
    span: tuple[slice, ...]

    def columns(self, term: Term) -> slice:
        return self.span[self.terms.index(term)]


def estimable(cells: Sequence[Sequence[int]], levels: Sequence[int]) -> Model:
    """The model that ``cells`` (places of their levels, of ``levels`` each) can estimate.

    Its main effects are there even where the cells do not tell them apart: what can be said of
    one is for the caller to ask of the matrix.
    """
    mains: list[Term] = [(place,) for place in range(len(levels))]
    pairs: list[Term] = list(itertools.combinations(range(len(levels)), 2))
    whole = _model(cells, levels, [*mains, *pairs])
    wanted = parameters(levels, 2)
    if wanted <= len(cells) and np.linalg.matrix_rank(whole) == wanted:
        return _of(cells, levels, [*mains, *pairs], [])
    kept, matrix = list(mains), _model(cells, levels, mains)
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
) -> Model:
    spans, at = [], 1
    for term in terms:
        width = int(np.prod([levels[place] - 1 for place in term]))
        spans.append(slice(at, at + width))
        at += width
    return Model(tuple(terms), tuple(given_up), _model(cells, levels, terms), tuple(spans))


def _model(cells: Sequence[Sequence[int]], levels: Sequence[int], terms: Sequence[Term]) -> Floats:
    ones = np.ones((len(cells), 1))
    return np.hstack([ones, *(block(cells, levels, term) for term in terms)])
