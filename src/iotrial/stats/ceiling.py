"""Where the highest response of a grid is likely to be: which cell to measure next, or to stop.

A load is a cell of a grid: engine, block, jobs, depth, batch.  Its rate changes smoothly along the
ordered axes (in octaves) and by some share from engine to engine.  A Gaussian process is laid
through the logs of the rates measured so far; the next cell is the one whose expected improvement
over the best so far is largest; the search ends when no cell promises more than
:data:`WORTH` any more.  With a bound on latency, a second process is laid through the logs of
latency over the bound, and the improvement counts with the probability that the bound is kept.

The order of measuring is all that rests on this model.  Nothing is claimed from it: who is best
among the finalists (:func:`finalists`) is decided by a race on fresh trials.

References:
    D. R. Jones, M. Schonlau and W. J. Welch (1998), Efficient global optimization of expensive
    black-box functions, Journal of Global Optimization 13, 455-492 (expected improvement).
    M. Schonlau, W. J. Welch and D. R. Jones (1998), Global versus local search in constrained
    optimization of computer models, IMS Lecture Notes 34, 11-25 (probability of the constraint).
    C. E. Rasmussen and C. K. I. Williams (2006), *Gaussian Processes for Machine Learning*,
    chapters 2 and 5 (posterior, marginal likelihood).
    P. Z. G. Qian, H. Wu and C. F. J. Wu (2008), Gaussian process models for computer experiments
    with qualitative and quantitative factors, Technometrics 50, 383-396 (one correlation between
    any two levels).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

Floats = npt.NDArray[np.float64]

WORTH = 0.0001
"""A search ends when no cell is expected to bring more than this share."""
DEPTH = math.log(3)
"""Rates below a third of the best are all alike: how bad they are says nothing of the best."""
OVER = math.log(8)
"""The same of latencies beyond the bound by more than this factor, on either side."""
SURE = 0.02
"""Where nothing kept the bound yet, the search gives up when no cell keeps it with more than this
probability."""
WINDOW = 0.06
"""A finalist was at most this share below the best when it was measured once."""
MOST_FINALISTS = 4
MOST_CENTRES = 8
SPREAD = 8
INNER = 0.4
"""So far from the middle, of an axis of length 1, a search begins at most."""
NOMINAL = 0.25
"""How far two levels without an order are apart, beside axes of length 1."""
FEWEST = 2
SAFE = 0.85
"""With a bound, one finalist at least was below this share of it."""
_REACH = (1.5, 4.0, 10.0)
"""How many octaves two cells may be apart and still tell of one another."""
_ALIKE = (0.6, 0.9, 0.98)
"""Correlation of two levels without an order."""
_SWEEPS = 4
_SUMS = (0.0, 0.6)
"""Share of the surface that is a sum over the axes."""
_NOISE = (1e-4, 2e-3, 2e-2)
"""Variance of a trial's noise, over that of the surface."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A cell that was measured: ``rate`` and ``latency`` in base units; 0 where it gave none."""

    rate: float
    latency: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """``places`` (cells, axes): in octaves along ordered axes, the level's number along others;
    ``ordered`` says which.  ``bound`` on the latency in seconds, infinite for none."""

    places: Floats
    ordered: tuple[bool, ...]
    bound: float = math.inf


def start(grid: Grid) -> tuple[int, ...]:
    """The cells that the search begins with: for each combination of levels without an order
    (:data:`MOST_CENTRES` at most) the one in the middle of all others, then :data:`SPREAD` that
    lie far from all these, though not at the edges."""
    low, high = grid.places.min(axis=0), grid.places.max(axis=0)
    places = np.where(high > low, (grid.places - low) / np.where(high > low, high - low, 1.0), 0.5)
    nominal = [axis for axis, each in enumerate(grid.ordered) if not each]
    places[:, nominal] = (grid.places[:, nominal] > 0) * NOMINAL
    inner = np.abs(places - 0.5).max(axis=1, initial=0.0, where=np.array(grid.ordered)) <= INNER
    ordered = [axis for axis, each in enumerate(grid.ordered) if each]
    away = np.abs(places[:, ordered] - 0.5).sum(axis=1)
    kinds: dict[tuple[float, ...], list[int]] = {}
    for cell in range(len(places)):
        kinds.setdefault(tuple(grid.places[cell, nominal].tolist()), []).append(cell)
    chosen = [
        min(cells, key=lambda cell: (round(float(away[cell]), 9), cell))
        for cells in list(kinds.values())[:MOST_CENTRES]
    ]
    left = [cell for cell in np.flatnonzero(inner).tolist() if cell not in chosen]
    while left and len(chosen) < min(len(kinds), MOST_CENTRES) + SPREAD:
        apart = [float(np.abs(places[chosen] - places[cell]).sum(axis=1).min()) for cell in left]
        chosen.append(left.pop(int(np.argmax(apart))))
    return tuple(dict.fromkeys(chosen))


