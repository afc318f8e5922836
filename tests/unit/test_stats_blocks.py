from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from iotrial.stats.blocks import BlockLayout, Floats, fit, rounding


def complete(blocks: int, cells: int) -> BlockLayout:
    return BlockLayout(np.repeat(np.arange(blocks), cells), np.tile(np.arange(cells), blocks))


def versus_first(cells: int) -> Floats:
    return np.hstack([-np.ones((cells - 1, 1)), np.eye(cells - 1)])


def test_two_cells_in_two_blocks_by_hand() -> None:
    # Differences 0.3 and 0.1: mean 0.2; residuals ±0.05 four times, 1 df: sd = sqrt(0.01) = 0.1.
    got = fit(complete(2, 2), np.array([1.0, 1.3, 5.0, 5.1]), versus_first(2))
    assert got.df == 1
    assert got.estimate == pytest.approx([0.2])
    assert float(got.sd) == pytest.approx(0.1)
    assert got.standard_error == pytest.approx([0.1])  # 0.1 · sqrt(1/2 + 1/2)


def test_two_cells_are_the_paired_t_interval_of_scipy() -> None:
    rng = np.random.default_rng(1)
    base, level = rng.normal(size=(2, 7)) + rng.normal(size=7)
    got = fit(complete(7, 2), np.column_stack([base, level]).ravel(), versus_first(2))
    oracle = stats.ttest_rel(level, base).confidence_interval(0.95)
    low, high = got.interval(float(stats.t.ppf(0.975, got.df)))
    assert np.log([low[0], high[0]]) == pytest.approx([oracle.low, oracle.high])


def test_a_published_randomised_block_experiment() -> None:
    # Penicillin yields, 5 blends (blocks) x 4 processes: Box, Hunter and Hunter (2005), table
    # 4.4.  Their analysis of variance has a residual mean square of 18.8 with 12 df.
    yields = [89, 88, 97, 94, 84, 77, 92, 79, 81, 87, 87, 85, 87, 92, 89, 84, 79, 81, 80, 88]
    got = fit(complete(5, 4), np.array(yields, float), versus_first(4))
    assert got.df == 12
    assert float(got.sd) ** 2 == pytest.approx(18.83, abs=0.01)
    assert got.estimate == pytest.approx([1.0, 5.0, 2.0])


def test_a_complete_design_has_dunnetts_correlation_of_one_half() -> None:
    got = fit(complete(5, 4), np.zeros(20), versus_first(4))
    assert got.correlation == pytest.approx(np.full((3, 3), 0.5) + np.eye(3) / 2)


def test_a_missing_cell_by_hand() -> None:
    # Three cells, two blocks, cell 2 missing in block 1.  Its value there is free, so cell 2 - 0
    # rests on block 0 and the mean effects: d01 = mean(1, 3) = 2; cell 2 = 9 against the mean of
    # cells 0 and 1 of block 0 with d01 = 2: (4 + 5)/2 = 4.5 = m, cell 0 = m - 1 = 3.5: 9 - 3.5.
    layout = BlockLayout(np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1]))
    got = fit(layout, np.array([4.0, 5.0, 9.0, 1.0, 4.0]), versus_first(3))
    assert got.df == 1
    assert got.estimate == pytest.approx([2.0, 5.5])


@given(st.integers(0, 2**32 - 1))
def test_any_holes_agree_with_ordinary_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks, cells = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    full = complete(blocks, cells)
    kept = rng.random(blocks * cells) < 0.8
    kept[:cells] = True  # one complete block connects everything
    layout = BlockLayout(np.unique(full.block[kept], return_inverse=True)[1], full.cell[kept])
    logs = rng.normal(size=kept.sum())
    got = fit(layout, logs, versus_first(cells))
    design = np.hstack([np.eye(layout.block.max() + 1)[layout.block], np.eye(cells)[layout.cell]])
    effects, _, rank, _ = np.linalg.lstsq(design, logs, rcond=None)
    left = logs - design @ effects
    assert got.df == len(logs) - rank
    assert got.estimate == pytest.approx(versus_first(cells) @ effects[-cells:], abs=1e-9)
    if got.df:
        assert float(got.sd) == pytest.approx(np.sqrt(left @ left / got.df), abs=1e-9)
    wide = np.hstack([np.zeros((cells - 1, layout.block.max() + 1)), versus_first(cells)])
    assert got.unit == pytest.approx(wide @ np.linalg.pinv(design.T @ design) @ wide.T, abs=1e-9)


def test_blocks_that_share_no_cell_are_two_experiments() -> None:
    layout = BlockLayout(np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 1, 0, 1, 2, 3, 2, 3]))
    contrasts = np.array([[-1.0, 1, 0, 0], [0, 0, -1, 1]])
    got = fit(layout, np.array([0, 1.0, 0, 3, 0, 5, 0, 5]), contrasts)
    assert got.df == 2  # one from each
    assert got.estimate == pytest.approx([2.0, 5.0])
    assert got.correlation[0, 1] == pytest.approx(0.0)


def test_many_studies_at_once_are_each_their_own_fit() -> None:
    layout, rng = complete(4, 3), np.random.default_rng(2)
    logs = rng.normal(size=(12, 6))
    together = fit(layout, logs, versus_first(3))
    for study in range(6):
        alone = fit(layout, logs[:, study], versus_first(3))
        assert together.estimate[:, study] == pytest.approx(alone.estimate)
        assert together.standard_error[:, study] == pytest.approx(alone.standard_error)


def test_one_block_measures_no_noise() -> None:
    got = fit(complete(1, 3), np.array([1.0, 2.0, 4.0]), versus_first(3))
    assert got.df == 0
    assert got.estimate == pytest.approx([1.0, 3.0])
    assert np.isnan(got.sd)


def test_rounding_never_passes_for_precision() -> None:
    got = fit(complete(3, 2), np.log(np.full(6, 3.3)), versus_first(2))
    low, high = got.interval(2.0)
    assert low[0] < 1 < high[0]


def test_an_absurd_interval_is_still_a_number() -> None:
    got = fit(complete(2, 2), np.array([0.0, 300.0, 0.0, -300.0]), versus_first(2))
    assert np.isfinite(got.interval(1e6)).all()


def test_rounding_is_that_of_the_finest_number() -> None:
    assert rounding([1000.0, 1010.0]) == pytest.approx(1 / math.sqrt(12) / 1005, rel=1e-3)
    assert rounding([14.8, 15.0]) == pytest.approx(0.1 / math.sqrt(12) / 14.9, rel=1e-3)
    assert rounding([4.1e-05]) == pytest.approx(1e-6 / math.sqrt(12) / 4.1e-5)
    assert rounding([14801.234567891]) < 1e-12
    assert rounding([]) == 0.0
