"""What is left out for its size is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stats_studies import results

from iotrial.model.results import Results
from iotrial.model.study import Design
from iotrial.stats.judge import judge


def study(levels: int, others: int) -> Results:
    factors = {
        "depth": tuple(f"d{n}" for n in range(levels)),
        "size": tuple(f"s{n}" for n in range(others)),
    }
    return results(factors, ["reads"], 2, lambda trial: 100.0 + trial.number % 7)


def test_a_study_of_usual_size_leaves_nothing_out() -> None:
    comparison = judge(study(4, 4))
    assert comparison.interactions
    assert comparison.shares
    assert "more than" not in comparison.method


def test_too_many_parameters_are_said_and_interactions_still_shown() -> None:
    comparison = judge(study(15, 15))
    assert comparison.interactions
    assert not comparison.shares
    assert "reads: no analysis of variance (ANOVA): its model has 225 parameters" in (
        comparison.method
    )
    assert "interactions" not in comparison.method


def test_too_many_interactions_are_said() -> None:
    comparison = judge(study(22, 21))
    assert not comparison.interactions
    assert "reads: 420 interactions of two factors are possible, more than 400" in comparison.method


@pytest.mark.parametrize(("levels", "others"), [(21, 21)])
def test_the_limit_itself_is_not_too_many(levels: int, others: int) -> None:
    assert "interactions" not in judge(study(levels, others)).method


def test_a_race_of_several_factors_says_what_it_does_not_estimate() -> None:
    def race(of: Results) -> str:
        design = Design("race", blocks=2)
        return judge(replace(of, study=replace(of.study, design=design))).method

    assert "A race compares whole treatments: main effects, interactions" in race(study(3, 2))
    one = results({"depth": ("1", "2", "4")}, ["reads"], 2, lambda trial: 100.0 + trial.number % 7)
    assert "whole treatments" not in race(one)