def next_cell(grid: Grid, seen: Mapping[int, Seen]) -> int | None:
    """The cell to measure next; None when the search is over.

    ``seen`` has at least two cells.  Pure: the same answer for the same numbers.
    """
    left = np.array([cell for cell in range(len(grid.places)) if cell not in seen], dtype=np.intp)
    known = np.array(sorted(seen), dtype=np.intp)
    if not len(left) or not any(each.rate for each in seen.values()):
        return None
    chance = np.ones(len(left))
    kept = [cell for cell in known.tolist() if keeps(grid, seen[cell])]
    if math.isfinite(grid.bound):
        chance = _chance(grid, seen, known, left)
        if not kept:
            best = int(np.argmax(chance))
            return int(left[best]) if chance[best] > SURE else _gentlest(grid, left)
    rates = _rates(seen, known)
    everything = np.concatenate([left, known])
    middle, spread = _posterior(grid, known, rates, everything)
    held = np.isin(known, kept)
    best_so_far = float(middle[len(left) :][held].max())
    gain = _improvement(middle[: len(left)], spread[: len(left)], best_so_far) * chance
    best = int(np.argmax(gain))
    return int(left[best]) if gain[best] > WORTH else None


def keeps(grid: Grid, seen: Seen) -> bool:
    """Whether a cell was measured within the bound."""
    return seen.rate > 0 and seen.latency <= grid.bound


def finalists(grid: Grid, seen: Mapping[int, Seen]) -> tuple[int, ...]:
    """The cells that the race is among, the likeliest best first: all within :data:`WINDOW` of
    it, two at least and :data:`MOST_FINALISTS` at most, as far as so many kept the bound.  One
    that kept it by luck is found out in the race."""
    kept = [cell for cell, each in seen.items() if keeps(grid, each)]
    if len(kept) < FEWEST:
        return tuple(kept)
    known = np.array(sorted(seen), dtype=np.intp)
    middle, _ = _posterior(grid, known, _rates(seen, known), known)
    likely = dict(zip(known.tolist(), middle.tolist(), strict=True))
    kept.sort(key=lambda cell: (-likely[cell], cell))
    least = likely[kept[0]] - WINDOW
    near = [cell for cell in kept if likely[cell] >= least]
    chosen = near[:MOST_FINALISTS] if len(near) > 1 else kept[:FEWEST]
    safe = [cell for cell in kept if seen[cell].latency <= grid.bound * SAFE]
    if safe and not set(safe) & set(chosen):
        chosen = [*chosen[: MOST_FINALISTS - 1], safe[0]]
    return tuple(chosen)


def _gentlest(grid: Grid, left: npt.NDArray[np.intp]) -> int | None:
    """The lowest of the cells that were not measured, where it is the lowest of all that have its
    levels on the axes without an order."""
    nominal = [axis for axis, each in enumerate(grid.ordered) if not each]
    load = grid.places[:, [axis for axis, each in enumerate(grid.ordered) if each]].sum(axis=1)
    for cell in left[np.argsort(load[left], kind="stable")].tolist():
        alike = (grid.places[:, nominal] == grid.places[cell, nominal]).all(axis=1)
        if load[cell] <= load[alike].min():
            return int(cell)
    return None


def _rates(seen: Mapping[int, Seen], known: npt.NDArray[np.intp]) -> Floats:
    best = max(each.rate for each in seen.values())
    found = [math.log(max(seen[cell].rate, 1e-300) / best) for cell in known.tolist()]
    rates: Floats = np.maximum(np.array(found), -DEPTH)
    return rates


def _chance(
    grid: Grid,
    seen: Mapping[int, Seen],
    known: npt.NDArray[np.intp],
    left: npt.NDArray[np.intp],
) -> Floats:
    """The probability that each cell of ``left`` keeps the bound."""
    over = np.array([
        math.log(seen[cell].latency / grid.bound) if seen[cell].latency else OVER
        for cell in known.tolist()
    ])  # fmt: skip
    middle, spread = _posterior(grid, known, np.clip(over, -OVER, OVER), left)
    found: Floats = ndtr(-middle / spread)
    return found


