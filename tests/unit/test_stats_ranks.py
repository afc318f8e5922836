"""What ranks say beside means, and which treatment is noisier: seen when there, silent when not."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from race_studies import gauss, raced
from scipy import stats as oracle
from stats_studies import SCHEDULER, results

from iotrial.judgement import judge as judge_all
from iotrial.model.results import Results
from iotrial.model.trial import Doubt, Trial
from iotrial.stats.assumptions import (
    hodges_lehmann,
    noise_doubts,
    noisiest,
    rank_doubts,
    residuals,
    robust_sd,
    signed_rank,
)
from iotrial.stats.blocks import BlockLayout
from iotrial.stats.judge import judge

Draw = Callable[[Trial, random.Random], float]
STUDIES = 60


def full(draw: Draw, blocks: int, seed: int, effects: Mapping[str, float] | None = None) -> Results:
    """Complete blocks; ``draw`` gives the noise of a trial, on the log scale."""
    chance = random.Random(seed)
    shift = effects or {}
    return results(
        SCHEDULER,
        ["w"],
        blocks,
        lambda t: 1000 * math.exp(shift.get(t.treatment[0][1], 0.0) + draw(t, chance)),
    )


def doubted(of: Results) -> list[Doubt]:
    return list(rank_doubts(of, judge(of).findings))


def heavy(sd: float) -> Draw:
    """Student's t with two degrees of freedom: no variance at all."""
    return lambda _, chance: sd * chance.gauss(0, 1) / math.sqrt(chance.expovariate(1.0))


# -- ranks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 12, 40, 59, 61, 200])
def test_signed_ranks_agree_with_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.normal(0.3, 1, n)
    method = "exact" if n <= 50 else "asymptotic"
    expected = oracle.wilcoxon(values, method=method, correction=True).pvalue
    assert signed_rank(values) == pytest.approx(expected, rel=1e-9 if n <= 50 else 0.03)


def test_ties_are_counted_out_over_all_signs() -> None:
    values = np.array([1.0, 1.0, -1.0, 2.0, 3.0, 3.0])
    ranks = oracle.rankdata(np.abs(values))
    own = max(ranks[values > 0].sum(), ranks[values < 0].sum())
    sums = [sum(r for r, s in zip(ranks, signs, strict=True) if s)
            for signs in itertools.product((0, 1), repeat=6)]  # fmt: skip
    assert signed_rank(values) == pytest.approx(2 * np.mean([each >= own for each in sums]))
    assert signed_rank(np.zeros(4)) == 1.0


def test_a_wild_value_does_not_move_the_middle() -> None:
    values = np.array([0.9, 1.0, 1.1, 1.0, 0.95, 1.05, -100.0])
    assert hodges_lehmann(values) == pytest.approx(0.975, abs=0.05)
    assert robust_sd(values) < 0.2
    many = np.random.default_rng(1).normal(0, 2, 5000)
    assert robust_sd(many) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("n", [501, 502, 800])
