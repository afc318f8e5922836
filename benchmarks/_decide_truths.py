"""What ``decide.py`` replays: true means of published groups, and machines that measure them.

The means are those of four I/O schedulers in docs/five-studies/data/redhawk.csv, one group for each
storage, depth, record size, number of threads and the like (one that is printed in several tables
counts once).  A machine draws what trials of them would say: noise of one kind, levels of blocks,
drift.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

LEFT_OUT = {"scheduler", "value_kib_s", "source_table"}
DATA = Path(__file__).resolve().parent.parent / "docs/five-studies/data/redhawk.csv"
Floats = npt.NDArray[np.float64]
CLASSES = ("clear", "near", "tie")
KINDS = ("plain", "drift", "heavy")
NOISES = (0.005, 0.02, 0.05)
MARGINS = (0.01, 0.02, 0.03, 0.05)
SIZES = (4, 4, 4, 8, 16)
SCHEDULERS = 4


@dataclass(frozen=True, slots=True)
class Case:
    """One study to be replayed: ``truth`` are logs, of which more is better."""

    truth: tuple[float, ...]
    margin: float
    noise: float
    kind: str

    @property
    def room(self) -> float:
        """The margin on the log scale."""
        return math.log1p(self.margin)


def groups() -> list[Floats]:
    """The log means of every group of redhawk.csv in which all four schedulers were measured."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    with DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = tuple(word for name, word in row.items() if name not in LEFT_OUT)
            if row["value_kib_s"] and float(row["value_kib_s"]) > 0:
                found.setdefault(key, {})[row["scheduler"]] = math.log(float(row["value_kib_s"]))
    whole = [each for each in found.values() if len(each) == SCHEDULERS]
    return [np.array([each[name] for name in sorted(each)]) for each in whole]


def class_of(truth: Floats, room: float) -> str:
    """``clear``: the best is more than two margins above the next; ``tie``: all lie within half a
    margin; else ``near``."""
    rising = np.sort(truth)
    if rising[-1] - rising[-2] > 2 * room:
        return "clear"
    return "tie" if rising[-1] - rising[0] < room / 2 else "near"


def draw(name: str, number: int, from_groups: Sequence[Floats], rng: np.random.Generator) -> Case:
    """The case with this number of a class.  Sizes and kinds of noise take turns; groups, noise
    and margin are drawn until the class is right."""
    size, kind = SIZES[number % len(SIZES)], KINDS[number % len(KINDS)]
    while True:
        margin = float(rng.choice(MARGINS))
        picked = rng.choice(len(from_groups), size // SCHEDULERS, replace=False)
        parts = [from_groups[each] - from_groups[each].mean() for each in picked]
        truth = np.concatenate(parts)
        if class_of(truth, math.log1p(margin)) == name:
            noise = float(rng.choice(NOISES))
            return Case(tuple(truth.tolist()), margin, noise, kind)


class Machine:
    """What trials say, one after the other.

    ``plain`` and ``heavy`` (Student's t with 3 degrees of freedom, scaled to the noise): every
    block has a level of its own, and levels vary as much as trials do.  ``drift``: from each trial
    to the next the level walks by a tenth of the noise and rises by a fiftieth of it, within
    blocks as well.
    """

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self._truth, self._noise, self._kind = np.array(case.truth), case.noise, case.kind
        self._rng, self._level, self._done = rng, 0.0, 0

    def block(self, treatments: Sequence[int]) -> Floats:
        """The log responses of a block of them, tried in a random order; in the given order."""
        count = len(treatments)
        self._change_level()
        return self._truth[list(treatments)] + self._errors(count)[self._rng.permutation(count)]

    def trial(self, treatment: int) -> float:
        """The log response of one trial of a programme without blocks: the level changes after
        as many trials as there are treatments."""
        if self._done % len(self._truth) == 0:
            self._change_level()
        self._done += 1
        return float(self._truth[treatment] + self._errors(1)[0])

    def _change_level(self) -> None:
        if self._kind != "drift":
            self._level = float(self._rng.normal(0, self._noise))

    def _errors(self, count: int) -> Floats:
        if self._kind == "heavy":
            scale = self._noise / math.sqrt(3)
            return np.asarray(self._level + self._rng.standard_t(3, count) * scale)
        errors = self._rng.normal(self._level, self._noise, count)
        if self._kind == "drift":
            walk = np.cumsum(self._rng.normal(self._noise / 50, self._noise / 10, count))
            self._level += float(walk[-1])
            errors += walk
        return errors
