"""Critical values whichever treatment is noisier: against tables, and by simulation.

The Monte-Carlo error of a share near 5 % over 20,000 studies is 0.15 % (one standard deviation);
without --all it is a third of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from stats_studies import Floats

from iotrial.stats.blocks import BlockLayout, fit
from iotrial.stats.critical import Look
from iotrial.stats.unequal import (
    KINDS,
    LEVELS,
    TREATMENTS,
    Kind,
    comparisons,
    critical,
    critical_at,
)

STUDIES = 20_000


def contrasts(kind: Kind, treatments: int) -> Floats:
    first, second = np.triu_indices(treatments, 1)
    if kind == "one":
        first, second = first[: treatments - 1], second[: treatments - 1]
    return np.asarray(np.eye(treatments)[second] - np.eye(treatments)[first])


def value(kind: Kind, treatments: int, blocks: int, level: float = 0.05) -> float:
    return float(critical(kind, treatments, np.array(blocks - 1.0), level))


@pytest.mark.parametrize("blocks", [2, 3, 5, 8, 20, 300])
@pytest.mark.parametrize("level", [0.2, 0.05, 0.01, 1e-6])
def test_two_treatments_are_students_t(blocks: int, level: float) -> None:
    for kind in KINDS:
        assert value(kind, 2, blocks, level) == pytest.approx(
            stats.t.ppf(1 - level / 2, blocks - 1)
        )


@pytest.mark.parametrize("treatments", [3, 4, 8, 16, 32])
def test_of_many_blocks_nearly_what_equal_noise_of_known_size_asks_for(treatments: int) -> None:
    tukey = float(stats.studentized_range.ppf(0.95, treatments, 100_000)) / math.sqrt(2)
    assert tukey * 0.99 < value("pairs", treatments, 256) < 1.04 * tukey
    dunnett = {3: 2.21, 4: 2.35, 8: 2.64, 16: 2.86, 32: 3.06}[treatments]  # Dunnett (1964), ∞ df
    assert dunnett * 0.99 < value("one", treatments, 256) < 1.05 * dunnett


@pytest.mark.parametrize("kind", KINDS)
def test_more_treatments_fewer_blocks_and_a_smaller_level_ask_for_more(kind: Kind) -> None:
    sizes = [value(kind, size, 8) for size in range(2, 70)]
    assert sizes == sorted(sizes)
    blocks = [value(kind, 4, count) for count in (2, 3, 4, 5, 7, 9, 14, 20, 28, 40, 100, 1000)]
    assert blocks == sorted(blocks, reverse=True)
    levels = [value(kind, 4, 8, level) for level in (0.5, *LEVELS, 1e-6)]
    assert levels == sorted(levels)


def test_it_lies_between_one_comparison_and_as_many_as_there_are() -> None:
    for treatments in TREATMENTS:
        for blocks in (3, 5, 8, 16):
            most = stats.t.ppf(1 - 0.025 / comparisons("one", treatments), blocks - 1)
            assert value("one", treatments, blocks) < most
            assert value("one", treatments, blocks) > 0.97 * stats.t.ppf(0.975, blocks - 1)


def test_no_degrees_of_freedom_are_no_interval() -> None:
    assert critical("one", 4, np.array([0.0, 4.0, 0.99]), 0.05)[[0, 2]].tolist() == [math.inf] * 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("treatments", "blocks"), [(3, 3), (4, 5), (5, 7), (8, 4), (8, 16)])
@pytest.mark.parametrize("noisy", [(), (0,), (1,), (1, 2), (0, 1)])
def test_all_intervals_are_right_in_95_of_100_studies(
    kind: Kind,
    treatments: int,
    blocks: int,
    noisy: tuple[int, ...],
    times: Callable[[int], int],
) -> None:
    studies = times(STUDIES)
    layout = BlockLayout(
        np.repeat(np.arange(blocks), treatments), np.tile(np.arange(treatments), blocks)
    )
    rows, rng = contrasts(kind, treatments), np.random.default_rng(7)
    for ratio in (1.5, 3.0, 10.0) if noisy else (1.0,):
        sd = np.ones(treatments)
        sd[list(noisy)] = ratio
        noise = rng.normal(size=(blocks * treatments, studies)) * sd[layout.cell][:, None]
        got = fit(layout, noise, rows)
        limit = critical(kind, treatments, got.own_df, 0.05)[:, None] * got.standard_error
        wrong = float((np.abs(got.estimate) > limit).any(axis=0).mean())
        assert wrong <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / studies), (ratio, wrong)


@pytest.mark.parametrize("noisy", [(), (0,), (4,), (5, 6)])
def test_lost_trials_make_intervals_wider_and_no_claims(noisy: tuple[int, ...]) -> None:
    """Eight of a factorial's 54 trials are lost; its main effects and interactions are judged."""
    cells, blocks, rng = 9, 6, np.random.default_rng(3)
    kept = np.sort(rng.permutation(cells * blocks)[:-8])
    layout = BlockLayout(kept // cells, kept % cells)
    step, mean = np.eye(3)[1:] - np.eye(3)[0], np.full((1, 3), 1 / 3)
    families = (np.kron(step, mean), np.kron(mean, step), np.kron(step, step))
    sd = np.ones(cells)
    sd[list(noisy)] = 4.0
    noise = rng.normal(size=(len(kept), STUDIES)) * sd[layout.cell][:, None]
    for rows in families:
        got = fit(layout, noise, rows)
        assert (got.own_df < blocks - 1).all()
        assert np.allclose((got.own**2).mean(axis=1), got.estimate.var(axis=1), rtol=0.25)
        limit = critical("one", len(rows) + 1, got.own_df, 0.05)[:, None] * got.standard_error
        wrong = float((np.abs(got.estimate) > limit).any(axis=0).mean())
        assert wrong <= 0.05 + 4 * 0.00154, wrong


@pytest.mark.parametrize(
    "seen",
    [("110", "111"), ("0111", "1010", "1101"), ("011", "111", "101", "110"),
     ("1110", "1101", "0111", "1100", "1011"), ("1100", "0101", "0110", "1011", "0100")],
)  # fmt: skip
@pytest.mark.parametrize("ratio", [1.0, 3.0, 5.0, 10.0])
def test_lost_trials_are_no_claims_whichever_treatment_is_noisier(
    seen: tuple[str, ...], ratio: float
) -> None:
    """Small studies that lost up to half of their trials."""
    there = np.array([[mark == "1" for mark in block] for block in seen])
    layout, treatments = BlockLayout(*np.nonzero(there)), there.shape[1]
    rows, rng = contrasts("one", treatments), np.random.default_rng(13)
    for noisy in range(treatments) if ratio > 1 else (0,):
        sd = np.where(np.arange(treatments) == noisy, ratio, 1.0)
        noise = rng.normal(size=(len(layout.block), STUDIES)) * sd[layout.cell][:, None]
        got = fit(layout, noise, rows)
        limit = critical("one", treatments, got.own_df, 0.05)[:, None] * got.standard_error
        wrong = float((np.abs(got.estimate) > limit).any(axis=0).mean())
        assert wrong <= 0.05 + 4 * 0.00154, (noisy, wrong)


def test_of_a_treatment_that_was_measured_once_no_noise_is_known() -> None:
    layout = BlockLayout(*np.nonzero(np.array([[1, 1, 1], [1, 1, 0], [1, 1, 0]])))
    got = fit(layout, np.random.default_rng(1).normal(size=7), contrasts("one", 3))
    assert got.own_df == pytest.approx([2.0, 0.0])
    assert np.isinf(critical("one", 3, got.own_df, 0.05)).tolist() == [False, True]


def test_rounding_takes_no_interval_from_a_contrast() -> None:
    """Own degrees of freedom are none, or 1 and more: one by rounding less had no interval, on the
    processors whose arithmetic rounded so."""
    rng, of_small = np.random.default_rng(1), 0
    for _ in range(300):
        present = rng.random((int(rng.integers(2, 6)), int(rng.integers(2, 8)))) < 0.75
        present = present[present.sum(axis=1) > 1]
        if not present.any(axis=0).all() or not len(present):
            continue
        layout = BlockLayout(*np.nonzero(present))
        got = fit(layout, rng.normal(size=len(layout.block)), contrasts("one", present.shape[1]))
        of_small += int(np.isclose(got.own_df, 1).sum())
        assert ((got.own_df == 0) | (got.own_df >= 1)).all()
    assert of_small > 20


def test_own_errors_of_whole_blocks_are_those_of_paired_t_tests() -> None:
    rng = np.random.default_rng(2)
    layout = BlockLayout(np.repeat(np.arange(7), 4), np.tile(np.arange(4), 7))
    table = rng.normal(size=(7, 4))
    got = fit(layout, table.ravel(), contrasts("pairs", 4))
    for row, own, df in zip(contrasts("pairs", 4), got.own, got.own_df, strict=True):
        oracle = stats.ttest_1samp(table @ row, 0.0)
        assert float(oracle.statistic) == pytest.approx(float((table @ row).mean() / own))
        assert df == 6


@pytest.mark.parametrize("kind", KINDS)
def test_looked_at_after_every_block_no_more_studies_are_wrong(kind: Kind) -> None:
    """Up to 40 blocks of four treatments, one of them noisier."""
    blocks, rows, rng = 40, contrasts(kind, 4), np.random.default_rng(11)
    for sd in ((1, 1, 1, 1), (2, 1, 1, 1), (5, 1, 1, 1), (1, 1, 5, 1)):
        noise = rng.normal(size=(blocks, 4, 4000)) * np.array(sd)[None, :, None]
        wrong = np.zeros(4000, bool)
        for look in range(2, blocks + 1):
            layout = BlockLayout(np.repeat(np.arange(look), 4), np.tile(np.arange(4), look))
            got = fit(layout, noise[:look].reshape(look * 4, -1), rows)
            limit = critical_at(Look(look), kind, 4, got.own_df, 0.05)[:, None] * got.standard_error
            wrong |= (np.abs(got.estimate) > limit).any(axis=0)
        assert wrong.mean() <= 0.05 + 3 * 0.0035, (sd, wrong.mean())


def test_interactions_keep_the_level_at_all_looks() -> None:
    """Of 3 x 3 cells: contrasts that are neither against one treatment nor all pairs."""
    steps = np.eye(3)[1:] - np.eye(3)[0]
    rows, rng = np.kron(steps, steps), np.random.default_rng(9)
    for noisy in (None, 0, 4, 8):
        sd = np.ones(9)
        if noisy is not None:
            sd[noisy] = 5.0
        noise, wrong = rng.normal(size=(24, 9, 4000)) * sd[None, :, None], np.zeros(4000, bool)
        for look in range(2, 25):
            layout = BlockLayout(np.repeat(np.arange(look), 9), np.tile(np.arange(9), look))
            got = fit(layout, noise[:look].reshape(look * 9, -1), rows)
            limit = (
                critical_at(Look(look), "one", 5, got.own_df, 0.05)[:, None] * got.standard_error
            )
            wrong |= (np.abs(got.estimate) > limit).any(axis=0)
        assert wrong.mean() <= 0.05 + 3 * 0.0035, (noisy, wrong.mean())
