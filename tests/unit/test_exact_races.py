"""Races with an exact guarantee: right under any noise, by bets on signs."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from race_studies import FOUR, gauss, raced, study
from stats_studies import with_metric

from iotrial.errors import StudyError
from iotrial.judgement import judge
from iotrial.model.results import Results
from iotrial.plan.aa import as_aa
from iotrial.plan.estimate import estimate
from iotrial.plan.load import parse_study
from iotrial.stats.bets import SignBets, interval, likely_blocks, lower_ends
from iotrial.stats.blocks import ARITHMETIC, Floats
from iotrial.stats.race import ExactRace, RaceDesign, blocks_to_decide
from iotrial.stats.race import raced as races_of

SD, MARGIN, MOST = 0.02, 0.02, 40
Draw = Callable[[np.random.Generator, int], Floats]
"""(blocks, treatments), on the log scale."""


def outliers(rng: np.random.Generator, size: int) -> Floats:
    return rng.normal(0, SD, (MOST, size)) * np.where(rng.random((MOST, size)) < 0.02, 20, 1)


def stalls(rng: np.random.Generator, size: int) -> Floats:
    return rng.normal(0, SD / 5, (MOST, size)) - 0.4 * (rng.random((MOST, size)) < 0.2)


def noisier(rng: np.random.Generator, size: int) -> Floats:
    noise = rng.normal(0, SD, (MOST, size))
    noise[:, 1] *= 5
    return noise


def slow_walk(rng: np.random.Generator, size: int) -> Floats:
    """Drift within blocks and over them, and random order in each."""
    walk = np.cumsum(rng.normal(0, SD / 2, MOST * size)).reshape(MOST, size)
    return rng.permuted(walk, axis=1)


NOISES: dict[str, Draw] = {
    "normal": lambda rng, size: rng.normal(0, SD, (MOST, size)),
    "t2": lambda rng, size: SD / 2 * rng.standard_t(2, (MOST, size)),
    "outliers": outliers,
    "stalls": stalls,
    "one noisier": noisier,
    "a slow walk": slow_walk,
}


def run(truth: Floats, noise: Floats) -> ExactRace:
    race = ExactRace(len(truth), MARGIN, 0.95, favourite=0)
    for row in noise + truth:
        race.add({each: float(row[each]) for each in race.active})
        if race.decided:
            break
    return race


def wrong(race: ExactRace, truth: Floats) -> bool:
    """Whether a best one was dropped, something else called the same, or an interval at any look
    does not hold the truth."""
    for number, value in enumerate(truth):
        standing, away = race.standing(number), value - truth[race.kept]
        if standing.dropped and value >= truth.max():
            return True
        if standing.same and abs(away) > race.margin:
            return True
    apart = truth[:, None] - truth[None, :]
    return any(
        bool((np.abs(look.estimates - apart) > look.halves + 1e-9)[np.isfinite(look.halves)].any())
        for look in race.looks
    )


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "truth", [np.zeros(3), np.array([0, -1.001, -1.001]) * math.log1p(MARGIN)], ids=["tie", "apart"]
)
def test_few_races_are_wrong_in_any_noise(noise: str, truth: Floats) -> None:
    """5 %, and three standard errors of 40 races."""
    rng = np.random.default_rng(1)
    found = [wrong(run(truth, NOISES[noise](rng, 3)), truth) for _ in range(40)]
    assert np.mean(found) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 40)


@pytest.mark.parametrize("truth", [0.0, 0.3])
def test_what_bets_have_is_1_on_average_whatever_the_sizes_are(truth: float) -> None:
    """Over all signs of seven differences: the share of them against which exp(needed) was won is
    at most exp(-needed), for each end."""
    rng = np.random.default_rng(2)
    sizes = np.abs(rng.standard_t(1, 7)) + 0.1
    for needed in (math.log(4), math.log(20)):
        beyond = 0
        for signs in itertools.product((-1.0, 1.0), repeat=7):
            low, _ = interval(tuple(truth + sizes * np.array(signs)), math.exp(-needed))
            beyond += low > truth
        assert beyond / 2**7 <= math.exp(-needed)


def test_an_interval_is_the_same_from_the_other_side_and_moves_with_its_numbers() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0.5, 1, 30)
    low, high = interval(tuple(values), 0.025)
    assert low < 0.5 < high
    assert interval(tuple(-values), 0.025) == (-high, -low)
    moved = interval(tuple(values + 3), 0.025)
    assert moved == pytest.approx((low + 3, high + 3), abs=1e-6)
    assert interval(tuple(values[:4]), 0.025) == (-math.inf, math.inf), "16 signs cannot show 1/40"


def test_what_was_won_falls_as_the_difference_in_question_rises() -> None:
    """So that bisection finds the one place where it is exp(needed)."""
    values = np.random.default_rng(4).standard_t(2, (25, 1))
    bets = SignBets(2)
    for value in values[:, 0]:
        bets.add([0, 1], np.array([value, 0.0]), ARITHMETIC)
    needs = np.linspace(0.5, 6, 12)
    ends = [float(lower_ends(values, bets._spreads[:, 0, 1][:, None], need)[0]) for need in needs]
    assert ends == sorted(ends, reverse=True)


def test_a_treatment_that_comes_in_later_is_told_by_the_blocks_it_shares() -> None:
    race, rng = ExactRace(3, MARGIN, 0.95, favourite=0), np.random.default_rng(5)
    for block in range(40):
        here = (0, 1) if block < 10 else tuple(race.active)
        noise = rng.normal(0, SD, 3) + rng.normal(0, 1)
        race.add({each: (0.0, -0.3, -0.3)[each] + noise[each] for each in here}, here)
        if race.decided:
            break
    assert race.standing(1).dropped < race.standing(2).dropped
    assert race.kept == 0
    assert race.decided


def test_repeats_without_any_noise_take_as_many_blocks_as_signs_need() -> None:
    race = ExactRace(2, MARGIN, 0.95, favourite=0)
    while not race.decided:
        race.add({0: 0.0, 1: -0.5})
    assert race.standing(1).dropped == race.blocks
    assert math.log2(2 / 0.05) < race.blocks <= math.log2(2 / 0.05 * 4) + 1


def test_it_costs_at_most_three_times_the_trials_and_less_where_tails_are_heavy() -> None:
    truth = np.array([0.0, -0.03, -0.05])

    def trials(draw: Draw, exact: str) -> float:
        rng, spent = np.random.default_rng(6), []
        for _ in range(15):
            if exact == "exact":
                spent.append(run(truth, draw(rng, 3)).trials)
            else:
                race = ExactRace.__base__(3, MARGIN, 0.95, favourite=0)
                for row in draw(rng, 3) + truth:
                    race.add({each: float(row[each]) for each in race.active})
                    if race.decided:
                        break
                spent.append(race.trials)
        return float(np.mean(spent))

    assert trials(NOISES["normal"], "exact") <= 3 * trials(NOISES["normal"], "normal")
    assert trials(outliers, "exact") <= 2 * trials(outliers, "normal")


@pytest.mark.parametrize(("gap", "sd"), [(0.03, 0.02), (0.0, 0.01), (0.2, 0.005)])
def test_the_forecast_is_about_what_it_takes(gap: float, sd: float) -> None:
    terms = RaceDesign(2, math.log1p(MARGIN), 0.95, "all", "exact")
    said = blocks_to_decide(terms, gap, sd)
    taken = []
    for seed in range(15):
        rng, race = np.random.default_rng(seed), ExactRace(2, MARGIN, 0.95, favourite=0)
        while not race.decided and race.blocks < 400:
            race.add({0: rng.normal(0, sd), 1: rng.normal(-gap, sd)})
        taken.append(race.blocks)
    assert 0.5 * np.median(taken) <= said <= 2 * np.median(taken)
    assert likely_blocks(0.0, 5.0) > 10**6


# -- in a study ------------------------------------------------------------------------------------


def exact(of: Results) -> Results:
    decide = dataclasses.replace(of.study.decide, guarantee="exact")
    return dataclasses.replace(of, study=dataclasses.replace(of.study, decide=decide))


def test_a_study_says_what_its_claims_rest_on_and_every_estimate_is_in_its_interval() -> None:
    told = judge(exact(raced(FOUR, gauss(0.01), blocks=60, goal="all")))
    comparison = told.comparison
    assert "no claim is wrong, at any look, whatever the noise." in comparison.method
    assert "standard error" not in comparison.method
    for finding in comparison.findings:
        if finding.low is not None and finding.high is not None:
            assert finding.low <= finding.ratio <= finding.high


def test_guardrails_and_the_second_family_are_exact_too() -> None:
    of = raced(FOUR, gauss(0.01), blocks=60)
    of = with_metric(of, "read.clat.p99", lambda r: 1 / r.measurements[0].value)
    decide = dataclasses.replace(of.study.decide, guardrails=(("read.clat.p99", 0.1),))
    plain = dataclasses.replace(of, study=dataclasses.replace(of.study, decide=decide))
    cells = {"w": of.study.treatments("w")}
    (usual,) = races_of(plain.study, cells, plain.records)
    (sure,) = races_of(exact(plain).study, cells, plain.records)
    assert isinstance(sure.race, ExactRace)
    assert not isinstance(usual.race, ExactRace)
    assert usual.broken[3] == ("read.clat.p99",)
    assert usual.race.standing(3).dropped < 6 <= sure.race.standing(3).dropped or not sure.broken[3]
    decide = dataclasses.replace(of.study.decide, secondary=(("w", "read.clat.p99"),))
    both = dataclasses.replace(of, study=dataclasses.replace(of.study, decide=decide))
    wide, narrow = (
        {f.level: f for f in judge(each).comparison.secondary} for each in (exact(both), both)
    )
    assert wide["bfq"].low is None or (wide["bfq"].low, wide["bfq"].high) != (
        narrow["bfq"].low,
        narrow["bfq"].high,
    )


def test_a_plan_expects_it_to_take_longer() -> None:
    usual = study(FOUR)
    sure = dataclasses.replace(usual, decide=dataclasses.replace(usual.decide, guarantee="exact"))
    (one,), (other,) = (estimate(each, noise=0.02).races for each in (usual, sure))
    assert other.worse >= one.worse
    assert other.same > one.same


FILE = """question = "?"
[targets.disk]
loop = {{ size = "16MiB" }}
[workloads.w]
tool = "fio"
options = {{ rw = "randread", runtime = "1s" }}
[factors.depth]
option = "iodepth"
levels = [1, 2]
[design]
{design}
[decide]
guarantee = "exact"
{more}
"""


@pytest.mark.parametrize(
    ("design", "more", "why"),
    [
        ("blocks = 5", "", "only a race has an exact guarantee"),
        (
            'kind = "race"',
            'limits = { "read.clat.p99" = "2ms" }',
            "an exact guarantee is for differences, and a limit is on a mean",
        ),
    ],
)
def test_what_cannot_be_exact_is_refused(design: str, more: str, why: str) -> None:
    with pytest.raises(StudyError, match=why) as caught:
        parse_study(FILE.format(design=design, more=more), "study.toml", str)
    assert "decide.guarantee" in str(caught.value)
    raced_study = parse_study(FILE.format(design='kind = "race"', more=""), "study.toml", str)
    assert raced_study.decide.guarantee == "exact"
    assert as_aa(raced_study).decide.guarantee == "normal"
