"""What ``tune.py`` searches: responses to 8 to 20 knobs whose truth is known, and machines that
measure them.

The log of the response is a sum of effects of single knobs and, in some kinds, of pairs.  Two to
five knobs matter.  What their levels do is drawn from real ones: half from what settings did to a
loop device (_tune_measured.py), half from Redhawk's groups of four I/O schedulers
(_decide_truths.py), of which a knob has two to four.  Each knob's baseline is drawn among its
levels, of those that leave half of the best at least.  The kinds:

``plain``     effects of single knobs.
``pairs``     two pairs of the knobs that matter do more or less together than the sum.
``cancel``    what the best level of the largest knob gains is gone beside the best of the next.
``plateau``   nothing is above a ceiling that 60 to 90 % of the way to the best reaches.
``throttle``  one knob's baseline leaves a half or a quarter.
``cap``       one knob's baseline allows what the baseline of all reaches and no more: as long as it
              is there, nothing else shows.
``null``      no knob matters.

A trial's noise and the drift of the machine are drawn from what was measured as well: noise from
the differences between repeats, with all its outliers, drift as a piece of what the baseline went
through.  Only their size is set: 2, 5 or 10 %, in turn.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from _decide_truths import groups
from _tune_measured import Floats, Measured, measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Cell = tuple[int, ...]
NOISES = (0.02, 0.05, 0.10)
KINDS = ("plain", "pairs", "cancel", "plateau", "throttle", "cap", "null")
FEWEST, MOST = 8, 20
SURE, LARGE = 3.0, math.log(1.05)
"""An effect matters where it is so many standard errors, or so large where there are none."""
LEAST_GAIN = math.log(1.05)
"""Surfaces of which less can be gained are drawn anew (but for ``null``)."""
SCARCE = 0.02
LUCKY = ("throttle", "cap")
"""Where more than this share of all combinations has 90 % of the gain, twenty trials at random find
one in two cases of three: such surfaces are drawn anew, but for those where one knob decides."""
THROTTLES = (math.log(2), math.log(4))
HALF = math.log(2)
"""A baseline is no further below the knob's best level."""
CEILING = (0.6, 0.9)


@dataclass(frozen=True)
class Surface:
    """The truth: ``alone`` the logs of each knob's levels, 0 at the baseline; ``pairs`` tables by
    two knobs; nothing is above ``ceiling``, nor above 0 at the level ``cap`` of a knob; ``noise``
    is that of a trial."""

    kind: str
    ordered: tuple[bool, ...]
    baseline: Cell
    alone: tuple[tuple[float, ...], ...]
    pairs: Mapping[tuple[int, int], Floats]
    ceiling: float = math.inf
    cap: tuple[int, int] | None = None
    seed: int = 0
    noise: float = 0.05

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(len(levels) for levels in self.alone)

    def value(self, cell: Cell) -> float:
        found = sum(levels[at] for levels, at in zip(self.alone, cell, strict=True))
        found += sum(float(table[cell[a], cell[b]]) for (a, b), table in self.pairs.items())
        if self.cap and cell[self.cap[0]] == self.cap[1]:
            found = min(found, 0.0)
        return min(found, self.ceiling)

    @cached_property
    def matter(self) -> tuple[int, ...]:
        alone = {at for at, levels in enumerate(self.alone) if any(levels)}
        capped = {self.cap[0]} if self.cap else set()
        return tuple(sorted(alone | capped | set(itertools.chain.from_iterable(self.pairs))))

    @cached_property
    def gain(self) -> float:
        """What the best combination gains, by looking at all of the knobs that matter."""
        return max(self.value(cell) for cell in self._all())

    @property
    def scarce(self) -> float:
        """Which share of all combinations has 90 % of that."""
        values = [self.value(cell) for cell in self._all()]
        return sum(each >= 0.9 * self.gain for each in values) / len(values)

    def _all(self) -> Iterator[Cell]:
        places = [
            range(count) if at in self.matter else (base,)
            for at, (count, base) in enumerate(zip(self.counts, self.baseline, strict=True))
        ]
        return itertools.product(*places)


class Machine:
    """What trials of a surface say, one after the other; the noise and drift of one workload."""

    def __init__(self, surface: Surface, seed: int) -> None:
        rng, table = np.random.default_rng((surface.seed, seed)), measured()
        which = int(rng.integers(len(table.noise)))
        self._surface, self._rng = surface, rng
        self._noise, drift = table.noise[which] * surface.noise, table.drift[which] * surface.noise
        there = drift if rng.integers(2) else drift[::-1]
        self._level = np.concatenate([there, there[::-1]])  # goes back the way it came
        self._now = int(rng.integers(len(self._level)))

    def trial(self, cell: Cell) -> float:
        self._now = (self._now + 1) % len(self._level)
        noise = float(self._rng.choice(self._noise))
        return self._surface.value(cell) + float(self._level[self._now]) + noise