def _improvement(middle: Floats, spread: Floats, best: float) -> Floats:
    above = middle - best
    scaled = above / spread
    density = np.exp(-0.5 * scaled**2) / math.sqrt(2 * math.pi)
    found: Floats = above * ndtr(scaled) + spread * density
    return found


def _posterior(
    grid: Grid, known: npt.NDArray[np.intp], values: Floats, asked: npt.NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the surface at ``asked``, by a likely process."""
    best = _likeliest(grid, known, values)
    if best is None:  # all values alike
        return np.full(len(asked), values.mean()), np.full(len(asked), 1e-9)
    parts = [_along(grid, axis, asked, known, each) for axis, each in enumerate(best.reach)]
    cross = _together(parts, best.shared)
    middle: Floats = best.level + cross @ best.weights
    explained = np.einsum("ij,ji->i", cross, np.linalg.solve(best.noisy, cross.T))
    variance: Floats = best.size * np.maximum(1.0 - explained, 1e-9)
    return middle, np.sqrt(variance)


@dataclass(frozen=True, slots=True, eq=False)
class _Process:
    """A process laid through what was measured: its reach along each axis, the share of sums, and
    the level and size that are likeliest for them.  ``noisy`` (known, known) are its correlations
    with the noise of a trial, ``weights`` those of the values."""

    likelihood: float
    reach: tuple[float, ...]
    shared: float
    level: float
    size: float
    noisy: Floats
    weights: Floats


def _likeliest(grid: Grid, known: npt.NDArray[np.intp], values: Floats) -> _Process | None:
    """The choices are improved one after the other, until none changes."""
    flat = grid.places.min(axis=0) == grid.places.max(axis=0)
    reaches: list[tuple[float, ...]] = [
        (1.0,) if still else _REACH if ordered else _ALIKE
        for ordered, still in zip(grid.ordered, flat.tolist(), strict=True)
    ]
    choices = [*reaches, _SUMS, _NOISE]
    along = [
        {each: _along(grid, axis, known, known, each) for each in some}
        for axis, some in enumerate(reaches)
    ]

    @functools.cache
    def fitted(picked: tuple[float, ...]) -> _Process | None:
        *reach, shared, noise = picked
        near = _together([part[each] for part, each in zip(along, reach, strict=True)], shared)
        return _fit(near + noise * np.eye(len(known)), values, (tuple(reach), shared))

    def likelihood(picked: tuple[float, ...]) -> float:
        found = fitted(picked)
        return found.likelihood if found else -math.inf

    now = tuple(some[len(some) // 2] for some in choices)
    for _ in range(_SWEEPS):
        before = now
        for place, some in enumerate(choices):
            others = [(*now[:place], each, *now[place + 1 :]) for each in some]
            now = max(others, key=likelihood)
        if now == before:
            break
    return fitted(now)


def _fit(noisy: Floats, values: Floats, choice: tuple[tuple[float, ...], float]) -> _Process | None:
    count = len(values)
    ones, solved = np.linalg.solve(noisy, np.stack([np.ones(count), values], axis=1)).T
    level = float(solved.sum() / ones.sum())
    weights: Floats = solved - level * ones
    size = float((values - level) @ weights) / count
    if not size > 0:
        return None
    likelihood = -0.5 * (count * math.log(size) + float(np.linalg.slogdet(noisy)[1]))
    return _Process(likelihood, *choice, level, size, noisy, weights)


def _together(parts: Sequence[Floats], shared: float) -> Floats:
    """The correlation of cells from those along each axis: a part of the surface is the sum of
    what each axis does by itself, the rest is what they do together."""
    product = functools.reduce(np.multiply, parts)
    if not shared:
        return product
    found: Floats = shared * sum(parts) / len(parts) + (1 - shared) * product
    return found


def _along(
    grid: Grid,
    axis: int,
    one: npt.NDArray[np.intp],
    other: npt.NDArray[np.intp],
    reach: float,
) -> Floats:
    """(one, other): Matérn 5/2 along an ordered axis, one correlation along others."""
    apart = np.abs(grid.places[one, axis][:, None] - grid.places[other, axis][None, :])
    if not grid.ordered[axis]:
        return np.where(apart > 0, reach, 1.0)
    far = math.sqrt(5) * apart / reach
    found: Floats = (1 + far + far**2 / 3) * np.exp(-far)
    return found
