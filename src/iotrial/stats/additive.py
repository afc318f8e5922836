"""Responses over combinations of levels: a sum over the factors, a sum over their pairs, the slow
drift of the machine, and the noise of a trial.

A Gaussian process over combinations and over the order of the trials.  Each factor has a size of
its own, which says how far its levels may lie apart; that of a pair follows from its two factors'
sizes.  What is found of a few factors therefore matters, and of the many that do little, little is
believed.  A level, or a pair of levels, that was never tried is expected to do nothing.  Of a
factor whose levels have an order, neighbours are alike to some degree.

Sizes, noise and drift are not fixed at what is likeliest: of ten trials that would be a guess taken
for knowledge.  Several sets of them are drawn from what the trials leave open (slice sampling), and
what is asked of the process is asked of each (:func:`processes`).

References:
    C. E. Rasmussen and C. K. I. Williams (2006), *Gaussian Processes for Machine Learning*,
    chapters 2 and 5 (posterior, marginal likelihood).
    D. Duvenaud, H. Nickisch and C. E. Rasmussen (2011), Additive Gaussian processes, NIPS 24,
    226-234 (sums over one and two factors).
    C. M. Carvalho, N. G. Polson and J. G. Scott (2010), The horseshoe estimator for sparse
    signals, Biometrika 97, 465-480 (half-Cauchy sizes).
    M. Hamada and C. F. J. Wu (1992), Analysis of designed experiments with complex aliasing,
    Journal of Quality Technology 24, 130-137 (pairs follow their factors).
    R. M. Neal (2003), Slice sampling, Annals of Statistics 31, 705-767.
    A. G. Journel and C. J. Huijbregts (1978), *Mining Geostatistics*, chapter 7 (a drawn surface,
    conditioned by the residual).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from iotrial.stats.blocks import Floats, Indices

Cell = tuple[int, ...]
"""A combination: the place of each factor's level."""

SMALL = 0.01
"""Half of all factors are likely to be smaller than this: an effect of a hundredth."""
NOISE, DRIFT = 0.03, 0.02
"""Noise of a trial and drift that are likely before anything was measured (standard deviations of
the log); the drift may well be twice or half of it, the noise a quarter or four times."""
REACH = 12.0
"""Trials over which the drift lasts."""
PAIRS = 0.5
"""The size of a pair that is likely, as a share of the geometric mean of its factors' sizes."""
ALIKE = 0.5
"""How much of the effect of a factor with an order follows it."""
DRAWS = 12
"""Sets of sizes that are drawn, one after each round over all of them."""
WARM = 10
"""Rounds before the first."""
_WIDTH, _STEPS, _SHRINKS = 1.5, 4, 30
_FAR = 14.0
"""Logs of sizes beyond this are out of the question."""
_LEVEL = 10.0
"""Variance of the general level, over that of the values: hardly anything is known of it."""
_NONE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class ResponseSurface:
    """A function of the combinations.  ``alone`` (levels,) are the effects of all factors' levels,
    one factor after the other; ``pairs`` (levels, levels) those of pairs, 0 within a factor;
    ``offsets`` (factors,) say where a factor's levels begin."""

    alone: Floats
    pairs: Floats
    offsets: Indices

    def values(self, cells: Indices) -> Floats:
        """The values (cells,) at ``cells`` (cells, factors)."""
        at = cells + self.offsets
        both = self.pairs[at[:, :, None], at[:, None, :]].sum(axis=(1, 2))
        found: Floats = self.alone[at].sum(axis=1) + 0.5 * both
        return found

    def value(self, cell: Cell) -> float:
        return float(self.values(np.array([cell]))[0])

    def levels(self, cell: Cell, factor: int, count: int) -> Floats:
        """The value of each of the ``count`` levels of a factor beside those of ``cell``, less what
        does not depend on them."""
        begin = self.offsets[factor]
        at = self.offsets + np.array(cell)
        others = np.delete(at, factor)
        found: Floats = self.alone[begin : begin + count] + self.pairs[
            begin : begin + count, others
        ].sum(axis=1)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ResponseProcess:
    """One process that the trials leave possible.  ``sizes`` (factors,), ``pair``, ``noise`` and
    ``drift`` are variances (``pair`` as a share); ``cells`` (trials, factors) and ``values``
    (trials,) what was measured, in order; ``lower`` the Cholesky factor of its covariance."""

    codes: tuple[Floats, ...]
    cells: Indices
    values: Floats
    sizes: Floats
    pair: float
    noise: float
    drift: float
    lower: Floats

    def mean(self) -> ResponseSurface:
        """The expected surface, without the general level."""
        return self._explained(self.values)

    def drawn(self, chance: np.random.Generator) -> ResponseSurface:
        """A surface that agrees with the trials as far as their noise: one as it may be before
        anything is measured, moved by what the trials say against it."""
        before = self._before(chance)
        count = len(self.values)
        noise = math.sqrt(self.noise) * chance.standard_normal(count)
        drift = math.sqrt(self.drift) * _half_of_time(count) @ chance.standard_normal(count)
        moved = self._explained(self.values - before.values(self.cells) - noise - drift)
        return ResponseSurface(
            before.alone + moved.alone, before.pairs + moved.pairs, before.offsets
        )

    def _explained(self, values: Floats) -> ResponseSurface:
        """What of ``values`` at the trials is the surface's, by factor and by pair."""
        weights = cho_solve((self.lower, True), values)
        rows = np.concatenate(
            [
                math.sqrt(size) * code[self.cells[:, at]]
                for at, (size, code) in enumerate(zip(self.sizes, self.codes, strict=True))
            ],
            axis=1,
        )
        counts = [len(code) for code in self.codes]
        alone = (weights @ rows) * np.repeat(np.sqrt(self.sizes), counts)
        pairs = self.pair * (rows.T * weights) @ rows
        offsets = _offsets(counts)
        for begin, count in zip(offsets, counts, strict=True):
            pairs[begin : begin + count, begin : begin + count] = 0.0
        return ResponseSurface(alone, pairs, offsets)

    def _before(self, chance: np.random.Generator) -> ResponseSurface:
        halves = [_half(code.tobytes(), len(code)) for code in self.codes]
        counts = [len(half) for half in halves]
        offsets = _offsets(counts)
        alone = np.concatenate([
            math.sqrt(size) * half @ chance.standard_normal(half.shape[1])
            for size, half in zip(self.sizes, halves, strict=True)
        ])  # fmt: skip
        pairs = np.zeros((sum(counts), sum(counts)))
        for one, other in zip(*np.tril_indices(len(halves), -1), strict=True):
            size = self.pair * math.sqrt(self.sizes[one] * self.sizes[other])
            if size > _NONE:
                free = chance.standard_normal((halves[one].shape[1], halves[other].shape[1]))
                table = math.sqrt(size) * halves[one] @ free @ halves[other].T
                a, b = offsets[one], offsets[other]
                pairs[a : a + counts[one], b : b + counts[other]] = table
                pairs[b : b + counts[other], a : a + counts[one]] = table.T
        return ResponseSurface(alone, pairs, offsets)


