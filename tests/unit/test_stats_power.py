from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from iotrial.errors import UsageError
from iotrial.stats.blocks import SHARE
from iotrial.stats.power import blocks_needed, excludes, resolvable, within


@pytest.mark.parametrize(
    ("shift", "critical", "df"),
    [(2.5, 2.9, 12), (0.0, 2.2, 3), (20, 12, 1), (1000, 600, 1), (4, 3, 20_000)],
)
def test_power_is_the_integral_over_the_estimated_sd(
    shift: float, critical: float, df: int
) -> None:
    def beyond(z: float) -> float:
        return float(stats.norm.pdf(z) * stats.chi2.cdf(df * ((z + shift) / critical) ** 2, df))

    oracle = quad(beyond, -10, 10, points=(-shift,) if shift < 10 else None, limit=500)[0]
    assert excludes(shift, critical, df, 0) == pytest.approx(oracle, rel=3e-3 if df == 1 else 1e-6)


@pytest.mark.parametrize(
    ("shift", "critical", "df", "rest"),
    [(4.5, 2.4, 30, 0), (3.0, 2.9, 12, 36), (2.0, 4.0, 6, 6), (5.0, 3.3, 4, 8), (6.0, 4.7, 2, 60)],
)
def test_power_is_that_of_simulation(shift: float, critical: float, df: int, rest: int) -> None:
    """Blocks of equally noisy treatments: the comparison's own spread, and the pooled one."""
    rng, count = np.random.default_rng(1), 200_000
    own, others = rng.chisquare(df, count), rng.chisquare(rest, count) if rest else 0.0
    pooled = SHARE**2 * (own + others) / (df + rest)
    half = critical * np.sqrt(np.maximum(own / df, pooled))
    away = rng.normal(size=count)
    told = (np.abs(away + shift) > half).mean()
    assert excludes(shift, critical, df, rest) == pytest.approx(told, abs=0.005)
    inside = (np.abs(away) + half < shift).mean()
    assert within(shift, critical, df, rest) == pytest.approx(inside, abs=0.005)


def test_a_textbook_case() -> None:
    # Paired t-test, alpha 0.05, power 0.8: 34 pairs for a mean difference of half the standard
    # deviation of the differences (a common worked example: G*Power gives 34).
    differences_sd = math.sqrt(2) * 0.01
    assert blocks_needed(math.expm1(0.5 * differences_sd), 0.01, 2, 1, 0.95) == 34


@pytest.mark.parametrize(("blocks", "cells"), [(1, 4), (0, 4), (5, 1)])
def test_what_can_never_be_resolved_is_infinite(blocks: int, cells: int) -> None:
    assert resolvable(0.05, blocks, cells, 3, 0.95) == math.inf


def test_no_noise_resolves_everything() -> None:
    assert resolvable(0.0, 2, 2, 1, 0.95) == 0.0
    assert blocks_needed(0.01, 0.0, 2, 1, 0.95) == 2


def test_one_cell_needs_more_blocks_than_there_are() -> None:
    assert blocks_needed(0.1, 0.05, 1, 1, 0.95) is None


@settings(max_examples=25, deadline=None)
@given(st.floats(0.001, 0.3), st.integers(2, 20), st.integers(2, 6), st.integers(1, 20))
def test_blocks_needed_inverts_resolvable(
    noise: float, blocks: int, cells: int, comparisons: int
) -> None:
    effect = resolvable(noise, blocks, cells, comparisons, 0.95)
    assert blocks_needed(effect * (1 + 1e-9), noise, cells, comparisons, 0.95) == blocks
    assert resolvable(noise, blocks + 1, cells, comparisons, 0.95) < effect


@pytest.mark.parametrize("terms", [(-1, 0.95, 0.8), (0.1, 1.0, 0.8), (0.1, 0.95, 0.04)])
def test_terms_out_of_range_are_refused(terms: tuple[float, float, float]) -> None:
    noise, confidence, power = terms
    with pytest.raises(UsageError):
        resolvable(noise, 5, 4, 3, confidence, power)


def test_no_effect_is_never_resolved() -> None:
    with pytest.raises(UsageError):
        blocks_needed(0.0, 0.05, 2, 1, 0.95)
