"""A fixed design that ends as soon as all is decided, by intervals that hold at all looks."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
from stats_studies import METRIC, record

from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.model.target import Target
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.workload import Workload
from iotrial.plan.design import with_baselines
from iotrial.plan.stages import next_trials
from iotrial.stats.blocks import BlockLayout, fit
from iotrial.stats.critical import ONCE, PLANNED, Look, spent
from iotrial.stats.judge import judge
from iotrial.stats.unequal import critical_at

EFFECT = {"bfq": -0.2, "32": 0.5}


def study(margin: float = 0.05, blocks: int = 40, stop: str = "decided") -> Study:
    factors = (("scheduler", ("none", "bfq")), ("depth", ("1", "32")))
    return Study(
        "Which?",
        "s",
        (Target("disk", "loop"),),
        (Workload("w", "fio"),),
        tuple(Factor(name, "option", tuple(map(Level, labels))) for name, labels in factors),
        dataclasses.replace(Design(blocks=blocks), stop=stop),
        DecisionRule((("w", METRIC),), margin=margin),
        digest="0123456789ab",
    )


def value(trial: Trial, sd: float, seed: int = 0) -> float:
    chance = random.Random(f"{seed}{trial.block}{trial.treatment}")
    effect = sum(EFFECT.get(label, 0.0) for _, label in trial.treatment)
    return 1000 * math.exp(effect + chance.gauss(0, sd))


def executed(of: Study, sd: float, seed: int = 0) -> tuple[list[Trial], list[TrialRecord]]:
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(of, planned, done):
        planned += more
        done += [record(trial, value(trial, sd, seed)) for trial in more]
    return planned, done


def test_large_effects_end_it_after_few_blocks() -> None:
    planned, done = executed(study(), 0.03)
    assert max(trial.block for trial in planned) <= 5
    found = judge(Results(None, study(), tuple(planned), tuple(done)))  # type: ignore[arg-type]
    assert {f.level: f.verdict for f in found.findings} == {"bfq": "worse", "32": "better"}
    assert "hold simultaneously at all looks" in found.method


def test_without_it_all_blocks_are_planned_at_once() -> None:
    assert len(next_trials(study(stop="blocks"), (), ())) == 160


def test_the_most_blocks_end_it() -> None:
    planned, _ = executed(study(blocks=3), 2.0)
    assert max(trial.block for trial in planned) == 3


@pytest.mark.parametrize("treatments", [2, 4])
def test_a_later_look_asks_for_more_than_a_single_one(treatments: int) -> None:
    df = np.array(9.0)
    once = critical_at(ONCE, "one", treatments, df, 0.05)
    planned = critical_at(Look(10, 12), "one", treatments, df, 0.05)
    assert once < planned < critical_at(Look(10), "one", treatments, df, 0.05)


@pytest.mark.parametrize("planned", [3, 5, 8, 12, 40])
def test_four_fifths_of_the_error_are_for_the_blocks_that_were_planned(planned: int) -> None:
    shares = [spent(block, planned) for block in range(1, 2049)]
    assert shares == sorted(shares)
    assert shares[planned - 1] == pytest.approx(PLANNED)
    assert shares[-1] < 1
    assert spent(planned, planned) > 1.15 * spent(planned) or planned == 40


@pytest.mark.parametrize("planned", [3, 5, 8, 12])
@pytest.mark.parametrize("sd", [(1, 1, 1, 1), (2, 1, 1, 1), (5, 1, 1, 1), (1, 1, 5, 1)])
def test_however_few_blocks_are_planned_no_more_studies_are_wrong(
    planned: int, sd: tuple[int, ...]
) -> None:
    """And where what is open is extended, to twice as many."""
    studies, rows = 4000, np.eye(4)[1:] - np.eye(4)[0]
    noise = np.random.default_rng(planned).normal(size=(2 * planned, 4, studies))
    noise *= np.array(sd)[None, :, None]
    wrong = np.zeros(studies, bool)
    for block in range(3, 2 * planned + 1):
        layout = BlockLayout(np.repeat(np.arange(block), 4), np.tile(np.arange(4), block))
        got = fit(layout, noise[:block].reshape(block * 4, -1), rows)
        limit = critical_at(Look(block, planned), "one", 4, got.own_df, 0.05)[:, None]
        wrong |= (np.abs(got.estimate) > limit * got.standard_error).any(axis=0)
    assert wrong.mean() <= 0.05 + 3 * 0.0035, wrong.mean()


@pytest.mark.parametrize("seed", [1, 2])
def test_truths_are_held_at_all_looks_together(seed: int) -> None:
    """150 studies of 12 blocks, looked at after each: all intervals of all looks hold in 95 %."""
    of, missed = study(margin=1e-6, blocks=12), 0
    for number in range(150):
        trials = next_trials(dataclasses.replace(of, design=Design(blocks=12)), (), ())
        records = [record(trial, value(trial, 0.1, 1000 * seed + number)) for trial in trials]
        bad = False
        for block in range(2, 13):
            seen = tuple(r for r in records if r.trial.block <= block)
            found = judge(Results(None, of, tuple(trials), seen)).findings  # type: ignore[arg-type]
            for f in found:
                assert f.low is not None
                assert f.high is not None
                bad |= not f.low <= math.exp(EFFECT[f.level]) <= f.high
        missed += bad
    assert missed / 150 <= 0.05 + 3 * 0.0178


def test_a_baseline_that_was_found_at_the_start_is_the_studys() -> None:
    of = with_baselines(study(), {"scheduler": "bfq"})
    assert [factor.baseline for factor in of.factors] == ["bfq", ""]
