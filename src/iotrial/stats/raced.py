"""A study's records as races: one for each workload, over its treatments.

The race itself is :mod:`iotrial.stats.race`.  Here it is fed with what was measured, block by
block, so that what to try next, what was found and what is drawn all come from one replay.
Workloads share the confidence by their number of comparisons
(:func:`iotrial.stats.simultaneous.workload_confidence`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from iotrial.model.study import Factor, Study
from iotrial.model.trial import Treatment, TrialRecord, treatment_text
from iotrial.stats.boundary import tails
from iotrial.stats.limits import Limits
from iotrial.stats.race import Race
from iotrial.stats.simultaneous import workload_confidence
from iotrial.stats.verdict import guardrail


@dataclass(frozen=True, slots=True)
class Raced:
    """The race of one workload.  ``cells`` are its treatments, in the race's numbering;
    ``higher`` whether more of the metric is better (logs were turned round where it is not);
    ``trials`` are the folders of each treatment's trials that counted; ``broken`` names the
    guardrails and limits for which a treatment was dropped."""

    workload: str
    metric: str
    higher: bool
    cells: tuple[Treatment, ...]
    race: Race
    confidence: float
    trials: tuple[tuple[str, ...], ...]
    broken: tuple[tuple[str, ...], ...]

    def label(self, treatment: int) -> str:
        """``bfq``; where several factors are varied ``scheduler=bfq depth=8``."""
        cell = self.cells[treatment]
        return cell[0][1] if len(cell) == 1 else treatment_text(cell)

    @property
    def factor(self) -> str:
        """The one factor's name; ``treatment`` where several are varied together."""
        cell = self.cells[0]
        return cell[0][0] if len(cell) == 1 else "treatment"


def raced(
    study: Study,
    cells: Mapping[str, Sequence[Treatment]],
    records: Iterable[TrialRecord],
    baseline: Mapping[str, str] | None = None,
) -> tuple[Raced, ...]:
    """The races of a study, in its workloads' order, after all of ``records``.

    ``cells`` are the treatments of each workload, ``baseline`` each factor's baseline level where
    it is known.  A workload with one treatment has no race.
    """
    family = sum(len(each) - 1 for each in cells.values() if len(each) > 1)
    by_workload: dict[str, list[TrialRecord]] = {}
    for record in records:
        by_workload.setdefault(record.trial.workload, []).append(record)
    return tuple(
        _race(
            study,
            workload.name,
            tuple(cells[workload.name]),
            by_workload.get(workload.name, ()),
            _Terms(
                workload_confidence(study.decide.confidence, len(cells[workload.name]) - 1, family),
                {factor.name: _label(factor, baseline or {}) for factor in study.factors},
            ),
        )
        for workload in study.workloads
        if len(cells.get(workload.name, ())) > 1
    )


@dataclass(frozen=True, slots=True)
class _Terms:
    confidence: float
    baseline: Mapping[str, str]


def _label(factor: Factor, known: Mapping[str, str]) -> str:
    return known.get(factor.name, "") or factor.baseline


def _race(
    study: Study,
    workload: str,
    cells: tuple[Treatment, ...],
    records: Sequence[TrialRecord],
    terms: _Terms,
) -> Raced:
    metric = dict(study.decide.primary)[workload]
    higher = study.metrics.higher(metric) is not False
    standing = [
        number
        for number, cell in enumerate(cells)
        if all(terms.baseline.get(factor) == label for factor, label in cell)
    ]
    favourite = standing[0] if standing else None
    race = Race(len(cells), study.decide.margin, terms.confidence, favourite=favourite)
    place = {cell: number for number, cell in enumerate(cells)}
    folders: list[list[str]] = [[] for _ in cells]
    guards = _Guards(study, favourite, len(cells))
    limits = Limits(study.decide.limits, study.decide.confidence, len(cells))
    broken: list[tuple[str, ...]] = [() for _ in cells]
    for asked, block in _blocks(records):
        found: dict[int, float] = {}
        for record in block:
            value, number = record.value(metric), place.get(record.trial.treatment)
            if number is None:
                continue
            if value is not None and math.isfinite(value) and value > 0:
                found[number] = math.log(value) if higher else -math.log(value)
                folders[number].append(record.trial.folder)
            guards.add(number, record)
            limits.add(number, record)
        race.waiting = guards.waiting() | limits.waiting()
        race.add(found, [place[cell] for cell in asked if cell in place])
        for number in range(len(cells)):
            names = (*guards.broken(number), *limits.broken(number))
            if names and not broken[number]:
                broken[number] = names
                race.drop(number)
    return Raced(
        workload,
        metric,
        higher,
        cells,
        race,
        terms.confidence,
        tuple(map(tuple, folders)),
        tuple(broken),
    )


