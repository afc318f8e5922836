"""Recorded runs put side by side, before anything is claimed of them: cells, pairs, sessions.

A *cell* is the runs of one workload and treatment.  A *pair* is cells alike in workload and every
factor but one: at that factor's level, and at its baseline.  A factor that the runs of a level do
not tell (``unknown``) cannot be matched, and is averaged over for that comparison.

Runs of one *session* were taken together and share whatever was so on that day (temperature,
fragmentation, a neighbour, the order in which everything was measured), so that their spread says
nothing about another day.  The session, not the cell, is what was repeated independently.  It is
what somebody said (the property ``session``); else it follows from when the run began, from its
host, and from the folder that it lay in:

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
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise, zip_longest
from statistics import fmean
from typing import Final, Literal

import numpy as np

from iotrial.model.measurement import split
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import UNKNOWN, Treatment, TrialRecord
from iotrial.stats.blocks import Floats

ALL = "all"
"""The name of all workloads together."""
_RATES = ("iops", "bw", "rate")
_SIZES = frozenset(("bs", "blocksize", "record", "recordsize", "reclen", "xfersize", "bssplit"))
"""Words of factors that say how large an I/O is."""
_OF_SIZE = frozenset(("io", "o", "request", "transfer", "xfer", "block"))
"""Words that do so beside the word size."""

Key = tuple[str, Treatment]
Side = Literal["", "high", "low"]


@dataclass
class RunCell:
    """The runs of one workload and treatment for one metric: logs of their values, the session
    and the folder of each, and on which side the truth lies where a value is censored."""

    logs: list[float] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    censored: Side = ""

    @property
    def middle(self) -> float:
        return fmean(self.logs)

    @property
    def by_session(self) -> Floats:
        """The mean of each session."""
        found: dict[str, list[float]] = defaultdict(list)
        for name, log in zip(self.sessions, self.logs, strict=True):
            found[name].append(log)
        return np.array([fmean(logs) for logs in found.values()])


Cells = dict[Key, RunCell]


@dataclass(frozen=True, slots=True)
class CellPair:
    """Cells alike in everything but one factor: at its level, and at its baseline.  ``key`` is
    what they share: the workload, and the other factors."""

    key: Key
    level: tuple[RunCell, ...]
    base: tuple[RunCell, ...]

    @property
    def log(self) -> float:
        level, base = (fmean(cell.middle for cell in side) for side in (self.level, self.base))
        return level - base

    @property
    def side(self) -> Side | None:
        """Where the ratio's truth lies beside its value; None where nothing can be said."""
        above, below = (_side(cells) for cells in (self.level, self.base))
        if not below:
            return above
        turned: Side = "low" if below == "high" else "high"
        return turned if above in ("", turned) else None


@dataclass(frozen=True, slots=True)
class CellTable:
    """The cells of one workload (or of :data:`ALL`) for one metric; ``primary`` where the metric
    answers the question."""

    workload: str
    metric: str
    cells: Cells
    primary: bool


@dataclass(frozen=True, slots=True)
class PairContrast:
    """A level against its factor's baseline, and the pairs that show it."""

    factor: str
    level: str
    baseline: str
    pairs: tuple[CellPair, ...]

    @property
    def pairs_told(self) -> tuple[CellPair, ...]:
        """Those of which no value is censored."""
        return tuple(pair for pair in self.pairs if pair.side == "")


def tables(results: Results, sessions: Mapping[str, str]) -> Iterator[CellTable]:
    """All workloads together, quantity by quantity; then each with each of its metrics.
    ``sessions`` are those of the runs, by folder."""
    study = results.study
    metrics, cells = metrics_of(results), _cells(results, sessions)
    if len(metrics) > 1:
        for quantity, of in _shared(metrics, sized=sized(study)).items():
            together = {key: cell for pair in of.items() for key, cell in cells[pair].items()}
            yield CellTable(ALL, quantity, together, primary=True)
    for workload, names in metrics.items():
        answers = primary(study, workload, names)
        for name in names:
            own = cells.get((workload, name), {})
            yield CellTable(workload, name, own, primary=name in answers)


