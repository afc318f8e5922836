"""The size of a step among nights that are alike: its interval holds, and is not too wide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from iotrial.stats.noise import spread
from iotrial.stats.steps import LogStep, log_steps

NIGHTS, AT = 120, 60


def nights(seed: int, keep: float, share: float = 1.0) -> np.ndarray:
    """With a standard deviation of 1; ``share`` of the variance wanders by ``keep`` a night."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=NIGHTS + 200) * math.sqrt(1 - keep**2)
    slow = lfilter([1.0], [1.0, -keep], drawn)[200:]
    return math.sqrt(share) * slow + math.sqrt(1 - share) * rng.normal(size=NIGHTS)


def step(values: np.ndarray, at: int = AT) -> LogStep:
    return log_steps(values, np.ones(len(values)), [at])[0]


@pytest.mark.parametrize(("keep", "share"), [(0.0, 1.0), (0.5, 1.0), (0.8, 1.0), (0.95, 0.3)])
def test_the_interval_holds_the_step_whatever_the_nights_are_like(
    keep: float, share: float
) -> None:
    found = [step(nights(seed, keep, share)) for seed in range(100)]
    held = sum(abs(each.size) <= each.half for each in found)
    # At 95 % fewer than 90 of a hundred hold in 1.1 % of all cases.
    assert held >= 90


def test_nights_that_are_independent_have_a_narrower_interval() -> None:
    white = [step(nights(seed, 0.0)).half for seed in range(20)]
    alike = [step(nights(seed, 0.8)).half for seed in range(20)]
    best = 1.96 * math.sqrt(1 / AT + 1 / (NIGHTS - AT))
    assert best < np.median(white) < 2 * best
    assert np.median(alike) > 2 * np.median(white)


def test_the_size_is_the_difference_of_the_means_weighed_by_trials() -> None:
    values = nights(1, 0.5)
    assert step(values).size == pytest.approx(values[AT:].mean() - values[:AT].mean())
    variances = np.where(np.arange(NIGHTS) == 100, 50.0, 1.0)
    values[100] += 20.0
    (weighed,) = log_steps(values, variances / variances.mean(), [AT])
    assert abs(weighed.size - step(nights(1, 0.5)).size) < 0.05


def test_two_steps_share_what_is_known_of_the_noise() -> None:
    values = nights(2, 0.0)
    values[40:] += 3.0
    values[80:] -= 5.0
    one, two = log_steps(values, np.ones(NIGHTS), [40, 80])
    assert abs(one.size - 3) < one.half < 1.5
    assert abs(two.size + 5) < two.half < 1.5


def test_a_noise_known_before_makes_few_nights_say_more() -> None:
    values = nights(3, 0.0)[:8]
    (alone,) = log_steps(values, np.ones(8), [4])
    (known,) = log_steps(values, np.ones(8), [4], known=spread(40.0, 40))
    assert known.half < alone.half


def test_nights_that_never_differ_have_an_interval_of_what_a_number_can_hold() -> None:
    (found,) = log_steps(np.repeat([1.0, 2.0], 20), np.ones(40), [20], least=1e-9)
    assert found.size == pytest.approx(1)
    assert 0 < found.half < 1e-6