def processes(
    counts: Sequence[int], ordered: Sequence[bool], cells: Indices, values: Floats, seed: int
) -> tuple[ResponseProcess, ...]:
    """:data:`DRAWS` processes for what was measured.

    ``counts`` (factors,) are the numbers of levels, ``ordered`` whether these have an order;
    ``cells`` (trials, factors) and ``values`` (trials,) are in the order in which they ran.
    Pure: the same answer for the same numbers.
    """
    codes = tuple(_code(n, in_order) for n, in_order in zip(counts, ordered, strict=True))
    centred: Floats = values - np.median(values)
    target = _Target(codes, cells, centred)
    first = [math.log(3 * SMALL)] * len(codes) + [math.log(x) for x in (PAIRS, NOISE, DRIFT)]
    points = _walk(target.density, np.array(first), np.random.default_rng(seed))
    return tuple(target.process(point) for point in points)


class _Target:
    """The density of the logs of sizes, pair share, noise and drift (as standard deviations)."""

    def __init__(self, codes: tuple[Floats, ...], cells: Indices, values: Floats) -> None:
        self._codes, self._cells, self._values = codes, cells, values
        count = len(values)
        self._near = np.stack(
            [code[cells[:, at]][:, cells[:, at]].ravel() for at, code in enumerate(codes)]
        )
        self._squared = self._near**2
        self._slow = _time(count)
        self._one = np.eye(count)
        self._level = max(float(values.var()), 0.01) * _LEVEL

    def density(self, point: Floats) -> float:
        """Of the marginal likelihood and what is likely before; minus infinity where neither is."""
        if np.abs(point).max() > _FAR:
            return -math.inf
        try:
            lower = cholesky(self._covariance(point), lower=True, check_finite=False)
        except LinAlgError:
            return -math.inf
        solved = cho_solve((lower, True), self._values, check_finite=False)
        likelihood = -0.5 * self._values @ solved - np.log(np.diag(lower)).sum()
        return float(likelihood + _likely(point, len(self._codes)))

    def process(self, point: Floats) -> ResponseProcess:
        sizes, pair, noise, drift = _variances(point, len(self._codes))
        lower = cholesky(self._covariance(point), lower=True)
        return ResponseProcess(
            self._codes, self._cells, self._values, sizes, pair, noise, drift, lower
        )

    def _covariance(self, point: Floats) -> Floats:
        sizes, pair, noise, drift = _variances(point, len(self._codes))
        roots = np.sqrt(sizes)
        # The sum over pairs from the sums of all: (Σa)² is Σa² and twice the sum over pairs.
        both = (roots @ self._near) ** 2 - sizes @ self._squared
        surface = (sizes @ self._near + 0.5 * pair * both).reshape(self._one.shape)
        found: Floats = surface + drift * self._slow + noise * self._one + self._level
        return found


