"""Sessions: which recorded runs were taken together, and what each session says by itself.

Runs of one session share whatever was so on that day (temperature, fragmentation, a neighbour, the
order in which everything was measured), so that their spread says nothing about another day.  The
session, not the cell, is what was repeated independently.

A run's session is what somebody said (the property ``session``); else it follows from when the run
began, from its host, and from the folder that it lay in:

- A rest of :data:`NIGHT` and more between two runs parts sessions.
- Folders that repeat a cell are sessions: the first folder of each cell, the second, ….  Folders
  that hold unlike cells are not, since nothing in one says how the other came out.
- Each level of a factor ``host`` has sessions of its own.

References:
    S. H. Hurlbert, Ecological Monographs 54 (1984) 187-211 (runs of one occasion are no
    replicates: pseudoreplication).
    T. Kalibera and R. Jones, ISMM 2013, 63-74 (repetition where the variation arises).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iotrial.model.trial import Treatment, TrialRecord
from iotrial.stats.pairs import Cell, Pair

NIGHT: Final = 6 * 3600.0
"""Seconds without a run that part two sessions."""
_HOSTS = ("host", "hostname", "machine")

Floats = NDArray[np.float64]


def sessions(records: Sequence[TrialRecord]) -> dict[str, str]:
    """The session of each run, by the run's folder in the results."""
    spells = _spells(records)
    ranks: dict[tuple[str, Treatment], dict[str, int]] = defaultdict(dict)
    found = {}
    for record in records:
        trial = record.trial
        place = record.source.rpartition("/")[0]
        cell = ranks[trial.workload, trial.treatment]
        rank = cell.setdefault(place, len(cell) + 1)
        host = next((label for name, label in trial.treatment if name in _HOSTS), "")
        found[trial.folder] = record.session or f"{host}/{spells[trial.folder]}/{rank}"
    return found


def _spells(records: Iterable[TrialRecord]) -> dict[str, int]:
    """A number for each run: the same for those between which nothing rested for a night (0: it is
    not known when it was)."""
    found, spell, end = {}, 0, -math.inf
    for record in sorted(records, key=lambda each: each.started):
        if not record.started:
            found[record.trial.folder] = 0
            continue
        spell += record.started - end >= NIGHT
        end = max(end, record.started + record.seconds)
        found[record.trial.folder] = spell
    return found


def by_session(pairs: Sequence[Pair]) -> Floats:
    """The mean log ratio of each session, of pairs that some sessions have both sides of; where
    fewer than two sessions have both, the first session of one side is held against the first of
    the other, and so on.  Empty where a side has but one session.

    Over the pairs that every session has, where there are any: sessions that were cut short would
    else be means over other workloads.
    """
    for ranked in (False, True):
        every = [_ratios(pair, ranked=ranked) for pair in pairs]
        names = dict.fromkeys(name for each in every for name in each)
        whole = [each for each in every if len(each) == len(names)] or every
        means = [
            math.fsum(found) / len(found)
            for name in names
            if (found := [each[name] for each in whole if name in each])
        ]
        if len(means) > 1:
            return np.array(means)
    return np.array([])


def _ratios(pair: Pair, *, ranked: bool) -> dict[str | int, float]:
    level, base = (_means(side, ranked=ranked) for side in (pair.level, pair.base))
    return {name: value - base[name] for name, value in level.items() if name in base}


def _means(cells: Iterable[Cell], *, ranked: bool) -> Mapping[str | int, float]:
    """Of each session, or of the first, second, … of each cell: the mean over the cells."""
    found: dict[str | int, list[float]] = defaultdict(list)
    for cell in cells:
        own: dict[str, list[float]] = defaultdict(list)
        for name, log in zip(cell.sessions, cell.logs, strict=True):
            own[name].append(log)
        for rank, (name, logs) in enumerate(own.items()):
            found[rank if ranked else name].append(math.fsum(logs) / len(logs))
    return {name: math.fsum(means) / len(means) for name, means in found.items()}
