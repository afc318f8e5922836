from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from stats_studies import METRIC, SCHEDULER, noisy, record, results

from iotrial.model.results import Results
from iotrial.stats.responses import (
    autocorrelation,
    drift_doubts,
    noise,
    quantiles,
    spearman,
    summaries,
)

ONE = {"scheduler": ("none", "bfq")}


def test_quantiles_interpolate() -> None:
    assert quantiles([4.0, 1.0, 3.0, 2.0], (0, 0.5, 1)) == (1.0, 2.5, 4.0)


def test_a_treatment_is_summed_up_over_its_blocks() -> None:
    of = results(ONE, ["read"], 3, lambda t: 100.0 * t.block if t.treatment[0][1] == "none" else 7)
    none, bfq = summaries(of)
    assert (none.n, none.mean) == (3, pytest.approx(6 ** (1 / 3) * 100))
    assert none.quartiles == pytest.approx((100, 150, 200, 250, 300))
    assert none.sd == pytest.approx(np.std(np.log([1, 2, 3]), ddof=1))
    assert (bfq.treatment, bfq.sd) == ((("scheduler", "bfq"),), pytest.approx(0, abs=1e-12))


def test_the_paired_sd_is_that_of_log_ratios_within_a_block() -> None:
    of = results(ONE, ["read"], 6, noisy(0.1, 1))
    logs = np.log([r.value(METRIC) or 0 for r in of.records]).reshape(6, 2)
    [found] = noise(of)
    assert found.paired == pytest.approx(np.std(logs[:, 1] - logs[:, 0], ddof=1))
    assert found.trial == pytest.approx(found.paired / math.sqrt(2))
    assert found.df == 5


def test_one_block_has_no_noise_to_report() -> None:
    assert noise(results(ONE, ["read"], 1, noisy(0.1, 1))) == ()


@given(st.lists(st.integers(0, 6).map(float), min_size=5, max_size=30))
def test_the_rank_correlation_is_scipys_ties_included(values: list[float]) -> None:
    if len(set(values)) == 1:
        assert spearman(np.array(values)) == (0.0, 1.0)
        return
    oracle = stats.spearmanr(values, range(len(values)))
    rho, p = spearman(np.array(values))
    assert rho == pytest.approx(oracle.statistic, abs=1e-12)
    assert p == pytest.approx(oracle.pvalue, abs=1e-9)


def test_the_lag_1_autocorrelation_by_hand() -> None:
    lag, p = autocorrelation(np.array([1.0, -1.0, 1.0, -1.0]))
    assert lag == pytest.approx(-0.75)  # three products of -1 over a sum of squares of 4
    assert p == pytest.approx(2 * stats.norm.sf(0.5 * 2))


def drifting(per_trial: float, seed: int = 1) -> Results:
    response = noisy(0.02, seed)
    return results(SCHEDULER, ["read"], 5, lambda t: response(t) * math.exp(per_trial * t.number))


def test_a_steady_loss_is_doubted_and_sized() -> None:
    [doubt] = drift_doubts(drifting(-0.01))
    assert doubt.check == "trend"
    assert not doubt.invalid
    # Every treatment's mean falls with the order within blocks, so 19 % is seen as a little less.
    assert "read: results drifted by about −1" in doubt.what
    assert doubt.advice


def test_a_calm_study_is_not_doubted() -> None:
    assert drift_doubts(drifting(0.0)) == ()


def test_the_order_of_execution_decides_not_that_of_blocks_and_treatments() -> None:
    of = drifting(-0.01)
    rng = np.random.default_rng(8)
    shuffled = tuple(
        record(dataclasses.replace(r.trial, number=int(n)), r.value(METRIC))
        for r, n in zip(of.records, rng.permutation(20) + 1, strict=True)
    )
    assert drift_doubts(of)
    assert not drift_doubts(dataclasses.replace(of, records=shuffled))


def test_a_jump_that_comes_and_goes_is_doubted() -> None:
    response = noisy(0.02, 2)
    of = results(SCHEDULER, ["read"], 6, lambda t: response(t) * (1.3 if t.block % 2 else 1.0))
    [doubt] = drift_doubts(of)
    assert doubt.check == "autocorrelation"
    assert "neighbouring trials are correlated" in doubt.what


@pytest.mark.parametrize("blocks", [1, 2])
def test_too_few_trials_are_not_doubted(blocks: int) -> None:
    assert drift_doubts(results(ONE, ["read"], blocks, lambda t: 1000.0 * t.number)) == ()


def test_equal_numbers_are_not_a_drift() -> None:
    assert drift_doubts(results(SCHEDULER, ["read"], 5, lambda _: 1 / 3)) == ()


def test_nothing_valid_is_not_a_drift() -> None:
    assert drift_doubts(results(SCHEDULER, ["read"], 5, lambda _: None)) == ()


def test_about_one_calm_study_in_a_hundred_is_doubted() -> None:
    rng, doubted = np.random.default_rng(9), 0
    of = results(SCHEDULER, ["a", "b"], 5, lambda _: 1.0)
    for _ in range(600):
        order = rng.permutation(len(of.records)) + 1
        values = np.exp(rng.normal(0, 0.05, len(order)))
        records = tuple(
            record(dataclasses.replace(r.trial, number=int(n)), float(v))
            for r, n, v in zip(of.records, order, values, strict=True)
        )
        doubted += bool(drift_doubts(dataclasses.replace(of, records=records)))
    assert doubted / 600 < 0.02