def _variances(point: Floats, factors: int) -> tuple[Floats, float, float, float]:
    squares = np.exp(2 * point)
    pair, noise, drift = squares[factors:].tolist()
    return squares[:factors], pair, noise, drift


def _likely(point: Floats, factors: int) -> float:
    """The log density of a point before anything is measured: the roots of sizes half-Cauchy, the
    others about what is usual, give or take a factor of two, the noise one of four.  The logs are
    walked, whence the sum of the first."""
    logs = point[:factors]
    found = (logs - np.log1p(np.exp(2 * (logs - math.log(SMALL))))).sum()
    usual = np.log([PAIRS, NOISE, DRIFT])
    return float(found - 0.5 * (((point[factors:] - usual) / np.array([0.7, 1.3, 0.8])) ** 2).sum())


def _walk(
    density: Callable[[Floats], float], first: Floats, chance: np.random.Generator
) -> list[Floats]:
    """Slice sampling, one coordinate after the other."""
    now, height_now = first.copy(), density(first)
    found = []
    for round_ in range(WARM + DRAWS):
        for place in chance.permutation(len(now)).tolist():
            now, height_now = _slice(density, now, height_now, place, chance)
        if round_ >= WARM:
            found.append(now)
    return found


def _slice(
    density: Callable[[Floats], float],
    now: Floats,
    height_now: float,
    place: int,
    chance: np.random.Generator,
) -> tuple[Floats, float]:
    """A step along one coordinate: stepping out, then shrinking (Neal, figures 3 and 5)."""

    def at(value: float) -> Floats:
        point = now.copy()
        point[place] = value
        return point

    height = height_now - chance.exponential()
    low = float(now[place]) - _WIDTH * chance.random()
    high = low + _WIDTH
    for _ in range(_STEPS):
        if density(at(low)) <= height:
            break
        low -= _WIDTH
    for _ in range(_STEPS):
        if density(at(high)) <= height:
            break
        high += _WIDTH
    for _ in range(_SHRINKS):
        tried = low + (high - low) * chance.random()
        if (found := density(at(tried))) > height:
            return at(tried), found
        if tried < now[place]:
            low = tried
        else:
            high = tried
    return now, height_now


def _offsets(counts: Sequence[int]) -> Indices:
    found: Indices = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
    return found


@functools.lru_cache(maxsize=64)
def _time(count: int) -> Floats:
    """Correlation (trials, trials) of the drift."""
    order = np.arange(count)
    found: Floats = np.exp(-np.abs(order[:, None] - order[None, :]) / REACH)
    return found


@functools.lru_cache(maxsize=64)
def _half_of_time(count: int) -> Floats:
    found: Floats = cholesky(_time(count) + 1e-9 * np.eye(count), lower=True)
    return found


@functools.lru_cache(maxsize=64)
def _code(count: int, in_order: bool) -> Floats:  # noqa: FBT001 (a cached function of two facts)
    """What two levels of a factor tell of one another (levels, levels), 1 of a level with itself.

    Effects are not made to sum to 0: what of a pair was never tried would then be expected to be as
    good as what was tried is bad."""
    places = np.arange(count)
    plain = np.eye(count)
    if not in_order:
        return plain
    found: Floats = ALIKE * np.exp(-np.abs(places[:, None] - places[None, :]) / 1.5)
    return found + (1 - ALIKE) * plain


@functools.lru_cache(maxsize=256)
def _half(code: bytes, count: int) -> Floats:
    """A matrix (levels, free) whose square is the code."""
    values, vectors = np.linalg.eigh(np.frombuffer(code).reshape(count, count))
    kept = values > _NONE
    found: Floats = vectors[:, kept] * np.sqrt(values[kept])
    return found
