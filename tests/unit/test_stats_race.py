"""Races: right, honest at all looks together, and no longer than needed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from iotrial.stats.race import PATIENCE, Race, RaceDesign, ahead, blocks_to_decide

MARGIN = 0.02
STUDIES = 200


def run(
    truth: np.ndarray, sd: float, rng: np.random.Generator, *, most: int = 400, drift: float = 0.0
) -> Race:
    """A race whose responses are ``truth`` (logs) and noise; blocks differ by far more."""
    race = Race(len(truth), MARGIN, 0.95, favourite=0)
    for number in range(most):
        level = rng.normal(0, 0.2)
        order = rng.permutation(len(truth))
        noise = rng.normal(0, sd, len(truth)) + drift * (number * len(truth) + order)
        race.add({each: truth[each] + level + noise[each] for each in race.active})
        if race.decided:
            break
    return race


def claims(race: Race, truth: np.ndarray) -> tuple[bool, bool, bool]:
    """Whether a best one was called worse, something else the same, an interval missed."""
    worse = same = missed = False
    for number, value in enumerate(truth):
        standing, away = race.standing(number), value - truth[race.kept]
        worse |= bool(standing.dropped) and value >= truth.max()
        same |= bool(standing.settled) and abs(away) > race.margin
        missed |= not standing.low - 1e-12 <= away <= standing.high + 1e-12
    return worse, same, missed


CASES = {
    "a pair alike": (np.zeros(2), 0.02),
    "four alike": (np.zeros(4), 0.02),
    "eight alike": (np.zeros(8), 0.015),
    "one best by the margin": (np.array([0.0, -1.001, -1.001, -1.001]) * math.log1p(MARGIN), 0.02),
    "two and two": (np.array([0.0, 0.0, -1.001, -1.001]) * math.log1p(MARGIN), 0.015),
    "two of three lower": (np.array([0.0, -1.001, -1.001]) * math.log1p(MARGIN), 0.02),
    "all but the last lower": (
        np.array([-1.001, -1.001, -1.001, 0.0]) * math.log1p(MARGIN),
        0.02,
    ),
    "one lower": (np.array([0.0, 0.0, 0.0, -1.001]) * math.log1p(MARGIN), 0.015),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_claims_and_missed_truths_stay_within_the_confidence(case: str) -> None:
    """At the worst places, over whole races: 5 %, and three standard errors of 200 studies."""
    truth, sd = CASES[case]
    rng = np.random.default_rng(len(case))
    seen = [claims(run(truth, sd, rng), truth) for _ in range(STUDIES)]
    limit = 0.05 + 3 * 0.0154
    assert np.mean([worse or same for worse, same, _ in seen]) <= limit
    assert np.mean([missed for _, _, missed in seen]) <= limit


def test_every_look_counts_together(times: Callable[[int], int]) -> None:
    """The intervals of all looks hold at once, in 95 % of races that never stop early."""
    studies = times(STUDIES)
    rng, truth, wrong = np.random.default_rng(3), np.array([0.0, 0.0, 0.0]), 0
    for _ in range(studies):
        race = Race(3, 1e-6, 0.95)  # nothing is ever the same
        for _ in range(60):
            race.add({each: rng.normal(0, 0.05) for each in range(3)})
        missed = any(
            seen is not None and abs(seen) > half
            for look in race.looks
            for seen, half in zip(look.estimate, look.half, strict=True)
            if math.isfinite(half)
        )
        wrong += missed
    assert truth.sum() == 0
    assert wrong / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)


NOISY = {
    "the baseline": (5.0, 1.0, 1.0, 1.0),
    "the baseline a little": (1.5, 1.0, 1.0, 1.0),
    "another": (1.0, 5.0, 1.0, 1.0),
    "another a little": (1.0, 2.0, 1.0, 1.0),
    "two": (3.0, 1.0, 1.0, 3.0),
}


@pytest.mark.parametrize("case", NOISY)
def test_whichever_treatment_is_noisier_few_races_of_equals_drop_one(
    case: str, times: Callable[[int], int]
) -> None:
    """And what any look showed of the kept one of that moment holds the truth."""
    sd, rng, dropped, missed = np.array(NOISY[case]) * 0.01, np.random.default_rng(21), 0, 0
    studies = times(600)
    for _ in range(studies):
        race = Race(4, MARGIN, 0.95, favourite=0)
        while race.active and race.blocks < 40:
            noise = rng.normal(0, sd)
            race.add({each: noise[each] for each in race.active})
        dropped += any(race.standing(each).dropped for each in range(4))
        missed += any(
            math.isfinite(half) and abs(seen) > half
            for look in race.looks
            for seen, half in zip(look.estimate, look.half, strict=True)
        )
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)
    assert dropped / studies <= limit
    assert missed / studies <= limit


@pytest.mark.parametrize("sd", [(1, 1, 1), (3, 1, 1), (1, 1, 3), (1, 1, 1, 1), (3, 1, 1, 1)])
@pytest.mark.parametrize("best", [0, 2])
def test_where_a_winner_is_asked_for_one_that_is_beaten_by_the_margin_is_rare(
    sd: tuple[int, ...], best: int, times: Callable[[int], int]
) -> None:
    """All the others are worse than the best by just more than the margin."""
    size, studies, wrong = len(sd), times(600), 0
    truth = np.where(np.arange(size) == best, 0.0, -1.0001 * math.log1p(MARGIN))
    rng = np.random.default_rng(31)
    for _ in range(studies):
        race = Race(size, MARGIN, 0.95, favourite=0, goal="winner")
        while race.active and race.blocks < 150:
            noise = rng.normal(0, 0.02 * np.array(sd))
            race.add({each: truth[each] + noise[each] for each in race.active})
        wrong += race.decided and race.kept != best
    assert wrong / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)


def test_a_winner_is_held_sooner_and_the_others_need_not_be_told() -> None:
    truth, took = np.array([0.0, -0.012, -0.012, -0.015]), {"all": 0, "winner": 0}
    for seed in range(20):
        for goal in ("all", "winner"):
            rng, race = np.random.default_rng(seed), Race(4, MARGIN, 0.95, favourite=0, goal=goal)
            while race.active and race.blocks < 400:
                noise = rng.normal(0, 0.01, 4)
                race.add({each: truth[each] + noise[each] for each in race.active})
            assert race.decided
            took[goal] += race.trials
    assert took["winner"] < took["all"] / 1.5
    assert not all(race.standing(each).same for each in (1, 2, 3)), "nobody has shown that"
    for each in (1, 2, 3):
        standing = race.standing(each)
        assert standing.dropped or (standing.settled and standing.high <= race.margin)


def test_what_a_winner_would_still_take_is_less() -> None:
    every, winner = (RaceDesign(4, math.log1p(MARGIN), 0.95, goal) for goal in ("all", "winner"))
    for ahead_by in (0.0, 0.005, 0.01, 0.015):
        held, told = (blocks_to_decide(terms, ahead_by, 0.02) for terms in (winner, every))
        assert held < told or (held == told and not ahead_by)


def test_one_trial_in_five_that_is_slow_drops_no_equal(times: Callable[[int], int]) -> None:
    rng, dropped, studies = np.random.default_rng(22), 0, times(STUDIES)
    for _ in range(studies):
        race = Race(4, MARGIN, 0.95, favourite=0)
        while race.active and race.blocks < 40:
            slow = -math.log(1.5) * (rng.random(4) < 0.2)
            race.add({each: slow[each] + rng.normal(0, 0.01) for each in race.active})
        dropped += any(race.standing(each).dropped for each in range(4))
    assert dropped / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)


def test_a_clear_winner_is_kept_after_few_blocks_and_the_rest_is_dropped() -> None:
    race = run(np.array([0.0, -0.3, 0.2, -0.4]), 0.01, np.random.default_rng(1))
    assert race.decided
    assert race.kept == 2
    assert race.blocks <= 4
    assert all(race.standing(each).dropped for each in (0, 1, 3))
    assert race.standing(1).high < 0


def test_equals_end_as_the_same() -> None:
    race = run(np.array([0.0, 0.001, -0.001]), 0.005, np.random.default_rng(2))
    assert race.decided
    others = [each for each in range(3) if each != race.kept]
    assert all(race.standing(each).settled for each in others)
    assert all(abs(race.standing(each).low) <= race.margin for each in others)


def test_among_equals_that_end_together_the_favourite_is_kept() -> None:
    race = Race(3, 0.5, 0.95, favourite=2)
    rng = np.random.default_rng(9)
    while race.active:
        race.add({each: rng.normal(0, 0.001) for each in race.active})
    assert race.kept == 2


def test_what_is_decided_rests() -> None:
    race = Race(3, MARGIN, 0.95)
    rng = np.random.default_rng(4)
    for _ in range(12):
        race.add({each: (0.0, 0.004, -1.0)[each] + rng.normal(0, 0.03) for each in race.active})
    assert 2 not in race.active
    assert race.standing(2).blocks < 12
    assert race.trials < 36


def test_a_slow_drift_of_the_machine_changes_no_verdict() -> None:
    """A trend of half a standard deviation a trial falls on all treatments alike."""
    truth, rng = np.array([0.0, 0.06, 0.0]), np.random.default_rng(6)
    kept = [run(truth, 0.02, rng, drift=0.01).kept for _ in range(40)]
    assert kept.count(1) >= 38


def test_a_step_in_mid_study_changes_no_verdict() -> None:
    rng, right = np.random.default_rng(7), 0
    for _ in range(40):
        race = Race(3, MARGIN, 0.95)
        for block in range(60):
            level = 0.0 if block < 4 else -0.5
            truth = (0.0, 0.04, 0.0)
            race.add({each: level + truth[each] + rng.normal(0, 0.02) for each in race.active})
            if race.decided:
                break
        right += race.kept == 1
    assert right >= 38


def test_larger_differences_take_fewer_trials() -> None:
    """A power curve: the mean number of trials falls as the gap grows."""
    rng = np.random.default_rng(8)
    means = [
        np.mean([run(np.array([0.0, -gap, -gap]), 0.03, rng).trials for _ in range(40)])
        for gap in (0.03, 0.06, 0.12)
    ]
    assert means[0] > 2 * means[1] > 3 * means[2] / 2


def test_power_rises_with_the_gap_and_the_blocks() -> None:
    """How many of 60 races know the best of four after so many blocks."""
    rng, seen = np.random.default_rng(10), {}
    for gap in (0.0, 0.04, 0.08):
        for blocks in (3, 12):
            truth = np.array([0.0, -gap, -gap, -gap])
            races = [run(truth, 0.03, rng, most=blocks) for _ in range(60)]
            seen[gap, blocks] = sum(each.decided and each.kept == 0 for each in races)
    assert seen[0.0, 12] <= 3
    assert seen[0.08, 3] < seen[0.08, 12]
    assert seen[0.04, 3] < seen[0.04, 12] < seen[0.08, 12]
    assert seen[0.08, 12] >= 57


@pytest.mark.parametrize("kind", ["heavy", "drift"])
def test_intervals_cover_where_tails_are_heavy_and_where_a_trend_runs(kind: str) -> None:
    """Student's t with 3 degrees of freedom scaled to the noise; half a noise a block."""
    truth, rng, missed = np.array([0.0, 0.03, -0.01, 0.0]), np.random.default_rng(len(kind)), 0
    for _ in range(STUDIES):
        race = Race(4, MARGIN, 0.95)
        for block in range(30):
            noise = rng.standard_t(3, 4) * 0.02 / math.sqrt(3)
            if kind == "drift":
                noise = rng.normal(0, 0.02, 4) + 0.0025 * (4 * block + rng.permutation(4))
            race.add({each: truth[each] + noise[each] for each in race.active})
            if race.decided:
                break
        missed += claims(race, truth)[2]
    assert missed / STUDIES <= 0.05 + 3 * 0.0154


