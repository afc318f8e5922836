"""Series of known truth: level ones, AR(1), warm-ups that decay, steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from iotrial.stats.noise import (
    Floats,
    averaged,
    change,
    effective_size,
    long_run_variance,
    mser,
    unrest,
    warmup,
)


def ar1(rng: np.random.Generator, n: int, phi: float, sd: float = 1.0) -> Floats:
    """A stationary series of standard deviation ``sd``."""
    found = np.empty(n)
    found[0] = rng.normal()
    for at in range(1, n):
        found[at] = phi * found[at - 1] + math.sqrt(1 - phi**2) * rng.normal()
    return found * sd


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_effective_size_of_an_autoregression_is_the_textbook_one(phi: float) -> None:
    rng = np.random.default_rng(1)
    series = [100 + ar1(rng, 1000, phi) for _ in range(20)]
    expected = 20_000 * (1 - phi) / (1 + phi)
    assert effective_size(series) == pytest.approx(expected, rel=0.12)


def test_the_variance_of_means_is_what_the_series_promised() -> None:
    rng = np.random.default_rng(2)
    series = [ar1(rng, 400, 0.6) for _ in range(600)]
    promised = long_run_variance(series) / 400
    assert np.var([each.mean() for each in series]) == pytest.approx(promised, rel=0.15)


def test_neighbours_that_compensate_are_worth_no_more_than_independent_ones() -> None:
    series = [ar1(np.random.default_rng(3), 500, -0.7)]
    assert effective_size(series) <= 500


def test_too_short_a_series_says_nothing() -> None:
    short = np.array([5.0, 1.0, 1.0])
    assert not warmup(short).points
    assert warmup(short).settled
    assert long_run_variance([short]) == 0.0
    assert not mser(np.zeros(0))[0]


def test_a_series_that_never_changes_has_no_warmup() -> None:
    assert warmup(np.full(50, 7.0)).p == 1.0
    assert effective_size([np.full(50, 7.0)]) == 50.0


@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_level_series_are_seldom_said_to_warm_up(phi: float) -> None:
    rng = np.random.default_rng(4)
    said = sum(warmup(100 + ar1(rng, 100, phi)).points > 0 for _ in range(400))
    assert said <= 16  # 1 % of 400, and a good deal for the correlation


@pytest.mark.parametrize("points", [15, 60])
@pytest.mark.parametrize("trials", [4, 16])
def test_several_short_series_know_together_what_noise_is(points: int, trials: int) -> None:
    rng = np.random.default_rng(11)
    said = 0
    for _ in range(200):
        series = [100 + ar1(rng, points, 0.6) for _ in range(trials)]
        said += warmup(averaged(series), unrest(series)).p < 0.01
    assert said <= 8  # 1 % of 200, and a little for what few know


def test_a_common_course_is_no_noise() -> None:
    rng = np.random.default_rng(12)
    shape = 1 - 0.5 * np.exp(-np.arange(100) / 10)
    trials = [100 * shape * (1 + 0.02 * rng.normal(size=100)) for _ in range(20)]
    assert unrest(trials) == pytest.approx(0.02**2 / 20, rel=0.3)
    assert unrest(trials[:3]) == 0.0


@pytest.mark.parametrize("phi", [0.0, 0.5])
def test_an_exponential_warmup_is_cut_off_and_the_mean_is_right(phi: float) -> None:
    rng = np.random.default_rng(5)
    fading = np.exp(-np.arange(200) / 12)
    cut = [warmup(100 - 40 * fading + ar1(rng, 200, phi, 2)) for _ in range(40)]
    assert all(each.settled for each in cut)
    # At 12·ln(40/2) = 36 points the warm-up is as small as the noise, at 64 a tenth of it.
    assert 20 <= np.median([each.points for each in cut]) <= 75
    assert all(each.ratio < 0.97 for each in cut)
    rest = [100 - 40 * float(fading[each.points :].mean()) for each in cut]
    assert np.mean(rest) == pytest.approx(100, abs=0.6)


def test_a_step_early_on_is_where_the_warmup_ends() -> None:
    rng = np.random.default_rng(6)
    steps = np.where(np.arange(200) < 40, 130.0, 100.0)
    found = [warmup(steps + rng.normal(0, 3, 200)) for _ in range(20)]
    assert sum(40 <= each.points <= 50 and each.settled for each in found) >= 17
    assert found[0].ratio == pytest.approx(1.27, rel=0.05)


def test_a_step_late_in_a_series_is_no_warmup_but_unsettled() -> None:
    rng = np.random.default_rng(7)
    values = np.where(np.arange(200) < 150, 100.0, 80.0) + rng.normal(0, 2, 200)
    assert change(values).at == pytest.approx(150, abs=2)
    assert not warmup(values).settled


def test_a_series_that_climbs_to_its_end_has_not_settled() -> None:
    values = np.linspace(50, 100, 120) + np.random.default_rng(8).normal(0, 1, 120)
    assert not warmup(values).settled


def test_the_average_of_trials_shows_a_warmup_that_none_of_them_shows() -> None:
    rng = np.random.default_rng(9)
    shape = 1 - 0.06 * np.exp(-np.arange(100) / 8)
    trials = [rate * shape * (1 + 0.08 * rng.normal(size=100)) for rate in (50, 80, 90, 120) * 20]
    alone = sum(warmup(each).points > 0 for each in trials)
    assert alone < 20
    assert warmup(averaged(trials)).points >= 5
    assert averaged(trials)[50:].mean() == pytest.approx(1, abs=0.01)


def test_the_average_is_as_long_as_the_shortest_and_leaves_out_what_stood_still() -> None:
    assert len(averaged([np.ones(30), np.ones(20), np.zeros(5)])) == 20
    assert not len(averaged([np.zeros(30)]))
