"""Series of nights with known truth, for ``history.py``: the noise from night to night, and what
changes.

A point is the mean of the logs of some trials.  The noise from night to night has a standard
deviation of :data:`NOISE` (Student's t: its scale); *measured* takes that of trials of fio on a
loop device, with its drift (tune-loop.csv), in pieces of :data:`PIECE` as they came.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from _tune_measured import measured
from scipy.signal import lfilter

from iotrial.stats.changes import HistoryPoint

Floats = npt.NDArray[np.float64]
NOISE, TRIALS, YEAR = 0.02, 8, 365
PIECE = 12
_WHITE = ("normal", "heavy tails", "wild nights", "unequal n")
_ALIKE = ("measured", "alike 0.5", "alike 0.8", "slow wander")
NOISES = (*_WHITE, *_ALIKE)
STEP_AT, AFTER = 60, 60
RATIOS = (0.98, 0.95, 0.9, 0.8)
SHAPES = ("step", "two steps", "for ten nights", "gradual")


@dataclass(frozen=True, slots=True)
class Truth:
    """A change: the first night of the new level, the last at which it may be said to begin, and
    the ratio."""

    first: int
    last: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Night:
    """A series: what its noise is, the logs, the trials of each night, and what changed."""

    noise: str
    logs: tuple[float, ...]
    trials: tuple[int, ...]
    truths: tuple[Truth, ...] = ()

    def points(self) -> list[HistoryPoint]:
        within = NOISE * math.sqrt(TRIALS / 2)
        return [
            HistoryPoint(float(at), n, log, within)
            for at, (log, n) in enumerate(zip(self.logs, self.trials, strict=True))
        ]


def noise_of(kind: str, nights: int, rng: np.random.Generator) -> tuple[Floats, list[int]]:
    """Logs about 0, and the trials of each night."""
    counts = [TRIALS] * nights
    values = rng.normal(size=nights)
    if kind == "heavy tails":
        values = rng.standard_t(3, nights)
    elif kind == "wild nights":
        far = rng.choice([-1.0, 1.0], nights) * rng.uniform(5, 15, nights)
        values += np.where(rng.random(nights) < 0.02, far, 0.0)
    elif kind == "unequal n":
        drawn = rng.integers(2, 2 * TRIALS, nights)
        values *= np.sqrt(0.5 + 0.5 * TRIALS / drawn)
        counts = drawn.tolist()
    elif kind.startswith("alike"):
        values = _alike(float(kind.split()[1]), nights, rng)
    elif kind == "slow wander":  # three tenths of the variance, for three weeks at a time
        values = math.sqrt(0.7) * values + math.sqrt(0.3) * _alike(0.95, nights, rng)
    elif kind == "measured":
        values = _measured(nights, rng)
    return NOISE * values, counts


def _alike(keep: float, nights: int, rng: np.random.Generator) -> Floats:
    drawn = rng.normal(size=nights + 200) * math.sqrt(1 - keep * keep)
    return np.asarray(lfilter([1.0], [1.0, -keep], drawn)[200:])


def _measured(nights: int, rng: np.random.Generator) -> Floats:
    """Pieces of what one workload's trials did, in their order; its noise about its drift."""
    table = measured()
    which = int(rng.integers(len(table.noise)))
    noise, drift = table.noise[which], table.drift[which]
    found = []
    while sum(map(len, found)) < nights:
        at = int(rng.integers(max(1, len(noise) - PIECE)))
        found.append(noise[at : at + PIECE])
    begin = int(rng.integers(max(1, len(drift))))
    slow = np.resize(np.concatenate([drift[begin:], drift[::-1], drift[:begin]]), nights)
    values = np.concatenate(found)[:nights] + 0.5 * (slow - slow.mean())
    return np.asarray(values)


def still(noise: str, number: int, seed: int) -> Night:
    """A year without a change."""
    rng = np.random.default_rng([seed, number, NOISES.index(noise)])
    logs, counts = noise_of(noise, YEAR, rng)
    return Night(noise, tuple(logs.tolist()), tuple(counts))


def moved(noise: str, shape: str, ratio: float, number: int, seed: int) -> Night:
    rng = np.random.default_rng([seed, number, NOISES.index(noise), SHAPES.index(shape), 1])
    nights = STEP_AT + AFTER + (40 if shape == "two steps" else 0)
    logs, counts = noise_of(noise, nights, rng)
    log = math.log(ratio)
    at = STEP_AT
    truths = [Truth(at, at, ratio)]
    if shape == "gradual":
        logs[at:] += log * np.minimum(np.arange(1, nights - at + 1) / 30, 1.0)
        truths = [Truth(at, at + 30, ratio)]
    else:
        logs[at:] += log
    if shape == "for ten nights":
        logs[at + 10 :] -= log
        truths.append(Truth(at + 10, at + 10, 1 / ratio))
    if shape == "two steps":
        logs[at + 40 :] += log
        truths.append(Truth(at + 40, at + 40, ratio))
    return Night(noise, tuple(logs.tolist()), tuple(counts), tuple(truths))
