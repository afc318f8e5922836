"""``levels = "available"`` is filled from what the kernel offers, and only from that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from iotrial.errors import StudyError, UsageError
from iotrial.model.study import Level, Study
from iotrial.plan.available import HostCapabilities, with_available
from iotrial.plan.design import cells, open_factors
from iotrial.plan.load import load_study, parse_study
from iotrial.plan.stages import next_trials

GOOD = Path(__file__).parents[1] / "data" / "studies" / "good"
OFFERED = {"queue.scheduler": ("none", "mq-deadline", "kyber")}


def study(more: str = "") -> Study:
    text = (GOOD / "everything-inline.toml").read_text() + more
    return parse_study(text, "study.toml", lambda _name: "")


def test_a_study_says_which_levels_it_does_not_know_yet_and_cannot_be_planned() -> None:
    assert [factor.name for factor in open_factors(study())] == ["scheduler"]
    with pytest.raises(UsageError, match="not asked yet"):
        next_trials(study(), (), ())


def test_the_choices_become_the_levels_in_the_kernels_order() -> None:
    filled = with_available(study(), HostCapabilities(OFFERED))
    assert open_factors(filled) == ()
    assert filled.factor("scheduler").levels == tuple(
        Level(name, settings=(("queue.scheduler", name),)) for name in OFFERED["queue.scheduler"]
    )
    assert len(cells(filled, "randread")) == 3


def test_the_study_stays_the_one_of_its_file() -> None:
    before, filled = study(), with_available(study(), HostCapabilities(OFFERED))
    assert replace(filled, factors=before.factors) == before


def test_a_study_with_all_its_levels_is_given_back() -> None:
    whole = load_study(GOOD / "a-against-a.toml")
    assert with_available(whole, HostCapabilities()) == whole


@pytest.mark.parametrize("offered", [{}, {"queue.scheduler": ()}, {"queue.nr_requests": ("1",)}])
def test_a_kernel_that_offers_nothing_is_an_error(offered: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(StudyError, match="has no list of values for queue") as caught:
        with_available(study(), HostCapabilities(offered))
    assert caught.value.line == 4


def test_unset_as_baseline_is_a_level_of_its_own() -> None:
    text = study().text.replace('"available"', '"available", baseline = "unset"')
    filled = with_available(
        parse_study(text, "study.toml", lambda _name: ""), HostCapabilities(OFFERED)
    )
    assert filled.factor("scheduler").levels[0].label == "unset"
    assert filled.factor("scheduler").levels[0].settings == ()


def test_a_baseline_that_is_not_offered_is_told_at_its_line() -> None:
    text = (GOOD / "no-factor.toml").read_text()
    text += '[factors.s]\ntunable = "queue.scheduler"\nlevels = "available"\nbaseline = "bqf"\n'
    open_ = parse_study(text, "study.toml", lambda _name: "")
    with pytest.raises(StudyError, match="does not offer 'bqf'") as caught:
        with_available(open_, HostCapabilities({"queue.scheduler": ("none", "bfq")}))
    assert (caught.value.line, caught.value.key) == (10, "factors.s.baseline")
    assert "Did you mean 'bfq'?" in str(caught.value)


def test_an_excluded_level_that_is_not_offered_is_told() -> None:
    open_ = study('[[exclude]]\nscheduler = ["none", "bqf"]\n')
    with pytest.raises(
        StudyError, match=r"exclude\[0\]\.scheduler: this kernel does not offer 'bqf'"
    ):
        with_available(open_, HostCapabilities(OFFERED))


def test_excluding_all_that_is_offered_is_told() -> None:
    open_ = study('[[exclude]]\nscheduler = ["none", "kyber"]\n')
    with pytest.raises(StudyError, match="every combination of workload randread is excluded"):
        with_available(open_, HostCapabilities({"queue.scheduler": ("none", "kyber")}))


ALTERNATIVES = """
question = "?"
[targets.disk]
loop = { size = "1GiB" }
[workloads.read]
tool = "fio"
options = { rw = "randread", runtime = "1s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", ["mq-deadline", "deadline"], "kyber"]
baseline = "none"
[factors.kernel.levels]
stock = {}
tuned = { "sysctl.vm.dirty_ratio" = 20, "sysctl.vm.lower_zone_protection" = 1 }
"""


def settings_by_level(study: Study, factor: str) -> dict[str, tuple[tuple[str, str], ...]]:
    return {level.label: level.settings for level in study.factor(factor).levels}


def test_an_alternative_that_is_available_takes_the_place_of_the_first() -> None:
    written = parse_study(ALTERNATIVES, "study.toml", lambda _name: "")
    asked = {"none", "mq-deadline/deadline", "kyber"}
    assert set(settings_by_level(written, "scheduler")) == asked
    offer = HostCapabilities(
        values={("scheduler", "mq-deadline/deadline", "queue.scheduler"): "deadline"}
    )
    filled = settings_by_level(with_available(written, offer), "scheduler")
    assert filled["mq-deadline/deadline"] == (("queue.scheduler", "deadline"),)
    assert offer.notes(written) == (
        "factor scheduler, level mq-deadline/deadline: queue.scheduler is set to deadline here",
    )


def test_a_tunable_of_a_group_that_is_not_here_is_left_out_and_named() -> None:
    written = parse_study(ALTERNATIVES, "study.toml", lambda _name: "")
    offer = HostCapabilities(
        missing={("kernel", "tuned", "sysctl.vm.lower_zone_protection"): "no such file"}
    )
    filled = settings_by_level(with_available(written, offer), "kernel")
    assert filled["tuned"] == (("sysctl.vm.dirty_ratio", "20"),)
    (note,) = offer.notes(written)
    assert "sysctl.vm.lower_zone_protection is not applicable here" in note
    assert "no such file" in note


def test_two_levels_that_come_to_the_same_are_told() -> None:
    written = parse_study(ALTERNATIVES, "study.toml", lambda _name: "")
    offer = HostCapabilities(
        values={("scheduler", "mq-deadline/deadline", "queue.scheduler"): "none"}
    )
    with pytest.raises(StudyError, match="are identical on this host"):
        with_available(written, offer)


def test_an_offer_comes_back_from_json() -> None:
    offer = HostCapabilities({"a": ("1", "2")}, {("f", "l", "t"): "v"}, {("f", "l", "u"): "why"})
    assert HostCapabilities.from_dict(json.loads(json.dumps(offer.as_dict()))) == offer
    assert HostCapabilities.from_dict({"choices": {}}) == HostCapabilities()
