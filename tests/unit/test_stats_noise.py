"""The noise floor of A/A studies whose noise is known."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from stats_studies import results

from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.stats.noise import (
    Floats,
    NoiseFloor,
    arm_doubts,
    efforts,
    enough,
    first,
    floors,
    spread,
)
from iotrial.stats.power import blocks_needed


def simulated(
    seed: int,
    *,
    blocks: int = 10,
    arms: int = 2,
    within: float = 0.02,
    between: float = 0.0,
    hourly: float = 0.0,
    odd: float = 0.0,
) -> Results:
    """Trials of 60 s one after another, with the first one ``odd`` (log) off."""
    rng = np.random.default_rng(seed)
    shift: Floats = rng.normal(0, between, blocks + 1)
    made = results(
        {"arm": tuple(f"A{n}" for n in range(1, arms + 1))},
        ("load",),
        blocks,
        lambda trial: math.exp(
            8
            + shift[trial.block]
            + rng.normal(0, within)
            + hourly * trial.number / 60
            + odd * (trial.number == 1)
        ),
    )
    timed = (dataclasses.replace(r, started=60.0 * r.trial.number) for r in made.records)
    return dataclasses.replace(made, records=tuple(timed))


def floor(seed: int, **how: float) -> NoiseFloor:
    return floors(simulated(seed, **how))[0]  # type: ignore[arg-type]


def test_the_interval_of_the_noise_holds_the_truth_in_95_of_100_studies() -> None:
    found = [floor(seed, within=0.02, between=0.05).within for seed in range(400)]
    held = sum(each.low <= 0.02 <= each.high for each in found)
    assert 366 <= held <= 393  # 380 ± 3 standard deviations of a binomial
    assert all(each.df == 10 for each in found)


def test_the_interval_of_the_differences_between_blocks_holds_the_truth() -> None:
    found = [floor(seed, within=0.02, between=0.03, arms=3).between for seed in range(400)]
    held = sum(each is not None and each.low <= 0.03 <= each.high for each in found)
    assert held >= 366


def test_without_differences_between_blocks_their_interval_reaches_down_to_nothing() -> None:
    found = [floor(seed).between for seed in range(100)]
    assert sum(each is not None and each.low == 0.0 for each in found) >= 90


def test_drift_is_told_with_its_slope() -> None:
    found = floor(3, within=0.01, hourly=0.5, blocks=20)
    assert found.drift is not None
    assert found.drift.low <= 0.5 <= found.drift.high
    assert found.drift.low > 0
    assert found.drift.p < 0.001
    assert found.lag is not None
    assert found.lag[1] > 0.01  # a straight line is no likeness of neighbours


def test_the_interval_of_the_slope_holds_none_where_there_is_none() -> None:
    drifts = [floor(seed).drift for seed in range(200)]
    assert sum(d is not None and d.low <= 0 <= d.high for d in drifts) >= 180


def test_blocks_that_differ_make_neighbours_alike() -> None:
    found = floor(5, within=0.005, between=0.05, blocks=30)
    assert found.lag is not None
    assert found.lag[0] > 0.2
    assert found.lag[1] < 0.05


def test_an_odd_first_trial_is_seen_and_an_ordinary_one_is_not() -> None:
    seen = floor(6, odd=-0.15).first
    assert seen is not None
    assert seen.p < 0.001
    assert seen.ratio == pytest.approx(math.exp(-0.15), rel=0.05)
    false = sum((odd := floor(seed).first) is not None and odd.p < 0.05 for seed in range(200))
    assert false <= 22


def test_a_single_block_shows_the_noise_and_nothing_between_blocks() -> None:
    found = floor(7, blocks=1, arms=3)
    assert found.between is None
    assert found.drift is None
    assert found.within.df == 2


def test_blocks_of_one_trial_show_no_noise() -> None:
    assert not floors(simulated(8, arms=1))


def test_equal_numbers_have_no_noise_and_break_nothing() -> None:
    found = floor(9, within=0.0)
    assert found.within.sd == 0.0
    assert found.drift is None
    assert first(np.ones(5)).p == 1.0


def test_the_effort_is_what_the_power_calculation_says() -> None:
    found = floor(10)
    table = efforts(found, cells=4, comparisons=3, confidence=0.95)
    assert [each.difference for each in table] == [0.01, 0.02, 0.05, 0.10]
    for each in table:
        assert each.blocks == blocks_needed(each.difference, found.within.sd, 4, 3, 0.95)
        assert each.blocks is not None
        assert each.most is not None
        assert each.most >= each.blocks
        assert each.seconds == each.blocks * 4 * found.seconds
    assert all(a.seconds >= b.seconds for a, b in itertools.pairwise(table))


def test_noise_that_is_low_enough_needs_no_more_than_three_blocks() -> None:
    low = enough(0.02, cells=4, comparisons=3, confidence=0.95)
    assert blocks_needed(0.02, low * 0.99, 4, 3, 0.95) == 3
    assert blocks_needed(0.02, low * 1.01, 4, 3, 0.95) == 4
    assert enough(0.02, cells=1, comparisons=0, confidence=0.95) == 0.0


def test_where_nothing_is_compared_there_is_no_effort_to_tell() -> None:
    assert not efforts(floor(11), cells=1, comparisons=0, confidence=0.95)


def test_the_chi_square_interval_is_that_of_the_textbook() -> None:
    # Ten observations with s² = 1: 9 / 19.023 and 9 / 2.700 (chi-square, 9 degrees of freedom).
    found = spread(9.0, 9)
    assert (found.low**2, found.high**2) == pytest.approx((0.4731, 3.333), rel=1e-3)


@pytest.mark.parametrize(("verdict", "doubted"), [("better", 1), ("worse", 1), ("same", 0)])
def test_arms_that_come_out_different_are_doubted(verdict: str, doubted: int) -> None:
    finding = Finding(
        "load", "read.iops", "arm", "A2", "A", 1.04, 1.01, 1.07, verdict, 10  # type: ignore[arg-type]
    )  # fmt: skip
    assert len(list(arm_doubts((finding,), 0.95))) == doubted
