"""Which numbers count: one response per workload, metric, block and treatment.

A trial counts when it is valid; of several valid attempts at one cell of a block the last does.
Its response must be a positive, finite number, because effects are ratios: a trial without one,
or with a bound only (censored), is set aside and shows as a smaller n.  Everything is put in the
study's order, so that nothing computed from it can depend on the order of the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Treatment, Trial, TrialRecord
from iotrial.stats.blocks import Floats, Indices, Layout

Counted = dict[str, tuple[TrialRecord, ...]]
Rank = tuple[tuple[int, int, str], ...]
Round = tuple[int, str, str]
"""Block, target, host."""


@dataclass(frozen=True, slots=True)
class Responses:
    """The usable responses of one workload and metric, by block and then by treatment.

    ``logs`` (observations,) are natural logarithms; ``cells`` the treatments that ``layout.cell``
    points at; ``unusable`` the valid trials without a positive number.
    """

    metric: str
    trials: tuple[Trial, ...]
    cells: tuple[Treatment, ...]
    layout: Layout
    logs: Floats
    unusable: tuple[Trial, ...] = ()


def counted(results: Results) -> Counted:
    """The records that count, by workload (in the study's order), by block, by treatment."""
    last: dict[tuple[str, Round, Treatment], TrialRecord] = {}
    for record in results.valid:
        trial = record.trial
        key = (trial.workload, round_of(results.study, trial), trial.treatment)
        if key not in last or _attempt(last[key]) < _attempt(record):
            last[key] = record
    order = treatment_order(results.study)
    ranks = {treatment: order(treatment) for _, _, treatment in last}
    by_workload: dict[str, list[TrialRecord]] = {w.name: [] for w in results.study.workloads}
    for key in sorted(last, key=lambda key: (key[1], ranks[key[2]])):
        by_workload.setdefault(key[0], []).append(last[key])
    return {workload: tuple(records) for workload, records in by_workload.items()}


def round_of(study: Study, trial: Trial) -> Round:
    """The block a trial is compared within.  Where the target is not itself varied, trials on
    different targets are never compared, hence in different blocks; nor are trials on different
    hosts, where blocks are spread over them."""
    varied = any(factor.kind == "target" for factor in study.factors)
    return trial.block, "" if varied else trial.target, trial.host


def responses(records: Sequence[TrialRecord], metric: str, study: Study) -> Responses:
    """``records`` of one workload, as :func:`counted` gives them, read for one metric."""
    usable: list[TrialRecord] = []
    unusable: list[Trial] = []
    values: list[float] = []
    for record in records:
        value = record.value(metric)
        if value is not None and math.isfinite(value) and value > 0:
            usable.append(record)
            values.append(value)
        else:
            unusable.append(record.trial)
    trials = tuple(record.trial for record in usable)
    cells = in_order(study, {trial.treatment for trial in trials})
    layout = Layout(
        _indices([round_of(study, trial) for trial in trials]),
        _indices_in([trial.treatment for trial in trials], cells),
    )
    return Responses(metric, trials, cells, layout, np.log(values), tuple(unusable))


def look_of(study: Study, data: Responses) -> int:
    """The block after which the study is looked at; 0 where its blocks are fixed beforehand, and
    it was not extended since."""
    return len(data.layout.incidence) if study.design.looked else 0


def in_order(study: Study, treatments: set[Treatment]) -> tuple[Treatment, ...]:
    """Treatments in the order of the study's factors and levels."""
    return tuple(sorted(treatments, key=treatment_order(study)))


def treatment_order(study: Study) -> Callable[[Treatment], Rank]:
    """A sort key: the places of a treatment's levels in the study."""
    place = {
        (factor.name, level.label): (number, position)
        for number, factor in enumerate(study.factors)
        for position, level in enumerate(factor.levels)
    }
    unknown = (len(place), 0)
    return lambda treatment: tuple((*place.get(part, unknown), part[1]) for part in treatment)


def _attempt(record: TrialRecord) -> tuple[int, int]:
    return record.trial.attempt, record.trial.number


def _indices(keys: Sequence[Round]) -> Indices:
    return _indices_in(keys, sorted(set(keys)))


def _indices_in(keys: Sequence[object], places: Sequence[object]) -> Indices:
    place = {key: number for number, key in enumerate(places)}
    return np.array([place[key] for key in keys], dtype=np.intp)
