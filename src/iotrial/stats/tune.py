"""Which combination of many knobs to try next, which to recommend, and whether more would pay.

The log of the response is a sum over the knobs and over their pairs, with drift and noise
(:mod:`iotrial.stats.additive`).

*The search.*  First a few combinations in which all levels, and all pairs of levels, occur about
equally often (:func:`start`).  Then one at a time, the combination that would be best if a surface
drawn from the process were the true one: what is promising is tried, and so is what is not known
yet (:func:`next_cell`).

*What is recommended* is the combination of the highest expected response, with every knob back at
its baseline that is not expected to be worth a third of the margin in it (:func:`summary`).

*Its end.*  ``promise`` is by how much the best of all combinations is expected to be better than
the recommended one, by changes that are each worth the margin.  When that is little, another trial
does not pay.

A second metric may have a limit.  It has a process of its own, and what is expected above the limit
is neither tried nor recommended.

Nothing is claimed from this model: whoever looks at many noisy values and takes the best of them is
flattered.  What the combination is worth is measured on fresh trials (:mod:`iotrial.plan.tune`).

References:
    W. R. Thompson (1933), On the likelihood that one unknown probability exceeds another in view
    of the evidence of two samples, Biometrika 25, 285-294 (trying what may be best).
    D. Russo and B. Van Roy (2016), An information-theoretic analysis of Thompson sampling, Journal
    of Machine Learning Research 17, 1-30.
    D. K. J. Lin (1993), A new class of supersaturated designs, Technometrics 35, 28-31 (fewer
    trials than effects, where few matter).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotrial.stats.additive import Cell, ResponseProcess, ResponseSurface, processes
from iotrial.stats.blocks import Indices

DRAWN = 4
"""Surfaces drawn from each process, to know how sure the numbers are."""
CLIMBS = 3
"""Places from which the best combination of a surface is looked for."""
LATE = 5.0
"""What a combination above the limit loses: so many times as much as it is above it."""
_ROUNDS = 6
_DESIGNS = 300
"""Random designs, of which the most balanced one begins."""


@dataclass(frozen=True, slots=True)
class KnobGrid:
    """The levels of the knobs: how many each has, and whether they are numbers in their order.
    ``baseline`` is in force.  ``excluded`` are parts of combinations that are not to be tried, as
    (knob, level) places."""

    counts: tuple[int, ...]
    ordered: tuple[bool, ...]
    baseline: Cell
    excluded: tuple[tuple[tuple[int, int], ...], ...] = ()

    def allowed(self, cell: Cell) -> bool:
        return not any(all(cell[at] == place for at, place in part) for part in self.excluded)


@dataclass(frozen=True, slots=True)
class KnobTrial:
    """A trial: ``gain`` is the log of its response, where larger is better; ``late`` the log of
    the limited metric over its limit (0: there is no limit)."""

    cell: Cell
    gain: float
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class KnobWorth:
    """What a knob's level (``place``) is expected to be worth against its baseline, within the
    recommended combination, as a ratio; ``low`` and ``high`` hold 95 % of what the model leaves
    open.  It is the recommended level or, of a knob that stays at its baseline, the best other."""

    knob: int
    place: int
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TuneSummary:
    """Where a search stands: the recommended combination; the ratio (``gain``) by which it is
    expected to be better than the baseline; the share (``promise``) by which the best of all is
    expected to be better still, by changes that are each worth the margin; and the ``noise`` of a
    trial (standard deviation of the log)."""

    best: Cell
    gain: float
    promise: float
    noise: float
    worths: tuple[KnobWorth, ...]


@functools.lru_cache(maxsize=16)
def start(grid: KnobGrid, runs: int, seed: int) -> tuple[Cell, ...]:
    """About ``runs`` different combinations, the baseline first."""
    chance = np.random.default_rng(seed)
    best: tuple[float, tuple[Cell, ...]] = (math.inf, ())
    for _ in range(_DESIGNS):
        design = np.stack(
            [
                _balanced(runs, count, base, chance)
                for count, base in zip(grid.counts, grid.baseline, strict=True)
            ],
            axis=1,
        )
        rows = dict.fromkeys(map(tuple, design.tolist()))
        kept = tuple(row for row in rows if grid.allowed(row))
        score = _unbalance(grid, design) + (runs - len(kept))
        if score < best[0]:
            best = (score, kept)
    return tuple(dict.fromkeys((grid.baseline, *best[1])))


def _balanced(runs: int, count: int, first: int, chance: np.random.Generator) -> Indices:
    """Each of ``count`` levels about equally often, in random order, ``first`` first."""
    column: Indices = chance.permutation(np.arange(runs) % count)
    names = chance.permutation(count)
    at = int(np.flatnonzero(names == first)[0])
    names[[at, column[0]]] = names[[column[0], at]]
    return names[column]


def _unbalance(grid: KnobGrid, design: Indices) -> float:
    """How unequally the pairs of levels of two knobs occur: the sum of chi-squares, up to a
    factor."""
    coded = np.concatenate(
        [np.eye(count)[design[:, at]] - 1 / count for at, count in enumerate(grid.counts)], axis=1
    )
    inner = coded.T @ coded
    end = 0
    for count in grid.counts:
        inner[end : end + count, end : end + count] = 0.0
        end += count
    return float((inner**2).sum()) / len(design)


def next_cell(grid: KnobGrid, trials: Sequence[KnobTrial], seed: int) -> Cell:
    """The combination to try next.  Of two trials at least."""
    known = _known(grid, tuple(trials))
    chance = np.random.default_rng(seed)
    process = known.gains[int(chance.integers(len(known.gains)))]
    return _best_of(grid, process.drawn(chance), known.late, chance)


@functools.lru_cache(maxsize=64)
def summary(grid: KnobGrid, trials: tuple[KnobTrial, ...], margin: float, seed: int) -> TuneSummary:
    """Where the search stands.  Of two trials at least; ``margin`` as a share."""
    known = _known(grid, trials)
    chance = np.random.default_rng(seed)
    surfaces = [process.drawn(chance) for process in known.gains for _ in range(DRAWN)]
    room = math.log1p(margin)
    best = _best_of(grid, known.mean, known.late, chance)
    best = _without_idle(grid, known, best, room / 3)
    missing = [
        _missing(surface, _best_of(grid, surface, known.late, chance), best, room)
        for surface in surfaces
    ]
    return TuneSummary(
        best,
        math.exp(known.mean.value(best) - known.mean.value(grid.baseline)),
        math.expm1(float(np.mean(np.maximum(missing, 0.0)))),
        float(np.mean([math.sqrt(process.noise) for process in known.gains])),
        tuple(_worth(grid, known.mean, surfaces, best, knob) for knob in range(len(grid.counts))),
    )


def _missing(surface: ResponseSurface, top: Cell, best: Cell, room: float) -> float:
    """By how much ``top`` is better than ``best``, by changes of knobs of which each is worth
    ``room`` (a log).  The many knobs that do nothing leave a little open each: of twenty that is
    several margins together, which no further trial finds and no proof shows."""
    now = top
    while now != best:
        back = [_with(now, knob, best[knob]) for knob in range(len(now)) if now[knob] != best[knob]]
        values = [surface.value(cell) for cell in back]
        if surface.value(now) - max(values) > room:
            break
        now = back[values.index(max(values))]
    return surface.value(now) - surface.value(best)


def _worth(
    grid: KnobGrid,
    mean: ResponseSurface,
    surfaces: Sequence[ResponseSurface],
    best: Cell,
    knob: int,
) -> KnobWorth:
    one, other = best, _with(best, knob, grid.baseline[knob])
    if one == other:
        places = [place for place in range(grid.counts[knob]) if place != best[knob]]
        others = [_with(best, knob, place) for place in places]
        one = max((cell for cell in others if grid.allowed(cell)), key=mean.value, default=best)
    gains = [surface.value(one) - surface.value(other) for surface in surfaces]
    low, middle, high = np.exp(np.quantile(gains, (0.025, 0.5, 0.975))).tolist()
    return KnobWorth(knob, one[knob], middle, low, high)


# -- what is known, and the best of it ------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The processes of the response, its expected surface, and that of the limited metric."""

    gains: tuple[ResponseProcess, ...]
    mean: ResponseSurface
    late: ResponseSurface | None


