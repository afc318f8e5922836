"""A trial that lies apart is named where there is one, and none where there is none."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from race_studies import FOUR, gauss, raced
from scipy import stats as oracle
from stats_studies import SCHEDULER, noisy, results

from iotrial.judgement import judge as judge_all
from iotrial.model.results import Results
from iotrial.model.trial import Trial
from iotrial.stats.assumptions import LEVEL, leverage, outlier_doubts, outliers
from iotrial.stats.blocks import BlockLayout, Floats

STUDIES = 400
PAIR = {"scheduler": ("none", "kyber")}


def hit(by: dict[int, float], blocks: int = 10, seed: int = 1, factors: object = None) -> Results:
    """Noise of 1 %, and trials by number times what hit them."""
    calm = noisy(0.01, seed)
    chosen = factors if isinstance(factors, dict) else SCHEDULER
    return results(chosen, ["w"], blocks, lambda t: calm(t) * by.get(t.number, 1.0))


def gaps() -> tuple[BlockLayout, Floats]:
    """Blocks of all sizes, as a race or failures leave them."""
    rng = np.random.default_rng(5)
    seen = np.argwhere(rng.random((12, 4)) < 0.7)
    block = np.unique(seen[:, 0], return_inverse=True)[1]
    return BlockLayout(block, seen[:, 1]), rng.normal(0, 0.01, len(seen))


def test_a_trial_that_was_hit_is_named_with_its_treatment_and_what_it_does_to_the_noise() -> None:
    (doubt,) = outlier_doubts(hit({17: 0.775}))
    assert doubt.check == "outlier"
    assert "trial 17 (scheduler=none) is" in doubt.what
    assert "trial 16" not in doubt.what
    assert "The noise of one trial is 4 % with and 0.87 % without it" in doubt.what
    assert not doubt.invalid


def test_two_that_hide_each_other_are_both_named() -> None:
    (doubt,) = outlier_doubts(hit({17: 0.9, 30: 0.91}))
    assert "trial 17 (" in doubt.what
    assert "trial 30 (" in doubt.what


def test_many_are_counted() -> None:
    (doubt,) = outlier_doubts(hit(dict.fromkeys((3, 18, 41, 66), 0.8), blocks=20))
    assert "; and 1 more" in doubt.what


def test_of_a_block_of_two_nobody_can_tell_which() -> None:
    (doubt,) = outlier_doubts(hit({7: 0.8}, blocks=12, factors=PAIR))
    assert "trial 7 or 8, the only other trial of the block," in doubt.what or (
        "trial 8 or 7, the only other trial of the block," in doubt.what
    )


def test_the_doubt_is_among_those_of_a_study_and_leaves_the_findings_alone() -> None:
    of = hit({17: 0.775})
    with_doubts = judge_all(of)
    comparison = with_doubts.comparison
    assert "outlier" in {doubt.check for doubt in with_doubts.doubts}
    assert all(len(finding.trials) == 20 for finding in comparison.findings)


def test_residuals_agree_with_a_fit_without_the_trial() -> None:
    layout, logs = gaps()
    logs[11] -= 0.2
    found, before, after = outliers(layout, logs, LEVEL)
    assert [each.trial for each in found] == [11]
    design = np.hstack([np.eye(layout.block.max() + 1)[layout.block], np.eye(4)[layout.cell]])
    left = np.arange(len(logs)) != 11
    fitted, *_ = np.linalg.lstsq(design[left], logs[left], rcond=None)
    rest = logs - design @ fitted
    df = int(left.sum() - np.linalg.matrix_rank(design[left]))
    spread = np.sqrt((rest[left] ** 2).sum() / df)
    error = spread * np.sqrt(
        1 + design[11] @ np.linalg.pinv(design[left].T @ design[left]) @ design[11]
    )
    assert found[0].away == pytest.approx(rest[11])
    assert found[0].errors == pytest.approx(abs(rest[11]) / error)
    hat = np.diag(design @ np.linalg.pinv(design))
    free = int((hat < 1 - 1e-9).sum())
    assert free < len(logs), "one trial is alone in its block"
    assert found[0].p == pytest.approx(2 * free * oracle.t.sf(found[0].errors, df), rel=1e-6)
    assert after == pytest.approx(spread)
    assert before > after
    assert leverage(layout.block, layout.cell) == pytest.approx(hat)


@pytest.mark.parametrize(("blocks", "cells"), [(3, 4), (5, 5), (12, 2), (40, 3)])
def test_calm_studies_are_doubted_as_rarely_as_it_says(blocks: int, cells: int) -> None:
    rng = np.random.default_rng(blocks)
    block, cell = np.indices((blocks, cells)).reshape(2, -1)
    layout = BlockLayout(block, cell)
    doubted = sum(
        bool(outliers(layout, rng.normal(0, 0.01, blocks * cells), LEVEL)[0])
        for _ in range(STUDIES)
    )
    assert doubted <= oracle.binom.isf(1e-4, STUDIES, LEVEL)


def test_calm_races_are_doubted_rarely_too() -> None:
    races = [raced(FOUR, gauss(0.02), seed=seed) for seed in range(12)]
    assert sum(bool(list(outlier_doubts(race))) for race in races) <= 2


def test_a_stall_of_a_fifth_is_seen_in_nearly_every_study_of_three_per_cent() -> None:
    rng = np.random.default_rng(3)
    block, cell = np.indices((5, 5)).reshape(2, -1)
    seen = 0
    for _ in range(100):
        logs = rng.normal(0, 0.03, 25)
        logs[7] -= 0.25
        seen += 7 in {each.trial for each in outliers(BlockLayout(block, cell), logs, LEVEL)[0]}
    assert seen >= 90


def test_too_few_trials_and_no_noise_say_nothing() -> None:
    assert list(outlier_doubts(results(PAIR, ["w"], 3, noisy(0.01, 1)))) == []
    assert list(outlier_doubts(results(SCHEDULER, ["w"], 5, lambda _: 1 / 3))) == []
    assert list(outlier_doubts(results(SCHEDULER, ["w"], 5, lambda _: None))) == []


def test_the_order_of_records_does_not_matter() -> None:
    of = hit({17: 0.775})
    shuffled = list(of.records)
    random.Random(1).shuffle(shuffled)
    again = dataclasses.replace(of, records=tuple(shuffled))
    assert list(outlier_doubts(again)) == list(outlier_doubts(of))


def test_a_study_of_many_workloads_shares_the_level() -> None:
    calm = noisy(0.01, 1)

    def response(trial: Trial) -> float:
        return calm(trial) * (0.8 if trial.number == 9 else 1.0)

    (doubt,) = outlier_doubts(results(SCHEDULER, ["a", "b"], 6, response))
    assert doubt.what.startswith("a: trial 9 ")
