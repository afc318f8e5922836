"""The length of a trial: against the least of what it is the least of."""

from __future__ import annotations

import numpy as np
import pytest

from iotrial.stats.noise import FARTHEST, VarianceComponents, advised, optimum, parts, rounded


def test_no_other_length_takes_fewer_hours_for_the_same_precision() -> None:
    found, overhead = VarianceComponents(0.01**2, 0.03**2, told=True), 4.0
    best = optimum(found, overhead)
    lengths = np.linspace(0.5, 60, 2000)
    hours = [found.variance(each) * (overhead + each) for each in lengths]
    assert best == pytest.approx(lengths[int(np.argmin(hours))], abs=0.05)


def test_the_parts_add_up_to_what_trials_vary_by() -> None:
    found = parts((0.02, 0.015), within=0.0008, seconds=4.0)
    assert found.variance(4.0) == pytest.approx(0.02**2)
    assert found.told
    assert not parts((0.02, 0.01), within=0.0008, seconds=4.0).told


def test_the_simulated_trials_tell_the_parts_they_were_made_of() -> None:
    rng = np.random.default_rng(1)
    trials, seconds, between, within = 400, 10, 0.02**2, 0.05**2
    series = np.exp(rng.normal(0, between**0.5, (trials, 1)))
    series = series * (1 + rng.normal(0, within**0.5, (trials, seconds)))
    sd = float(np.log(series.mean(axis=1)).std(ddof=1))
    relative = float(((series / series.mean(axis=1, keepdims=True)).var(axis=1, ddof=1)).mean())
    found = parts((sd, sd * 0.93), relative, seconds)
    assert found.between == pytest.approx(between, rel=0.25)
    assert found.within == pytest.approx(within, rel=0.1)


def test_where_trials_differ_more_than_their_seconds_short_ones_are_advised() -> None:
    steady = VarianceComponents(0.03**2, 0.001**2, told=True)
    found = advised(steady, overhead=1.0, warmup=(0.0, 5.0), seconds=30.0, shortest=2.0)
    assert found.seconds == 2.0
    assert found.hours == pytest.approx(3 / 36, rel=0.05)


def test_where_only_the_seconds_differ_long_ones_are_advised_but_not_beyond_what_was_seen() -> None:
    restless = VarianceComponents(1e-8, 0.1**2, told=False)
    found = advised(restless, overhead=1.0, warmup=(1.0, 1.0), seconds=10.0, shortest=1.0)
    assert found.seconds == FARTHEST * 10
    assert found.hours < 1


def test_trials_that_are_precise_enough_are_not_made_longer() -> None:
    quiet = VarianceComponents(1e-9, 0.001**2, told=False)
    long = advised(quiet, overhead=2.0, warmup=(1.0, 1.0), seconds=10.0, shortest=1.0)
    enough = advised(
        quiet, overhead=2.0, warmup=(1.0, 1.0), seconds=10.0, shortest=1.0, enough=0.01**2
    )
    assert long.seconds == FARTHEST * 10
    assert enough.seconds == 1.0
    assert enough.hours == pytest.approx(4 / 13)


def test_a_series_that_varies_more_than_its_trials_explains_no_more_than_all() -> None:
    found = parts((0.001, 0.0008), within=1.0, seconds=4.0)
    assert found.variance(4.0) == pytest.approx(0.001**2)


def test_without_any_noise_the_shortest_sound_length_is_enough() -> None:
    found = parts((0.0, 0.0), 0.0, 8.0)
    assert optimum(found, 3.0) == 0.0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.31, 0.4), (1.0, 1.0), (2.01, 2.5), (7.4, 7.5), (10.2, 11), (61, 65), (301, 330)],
)
def test_lengths_are_those_that_people_write(seconds: float, said: float) -> None:
    assert rounded(seconds) == said