@functools.lru_cache(maxsize=16)
def _known(grid: KnobGrid, trials: tuple[KnobTrial, ...]) -> _Known:
    cells = np.array([trial.cell for trial in trials], dtype=np.intp)

    def of(values: Sequence[float]) -> tuple[ResponseProcess, ...]:
        found = np.array(values, dtype=np.float64)
        return processes(grid.counts, grid.ordered, cells, found, len(trials))

    gains = of([trial.gain for trial in trials])
    lates = [trial.late for trial in trials]
    late = None
    if any(lates):
        # The level is the processes' least known part: the surface is shifted to what was seen.
        mean = _mean(of(lates))
        shift = float(np.median(np.array(lates) - mean.values(cells)))
        late = ResponseSurface(mean.alone + shift / len(grid.counts), mean.pairs, mean.offsets)
    return _Known(gains, _mean(gains), late)


def _mean(found: Sequence[ResponseProcess]) -> ResponseSurface:
    surfaces = [process.mean() for process in found]
    alone = np.mean([surface.alone for surface in surfaces], axis=0)
    pairs = np.mean([surface.pairs for surface in surfaces], axis=0)
    return ResponseSurface(alone, pairs, surfaces[0].offsets)


def _score(surface: ResponseSurface, late: ResponseSurface | None, cell: Cell) -> float:
    above = max(0.0, late.value(cell)) if late else 0.0
    return surface.value(cell) - LATE * above