def test_a_treatment_that_never_gives_a_number_is_lost_and_the_race_goes_on() -> None:
    race = Race(3, MARGIN, 0.95)
    rng = np.random.default_rng(5)
    for _ in range(40):
        race.add({each: -0.3 * each + rng.normal(0, 0.01) for each in race.active if each != 2})
        if race.decided:
            break
    assert race.decided
    assert race.standing(2).lost
    assert race.standing(1).dropped
    assert race.blocks >= PATIENCE


def test_a_treatment_that_falls_silent_for_good_does_not_keep_the_race_open() -> None:
    """It gave numbers at first, so that nothing is claimed of it but that it is out."""
    race = Race(3, MARGIN, 0.95)
    rng = np.random.default_rng(5)
    while race.active and race.blocks < 200:
        silent = 2 if race.blocks >= 3 else None
        level = (0.0, -0.3, 0.001)
        race.add(
            {each: level[each] + rng.normal(0, 0.03) for each in race.active if each != silent}
        )
    assert race.decided
    assert race.blocks <= 3 + PATIENCE
    assert race.standing(2).lost
    assert not race.standing(2).dropped
    assert not race.standing(2).settled
    assert race.standing(1).dropped


def test_a_silence_that_ends_is_forgiven() -> None:
    race = Race(2, MARGIN, 0.95)
    for number in range(4 * PATIENCE):
        here = (0,) if number % PATIENCE else (0, 1)
        race.add({each: 0.001 * number * each for each in here}, (0, 1))
    assert not race.standing(1).lost


