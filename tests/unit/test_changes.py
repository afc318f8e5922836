"""Changes of a series of nights: told when there, silent when not, and never by a wild night."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from iotrial.stats.changes import (
    FEWEST,
    YEAR,
    HistoryPoint,
    SeriesHistory,
    among,
    changes,
    threshold,
)
from iotrial.stats.noise import spread

NOISE = 0.02


def normal(seed: int, nights: int = YEAR) -> list[float]:
    return (NOISE * np.random.default_rng(seed).normal(size=nights)).tolist()


def points(logs: Sequence[float], trials: Sequence[int] | None = None) -> list[HistoryPoint]:
    counts = trials or [8] * len(logs)
    return [
        HistoryPoint(float(night), count, log, 0.01)
        for night, (log, count) in enumerate(zip(logs, counts, strict=True))
    ]


def stepped(seed: int, ratio: float, at: int, nights: int) -> list[HistoryPoint]:
    logs = np.array(normal(seed, nights))
    logs[at:] += math.log(ratio)
    return points(logs.tolist())


def confirmed(history: SeriesHistory) -> list[float]:
    return [change.first for change in history.changes if change.state == "confirmed"]


def heavy(seed: int) -> list[float]:
    return (NOISE * np.random.default_rng(seed).standard_t(3, YEAR)).tolist()


def alike(seed: int) -> list[float]:
    """Autoregressive, 0.6 from night to night."""
    drawn = np.random.default_rng(seed).normal(size=YEAR + 100)
    return (NOISE * 0.8 * lfilter([1], [1, -0.6], drawn)[100:]).tolist()


def wild(seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    far = np.where(rng.random(YEAR) < 0.02, rng.choice([-1, 1], YEAR) * 0.2, 0.0)
    return (np.array(normal(seed)) + far).tolist()


@pytest.mark.parametrize("noise", [normal, heavy, alike, wild])
def test_of_series_without_a_change_hardly_any_shows_one_in_a_year(
    noise: Callable[[int], list[float]],
) -> None:
    alarms = sum(bool(confirmed(changes(points(noise(seed))))) for seed in range(20))
    # At 5 % four of twenty or more come about in 1.6 % of all cases.
    assert alarms <= 3


def test_what_would_be_told_at_half_is_not_told_at_a_twentieth() -> None:
    often = sum(bool(confirmed(changes(points(alike(seed)), error=0.9))) for seed in range(12))
    seldom = sum(bool(confirmed(changes(points(alike(seed)), error=0.01))) for seed in range(12))
    assert seldom < often
    assert threshold(0.01) > threshold(0.05) > threshold(0.9)


@pytest.mark.parametrize("ratio", [0.8, 0.9, 1.1, 1.2])
def test_a_step_is_found_with_its_place_and_size(ratio: float) -> None:
    (change,) = changes(stepped(1, ratio, 60, 90), margin=0.02).changes
    assert change.state == "confirmed"
    assert change.earliest <= 60 <= change.latest
    assert abs(change.first - 60) <= 1
    assert change.low < ratio < change.high
    assert change.ratio == pytest.approx(ratio, rel=0.02)
    assert change.told is not None
    assert 62 <= change.told <= 68


def test_intervals_hold_the_place_and_the_size() -> None:
    placed = sized = found = 0
    for seed in range(30):
        history = changes(stepped(100 + seed, 1.05, 50, 90), margin=0.02)
        for change in history.changes[:1]:
            found += 1
            placed += change.earliest <= 50 <= change.latest
            sized += change.low <= 1.05 <= change.high
    assert found >= 28
    assert placed >= found - 4
    assert sized >= found - 4


def test_a_change_for_some_time_is_two_changes() -> None:
    logs = np.array(normal(2, 150))
    logs[60:90] -= 0.15
    first, second = changes(points(logs.tolist()), margin=0.02).changes
    assert (abs(first.first - 60) <= 1, abs(second.first - 90) <= 1) == (True, True)
    assert first.high < 1 < second.low
    assert first.ratio * second.ratio == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("nights", [(60,), (60, 61), (89,), (88, 89)])
def test_wild_nights_are_no_change(nights: tuple[int, ...]) -> None:
    logs = normal(3, 90)
    for night in nights:
        logs[night] += 1.0
    assert not confirmed(changes(points(logs)))


def test_nights_that_were_invalid_or_mostly_doubted_are_left_out() -> None:
    series = points(normal(4, 90))
    spoilt = [dataclasses.replace(each, mean=each.mean + 0.5) for each in series]
    for night in range(60, 66):
        series[night] = dataclasses.replace(spoilt[night], valid=False)
    for night in range(70, 76):
        series[night] = dataclasses.replace(spoilt[night], doubted=5)
    series[80] = dataclasses.replace(spoilt[80], trials=0)
    series[81] = dataclasses.replace(series[81], mean=math.nan)
    history = changes(series)
    assert not history.changes
    assert history.left_out == (*range(60, 66), *range(70, 76), 80, 81)
    assert history.used == 76
    kept = [dataclasses.replace(each, valid=True, doubted=4) for each in spoilt[60:66]]
    assert confirmed(changes([*series[:60], *kept, *series[66:]]))


@pytest.mark.parametrize("nights", [0, 1, 2, 5, FEWEST, FEWEST + 2])
def test_of_few_points_nothing_is_said(nights: int) -> None:
    logs = [0.0] * (nights // 2) + [1.0] * (nights - nights // 2)
    history = changes(points(logs))
    assert not history.changes
    assert (history.sd is None) == (nights < FEWEST)


def test_a_large_step_is_told_after_three_nights_however_short_the_past() -> None:
    series = stepped(5, 1.25, FEWEST, FEWEST + 3)
    (change,) = changes(series).changes
    assert (change.first, change.told, change.state) == (10, 12, "confirmed")
    assert all(c.state == "may be" and c.more == 1 for c in changes(series[:-1]).changes)


def test_a_known_noise_tells_earlier() -> None:
    known = spread(20 * NOISE**2, 20)
    logs = normal(5, 12)
    series = points([*logs[:6], *(log + 0.2 for log in logs[6:])])
    assert not changes(series).changes
    assert confirmed(changes(series, known=known)) == [6]


def test_a_series_that_never_moves_has_no_change_and_a_step_of_it_one() -> None:
    assert not changes(points([1.5] * 60)).changes
    assert confirmed(changes(points([1.5] * 30 + [1.6] * 30), margin=0.02)) == [30]


def test_a_change_within_the_margin_is_not_told() -> None:
    small = points([log / 20 for log in normal(6, 120)])
    moved = [
        dataclasses.replace(each, mean=each.mean + math.log(1.01) * (each.time >= 60))
        for each in small
    ]
    assert confirmed(changes(moved)) == [60]
    assert not changes(moved, margin=0.02).changes
    assert confirmed(changes(moved, margin=0.005)) == [60]


def test_one_that_may_be_says_how_many_nights_will_tell() -> None:
    series = stepped(7, 1.12, 60, 80)
    told = next(night for night in range(61, 80) if confirmed(changes(series[:night], margin=0.02)))
    said = {
        night: change.more
        for night in range(62, told)
        for change in changes(series[:night], margin=0.02).changes
    }
    assert said, "nothing was said before it was confirmed"
    assert all(abs(night + more - told) <= 2 for night, more in said.items())


def test_what_was_told_once_stays_told() -> None:
    logs = np.array(normal(8, 140))
    logs[50:] += 0.08
    logs[90:] -= 0.12
    series = points(logs.tolist())
    before: list[float | None] = []
    for night in range(40, 141, 4):
        now = [c.told for c in changes(series[:night]).changes if c.state == "confirmed"]
        assert now[: len(before)] == before
        before = now
    assert len(before) == 2


def test_a_night_of_few_trials_says_less() -> None:
    logs = normal(9, 90)
    for night in (86, 87, 88, 89):
        logs[night] = 0.12
    every = [dataclasses.replace(each, sd=0.1, trials=20) for each in points(logs)]
    few = [dataclasses.replace(each, trials=1) if each.time >= 86 else each for each in every]
    assert confirmed(changes(every))
    assert not confirmed(changes(few))


@settings(max_examples=15, deadline=None)
@given(shift=st.floats(-20, 20), seed=st.integers(0, 1000), ratio=st.sampled_from([1.0, 0.85, 1.2]))
def test_neither_unit_nor_order_matters(shift: float, seed: int, ratio: float) -> None:
    series = stepped(seed, ratio, 30, 45)
    plain = changes(series, margin=0.02)
    mixed = [dataclasses.replace(each, mean=each.mean + shift) for each in series]
    random.Random(seed).shuffle(mixed)
    other = changes(mixed, margin=0.02)
    assert [(c.first, c.state, c.told, c.more) for c in plain.changes] == [
        (c.first, c.state, c.told, c.more) for c in other.changes
    ]
    for one, two in zip(plain.changes, other.changes, strict=True):
        assert one.ratio == pytest.approx(two.ratio, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000), times=st.floats(0.01, 10), ratio=st.sampled_from([1.0, 0.85, 1.2])
)
def test_only_the_noise_is_a_measure(seed: int, times: float, ratio: float) -> None:
    series = stepped(seed, ratio, 30, 45)
    larger = [
        dataclasses.replace(each, mean=each.mean * times, sd=each.sd * times) for each in series
    ]
    upside = [dataclasses.replace(each, mean=-each.mean) for each in series]
    plain = changes(series).changes
    for other, by in ((changes(larger).changes, times), (changes(upside).changes, -1.0)):
        assert [(c.first, c.told) for c in other] == [(c.first, c.told) for c in plain]
        for one, two in zip(plain, other, strict=True):
            assert math.log(two.ratio) == pytest.approx(by * math.log(one.ratio), rel=1e-5)


def test_many_series_share_the_error() -> None:
    still = [points(normal(200 + seed, 120)) for seed in range(8)]
    moved = [stepped(300 + seed, 0.8, 50, 120) for seed in range(2)]
    for rule, error in (("each", 0.05), ("any", 0.005), ("share", 0.01)):
        found = among([*still, *moved], margin=0.02, rule=rule)
        assert [bool(confirmed(each)) for each in found] == [False] * 8 + [True] * 2
        assert all(each.error == pytest.approx(error) for each in found)
    assert among([]) == ()
    assert not any(confirmed(each) for each in among(still, rule="share"))
