"""Races whose truth is known, executed on paper, for the tests of reports and of the progress."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path

from stats_studies import METRIC, record

from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Goal, Level, Study
from iotrial.model.target import Target
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.workload import Workload
from iotrial.plan.stages import next_trials

FOUR = {"none": 0.0, "mq-deadline": 0.002, "kyber": -0.05, "bfq": -0.4}
"""Scheduler → log of its effect: two alike, one worse, one far worse."""
Noise = Callable[[Trial, random.Random], float]


def study(
    labels: Mapping[str, float], *, blocks: int = 60, baseline: str = "", goal: Goal = "all"
) -> Study:
    return Study(
        "Which is best?",
        "race",
        (Target("disk", "loop"),),
        (Workload("w", "fio"),),
        (
            Factor(
                "scheduler",
                "option",
                tuple(map(Level, labels)),
                baseline=baseline or next(iter(labels)),
            ),
        ),
        Design("race", blocks=blocks),
        DecisionRule((("w", METRIC),), margin=0.02, goal=goal),
        digest="0123456789ab",
    )


def gauss(sd: float) -> Noise:
    return lambda _, chance: chance.gauss(0, sd)


def raced(
    truth: Mapping[str, float],
    noise: Noise,
    *,
    blocks: int = 60,
    baseline: str = "",
    seed: int = 1,
    goal: Goal = "all",
) -> Results:
    """A race to its end; each trial takes one second."""
    of = study(truth, blocks=blocks, baseline=baseline, goal=goal)
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(of, planned, done):
        planned += more
        for trial in more:
            chance = random.Random(f"{seed}{trial.block}{trial.treatment}{trial.attempt}")
            log = truth[trial.treatment[0][1]] + noise(trial, chance)
            done.append(record(trial, 1000 * math.exp(log)))
    base = {"scheduler": of.factors[0].baseline}
    return Results(Path("results"), of, tuple(planned), tuple(done), baselines=base)
