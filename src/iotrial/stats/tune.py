"""Many knobs at once: a model of what each of them, and each pair, is worth, and what to try next.

A combination is one level of each knob.  The log of its response is taken as a sum over the knobs,
plus a sum over their pairs, plus the slow drift of the machine, plus the noise of a trial: a
Gaussian process over the combinations and over time.  Each knob has a size of its own, and a pair
is about as large as its two knobs make likely, so that what is found of a few matters and of the
many that do nothing little is believed.  Sizes and noise are not fixed but drawn from what the
trials leave open (a random walk), so that a guess from ten trials is not taken for knowledge.

*The search.*  First trials that are spread over all levels, each with each other (:func:`start`).
Then, a few at a time, the combinations that would be best if a surface drawn from the process were
the true one: what is promising is tried, and so is what is not known yet (:func:`next_cells`).

*Its end.*  ``promise`` is how much better than the recommended combination the best one is expected
to be, as a share (:func:`summary`).  When it is small, another trial does not pay.

*What is recommended* is the combination of the highest mean, with every knob back at its baseline
that is not worth a third of the margin in it.

Nothing is claimed from this model.  Whoever searched has looked at many noisy values and picked
the best; what the combination is worth is measured in fresh trials (:mod:`iotrial.plan.tune`).

References:
    C. E. Rasmussen and C. K. I. Williams (2006), *Gaussian Processes for Machine Learning*,
    chapters 2 and 5 (posterior, marginal likelihood).
    D. Duvenaud, H. Nickisch and C. E. Rasmussen (2011), Additive Gaussian processes, NIPS 24,
    226-234 (sums over one and two factors).
    M. Plumlee and V. R. Joseph (2018), Orthogonal Gaussian process models, Statistica Sinica 28,
    601-619 (effects that are apart from the mean).
    C. M. Carvalho, N. G. Polson and J. G. Scott (2010), The horseshoe estimator for sparse
    signals, Biometrika 97, 465-480 (half-Cauchy sizes).
    M. Hamada and C. F. J. Wu (1992), Analysis of designed experiments with complex aliasing,
    Journal of Quality Technology 24, 130-137 (pairs follow their knobs).
    W. R. Thompson (1933), On the likelihood that one unknown probability exceeds another,
    Biometrika 25, 285-294.
    D. K. J. Lin (1993), A new class of supersaturated designs, Technometrics 35, 28-31 (fewer
    trials than effects).
    A. G. Journel and C. J. Huijbregts (1978), *Mining Geostatistics*, chapter 7 (conditional
    simulation by kriging of the residual).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky
from scipy.optimize import minimize

from iotrial.stats.blocks import Floats, Indices

Cell = tuple[int, ...]
"""Of a combination: each knob's level by its place."""

SMALL = 0.01
"""The size of a knob that does hardly anything: its effect is a hundredth."""
NOISE, DRIFT = 0.03, 0.02
"""Noise of a trial and drift that are likely before anything was measured, as shares."""
REACH = 12.0
"""Trials over which the drift lasts."""
PAIRS = 0.5
"""The size of a pair, as a share of the geometric mean of its two knobs' sizes, that is likely."""
STEP = 0.5
"""Of two levels with an order, how much of a knob's effect follows the order."""
DRAWS, WARM, THIN = 12, 60, 15
SURFACES = 6
"""Surfaces drawn from each process."""
CLIMBS = 4
_TRIED = 300
"""Random designs, of which the first trials are the most balanced."""


@dataclass(frozen=True, slots=True)
class KnobGrid:
    """The levels of the knobs: how many each has; whether they have an order; and ``excluded``
    combinations, each as (knob, level) places.  ``baseline`` is what is in force."""

    counts: tuple[int, ...]
    ordered: tuple[bool, ...]
    baseline: Cell
    excluded: tuple[tuple[tuple[int, int], ...], ...] = ()

    def allowed(self, cell: Cell) -> bool:
        return not any(all(cell[at] == place for at, place in each) for each in self.excluded)


