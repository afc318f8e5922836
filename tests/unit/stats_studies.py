"""Small studies whose answers are known, for the tests of the statistics."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.model.target import Target
from iotrial.model.trial import Treatment, Trial, TrialRecord
from iotrial.model.workload import Workload

Floats = npt.NDArray[np.float64]
SCHEDULER = {"scheduler": ("none", "mq-deadline", "kyber", "bfq")}
METRIC = "read.iops"


def results(
    factors: Mapping[str, Sequence[str]],
    workloads: Sequence[str],
    blocks: int,
    response: Callable[[Trial], float | None],
    decide: DecisionRule | None = None,
) -> Results:
    """Complete blocks in the study's order; ``response`` gives each trial's number, or None for a
    trial that failed."""
    trials = _trials(factors, workloads, blocks)
    records = tuple(record(trial, response(trial)) for trial in trials)
    rule = decide or DecisionRule(tuple((workload, METRIC) for workload in workloads))
    made = Study(
        "Which is faster?",
        "test",
        (Target("disk", "loop"),),
        tuple(Workload(name, "fio") for name in workloads),
        tuple(
            Factor(name, "option", tuple(Level(label) for label in labels))
            for name, labels in factors.items()
        ),
        Design(blocks=blocks),
        rule,
    )
    return Results(Path("results"), made, trials, records)


def record(trial: Trial, value: float | None, metric: str = METRIC) -> TrialRecord:
    if value is None:
        return TrialRecord(trial, "failed", 0.0, 1.0)
    return TrialRecord(trial, "valid", 0.0, 1.0, measurements=(Measurement(metric, value, "1/s"),))


def noisy(
    sd: float, seed: int, effects: Mapping[tuple[str, str], float] | None = None
) -> Callable[[Trial], float]:
    """Log-normal noise around 1000 times the effect of (workload, last factor's level)."""
    rng = np.random.default_rng(seed)

    def response(trial: Trial) -> float:
        level = trial.treatment[-1][1] if trial.treatment else ""
        effect = (effects or {}).get((trial.workload, level), 1.0)
        return float(1000 * effect * np.exp(rng.normal(0, sd)))

    return response


def change(of: Results, **changes: object) -> Results:
    """The same results under another decision rule."""
    decide = dataclasses.replace(of.study.decide, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(of, study=dataclasses.replace(of.study, decide=decide))


def with_metric(of: Results, metric: str, value: Callable[[TrialRecord], float]) -> Results:
    """The same results, each valid trial with one more measurement."""
    records = tuple(
        dataclasses.replace(r, measurements=(*r.measurements, Measurement(metric, value(r), "s")))
        if r.state == "valid"
        else r
        for r in of.records
    )
    return dataclasses.replace(of, records=records)


def _trials(
    factors: Mapping[str, Sequence[str]], workloads: Sequence[str], blocks: int
) -> tuple[Trial, ...]:
    treatments: list[Treatment] = [
        tuple(zip(factors, labels, strict=True)) for labels in itertools.product(*factors.values())
    ]
    cells = itertools.product(range(1, blocks + 1), workloads, treatments)
    return tuple(
        Trial(number, f"{number:06x}", block, workload, treatment, "disk")
        for number, (block, workload, treatment) in enumerate(cells, 1)
    )