def settled_pair() -> Race:
    """1 is the same as 0; 2 waits for its first trial."""
    race, rng = Race(3, MARGIN, 0.95, favourite=0), np.random.default_rng(14)
    while not race.standing(1).settled:
        race.add({each: rng.normal(0, 0.001) for each in (0, 1)}, (0, 1))
    assert race.kept == 0
    assert not race.decided
    return race


def test_what_is_dropped_is_no_longer_the_same() -> None:
    race = settled_pair()
    race.drop(1)
    assert race.standing(1).dropped
    assert not race.standing(1).settled


def test_a_settled_one_that_is_proven_worse_is_not_called_the_same_too() -> None:
    """Within the margin and truly worse: after long enough both are known, and one is said."""
    race, both = Race(2, 0.05, 0.95, favourite=0), False
    rng = np.random.default_rng(15)
    for _ in range(60):
        race.add({0: rng.normal(0, 0.005), 1: -0.02 + rng.normal(0, 0.005)}, (0, 1))
        both |= bool(race.standing(1).dropped and race.standing(1).settled)
    assert race.standing(1).dropped
    assert not both


def test_without_anybody_who_may_be_kept_the_favourite_is_the_reference() -> None:
    race = settled_pair()
    race.waiting = {1, 2}
    race.drop(0)
    assert race.kept == 0
    assert not any(race.standing(each).settled for each in range(3))
    other = Race(2, MARGIN, 0.95, favourite=0)
    rng = np.random.default_rng(16)
    for _ in range(4):
        other.add({0: rng.normal(0, 0.01), 1: 1 + rng.normal(0, 0.01)})
    assert other.kept == 1
    other.waiting = {0}
    other.drop(1)
    assert other.kept == 0