def primary_tables(results: Results, sessions: Mapping[str, str]) -> Iterator[CellTable]:
    """Of each workload alone, with each of the metrics that answer."""
    answers = {
        workload: primary(results.study, workload, names)
        for workload, names in metrics_of(results).items()
    }
    wanted = {(workload, name) for workload, names in answers.items() for name in names}
    cells = _cells(results, sessions, wanted)
    for workload, names in answers.items():
        for name in names:
            yield CellTable(workload, name, cells.get((workload, name), {}), primary=True)


def contrasts(study: Study, cells: Cells) -> Iterator[PairContrast]:
    """Every level of every factor against the baseline, where there is a pair."""
    told = [_Told(key, dict(key[1]), cell) for key, cell in cells.items()]
    names = [factor.name for factor in study.factors]
    for factor in study.factors:
        sides: dict[str, _Level] = {}
        for each in told:
            if (label := each.labels.get(factor.name)) is not None:
                sides.setdefault(label, _Level([])).told.append(each)
        known = [level.label for level in factor.levels if level.label != UNKNOWN]
        base = factor.baseline or (known[0] if known else "")
        for level in known:
            if level != base and level in sides and base in sides:
                pairs = _pairs(sides[level], sides[base], names, factor.name)
                if pairs:
                    yield PairContrast(factor.name, level, base, tuple(pairs))


def sized(study: Study) -> bool:
    """Whether the runs differ in how large an I/O is: then IOPS count unlike things."""
    names = (frozenset(re.split(r"[^a-z]+", factor.name.lower())) for factor in study.factors)
    return any(each & _SIZES or ("size" in each and each & _OF_SIZE) for each in names)


def primary(study: Study, workload: str, names: Mapping[str, int]) -> tuple[str, ...]:
    """The metrics that answer for a workload, of these with how many runs have each: the study's,
    else every rate that is not another one in other units (bandwidth beside IOPS; IOPS beside
    bandwidth where the sizes of I/Os differ) or a part of one (reads beside a total)."""
    own = [name for of, name in study.decide.primary if of == workload]
    own = own or [name for of, name in study.decide.primary if not of]
    if wanted := tuple(name for name in own if name in names):
        return wanted
    total = [name for name in names if name.startswith("total.")]
    rates = [n for n in total or names if split(n)[1] in _RATES and study.metrics.higher(n)]
    kept, other = ("bw", "iops") if sized(study) else ("iops", "bw")
    counted = {split(name)[0]: names[name] for name in rates if split(name)[1] == kept}
    rates = [n for n in rates if split(n)[1] != other or counted.get(split(n)[0], 0) < names[n]]
    return (
        tuple(rates)
        or tuple(n for n in names if study.metrics.higher(n) is not None)
        or tuple(names)
    )


def answering(results: Results) -> dict[str, str]:
    """The first of the metrics that answer, for each workload."""
    every = metrics_of(results)
    return {name: primary(results.study, name, found)[0] for name, found in every.items()}


def metrics_of(results: Results) -> dict[str, dict[str, int]]:
    """The metrics of each workload, in the order of the runs, and how many runs have each."""
    found: dict[str, dict[str, int]] = {w.name: {} for w in results.study.judged}
    for record in results.valid:
        mine = found.setdefault(record.trial.workload, {})
        for name in dict.fromkeys(m.metric for m in record.measurements if m.job == "all"):
            mine[name] = mine.get(name, 0) + 1
    return {workload: names for workload, names in found.items() if names}


def _shared(metrics: Mapping[str, Mapping[str, int]], *, sized: bool) -> dict[str, dict[str, str]]:
    """Quantity → workload → metric, for the rates that each of several workloads has one of."""
    found: dict[str, dict[str, str]] = {}
    for quantity in _RATES:
        names = {
            workload: [n for n in every if split(n)[1] == quantity]
            for workload, every in metrics.items()
        }
        sole = {
            workload: next((n for n in each if n.startswith("total.")), each[0])
            for workload, each in names.items()
            if len(each) == 1 or any(n.startswith("total.") for n in each)
        }
        if len(sole) > 1:
            found[quantity] = sole
    kept, other = ("bw", "iops") if sized else ("iops", "bw")
    if kept in found and found.get(other, {}).keys() <= found[kept].keys():
        found.pop(other, None)
    return found