def _best_of(
    grid: KnobGrid,
    surface: ResponseSurface,
    late: ResponseSurface | None,
    chance: np.random.Generator,
) -> Cell:
    """The best combination: one knob after the other until none changes, from the baseline and
    from random places."""
    ends = []
    for climb in range(CLIMBS):
        cell: Cell = grid.baseline
        if climb:
            drawn = tuple(int(chance.integers(count)) for count in grid.counts)
            cell = drawn if grid.allowed(drawn) else grid.baseline
        for _ in range(_ROUNDS):
            before = cell
            for knob in chance.permutation(len(cell)).tolist():
                cell = _improved(grid, surface, late, cell, knob)
            if cell == before:
                break
        ends.append(cell)
    return max(ends, key=lambda cell: _score(surface, late, cell))


def _improved(
    grid: KnobGrid, surface: ResponseSurface, late: ResponseSurface | None, cell: Cell, knob: int
) -> Cell:
    """The same with the best level of one knob."""
    count = grid.counts[knob]
    scores = surface.levels(cell, knob, count)
    if late:
        rest = late.value(cell) - late.levels(cell, knob, count)[cell[knob]]
        scores = scores - LATE * np.maximum(0.0, rest + late.levels(cell, knob, count))
    for place in np.argsort(-scores, kind="stable").tolist():
        if place == cell[knob] or grid.allowed(_with(cell, knob, place)):
            return _with(cell, knob, place)
    return cell


def _without_idle(grid: KnobGrid, known: _Known, best: Cell, worth: float) -> Cell:
    """The same with every knob back at its baseline that is expected to be worth less than
    ``worth`` (a log), the least first."""
    now = best
    while True:
        back = [
            _with(now, knob, base)
            for knob, base in enumerate(grid.baseline)
            if now[knob] != base and grid.allowed(_with(now, knob, base))
        ]
        scores = [_score(known.mean, known.late, cell) for cell in back]
        if not back or max(scores) < _score(known.mean, known.late, now) - worth:
            return now
        now = back[scores.index(max(scores))]


def _with(cell: Cell, knob: int, place: int) -> Cell:
    return (*cell[:knob], place, *cell[knob + 1 :])
