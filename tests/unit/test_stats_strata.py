"""Factors that are costly to change: whole plots, and the error their effects are judged by."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from stats_studies import results

from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.model.target import Target
from iotrial.model.trial import Trial
from iotrial.model.workload import Workload
from iotrial.plan.estimate import estimate
from iotrial.plan.stages import next_trials
from iotrial.stats.blocks import stratum, whole_plots
from iotrial.stats.effects import shares
from iotrial.stats.judge import judge

FACTORS = {"array": ("old", "new"), "depth": ("1", "8", "32")}


def study(
    blocks: int, seed: int, between: float, within: float = 0.01, effect: float = 1.0
) -> Results:
    """The array is set up once a block and level, and never twice alike."""
    rng = np.random.default_rng(seed)
    setups: dict[tuple[int, str], float] = {}

    def response(trial: Trial) -> float:
        array = dict(trial.treatment)["array"]
        setup = setups.setdefault((trial.block, array), rng.normal(0, between))
        own = effect if array == "new" else 1.0
        return float(1000 * own * np.exp(setup + rng.normal(0, within)))

    return hard(results(FACTORS, ["reads"], blocks, response))


def hard(of: Results, *names: str) -> Results:
    factors = tuple(
        replace(factor, hard=factor.name in (names or ("array",))) for factor in of.study.factors
    )
    return replace(of, study=replace(of.study, factors=factors))


# -- the plan ---------------------------------------------------------------------------------


def planned(*factors: Factor, blocks: int = 4, workloads: int = 1) -> list[Trial]:
    made = Study(
        "", "s", (Target("disk", "loop"),),
        tuple(Workload(f"w{number}", "fio", (("rw", "randread"),)) for number in range(workloads)),
        factors, Design(blocks=blocks), DecisionRule(()), digest="0123456789ab",
    )  # fmt: skip
    return list(next_trials(made, (), ()))


def factor(name: str, *labels: str, is_hard: bool = False) -> Factor:
    return Factor(name, "option", tuple(Level(label) for label in labels), hard=is_hard)


def changes(trials: list[Trial], name: str) -> int:
    levels = [dict(trial.treatment)[name] for trial in trials]
    return sum(one != other for one, other in itertools.pairwise(levels))


def test_a_hard_factor_changes_once_a_level_and_block() -> None:
    trials = planned(
        factor("array", "a", "b", "c", is_hard=True), factor("depth", "1", "8"), workloads=2
    )
    assert len(trials) == 4 * 3 * 2 * 2
    for block in (1, 2, 3, 4):
        own = [trial for trial in trials if trial.block == block]
        assert len({(t.workload, t.treatment) for t in own}) == 12
        assert changes(own, "array") == 2
        assert changes(own, "depth") > 2
    orders = {
        tuple(dict.fromkeys(dict(t.treatment)["array"] for t in trials if t.block == block))
        for block in (1, 2, 3, 4)
    }
    assert len(orders) > 1, "the levels come in a random order"


def test_the_first_of_two_hard_factors_changes_least() -> None:
    trials = planned(
        factor("array", "a", "b", is_hard=True), factor("firmware", "x", "y", is_hard=True),
        factor("depth", "1", "8"), blocks=1,
    )  # fmt: skip
    assert changes(trials, "array") == 1
    assert changes(trials, "firmware") in (2, 3)
    assert changes(trials, "depth") > 3


def test_without_a_hard_factor_the_order_is_what_it_was() -> None:
    free = planned(factor("array", "a", "b"), factor("depth", "1", "8"))
    assert changes(free, "array") > 7


def test_plan_says_how_often_it_is_set_up() -> None:
    of = study(3, 1, 0.0).study
    of = replace(of, workloads=(Workload("reads", "fio", (("rw", "randread"),)),))
    notes = " ".join(estimate(of).notes)
    assert (
        "array is hard to change: each of its 2 levels is set up once a block, or 3 times" in notes
    )


# -- the analysis -----------------------------------------------------------------------------


def test_each_contrast_is_in_its_stratum() -> None:
    of = study(2, 1, 0.1)
    cells = tuple(dict.fromkeys(trial.treatment for trial in of.planned))
    plots = whole_plots(of.study, cells)
    assert plots == (0, 0, 0, 1, 1, 1)
    assert stratum(np.array([-1, -1, -1, 1, 1, 1]) / 3, plots) == "whole"
    assert stratum(np.array([-1, 1, 0, -1, 1, 0]) / 2, plots) == "within"
    assert stratum(np.array([-1, 1, 0, 1, -1, 0.0]), plots) == "within"
    assert stratum(np.array([-1, 0, 0, 0, 1, 0.0]), plots) == "blocks"
    assert stratum(np.array([-1, 1.0]), ()) == ""


def test_the_hard_factor_is_a_paired_t_test_of_its_whole_plots() -> None:
    of = study(5, 3, 0.1, effect=1.1)
    found = {(f.factor, f.level): f for f in judge(of).findings}
    means = {
        (block, array): float(
            np.mean(
                [
                    math.log(r.measurements[0].value)
                    for r in of.records
                    if r.trial.block == block and dict(r.trial.treatment)["array"] == array
                ]
            )
        )
        for block in range(1, 6)
        for array in ("old", "new")
    }
    # The family has three comparisons: the hard one's own share of the confidence.
    oracle = stats.ttest_rel(
        [means[block, "new"] for block in range(1, 6)],
        [means[block, "old"] for block in range(1, 6)],
    ).confidence_interval(0.95 ** (1 / 3))
    own = found["array", "new"]
    assert own.low == pytest.approx(math.exp(oracle.low))
    assert own.high == pytest.approx(math.exp(oracle.high))
    assert [(f.factor, f.level) for f in judge(of).findings] == [
        ("array", "new"), ("depth", "8"), ("depth", "32"),
    ]  # fmt: skip


def test_easy_factors_keep_their_small_error() -> None:
    noisy, quiet = judge(study(5, 3, 0.3)), judge(study(5, 3, 0.0))
    ends = [
        {f.level: (f.low, f.high) for f in each.findings if f.factor == "depth"}
        for each in (noisy, quiet)
    ]
    assert ends[0]["8"] == pytest.approx(ends[1]["8"])
    assert "(whole plots)" in noisy.method
    assert "(within whole plots)" in noisy.method


def test_a_lost_trial_does_not_shift_the_hard_factor() -> None:
    """Depth 32 is three times as fast; where it is lost, the whole plot is not slower for it."""

    def response(trial: Trial) -> float | None:
        level = dict(trial.treatment)
        if (trial.block, level["array"], level["depth"]) == (2, "new", "32"):
            return None
        return 1000 * (3.0 if level["depth"] == "32" else 1.0) * 1.01**trial.block

    of = hard(results(FACTORS, ["reads"], 4, response))
    [own] = [f for f in judge(of).findings if f.factor == "array"]
    assert own.ratio == pytest.approx(1.0)


def test_set_ups_that_differ_make_no_false_claims() -> None:
    """300 studies of nothing whose set-ups differ by 10 %: claims on the array in 5 % at most, also
    where nobody said that it is set up once a block: a comparison's own error within blocks has
    what set-ups vary by.  One error for all trials made them in a third."""
    claims = {True: 0, False: 0}
    for seed in range(300):
        of = study(4, seed, 0.1)
        for split in claims:
            findings = judge(of if split else hard(of, "nothing")).findings
            claims[split] += any(f.verdict in ("better", "worse") for f in findings)
    assert max(claims.values()) <= 27, "5 % of 300 are 15; 28 come once in 1,000"


def test_the_shares_have_the_whole_plots() -> None:
    found = {each.source: each for each in shares(study(6, 2, 0.1, effect=1.2))}
    assert found["whole plots",].df == 5
    assert found["residual",].df == 6 * 6 - 6 - 5 - 5
    assert sum(each.plain for each in found.values()) == pytest.approx(1)
    assert found["whole plots",].squares > 20 * found["residual",].squares