def _cells(
    results: Results,
    sessions: Mapping[str, str],
    wanted: set[tuple[str, str]] | None = None,
) -> dict[tuple[str, str], Cells]:
    """The cells of each workload and metric, or of those ``wanted``."""
    found: dict[tuple[str, str], Cells] = defaultdict(dict)
    for record in results.valid:
        key, folder = (record.trial.workload, record.trial.treatment), record.trial.folder
        for own in record.measurements:
            if own.job == "all" and math.isfinite(own.value) and own.value > 0:
                if wanted is not None and (key[0], own.metric) not in wanted:
                    continue
                cell = found[key[0], own.metric].setdefault(key, RunCell())
                cell.logs.append(math.log(own.value))
                cell.folders.append(folder)
                cell.sessions.append(sessions[folder])
                cell.censored = cell.censored or own.censored
    return found


def _side(cells: Sequence[RunCell]) -> Side:
    return next((cell.censored for cell in cells if cell.censored), "")


@dataclass(frozen=True, slots=True)
class _Told:
    """A cell, and its labels by factor."""

    key: Key
    labels: Mapping[str, str]
    cell: RunCell


@dataclass
class _Level:
    """The cells at one level of a factor; what is found of them is kept for the next contrast."""

    told: list[_Told]
    _blind: set[str] | None = None
    _rest: dict[frozenset[str], dict[Key, list[RunCell]]] = field(default_factory=dict)

    def blind(self, names: Sequence[str]) -> set[str]:
        """The factors that no cell tells."""
        if self._blind is None:
            self._blind = {
                name for name in names if all(t.labels.get(name) == UNKNOWN for t in self.told)
            }
        return self._blind

    def rest(self, without: frozenset[str]) -> dict[Key, list[RunCell]]:
        """The cells by workload and all other factors."""
        if without not in self._rest:
            found: dict[Key, list[RunCell]] = defaultdict(list)
            for each in self.told:
                rest = tuple(part for part in each.key[1] if part[0] not in without)
                found[each.key[0], rest].append(each.cell)
            self._rest[without] = found
        return self._rest[without]


def _pairs(level: _Level, base: _Level, names: Sequence[str], name: str) -> list[CellPair]:
    without = frozenset({name, *level.blind(names), *base.blind(names)})
    ours, theirs = level.rest(without), base.rest(without)
    shared = [key for key in ours if key in theirs]
    return [CellPair(key, tuple(ours[key]), tuple(theirs[key])) for key in shared]


# -- sessions -------------------------------------------------------------------------------------

NIGHT: Final = 6 * 3600.0
"""Seconds without a run that part two sessions."""
_TURNS = 200
"""Turns of the fit of what is missing: half of a table is missing at most."""
_HOSTS = ("host", "hostname", "machine")


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
    """The names of folders after each other between which nothing rested for a night; with their
    paths where two have one name."""
    names = [each.folder.name for each in side]
    if len(set(names)) < len(names):
        names = [str(each.folder) for each in side]
    times = sorted(
        (min(r.started for r in timed), max(r.started + r.seconds for r in timed), name)
        for each, name in zip(side, names, strict=True)
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


def by_session(pairs: Sequence[CellPair]) -> Floats:
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
            return np.array([fmean(ratios[n] for _, ratios in every if n in ratios) for n in names])
        kept = [(workload, ratios) for workload, ratios in every if 2 * len(ratios) >= len(names)]
        if {workload for workload, _ in kept} != {workload for workload, _ in every}:
            return np.array([])
        names = [name for name in names if any(name in ratios for _, ratios in kept)]
        return _filled([ratios for _, ratios in kept], names)
    return np.array([])


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


def _ratios(pair: CellPair, *, ranked: bool) -> dict[str | int, float]:
    level, base = (_means(side, ranked=ranked) for side in (pair.level, pair.base))
    return {name: value - base[name] for name, value in level.items() if name in base}


def _means(cells: Iterable[RunCell], *, ranked: bool) -> Mapping[str | int, float]:
    """Of each session, or of the first, second, … of each cell: the mean over the cells."""
    found: dict[str | int, list[float]] = defaultdict(list)
    for cell in cells:
        own: dict[str, list[float]] = defaultdict(list)
        for name, log in zip(cell.sessions, cell.logs, strict=True):
            own[name].append(log)
        for rank, (name, logs) in enumerate(own.items()):
            found[rank if ranked else name].append(fmean(logs))
    return {name: fmean(means) for name, means in found.items()}
