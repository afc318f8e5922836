"""Treatments spread over trials: complete, random, repeatable, and continued after a crash."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from iotrial.errors import SettingRefused
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.model.target import Target, Topology
from iotrial.model.trial import Trial, TrialRecord, TrialState
from iotrial.model.tunable import Setting
from iotrial.model.workload import Workload
from iotrial.plan.design import MOST_ATTEMPTS, baselines, cells, settings, workload_of
from iotrial.plan.load import load_study
from iotrial.plan.stages import next_trials
from iotrial.tunables import tunable

GOOD = Path(__file__).parents[1] / "data" / "studies" / "good"


def below(**devices: str) -> dict[str, Topology]:
    return {name: Topology.of_disk(device) for name, device in devices.items()}


def good(name: str) -> Study:
    return load_study(GOOD / f"{name}.toml")


def knob(name: str, subject: str, *labels: str, **more: str) -> Factor:
    levels = tuple(Level(label, settings=((subject, label),)) for label in labels)
    return Factor(name, "tunable", levels, subject=subject, **more)


def study(*factors: Factor, blocks: int = 5, seed: int = 1, workloads: int = 1) -> Study:
    return Study(
        question="",
        name="s",
        targets=(Target("disk", "loop"),),
        workloads=tuple(Workload(f"w{n}", "fio") for n in range(workloads)),
        factors=factors,
        design=Design(blocks=blocks, seed=seed),
        decide=DecisionRule(()),
        digest="0123456789ab",
    )


SCHEDULER = knob("scheduler", "queue.scheduler", "none", "mq-deadline", "kyber")
DEPTH = Factor("depth", "option", tuple(Level(str(n), option=n) for n in (1, 8)), subject="iodepth")


def done(trial: Trial, state: TrialState = "valid") -> TrialRecord:
    return TrialRecord(trial, state, started=0.0, seconds=1.0)


def test_cells_are_all_combinations_less_the_excluded_ones() -> None:
    assert len(cells(study(SCHEDULER, DEPTH), "w0")) == 6
    assert cells(study(), "w0") == ((),)
    left = cells(good("excluded-lists"), "randread")
    assert left == (
        *((("scheduler", "none"), ("depth", depth)) for depth in ("1", "8", "32")),
        (("scheduler", "mq-deadline"), ("depth", "32")),
    )


def test_an_option_of_one_workload_is_not_varied_in_another() -> None:
    both = good("option-of-one-workload")
    assert len(cells(both, "randread")) == 4
    assert len(cells(both, "seqwrite")) == 2
    assert {name for cell in cells(both, "seqwrite") for name, _ in cell} == {"scheduler"}


@given(
    st.integers(1, 6),
    st.integers(0, 10**9),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 3),
)
@effort(deadline=None)
def test_every_treatment_of_every_workload_is_once_in_each_block(
    blocks: int, seed: int, workloads: int, first: int, second: int
) -> None:
    one = knob("one", "queue.nr_requests", *map(str, range(first)))
    two = knob("two", "queue.read_ahead_kb", *map(str, range(second)))
    trials = next_trials(study(one, two, blocks=blocks, seed=seed, workloads=workloads), (), ())
    assert [trial.number for trial in trials] == list(range(1, len(trials) + 1))
    assert [trial.block for trial in trials] == sorted(trial.block for trial in trials)
    counts = Counter((trial.block, trial.workload, trial.treatment) for trial in trials)
    assert set(counts.values()) == {1}
    assert len(counts) == blocks * workloads * first * second
    assert all(len(trial.id) == 6 and int(trial.id, 16) >= 0 for trial in trials)


ORDER = ["mq-deadline 8", "kyber 8", "none 1", "kyber 1", "mq-deadline 1", "none 8"]
FOLDER = "0001-e1c03a"


def test_the_order_is_new_in_each_block_and_the_same_on_every_machine() -> None:
    trials = next_trials(study(SCHEDULER, DEPTH), (), ())
    assert trials == next_trials(study(SCHEDULER, DEPTH), (), ())
    orders = [tuple(t.treatment for t in trials if t.block == block) for block in range(1, 6)]
    assert len(set(orders)) == 5
    words = [" ".join(label for _, label in t.treatment) for t in trials[:6]]
    assert words == ORDER
    assert trials[0].folder == FOLDER


def test_another_seed_or_another_study_is_another_order() -> None:
    one = study(SCHEDULER, DEPTH)
    orders = {
        tuple(t.treatment for t in next_trials(each, (), ()))
        for each in (one, replace(one, design=Design(seed=2)), replace(one, digest="0" * 12))
    }
    assert len(orders) == 3


def test_over_many_blocks_every_treatment_is_about_as_often_at_every_place() -> None:
    """Chi-squared over place × treatment: 9 cells, 4 degrees of freedom; 23.5 is p = 0.0001."""
    trials = next_trials(study(SCHEDULER, blocks=600), (), ())
    seen = Counter((place % 3, t.treatment) for place, t in enumerate(trials))
    assert len(seen) == 9
    assert sum((count - 200) ** 2 / 200 for count in seen.values()) < 23.5


def test_a_finished_plan_has_nothing_next() -> None:
    one = study(SCHEDULER)
    trials = next_trials(one, (), ())
    assert next_trials(one, trials, ()) == ()
    assert next_trials(one, trials, [done(trial) for trial in trials]) == ()


@given(st.integers(0, 15))
def test_a_plan_whose_end_was_lost_is_completed_as_it_was(kept: int) -> None:
    one = study(SCHEDULER)
    trials = next_trials(one, (), ())
    assert (*trials[:kept], *next_trials(one, trials[:kept], ())) == trials


def test_an_invalid_trial_is_queued_again_in_its_block_twice_at_most() -> None:
    one = study(SCHEDULER, blocks=2)
    planned = next_trials(one, (), ())
    spoilt = planned[1]
    records = [done(trial, "invalid" if trial is spoilt else "valid") for trial in planned]
    for attempt in range(2, MOST_ATTEMPTS + 1):
        again = next_trials(one, planned, records)
        assert len(again) == 1
        assert again[0] == replace(spoilt, number=len(planned) + 1, attempt=attempt, id=again[0].id)
        assert again[0].id not in {trial.id for trial in planned}
        planned += again
        assert next_trials(one, planned, records) == ()  # planned, and not yet done
        records.append(done(again[0], "invalid"))
    assert next_trials(one, planned, records) == ()


def test_a_repeated_trial_that_was_valid_is_not_queued_again() -> None:
    one = study(SCHEDULER, blocks=2)
    planned = next_trials(one, (), ())
    records = [done(trial, "invalid" if trial.number == 3 else "valid") for trial in planned]
    again = next_trials(one, planned, records)
    assert next_trials(one, planned + again, [*records, done(again[0])]) == ()


def test_a_failed_trial_is_not_queued_again() -> None:
    one = study(SCHEDULER)
    planned = next_trials(one, (), ())
    assert next_trials(one, planned, [done(trial, "failed") for trial in planned]) == ()


def test_ten_thousand_trials_are_planned_in_a_second() -> None:
    large = study(
        knob("one", "queue.nr_requests", *map(str, range(10))),
        knob("two", "queue.read_ahead_kb", *map(str, range(10))),
        blocks=50,
        workloads=2,
    )
    start = time.process_time()
    trials = next_trials(large, (), ())
    seconds = time.process_time() - start
    assert len(trials) == 10_000
    assert seconds <= 1.0


def test_settings_are_in_the_order_in_which_they_must_be_written() -> None:
    both = study(knob("requests", "queue.nr_requests", "64"), SCHEDULER)
    trial = next_trials(both, (), ())[0]
    scheduler = dict(trial.treatment)["scheduler"]
    assert tunable("queue.scheduler").rank < tunable("queue.nr_requests").rank
    assert settings(both, trial, below(disk="loop7")) == (
        Setting("loop7", "queue.scheduler", scheduler),
        Setting("loop7", "queue.nr_requests", "64"),
    )


def test_a_knob_belongs_to_the_target_its_factor_names_or_to_the_one_under_test() -> None:
    two = good("a-knob-on-two-targets")
    trial = next(t for t in next_trials(two, (), ()) if t.target == "other")
    found = settings(two, trial, below(disk="loop1", other="loop2"))
    assert {setting.device for setting in found} == {"loop1", "loop2"}
    under = study(SCHEDULER)
    trial = replace(next_trials(under, (), ())[0], target="array")
    assert settings(under, trial, below(disk="sda", array="md0"))[0].device == "md0"


def test_a_level_that_sets_nothing_gives_no_settings() -> None:
    for name in ("a-against-a", "no-factor"):
        one = good(name)
        assert all(not settings(one, t, {}) for t in next_trials(one, (), ()))
    unset = good("range-with-unset")
    for trial in next_trials(unset, (), ()):
        level = dict(trial.treatment)["requests"]
        expected = () if level == "unset" else (Setting("sdb", "queue.nr_requests", level),)
        assert settings(unset, trial, below(disk="sdb")) == expected


def test_a_knob_of_a_device_is_refused_where_the_target_has_none() -> None:
    one = study(SCHEDULER)
    with pytest.raises(SettingRefused, match="target disk does not have"):
        settings(one, next_trials(one, (), ())[0], below(disk=""))


def test_the_workload_of_a_trial_has_its_options_filled_in() -> None:
    one = good("option-of-one-workload")
    for trial in next_trials(one, (), ()):
        options = dict(workload_of(one, trial).options)
        expected = dict(trial.treatment).get("depth", "4")
        assert options == {**dict(one.workload(trial.workload).options), "iodepth": int(expected)}
        assert list(options)[:2] == ["rw", "bs"]


def test_the_target_of_a_trial_is_the_one_its_treatment_names() -> None:
    one = good("targets-as-factor")
    assert {(t.target, dict(t.treatment)["storage"]) for t in next_trials(one, (), ())} == {
        ("disk", "disk"), ("data", "data"),
    }  # fmt: skip


IN_FORCE = {("sda", "queue.scheduler"): "kyber", ("sda", "queue.nr_requests"): "64"}


@pytest.mark.parametrize(("factor", "in_force", "label"), [
    (SCHEDULER, IN_FORCE, "kyber"),
    (replace(SCHEDULER, baseline="none"), IN_FORCE, "none"),
    (SCHEDULER, {("sda", "queue.scheduler"): "bfq"}, "none"),
    (SCHEDULER, {}, "none"),
    (SCHEDULER, {**IN_FORCE, ("sdb", "queue.scheduler"): "none"}, "none"),
    (SCHEDULER, {**IN_FORCE, ("sdb", "queue.scheduler"): "kyber"}, "kyber"),
    (replace(SCHEDULER, target="disk"), {**IN_FORCE, ("sdb", "queue.scheduler"): "none"}, "kyber"),
    (DEPTH, IN_FORCE, "1"),
    (Factor("guide", "group", (
        Level("tuned", settings=(("queue.scheduler", "kyber"), ("queue.nr_requests", "9"))),
        Level("stock"),
    )), IN_FORCE, "stock"),
    (Factor("guide", "group", (
        Level("stock", settings=(("queue.scheduler", "none"),)),
        Level("tuned", settings=(("queue.scheduler", "kyber"), ("queue.nr_requests", "64"))),
    )), IN_FORCE, "tuned"),
])  # fmt: skip
def test_a_baseline_is_declared_or_in_force_or_the_first(
    factor: Factor, in_force: dict[tuple[str, str], str], label: str
) -> None:
    assert baselines(study(factor), in_force, below(disk="sda")) == {factor.name: label}


def test_the_treatments_of_one_workload_follow_one_another_within_a_block() -> None:
    trials = next_trials(study(SCHEDULER, workloads=3, blocks=4), (), ())
    for block in range(1, 5):
        order = [trial.workload for trial in trials if trial.block == block]
        runs = [name for name, before in zip(order, [None, *order], strict=False) if name != before]
        assert len(runs) == len(set(order)) == 3
