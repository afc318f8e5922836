"""Sessions: which recorded runs were taken together, and what each session says by itself.

Runs of one session share whatever was so on that day (temperature, fragmentation, a neighbour, the
order in which everything was measured), so that their spread says nothing about another day.  The
session, not the cell, is what was repeated independently.

A run's session is what somebody said (the property ``session``); else it follows from when the run
began, from its host, and from the folder that it lay in:

- A rest of :data:`NIGHT` and more between two runs parts sessions.  A run of which nobody knows
  when it was is of no session of its own.
- Where some folder has no run that says when it was, folders that repeat a cell are sessions, by
  the part of their names that tells the repeats of all cells apart (``cfq/run1``, ``noop/run1``);
  where none does, the first folder of each cell, the second, ….  Folders that hold unlike cells are
  not, since nothing in one says how the other came out.
- Each level of a factor ``host`` has sessions of its own.

References:
    S. H. Hurlbert, Ecological Monographs 54 (1984) 187-211 (runs of one occasion are no
    replicates: pseudoreplication).
    F. Yates, Empire Journal of Experimental Agriculture 1 (1933) 129-142 (missing plots).
    T. Kalibera and R. Jones, ISMM 2013, 63-74 (repetition where the variation arises).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, pairwise, zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iotrial.model.results import Results
from iotrial.model.trial import Treatment, TrialRecord
from iotrial.stats.pairs import Cell, Pair

NIGHT: Final = 6 * 3600.0
"""Seconds without a run that part two sessions."""
_TURNS = 200
"""Turns of the fit of what is missing: half of a table is missing at most."""
_HOSTS = ("host", "hostname", "machine")

Floats = NDArray[np.float64]


def sessions(records: Sequence[TrialRecord]) -> dict[str, str]:
    """The session of each run, by the run's folder in the results."""
    spells = _spells(records)
    told = {_place(record) for record in records if record.started}
    repeats = {} if all(_place(record) in told for record in records) else _repeats(records)
    found = {}
    for record in records:
        folder = record.trial.folder
        host = next((label for name, label in record.trial.treatment if name in _HOSTS), "")
        found[folder] = (
            record.session or f"{host}/{spells[folder]}/{repeats.get(_place(record), '')}"
        )
    return found


def within_a_night(side: Sequence[Results]) -> list[tuple[str, str]]:
    """The names of folders after each other between which nothing rested for a night."""
    times = sorted(
        (min(r.started for r in timed), max(r.started + r.seconds for r in timed), str(each.folder))
        for each in side
        if (timed := [r for r in each.valid if r.started and not r.session])
    )
    return [(a[2], b[2]) for a, b in pairwise(times) if b[0] - a[1] < NIGHT]


def _spells(records: Sequence[TrialRecord]) -> dict[str, int]:
    """A number for each run: the same for those between which nothing rested for a night.  A run of
    which nobody knows when it was is of the first that its folder, or all, are of."""
    timed = sorted((each for each in records if each.started), key=lambda each: each.started)
    found: dict[str, int] = {}
    first: dict[str, int] = {}
    spell, end = 0, -math.inf
    for record in timed:
        spell += record.started - end >= NIGHT
        end = max(end, record.started + record.seconds)
        found[record.trial.folder] = spell
        first.setdefault(_place(record), spell)
    return {
        record.trial.folder: found.get(record.trial.folder, first.get(_place(record), 1))
        for record in records
    }


def _repeats(records: Sequence[TrialRecord]) -> dict[str, str]:
    """What tells the folders that runs lay in apart, where they repeat a cell; by folder."""
    holds: dict[tuple[str, Treatment], list[str]] = defaultdict(list)
    for record in records:
        cell, place = holds[record.trial.workload, record.trial.treatment], _place(record)
        if place not in cell:
            cell.append(place)
    places = list(dict.fromkeys(place for cell in holds.values() for place in cell))
    most = max(map(len, holds.values()), default=1)
    for parts in zip_longest(*(place.split("/")[::-1] for place in places), fillvalue=""):
        named = dict(zip(places, parts, strict=True))
        if most > 1 and _tells_repeats(
            [[named[place] for place in cell] for cell in holds.values()]
        ):
            return named
    beside: dict[str, set[str]] = defaultdict(set)
    for cell in holds.values():
        for place in cell:
            beside[place].update(cell)
    found: dict[str, str] = {}
    for place in places:
        taken = {found[other] for other in beside[place] if other in found}
        found[place] = next(n for n in map(str, count(1)) if n not in taken)
    return found


def _tells_repeats(cells: Sequence[Sequence[str]]) -> bool:
    """Whether these names of folders, by cell, are those of repeats: one cell has none twice, and
    most of the cells have them in common."""
    times = Counter(name for cell in cells for name in cell)
    if any(len(set(cell)) < len(cell) for cell in cells):
        return False
    most = max(map(len, cells))
    return len(times) == most or (
        len(times) < 2 * most and 2 * sum(each > 1 for each in times.values()) >= len(times)
    )


def _place(record: TrialRecord) -> str:
    return record.source.rpartition("/")[0]


def by_session(pairs: Sequence[Pair]) -> Floats:
    """The mean log ratio of each session, of pairs that some sessions have both sides of; where
    fewer than two sessions have both, the first session of one side is held against the first of
    the other, and so on.  Empty where a side has but one session.

    A pair that a session lacks is taken to be what the pair and the session make elsewhere, on the
    log scale: a session that was cut short would else be a mean over other workloads.  What most
    sessions lack would so be known better than it is, and is left out; empty where that is all of a
    workload.
    """
    for ranked in (False, True):
        every = [(pair.key[0], _ratios(pair, ranked=ranked)) for pair in pairs]
        every = [(workload, ratios) for workload, ratios in every if ratios]
        names = list(dict.fromkeys(name for _, ratios in every for name in ratios))
        if len(names) < 2:  # noqa: PLR2004 (one session says nothing of another)
            continue
        if all(len(ratios) == 1 for _, ratios in every):  # each disk a session
            return np.array([_mean(ratios[n] for _, ratios in every if n in ratios) for n in names])
        kept = [(workload, ratios) for workload, ratios in every if 2 * len(ratios) >= len(names)]
        if {workload for workload, _ in kept} != {workload for workload, _ in every}:
            return np.array([])
        names = [name for name in names if any(name in ratios for _, ratios in kept)]
        return _filled([ratios for _, ratios in kept], names)
    return np.array([])


def _mean(values: Iterable[float]) -> float:
    every = list(values)
    return math.fsum(every) / len(every)


def _filled(every: Sequence[Mapping[str | int, float]], names: Sequence[str | int]) -> Floats:
    """The mean of each session over all pairs; what is missing is fitted (pair + session).  Empty
    where pairs and sessions cannot be told apart."""
    table = np.array([[each.get(name, math.nan) for name in names] for each in every])
    known = ~np.isnan(table)
    if known.all():
        return np.asarray(table.mean(axis=0))
    met = known[:1].any(axis=0)
    for _ in names:  # sessions that have a pair in common with those met
        met = known[(known & met).any(axis=1)].any(axis=0)
    if not met.all():
        return np.array([])
    session = np.zeros(len(names))
    for _ in range(_TURNS):
        pair = np.nanmean(table - session, axis=1)
        session = np.nanmean(table - pair[:, None], axis=0)
    return np.asarray(np.where(known, table, pair[:, None] + session).mean(axis=0))


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