def drawn(kind: str, number: int, seed: int) -> Surface:
    """The surface with this number of a kind: everything drawn comes from these three."""
    words = (seed, KINDS.index(kind), number)
    rng = np.random.default_rng(words)
    while True:
        found = _surface(kind, measured(), rng, int(rng.integers(2**31)))
        found = replace(found, noise=NOISES[sum(words[1:]) % len(NOISES)])
        if kind == "null" or (found.gain > LEAST_GAIN and (kind in LUCKY or found.scarce < SCARCE)):
            return found


def _surface(kind: str, table: Measured, rng: np.random.Generator, seed: int) -> Surface:
    knobs = int(rng.integers(FEWEST, MOST + 1))
    matter = 0 if kind == "null" else int(rng.integers(2, 6))
    places = rng.permutation(knobs)[:matter].tolist()
    alone, ordered = _idle(knobs, rng)
    for at in places:
        alone[at], ordered[at] = _real(table, rng)
    baseline = [_baseline(levels, rng) for levels in alone]
    cap, pairs = None, {}
    if kind == "throttle":
        alone[places[0]] = [0.0] * len(alone[places[0]])
        alone[places[0]][baseline[places[0]]] = -float(rng.choice(THROTTLES))
    if kind == "cap":
        alone[places[0]] = [0.0] * len(alone[places[0]])
        cap = places[0], baseline[places[0]]
    alone = [
        [each - levels[base] for each in levels]
        for levels, base in zip(alone, baseline, strict=True)
    ]
    if kind == "cancel":
        pairs = _cancelling(places, alone, baseline)
    if kind == "pairs":
        pairs = _together(places, alone, baseline, rng)
    found = Surface(
        kind, tuple(ordered), tuple(baseline), tuple(map(tuple, alone)), pairs, cap=cap, seed=seed
    )
    if kind == "plateau":
        part = float(rng.uniform(*CEILING))
        found = replace(found, ceiling=part * found.gain)
    return found


def _real(table: Measured, rng: np.random.Generator) -> tuple[list[float], bool]:
    """What the levels of a knob that matters do, and whether they are in order."""
    sure = [effect for effect in table.effects if effect.sure >= SURE]
    if sure and rng.integers(2):
        effect = sure[int(rng.integers(len(sure)))]
        return list(effect.logs), effect.ordered
    published = _published()
    while True:
        group = published[int(rng.integers(len(published)))]
        levels: list[float] = rng.permutation(group)[: int(rng.integers(2, 5))].tolist()
        if max(levels) - min(levels) >= LARGE:
            return levels, False


@lru_cache
def _published() -> list[Floats]:
    return groups()


def _baseline(levels: list[float], rng: np.random.Generator) -> int:
    fair = [at for at, each in enumerate(levels) if each >= max(levels) - HALF]
    return int(rng.choice(fair))


def _idle(knobs: int, rng: np.random.Generator) -> tuple[list[list[float]], list[bool]]:
    """Knobs of two to five levels that do nothing; half of them in order."""
    return (
        [[0.0] * int(rng.integers(2, 6)) for _ in range(knobs)],
        [bool(rng.integers(2)) for _ in range(knobs)],
    )


def _cancelling(
    places: list[int], alone: list[list[float]], baseline: list[int]
) -> dict[tuple[int, int], Floats]:
    """What the largest knob's best level gains is gone beside the best level of the next."""
    one, other = sorted(places, key=lambda at: -max(alone[at]))[:2]
    best, beside = int(np.argmax(alone[one])), int(np.argmax(alone[other]))
    table = np.zeros((len(alone[one]), len(alone[other])))
    if best != baseline[one] and beside != baseline[other]:
        table[best, beside] = -max(alone[one])
    return {(one, other): table}


def _together(
    places: list[int], alone: list[list[float]], baseline: list[int], rng: np.random.Generator
) -> dict[tuple[int, int], Floats]:
    """Two pairs (one, of two knobs) do more or less together than the sum: up to as much as the
    smaller of the two does at its most."""
    every = list(itertools.combinations(places, 2))
    found = {}
    for which in rng.permutation(len(every))[:2].tolist():
        a, b = every[which]
        size = min(np.abs(alone[a]).max(), np.abs(alone[b]).max())
        table = rng.uniform(-size, size, (len(alone[a]), len(alone[b])))
        table[baseline[a], :] = 0.0
        table[:, baseline[b]] = 0.0
        found[a, b] = table
    return found