@dataclass(frozen=True, slots=True)
class KnobTrial:
    """A trial: ``gain`` is the log of its response, larger is better; ``late`` the log of the
    limited metric over its limit (0: no limit)."""

    cell: Cell
    gain: float
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class KnobWorth:
    """What a knob at its recommended level is worth against its baseline, within the recommended
    combination: the share, and between which two it is with 95 % by the model."""

    knob: int
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TuneSummary:
    """Where a search stands: the ``best`` combination, its expected ``gain`` over the baseline,
    what is expected to be missing to the best of all (``promise``), both as shares; the ``noise`` of
    a trial (standard deviation of the log); and the ``worths`` of all knobs: of those at their
    baseline, that of their best other level."""

    best: Cell
    gain: float
    promise: float
    noise: float
    worths: tuple[KnobWorth, ...]


def start(grid: KnobGrid, runs: int, seed: int) -> tuple[Cell, ...]:
    """The first combinations: the baseline, and others in which each level of a knob, and each two
    levels of two knobs, occur about equally often."""
    chance = np.random.default_rng(seed)
    best: tuple[float, list[Cell]] = (math.inf, [])
    for _ in range(_TRIED):
        columns = []
        for at, count in enumerate(grid.counts):
            column = chance.permutation(np.arange(runs) % count)
            # Another name for each level, so that the first row is the baseline.
            names = chance.permutation(count)
            at_first = int(np.flatnonzero(names == grid.baseline[at])[0])
            names[[at_first, column[0]]] = names[[column[0], at_first]]
            columns.append(names[column])
        rows = [tuple(int(x) for x in row) for row in np.stack(columns, axis=1)]
        if not all(map(grid.allowed, rows)):
            rows = [row for row in rows if grid.allowed(row)]
        score = _unbalance(grid, columns) + (runs - len(set(rows)))
        if score < best[0]:
            best = (score, rows)
    return tuple(dict.fromkeys((grid.baseline, *best[1])))


def _unbalance(grid: KnobGrid, columns: Sequence[Indices]) -> float:
    """How unequal the pairs of levels occur: the sum of chi-squares."""
    coded = np.concatenate(
        [np.eye(count)[column] - 1 / count for count, column in zip(grid.counts, columns, strict=True)],
        axis=1,
    )
    inner = coded.T @ coded
    ends = np.cumsum(grid.counts)
    for end, count in zip(ends, grid.counts, strict=True):
        inner[end - count : end, end - count : end] = 0
    return float((inner**2).sum()) / len(columns[0])


def next_cells(grid: KnobGrid, trials: Sequence[KnobTrial], count: int, seed: int) -> tuple[Cell, ...]:
    """The combinations to try next: each the best of one surface drawn from the process."""
    known = _known(grid, tuple(trials))
    chance = np.random.default_rng(seed)
    found: dict[Cell, None] = {}
    for _ in range(4 * count):
        draw = known.draws[int(chance.integers(len(known.draws)))]
        surface = draw.surface(chance)
        cell = _climb(grid, surface, known, chance)
        found.setdefault(cell)
        if len(found) == count:
            break
    return tuple(found)


def summary(grid: KnobGrid, trials: Sequence[KnobTrial], margin: float, seed: int) -> TuneSummary:
    """Where the search stands."""
    known = _known(grid, tuple(trials))
    chance = np.random.default_rng(seed)
    mean = known.mean
    best = _climb(grid, mean, known, chance)
    best = _fewest(grid, mean, best, math.log1p(margin) / 3)
    surfaces = [draw.surface(chance) for draw in known.draws for _ in range(SURFACES)]
    tops = [each.value(_climb(grid, each, known, chance)) for each in surfaces]
    missing = np.array([
        max(0.0, top - each.value(best)) for top, each in zip(tops, surfaces, strict=True)
    ])
    worths = []
    for at, count in enumerate(grid.counts):
        other = best
        if best[at] != grid.baseline[at]:
            one, other = best, _with(best, at, grid.baseline[at])
        else:
            one = max(
                (_with(best, at, place) for place in range(count) if place != best[at]),
                key=mean.value,
            )
        gains = np.array([each.value(one) - each.value(other) for each in surfaces])
        low, high = np.quantile(gains, (0.025, 0.975))
        worths.append(KnobWorth(at, math.exp(gains.mean()), math.exp(low), math.exp(high)))
    gain = mean.value(best) - mean.value(grid.baseline)
    noise = float(np.mean([math.sqrt(draw.noise) for draw in known.draws]))
    return TuneSummary(best, math.exp(gain), math.expm1(missing.mean()), noise, tuple(worths))