@pytest.mark.parametrize("digits", [1, 15])  # many ties, none
def test_the_middle_of_many_is_that_of_all_their_pairs(n: int, digits: int) -> None:
    values = np.round(np.random.default_rng(n).standard_t(2, n), digits)
    pairs = np.add.outer(values, values)[np.triu_indices(n)] / 2
    middle = np.sort(pairs)[(len(pairs) - 1) // 2 : len(pairs) // 2 + 1]
    assert middle[0] - 1e-12 <= hodges_lehmann(values) <= middle[-1] + 1e-12


# -- where they differ from the means ----------------------------------------------------------


@pytest.mark.parametrize("blocks", [5, 12])
@pytest.mark.parametrize("effects", [{}, {"bfq": -0.03, "kyber": -0.015, "mq-deadline": -0.045}])
def test_normal_noise_raises_no_doubt_in_full_designs(
    blocks: int, effects: dict[str, float]
) -> None:
    draw: Draw = lambda _, chance: chance.gauss(0, 0.02)  # noqa: E731
    alarms = [bool(doubted(full(draw, blocks, seed, effects))) for seed in range(STUDIES)]
    assert np.mean(alarms) <= 0.05


def test_normal_noise_raises_no_doubt_in_races() -> None:
    truth = {"none": 0.0, "mq-deadline": -0.015, "kyber": -0.02, "bfq": -0.03}
    alarms = [bool(doubted(raced(truth, gauss(0.02), blocks=20, seed=seed))) for seed in range(20)]
    assert not any(alarms)


def test_heavy_tails_alone_raise_few_doubts() -> None:
    alarms = [bool(doubted(full(heavy(0.02), 12, seed))) for seed in range(STUDIES)]
    assert np.mean(alarms) <= 0.05


def test_a_mean_that_a_few_stalls_carry_is_doubted() -> None:
    """One trial in four of kyber takes far longer; the others are like the baseline's."""

    def stalls(trial: Trial, chance: random.Random) -> float:
        slow = trial.treatment[0][1] == "kyber" and trial.block % 4 == 0
        return chance.gauss(0, 0.005) - 0.4 * slow

    found = doubted(full(stalls, 40, 1))
    assert [doubt.check for doubt in found] == ["ranks-differ"]
    assert "kyber against none" in found[0].what
    assert "the verdict worse depends on few trials" in found[0].what


def test_a_difference_that_one_wild_block_hides_is_told() -> None:
    def wild(trial: Trial, chance: random.Random) -> float:
        hit = trial.block in {3, 7} and trial.treatment[0][1] in {"none", "kyber"}
        side = 1 if (trial.treatment[0][1] == "kyber") == (trial.block == 3) else -1
        return chance.gauss(0, 0.004) + 0.5 * side * hit

    of = full(wild, 16, 2, {"bfq": -0.06})
    verdicts = {f.level: f.verdict for f in judge(of).findings}
    assert verdicts["bfq"] == "cannot-tell"
    assert any("bfq against none" in d.what and "mask" in d.what for d in doubted(of))


def test_the_kept_against_the_baseline_and_the_reverse_are_doubted_once() -> None:
    def stalls(trial: Trial, chance: random.Random) -> float:
        slow = trial.treatment[0][1] == "kyber" and trial.block % 4 == 0
        return chance.gauss(0, 0.005) - 0.4 * slow

    of = full(stalls, 40, 1)
    found = judge(of).findings
    (worse,) = [each for each in found if each.verdict == "worse"]
    back = dataclasses.replace(
        worse,
        level=worse.baseline,
        baseline=worse.level,
        ratio=1 / worse.ratio,
        verdict="better",
    )
    assert len(list(rank_doubts(of, (*found, back)))) == 1
    (only,) = rank_doubts(of, (back,))
    assert "none against kyber" in only.what


# -- noise -----------------------------------------------------------------------------------


def layout(treatments: int, blocks: int) -> BlockLayout:
    return BlockLayout(
        np.repeat(np.arange(blocks), treatments), np.tile(np.arange(treatments), blocks)
    )


def noise_of(
    scale: tuple[float, ...], blocks: int, rng: np.random.Generator, *, heavy: bool = False
) -> np.ndarray:
    where = layout(len(scale), blocks)
    drawn = rng.standard_t(2, len(where.cell)) if heavy else rng.normal(size=len(where.cell))
    return rng.normal(0, 0.5, blocks)[where.block] + np.array(scale)[where.cell] * drawn


@pytest.mark.parametrize("heavy", [False, True], ids=["normal", "heavy tails"])
@pytest.mark.parametrize(("treatments", "blocks"), [(3, 8), (4, 20), (8, 10)])
def test_equal_noise_is_hardly_ever_doubted(treatments: int, blocks: int, *, heavy: bool) -> None:
    rng, alarms = np.random.default_rng(7), 0
    for seed in range(STUDIES):
        logs = noise_of((0.02,) * treatments, blocks, rng, heavy=heavy)
        found = noisiest(layout(treatments, blocks), logs, seed)
        alarms += found is not None and found.p <= 0.01
    assert alarms / STUDIES <= 0.05


def test_a_treatment_with_three_times_the_noise_is_named() -> None:
    rng, right = np.random.default_rng(8), 0
    for seed in range(20):
        found = noisiest(layout(4, 20), noise_of((0.02, 0.02, 0.06, 0.02), 20, rng), seed)
        right += found is not None and found.p <= 0.01 and found.cell == 2 and found.times > 1.5
    assert right >= 18


def test_residuals_are_those_of_least_squares_with_blocks_of_changing_size() -> None:
    rng = np.random.default_rng(9)
    block = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3, 3])
    cell = np.array([0, 1, 2, 0, 1, 2, 0, 2, 1, 2])
    logs = rng.normal(size=10)
    model = np.column_stack([np.eye(4)[block], np.eye(3)[cell]])
    expected = logs - model @ np.linalg.lstsq(model, logs, rcond=None)[0]
    assert residuals(block, cell, logs) == pytest.approx(expected)


def test_two_treatments_few_trials_and_no_noise_say_nothing() -> None:
    rng = np.random.default_rng(10)
    assert noisiest(layout(2, 30), noise_of((0.02, 0.2), 30, rng)) is None
    assert noisiest(layout(4, 5), noise_of((0.02, 0.02, 0.2, 0.02), 5, rng)) is None
    assert noisiest(layout(4, 12), np.zeros(48)) is None


def test_a_study_with_one_noisy_treatment_has_the_doubt_and_says_which() -> None:
    def unsteady(trial: Trial, chance: random.Random) -> float:
        return chance.gauss(0, 0.05 if trial.treatment[0][1] == "bfq" else 0.01)

    of = judge_all(full(unsteady, 20, 3))
    (doubt,) = [doubt for doubt in of.doubts if doubt.check == "unequal-noise"]
    assert "scheduler=bfq vary about" in doubt.what
    assert not doubt.invalid
    assert list(noise_doubts(full(lambda _, c: c.gauss(0, 0.01), 20, 3))) == []