def _blocks(
    records: Sequence[TrialRecord],
) -> list[tuple[list[Treatment], list[TrialRecord]]]:
    """By block: the treatments that were tried, and the last valid attempt at each."""
    tried: dict[int, dict[Treatment, TrialRecord | None]] = {}
    for record in sorted(records, key=lambda each: (each.trial.attempt, each.trial.number)):
        block = tried.setdefault(record.trial.block, {})
        if record.state == "valid":
            block[record.trial.treatment] = record
        else:
            block.setdefault(record.trial.treatment, None)
    return [
        (list(tried[number]), [each for each in tried[number].values() if each])
        for number in sorted(tried)
    ]


class _Guards:
    """The guardrails of a race: each treatment's metric against the baseline's, block by block.

    The interval is one comparison's own at the study's confidence, paired within blocks, and
    holds at all looks together.  A treatment whose whole interval lies beyond what is tolerated
    is out: it could not be kept.
    """

    def __init__(self, study: Study, favourite: int | None, size: int) -> None:
        self._study, self._favourite = study, favourite
        self._seen: list[dict[tuple[str, int], float]] = [{} for _ in range(size)]

    def add(self, treatment: int, record: TrialRecord) -> None:
        for name, _ in self._study.decide.guardrails:
            value = record.value(name)
            if value is not None and math.isfinite(value) and value > 0:
                self._seen[treatment][name, record.trial.block] = math.log(value)

    def broken(self, treatment: int) -> tuple[str, ...]:
        """The names of the guardrails that the treatment breaks."""
        if self._favourite is None or treatment == self._favourite:
            return ()
        return tuple(
            name
            for name, tolerance in self._study.decide.guardrails
            if (ends := self.interval(treatment, name)) is not None
            and self._verdict(name, tolerance, *ends) == "worse"
        )

    def waiting(self) -> set[int]:
        """The treatments of which a guardrail is neither kept nor broken."""
        if self._favourite is None:
            return set()
        return {
            treatment
            for treatment in range(len(self._seen))
            if treatment != self._favourite
            and any(
                (ends := self.interval(treatment, name)) is None
                or self._verdict(name, tolerance, *ends) != "same"
                for name, tolerance in self._study.decide.guardrails
            )
        }

    def interval(self, treatment: int, name: str) -> tuple[float, float] | None:
        """Ends of the ratio to the baseline, or None with fewer than three common blocks."""
        own, base = self._seen[treatment], self._seen[self._favourite or 0]
        differences = [own[key] - base[key] for key in own if key in base and key[0] == name]
        count = len(differences)
        if count < 3:  # noqa: PLR2004
            return None
        mean = math.fsum(differences) / count
        variance = math.fsum((each - mean) ** 2 for each in differences) / (count - 1)
        tail = float(tails((1 - self._study.decide.confidence) / 2)[count])
        half = -float(stdtrit(count - 1, tail)) * math.sqrt(variance / count)
        return math.exp(max(mean - half, -700.0)), math.exp(min(mean + half, 700.0))

    def _verdict(self, name: str, tolerance: float, low: float, high: float) -> str:
        higher = self._study.metrics.higher(name)
        return guardrail(low, high, tolerance, higher_is_better=higher)
