"""Looking after every block: no more is spent than was allowed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri, stdtrit

from iotrial.stats.critical import FIRST, against_one, critical_at, extremes, spent, tails
from iotrial.stats.verdict import first_look

LOOKS = 200
STUDIES = 6_000


def test_all_of_it_is_spent_in_the_end_and_never_more() -> None:
    shares = [spent(n) for n in range(1, 2049)]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert 0.97 < shares[-1] < 1


def test_nothing_is_asked_before_the_first_look() -> None:
    assert (tails(0.025)[:FIRST] == 0).all()
    assert (tails(0.025)[FIRST:] > 0).all()


def test_the_first_look_asks_for_what_may_be_spent_by_then() -> None:
    assert tails(0.025)[FIRST] == pytest.approx(0.025 * spent(FIRST), rel=1e-3)


@pytest.mark.parametrize("level", [0.05, 0.01])
def test_a_walk_without_drift_crosses_as_often_as_was_spent(level: float) -> None:
    rng, studies = np.random.default_rng(1), 20_000
    walk = rng.normal(size=(studies, LOOKS)).cumsum(axis=1)
    counts = np.arange(1, LOOKS + 1)
    critical = -ndtri(tails(level)[counts])
    crossed = (walk / np.sqrt(counts) > critical).any(axis=1).mean()
    allowed = level * spent(LOOKS)
    assert crossed == pytest.approx(allowed, abs=4 * (allowed / studies) ** 0.5)


@pytest.mark.parametrize("treatments", [2, 4, 8])
def test_equal_treatments_with_estimated_noise_keep_the_level_at_all_looks(
    treatments: int,
) -> None:
    """Student's t takes the place of the normal: the whole range, and all against one."""
    rng = np.random.default_rng(treatments)
    values = rng.normal(size=(STUDIES, LOOKS, treatments))
    values -= values.mean(axis=2, keepdims=True)
    counts = np.arange(1, LOOKS + 1)
    means = values.cumsum(axis=1) / counts[:, None]
    squares = (values**2).sum(axis=2).cumsum(axis=1) - counts * (means**2).sum(axis=2)
    df = (counts - 1) * (treatments - 1)
    looks = counts >= first_look(treatments)
    error = np.sqrt(squares[:, looks] / df[looks] * 2 / counts[looks])
    spread = (means.max(axis=2) - means.min(axis=2))[:, looks] / error
    above = (means - means[:, :, :1]).max(axis=2)[:, looks] / error
    for found, level in (
        (spread, extremes(treatments, 0.05)),
        (above, against_one(treatments - 1, 0.05)),
    ):
        critical = -stdtrit(df[looks], tails(level)[counts[looks]])
        assert (found > critical).any(axis=1).mean() <= 0.05 + 3 * 0.0028


def test_interactions_keep_the_level_at_all_looks() -> None:
    """Of 3 x 3 cells: contrasts that are neither against one treatment nor all pairs."""
    steps = np.eye(3)[1:] - np.eye(3)[0]
    rows = np.kron(steps, steps)
    correlation = rows @ rows.T / 4
    rng, studies, cells = np.random.default_rng(9), 20_000, 9
    sums, squares = np.zeros((studies, cells)), np.zeros(studies)
    missed = np.zeros(studies, np.bool_)
    for look in range(1, 65):
        values = rng.normal(size=(studies, cells))
        values -= values.mean(axis=1, keepdims=True)
        sums, squares = sums + values, squares + (values**2).sum(axis=1)
        if look >= first_look(cells):
            df = (look - 1) * (cells - 1)
            sd = np.sqrt((squares - (sums**2).sum(axis=1) / look) / df)
            largest = np.abs(sums @ rows.T).max(axis=1) / np.sqrt(4 * look) / sd
            missed |= largest > critical_at(look, correlation, df, 0.95).value
    assert 0.03 < missed.mean() <= 0.05 + 3 * 0.00154


def test_fixed_sample_levels_are_those_of_the_tables() -> None:
    """Studentized range 3.633 / sqrt 2 (4 treatments) and Dunnett 2.06 (3 against one), df
    infinite."""
    assert -ndtri(extremes(4, 0.05)) == pytest.approx(3.633 / 2**0.5, abs=2e-3)
    assert -ndtri(against_one(3, 0.05)) == pytest.approx(2.062, abs=2e-3)
    assert extremes(2, 0.05) == 0.025
    assert against_one(1, 0.05) == 0.05


def test_a_race_of_two_is_first_looked_at_after_four_blocks() -> None:
    assert [first_look(k) for k in (2, 3, 4, 5, 16)] == [4, 3, 2, 2, 2]
