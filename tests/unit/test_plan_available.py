"""``levels = "available"`` is filled from what the kernel offers, and only from that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.errors import StudyError, UsageError
from iotrial.model.study import Level, Study
from iotrial.plan.available import with_available
from iotrial.plan.design import cells, next_trials, open_factors
from iotrial.plan.load import load_study, parse_study

GOOD = Path(__file__).parents[1] / "data" / "studies" / "good"
OFFERED = {"queue.scheduler": ("none", "mq-deadline", "kyber")}


def study(more: str = "") -> Study:
    text = (GOOD / "everything-inline.toml").read_text() + more
    return parse_study(text, "study.toml", lambda _name: "")


def test_a_study_says_which_levels_it_does_not_know_yet_and_cannot_be_planned() -> None:
    assert [factor.name for factor in open_factors(study())] == ["scheduler"]
    with pytest.raises(UsageError, match="not yet asked"):
        next_trials(study(), (), ())


def test_the_choices_become_the_levels_in_the_kernels_order() -> None:
    filled = with_available(study(), OFFERED)
    assert open_factors(filled) == ()
    assert filled.factor("scheduler").levels == tuple(
        Level(name, settings=(("queue.scheduler", name),)) for name in OFFERED["queue.scheduler"]
    )
    assert len(cells(filled, "randread")) == 3


def test_the_study_stays_the_one_of_its_file() -> None:
    before, filled = study(), with_available(study(), OFFERED)
    assert replace(filled, factors=before.factors) == before


def test_a_study_with_all_its_levels_is_given_back() -> None:
    whole = load_study(GOOD / "a-against-a.toml")
    assert with_available(whole, {}) is whole


@pytest.mark.parametrize("offered", [{}, {"queue.scheduler": ()}, {"queue.nr_requests": ("1",)}])
def test_a_kernel_that_offers_nothing_is_an_error(offered: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(StudyError, match="offers no list of choices for queue") as caught:
        with_available(study(), offered)
    assert caught.value.line == 4


def test_unset_as_baseline_is_a_level_of_its_own() -> None:
    text = study().text.replace('"available"', '"available", baseline = "unset"')
    filled = with_available(parse_study(text, "study.toml", lambda _name: ""), OFFERED)
    assert filled.factor("scheduler").levels[0].label == "unset"
    assert filled.factor("scheduler").levels[0].settings == ()


def test_a_baseline_that_is_not_offered_is_told_at_its_line() -> None:
    text = (GOOD / "no-factor.toml").read_text()
    text += '[factors.s]\ntunable = "queue.scheduler"\nlevels = "available"\nbaseline = "bqf"\n'
    open_ = parse_study(text, "study.toml", lambda _name: "")
    with pytest.raises(StudyError, match="'bqf' is not among the choices of this kernel") as caught:
        with_available(open_, {"queue.scheduler": ("none", "bfq")})
    assert (caught.value.line, caught.value.key) == (10, "factors.s.baseline")
    assert "Did you mean 'bfq'?" in str(caught.value)


def test_an_excluded_level_that_is_not_offered_is_told() -> None:
    open_ = study('[[exclude]]\nscheduler = ["none", "bqf"]\n')
    with pytest.raises(StudyError, match=r"exclude\[0\]\.scheduler: 'bqf' is not among"):
        with_available(open_, OFFERED)


def test_excluding_all_that_is_offered_is_told() -> None:
    open_ = study('[[exclude]]\nscheduler = ["none", "kyber"]\n')
    with pytest.raises(StudyError, match="every combination of workload randread is excluded"):
        with_available(open_, {"queue.scheduler": ("none", "kyber")})