# -- the process ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Surface:
    """A function of the combinations: a sum over knobs, and over pairs of knobs.  ``pairs`` maps
    (one, other) to a table of their levels."""

    alone: tuple[Floats, ...]
    pairs: Floats
    offsets: tuple[int, ...]

    def value(self, cell: Cell) -> float:
        return float(self.values(np.array([cell]))[0])

    def values(self, cells: Indices) -> Floats:
        flat = np.concatenate(self.alone)
        at = cells + np.array(self.offsets)[None, :]
        found: Floats = flat[at].sum(axis=1)
        found = found + 0.5 * self.pairs[at[:, :, None], at[:, None, :]].sum(axis=(1, 2))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    """One process that the trials leave possible: ``sizes`` of the knobs (as variances), the
    ``pair`` share, and what follows from the trials."""

    grid: KnobGrid
    codes: tuple[Floats, ...]
    cells: Indices
    sizes: Floats
    pair: float
    noise: float
    drift: float
    weights: Floats
    lower: Floats
    gains: Floats

    def mean(self) -> _Surface:
        return self._from(self.weights)

    def _from(self, weights: Floats) -> _Surface:
        """The surface of given weights of the trials: each main effect and each pair by itself."""
        offsets = _offsets(self.grid)
        total = sum(self.grid.counts)
        rows = np.zeros((len(weights), total))
        for at, code in enumerate(self.codes):
            rows[:, offsets[at] : offsets[at] + len(code)] = self.sizes[at] * code[self.cells[:, at]]
        alone = weights @ rows
        roots = np.repeat(np.sqrt(self.sizes), self.grid.counts)
        scaled = rows / np.where(roots > 0, roots, 1.0)[None, :]
        pairs = self.pair * (scaled.T * weights[None, :]) @ scaled
        for at, count in enumerate(self.grid.counts):
            pairs[offsets[at] : offsets[at] + count, offsets[at] : offsets[at] + count] = 0
        split = tuple(np.split(alone, np.cumsum(self.grid.counts)[:-1]))
        return _Surface(split, pairs, offsets)

    def surface(self, chance: np.random.Generator) -> _Surface:
        """One that agrees with the trials as far as their noise: drawn before they were seen, and
        moved by what they say against it."""
        offsets = _offsets(self.grid)
        halves = [_half(self.grid.counts[at], self.grid.ordered[at]) for at in range(len(self.codes))]
        alone = [
            math.sqrt(self.sizes[at]) * half @ chance.standard_normal(half.shape[1])
            for at, half in enumerate(halves)
        ]
        total = sum(self.grid.counts)
        pairs = np.zeros((total, total))
        for one in range(len(halves)):
            for other in range(one):
                size = self.pair * math.sqrt(self.sizes[one] * self.sizes[other])
                if size < 1e-10:
                    continue
                table = math.sqrt(size) * (
                    halves[one]
                    @ chance.standard_normal((halves[one].shape[1], halves[other].shape[1]))
                    @ halves[other].T
                )
                a, b = offsets[one], offsets[other]
                pairs[a : a + len(halves[one]), b : b + len(halves[other])] = table
                pairs[b : b + len(halves[other]), a : a + len(halves[one])] = table.T
        before = _Surface(tuple(alone), pairs, offsets)
        count = len(self.gains)
        noise = math.sqrt(self.noise) * chance.standard_normal(count)
        time = np.arange(count)
        slow = np.exp(-np.abs(time[:, None] - time[None, :]) / REACH)
        drift = math.sqrt(self.drift) * cholesky(slow + 1e-9 * np.eye(count), lower=True) @ chance.standard_normal(count)
        off = self.gains - before.values(self.cells) - noise - drift
        moved = self._from(cho_solve((self.lower, True), off))
        return _Surface(
            tuple(x + y for x, y in zip(before.alone, moved.alone, strict=True)),
            before.pairs + moved.pairs,
            offsets,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    draws: tuple[_Draw, ...]
    mean: _Surface
    late: _Surface | None


@functools.lru_cache(maxsize=64)
def _known(grid: KnobGrid, trials: tuple[KnobTrial, ...]) -> _Known:
    cells = np.array([trial.cell for trial in trials], dtype=np.intp)
    gains = np.array([trial.gain for trial in trials])
    draws = _draws(grid, cells, gains)
    surfaces = [draw.mean() for draw in draws]
    mean = _Surface(
        tuple(np.mean([each.alone[at] for each in surfaces], axis=0) for at in range(len(grid.counts))),
        np.mean([each.pairs for each in surfaces], axis=0),
        surfaces[0].offsets,
    )
    return _Known(draws, mean, None)


def _draws(grid: KnobGrid, cells: Indices, values: Floats) -> tuple[_Draw, ...]:
    knobs, count = len(grid.counts), len(values)
    centre = float(np.median(values))
    gains = values - centre
    codes = tuple(_code(n, o) for n, o in zip(grid.counts, grid.ordered, strict=True))
    near = np.stack([code[cells[:, at]][:, cells[:, at]] for at, code in enumerate(codes)])
    time = np.arange(count)
    slow = np.exp(-np.abs(time[:, None] - time[None, :]) / REACH)
    # The level itself is not known: wide, and the same for all.
    level = np.full((count, count), float(max(gains.var(), 0.01)) * 10)

    def parts(point: Floats) -> tuple[Floats, float, float, float]:
        sizes = np.exp(2 * point[:knobs])
        return sizes, math.exp(2 * point[knobs]), math.exp(2 * point[-2]), math.exp(2 * point[-1])

    def kernel(point: Floats) -> Floats:
        sizes, pair, noise, drift = parts(point)
        roots = np.sqrt(sizes)
        each = roots[:, None, None] * near
        both = 0.5 * (each.sum(axis=0) ** 2 - (each**2).sum(axis=0))
        main = np.tensordot(sizes, near, axes=1)
        found: Floats = main + pair * both + drift * slow + noise * np.eye(count) + level
        return found

    def density(point: Floats) -> float:
        if np.abs(point).max() > 14:
            return -math.inf
        try:
            lower = cholesky(kernel(point), lower=True)
        except np.linalg.LinAlgError:
            return -math.inf
        solved = cho_solve((lower, True), gains)
        likelihood = -0.5 * gains @ solved - np.log(np.diag(lower)).sum()
        return float(likelihood + prior(point))

    def prior(point: Floats) -> float:
        roots = np.exp(point[:knobs])
        # Half-Cauchy of the root of the size; the logs are walked, hence + point.
        found = (point[:knobs] - np.log1p((roots / SMALL) ** 2)).sum()
        found -= 0.5 * ((point[knobs] - math.log(PAIRS)) / 0.7) ** 2
        found -= 0.5 * ((point[-2] - math.log(NOISE)) / 0.8) ** 2
        found -= 0.5 * ((point[-1] - math.log(DRIFT)) / 0.8) ** 2
        return float(found)

    first = np.array([math.log(SMALL * 3)] * knobs + [math.log(PAIRS), math.log(NOISE), math.log(DRIFT)])
    chance = np.random.default_rng(count)
    points = _walked(density, first, chance)
    made = []
    for point in points:
        sizes, pair, noise, drift = parts(point)
        lower = cholesky(kernel(point), lower=True)
        weights = cho_solve((lower, True), gains)
        made.append(_Draw(grid, codes, cells, sizes, pair, noise, drift, weights, lower, gains))
    return tuple(made)


def _walked(density, first: Floats, chance: np.random.Generator) -> list[Floats]:
    """Slice sampling, one coordinate at a time (R. M. Neal (2003), Annals of Statistics 31)."""
    now, at = first, density(first)
    found: list[Floats] = []
    sweeps = WARM // 6 + DRAWS
    for sweep in range(sweeps):
        for place in chance.permutation(len(now)):
            height = at + math.log(chance.random() + 1e-300)
            width = 1.5
            low = now[place] - width * chance.random()
            high = low + width
            for _ in range(4):
                if density(_put(now, place, low)) <= height: break
                low -= width
            for _ in range(4):
                if density(_put(now, place, high)) <= height: break
                high += width
            for _ in range(30):
                tried = low + (high - low) * chance.random()
                point = _put(now, place, tried)
                value = density(point)
                if value > height:
                    now, at = point, value
                    break
                if tried < now[place]: low = tried
                else: high = tried
        if sweep >= sweeps - DRAWS:
            found.append(now)
    return found


def _put(point: Floats, place: int, value: float) -> Floats:
    other = point.copy()
    other[place] = value
    return other


@functools.lru_cache(maxsize=64)
def _code(count: int, ordered: bool) -> Floats:
    """How much two levels of a knob tell of one another: 0 on the average over all levels, and 1
    of a level with itself on the average."""
    places = np.arange(count)
    plain = np.eye(count)
    if ordered and count > 2:
        plain = STEP * np.exp(-np.abs(places[:, None] - places[None, :]) / 1.5) + (1 - STEP) * plain
    middle = np.eye(count) - 1 / count
    centred = middle @ plain @ middle
    found: Floats = centred * count / np.trace(centred)
    return found


@functools.lru_cache(maxsize=64)
def _half(count: int, ordered: bool) -> Floats:
    """A square root of :func:`_code`."""
    values, vectors = np.linalg.eigh(_code(count, ordered))
    keep = values > 1e-9
    found: Floats = vectors[:, keep] * np.sqrt(values[keep])
    return found


def _offsets(grid: KnobGrid) -> tuple[int, ...]:
    return tuple(int(x) for x in np.concatenate([[0], np.cumsum(grid.counts)[:-1]]))


def _climb(grid: KnobGrid, surface: _Surface, known: _Known, chance: np.random.Generator) -> Cell:
    """The best combination of a surface: one knob after the other, from several places."""
    best: tuple[float, Cell] = (-math.inf, grid.baseline)
    offsets = np.array(surface.offsets)
    flat = np.concatenate(surface.alone)
    for climb in range(CLIMBS):
        cell = list(grid.baseline) if climb == 0 else [int(chance.integers(n)) for n in grid.counts]
        if climb and not grid.allowed(tuple(cell)):
            continue
        for _ in range(6):
            before = list(cell)
            for at in chance.permutation(len(cell)).tolist():
                a, n = offsets[at], grid.counts[at]
                where = offsets + np.array(cell)
                where = np.delete(where, at)
                scores = flat[a : a + n] + surface.pairs[a : a + n][:, where].sum(axis=1)
                order = np.argsort(-scores, kind="stable")
                for place in order.tolist():
                    if place == cell[at] or grid.allowed(_with(tuple(cell), at, place)):
                        cell[at] = place
                        break
            if cell == before:
                break
        value = surface.value(tuple(cell))
        if value > best[0]:
            best = (value, tuple(cell))
    return best[1]


def _fewest(grid: KnobGrid, mean: _Surface, best: Cell, worth: float) -> Cell:
    """The same with every knob back at its baseline that is worth less than ``worth``."""
    now = best
    while True:
        back = [
            _with(now, at, grid.baseline[at])
            for at in range(len(now))
            if now[at] != grid.baseline[at]
        ]
        back = [cell for cell in back if grid.allowed(cell)]
        if not back:
            return now
        least = max(back, key=mean.value)
        if mean.value(now) - mean.value(least) > worth:
            return now
        now = least


def _with(cell: Cell, at: int, place: int) -> Cell:
    return (*cell[:at], place, *cell[at + 1 :])