def test_exact_values_without_any_noise_are_decided() -> None:
    race = Race(2, MARGIN, 0.95)
    for _ in range(4):
        race.add({0: 1.0, 1: 1.5})
    assert race.decided
    assert race.kept == 1


def test_one_treatment_is_no_race() -> None:
    with pytest.raises(ValueError, match="a race of 1"):
        Race(1, MARGIN, 0.95)


def test_a_look_holds_the_differences_from_every_treatment() -> None:
    """Told against any of them, also one that did not lead then, they are the same."""
    race = Race(3, 1e-6, 0.95)
    rng = np.random.default_rng(11)
    values = []
    for _ in range(12):
        values.append(rng.normal((0.0, 0.01, 0.02), 0.02))
        race.add(dict(enumerate(values[-1])))
    for look in race.looks:
        means = np.mean(values[: look.block], axis=0)
        assert look.estimates == pytest.approx(means[:, None] - means[None, :])
        assert look.estimate == tuple(look.estimates[:, look.kept])
        assert look.halves[0, 1] == pytest.approx(look.halves[1, 0])


@pytest.mark.parametrize(("gap", "sd"), [(0.0, 0.02), (0.03, 0.02), (0.1, 0.03)])
def test_the_blocks_said_to_be_needed_are_those_that_races_take(gap: float, sd: float) -> None:
    """Expected from truth and noise: within a factor of two of what races of a pair take."""
    rng = np.random.default_rng(12)
    took = [run(np.array([0.0, -gap]), sd, rng).blocks for _ in range(60)]
    said = blocks_to_decide(RaceDesign(2, math.log1p(MARGIN), 0.95), gap, sd)
    assert 0.5 <= said / np.mean(took) <= 2


def test_an_open_race_says_what_it_still_needs_and_a_decided_one_nothing() -> None:
    race, terms = Race(3, MARGIN, 0.95), RaceDesign(3, math.log1p(MARGIN), 0.95)
    assert ahead(race, terms) == {}
    rng = np.random.default_rng(13)
    for _ in range(3):
        race.add({each: -0.3 * (each == 2) + rng.normal(0, 0.01) for each in race.active})
    first = ahead(race, terms)
    assert set(first) == {each for each in race.active if each != race.kept}
    assert min(first.values()) > 1
    while not race.decided:
        race.add({each: rng.normal(0, 0.01) for each in race.active})
    assert ahead(race, terms) == {}
