"""Looking after every block: no more is spent than was allowed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.special import ndtri
from stats_studies import Floats

from iotrial.stats.critical import FIRST, spent, tails
from iotrial.stats.verdict import first_look

LOOKS = 200


def test_all_of_it_is_spent_in_the_end_and_never_more() -> None:
    shares = [spent(n) for n in range(1, 2049)]
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert 0.96 < shares[-1] < 1


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


def crossed(tail: Floats, last: int, step: float) -> float:
    """What a walk without drift crosses the boundary with by block ``last``, on a grid of its own:
    cells of ``step``, of which the boundary takes a part."""
    grid = np.arange(-10.0, 8.0, step)
    density, total = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi), 0.0
    for n in range(FIRST, last + 1):
        if n > FIRST:
            shrunk, sd = math.sqrt((n - 1) / n), 1 / math.sqrt(n)
            carried = np.interp(grid / shrunk, grid, density, left=0.0, right=0.0) / shrunk
            reach = int(6 * sd / step) + 1
            kernel = np.exp(-((np.arange(-reach, reach + 1) * step / sd) ** 2) / 2)
            density = fftconvolve(carried, kernel / kernel.sum(), mode="same")
        below = np.clip((-ndtri(tail[n]) - grid) / step + 0.5, 0.0, 1.0)
        total += float(((1 - below) * density).sum()) * step
        density = density * below
    return total


@pytest.mark.parametrize("level", [0.05, 0.025, 0.005])
def test_on_a_grid_six_times_as_fine_no_more_is_spent_than_was_allowed(level: float) -> None:
    for last in (FIRST, 20, 100):
        assert crossed(tails(level, 256), last, 0.002) == pytest.approx(
            level * spent(last), rel=0.004
        )


def test_a_race_of_two_is_first_looked_at_after_four_blocks() -> None:
    assert [first_look(k) for k in (2, 3, 4, 5, 16)] == [4, 3, 3, 3, 3]
