"""Cells and pairs: recorded runs put side by side, before anything is claimed of them.

A *cell* is the runs of one workload and treatment.  A *pair* is cells alike in workload and every
factor but one: at that factor's level, and at its baseline.  A factor that the runs of a level do
not tell (``unknown``) cannot be matched, and is averaged over for that comparison.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from iotrial.model.measurement import Measurement, split
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import UNKNOWN, Treatment

ALL = "all"
"""The name of all workloads together."""
_MOST = 700.0
_RATES = ("iops", "bw", "rate")
_SIZES = frozenset(("bs", "blocksize", "record", "recordsize", "reclen", "xfersize", "bssplit"))
"""Words of factors that say how large an I/O is."""
_OF_SIZE = frozenset(("io", "o", "request", "transfer", "xfer", "block"))
"""Words that do so beside the word size."""

Floats = NDArray[np.float64]
Key = tuple[str, Treatment]
Side = Literal["", "high", "low"]


@dataclass
class Cell:
    """The runs of one workload and treatment for one metric: logs of their values, the session
    and the folder of each, and on which side the truth lies where a value is censored."""

    logs: list[float] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    censored: Side = ""

    @property
    def middle(self) -> float:
        return math.fsum(self.logs) / len(self.logs)

    @property
    def by_session(self) -> Floats:
        """The mean of each session."""
        found: dict[str, list[float]] = defaultdict(list)
        for name, log in zip(self.sessions, self.logs, strict=True):
            found[name].append(log)
        return np.array([math.fsum(logs) / len(logs) for logs in found.values()])


Cells = dict[Key, Cell]


@dataclass(frozen=True, slots=True)
class Pair:
    """Cells alike in everything but one factor: at its level, and at its baseline.  ``key`` is
    what they share: the workload, and the other factors."""

    key: Key
    level: tuple[Cell, ...]
    base: tuple[Cell, ...]

    @property
    def log(self) -> float:
        return _mean(self.level) - _mean(self.base)

    @property
    def side(self) -> Side | None:
        """Where the ratio's truth lies beside its value; None where nothing can be said."""
        above, below = (_side(cells) for cells in (self.level, self.base))
        if not below:
            return above
        turned: Side = "low" if below == "high" else "high"
        return turned if above in ("", turned) else None


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of one workload (or of :data:`ALL`) for one metric; ``primary`` where the metric
    answers the question."""

    workload: str
    metric: str
    cells: Cells
    primary: bool


@dataclass(frozen=True, slots=True)
class Contrast:
    """A level against its factor's baseline, and the pairs that show it."""

    factor: str
    level: str
    baseline: str
    pairs: tuple[Pair, ...]

    @property
    def pairs_told(self) -> tuple[Pair, ...]:
        """Those of which no value is censored."""
        return tuple(pair for pair in self.pairs if pair.side == "")


def ratio_of(log: float) -> float:
    """``exp(log)``, kept within what a float can be: two sessions may give any width."""
    return math.exp(max(-_MOST, min(_MOST, log)))


def tables(results: Results, sessions: Mapping[str, str]) -> Iterator[Table]:
    """All workloads together, quantity by quantity; then each with each of its metrics.
    ``sessions`` are those of the runs, by folder."""
    study = results.study
    metrics, cells = metrics_of(results), _cells(results, sessions)
    if len(metrics) > 1:
        for quantity, of in _shared(metrics, sized=sized(study)).items():
            together = {key: cell for pair in of.items() for key, cell in cells[pair].items()}
            yield Table(ALL, quantity, together, primary=True)
    for workload, names in metrics.items():
        answers = primary(study, workload, names)
        for name in names:
            own = cells.get((workload, name), {})
            yield Table(workload, name, own, primary=name in answers)


def primary_tables(results: Results, sessions: Mapping[str, str]) -> Iterator[Table]:
    """Of each workload alone, with each of the metrics that answer."""
    answers = {
        workload: primary(results.study, workload, names)
        for workload, names in metrics_of(results).items()
    }
    wanted = {(workload, name) for workload, names in answers.items() for name in names}
    cells = _cells(results, sessions, wanted)
    for workload, names in answers.items():
        for name in names:
            yield Table(workload, name, cells.get((workload, name), {}), primary=True)


def contrasts(study: Study, cells: Cells) -> Iterator[Contrast]:
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
                    yield Contrast(factor.name, level, base, tuple(pairs))


def sized(study: Study) -> bool:
    """Whether the runs differ in how large an I/O is: then IOPS count unlike things."""
    names = (frozenset(re.split(r"[^a-z]+", factor.name.lower())) for factor in study.factors)
    return any(each & _SIZES or ("size" in each and each & _OF_SIZE) for each in names)


def primary(study: Study, workload: str, names: Mapping[str, int]) -> tuple[str, ...]:
    """The metrics that answer for a workload, of these with how many runs have each: the study's,
    else every rate that is not another one in other units (bandwidth beside IOPS; IOPS beside
    bandwidth where the sizes of I/Os differ) or a part of one (reads beside a total)."""
    chosen = dict(study.decide.primary)
    if (wanted := chosen.get(workload, chosen.get("", ""))) in names:
        return (wanted,)
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
    found: dict[str, dict[str, int]] = {w.name: {} for w in results.study.workloads}
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
                cell = found[key[0], own.metric].setdefault(key, Cell())
                cell.logs.append(math.log(own.value))
                cell.folders.append(folder)
                cell.sessions.append(sessions[folder])
                cell.censored = _worse(cell, own)
    return found


def _worse(cell: Cell, own: Measurement) -> Side:
    return cell.censored or own.censored


def _mean(cells: Sequence[Cell]) -> float:
    return math.fsum(cell.middle for cell in cells) / len(cells)


def _side(cells: Sequence[Cell]) -> Side:
    return next((cell.censored for cell in cells if cell.censored), "")


@dataclass(frozen=True, slots=True)
class _Told:
    """A cell, and its labels by factor."""

    key: Key
    labels: Mapping[str, str]
    cell: Cell


@dataclass
class _Level:
    """The cells at one level of a factor; what is found of them is kept for the next contrast."""

    told: list[_Told]
    _blind: set[str] | None = None
    _rest: dict[frozenset[str], dict[Key, list[Cell]]] = field(default_factory=dict)

    def blind(self, names: Sequence[str]) -> set[str]:
        """The factors that no cell tells."""
        if self._blind is None:
            self._blind = {
                name for name in names if all(t.labels.get(name) == UNKNOWN for t in self.told)
            }
        return self._blind

    def rest(self, without: frozenset[str]) -> dict[Key, list[Cell]]:
        """The cells by workload and all other factors."""
        if without not in self._rest:
            found: dict[Key, list[Cell]] = defaultdict(list)
            for each in self.told:
                rest = tuple(part for part in each.key[1] if part[0] not in without)
                found[each.key[0], rest].append(each.cell)
            self._rest[without] = found
        return self._rest[without]


def _pairs(level: _Level, base: _Level, names: Sequence[str], name: str) -> list[Pair]:
    without = frozenset({name, *level.blind(names), *base.blind(names)})
    ours, theirs = level.rest(without), base.rest(without)
    shared = [key for key in ours if key in theirs]
    return [Pair(key, tuple(ours[key]), tuple(theirs[key])) for key in shared]
