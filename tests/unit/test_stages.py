"""Staged studies: each stage follows from the one before, and everything from plan and records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from staged_studies import HEAD, STAGES, executed, measured, parsed, stood
from stats_studies import record

from iotrial.errors import StudyError
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.ahead import loads_on, stages_at_most, trials_at_most
from iotrial.plan.design import workload_of
from iotrial.plan.estimate import estimate
from iotrial.plan.load import parse_study
from iotrial.plan.stages import courses, next_trials
from iotrial.rows import trial_in_row, trial_out


def test_a_stage_begins_when_the_one_before_is_decided_and_not_earlier() -> None:
    study = parsed()
    first = next_trials(study, (), ())
    assert {trial.stage for trial in first} == {1}
    assert len(first) == 3 * 21 * 2
    done = [measured(trial, 0.002) for trial in first]
    assert next_trials(study, first, done[:-1]) == ()
    second = next_trials(study, first, done)
    assert {trial.stage for trial in second} == {2}
    assert second[0].number == len(first) + 1
    assert second[0].block == 4


def test_the_published_plan_comes_to_its_end() -> None:
    """Wide sweep, narrowed, finer with a larger file, next option's knee, then both together on
    other storage."""
    study = parsed()
    planned, done = executed(study)
    first, _, third, last = courses(study, planned, done)
    left = next(kept.kept for kept in first.kept if kept.factor == "rsize")
    assert "86016" in left
    assert len(left) < 10
    assert [int(label) for label in left] == list(range(int(left[0]), int(left[-1]) + 1, 4096))
    tried = {int(dict(trial.treatment)["rsize"]) for trial in planned if trial.stage == 2}
    assert tried == set(range(int(left[0]), int(left[-1]) + 1, 1024))
    assert {workload_of(study, t).option("size") for t in planned if t.stage == 2} == {"10GiB"}
    assert {workload_of(study, t).option("size") for t in planned if t.stage == 1} == {"1GiB"}
    chosen = stood(study, planned, done)
    assert abs(int(chosen["rsize"]) - 86016) < 0.03 * 86016 * 3
    assert chosen["pages"] == "8"
    assert chosen["maker"] == "off"
    assert {dict(t.treatment)["rsize"] for t in planned if t.stage == 3} <= {
        chosen["rsize"]
    } or all(t.workload == "write" for t in planned if t.stage == 3)
    assert last.decided
    confirming = [trial for trial in planned if trial.stage == 4]
    assert {trial.target for trial in confirming} == {"production"}
    assert {trial.target for trial in planned if trial.stage < 4} == {"test"}
    assert len(confirming) == 5 * 2 * 2
    assert {dict(t.treatment)["rsize"] for t in confirming} == {"unset", chosen["rsize"]}
    assert {dict(t.treatment)["maker"] for t in confirming} == {"off"}
    assert third.kept[0].why.startswith("the smallest as good as the best")
    assert len({trial.number for trial in planned}) == len(planned)
    blocks = [(trial.stage, trial.block) for trial in planned]
    assert len({block for _, block in blocks}) == len(set(blocks)), "a block belongs to one stage"


@pytest.mark.parametrize("at", [1, 60, 126, 127, 150, 190])
def test_stopped_anywhere_and_taken_up_again_it_ends_the_same(at: int) -> None:
    """What was written is read back; a planned line that was lost is planned again."""
    study = parsed()
    whole, _ = executed(study)
    planned, done = executed(study, most=at)
    planned = [trial_in_row(json.loads(json.dumps(trial_out(t)))) for t in planned]
    kept = planned[: max(at, len(planned) - 7)]
    todo = [trial for trial in kept if trial.number > len(done)]
    if not todo:
        todo = list(next_trials(study, kept, done))
        kept = [*kept, *todo]
    while todo:
        done += [measured(trial, 0.002) for trial in todo]
        todo = list(next_trials(study, kept, done))
        kept = [*kept, *todo]
    assert sorted(kept, key=lambda t: t.number) == whole


def test_a_tie_keeps_the_baseline_and_there_is_nothing_to_confirm() -> None:
    study = parsed()
    planned, done = executed(study, sd=0.001, value=lambda _: 1e9)
    assert set(stood(study, planned, done).values()) == {"unset", "off"}
    assert max(trial.stage for trial in planned) == 3
    assert courses(study, planned, done)[-1].decided


def test_what_nobody_can_tell_keeps_the_baseline() -> None:
    study = parsed()
    planned, done = executed(study, sd=2.0, value=lambda _: 1e9)
    first = courses(study, planned, done)[0]
    assert len(first.kept[0].kept) > 15
    assert stood(study, planned, done)["maker"] == "off"


def test_an_invalid_trial_is_done_again_before_its_stage_is_decided() -> None:
    study = parsed()
    first = next_trials(study, (), ())
    done = [measured(trial, 0.002) for trial in first]
    done[3] = replace(done[3], state="invalid", measurements=())
    again = next_trials(study, first, done)
    assert [(t.stage, t.attempt, t.block) for t in again] == [(1, 2, first[3].block)]


def test_a_stage_in_which_everything_failed_keeps_what_it_had() -> None:
    study = parsed()
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while added := next_trials(study, planned, done):
        planned += added
        done += [record(trial, None) for trial in added]
    assert set(stood(study, planned, done).values()) == {"unset", "off"}
    said = {kept.why for course in courses(study, planned, done) for kept in course.kept}
    assert not [why for why in said if "the same" in why], said
    assert "no comparison: no trial has the primary metric" in said


def test_screening_sets_aside_what_does_nothing() -> None:
    stages = """
[[stage]]
vary = ["rsize", "pages", "maker"]
then = "screen"
[[stage]]
vary = ["rsize", "maker", "pages"]
then = "best"
"""
    study = parsed(stages)

    def value(trial: Trial) -> float:
        return 1e9 * (1.5 if dict(trial.treatment)["maker"] == "on" else 1.0)

    planned, done = executed(study, sd=0.0005, value=value)
    assert len({t.treatment for t in planned if t.stage == 1}) == 4
    screened, last = courses(study, planned, done)
    assert {kept.factor: len(kept.kept) for kept in screened.kept} == {
        "rsize": 1, "pages": 1, "maker": 2
    }  # fmt: skip
    assert len({t.treatment for t in planned if t.stage == 2}) == 2
    assert {kept.factor: kept.stands for kept in last.kept}["maker"] == "on"


RACES = """
[[stage]]
vary = ["rsize"]
workloads = ["read"]
[[stage]]
vary = ["pages"]
workloads = ["write"]
then = "knee"
[[stage]]
vary = ["maker"]
kind = "full"
"""


def test_where_no_blocks_are_said_stages_that_ask_for_the_best_are_races() -> None:
    study = parsed(RACES, HEAD.replace("blocks = 3", ""))
    planned, done = executed(study, sd=0.03)
    race, knee, full = courses(study, planned, done)
    assert [c.study.design.kind for c in (race, knee, full)] == ["race", "full", "full"]
    assert [c.study.design.blocks for c in (knee, full)] == [5, 5]
    tried = {}
    for trial in race.results.planned:
        tried[dict(trial.treatment)["rsize"]] = trial.block
    assert tried["20480"] < tried["86016"], "what is far behind is dropped"
    chosen = stood(study, planned, done)
    assert chosen["rsize"] in {"77824", "81920", "86016", "90112", "94208"}
    assert chosen["maker"] == "off"


def test_a_race_in_a_stage_without_differences_keeps_the_baseline() -> None:
    study = parsed(RACES, HEAD.replace("blocks = 3", ""))
    planned, done = executed(study, value=lambda _: 1e9)
    assert set(stood(study, planned, done).values()) == {"unset", "off"}


def test_a_race_may_confirm() -> None:
    stages = RACES.replace(
        'kind = "full"', 'kind = "full"\n[[stage]]\nthen = "confirm"\nkind = "race"'
    )
    head = HEAD.replace("blocks = 3", "").replace("step = 4096", "step = 16384")
    study = parsed(stages, head)
    planned, done = executed(study)
    last = courses(study, planned, done)[-1]
    assert last.decided
    assert last.study.design.kind == "race"
    assert 0 < len(last.results.planned) < 40


def test_a_level_that_breaks_a_guardrail_does_not_win() -> None:
    stages = '\n[[stage]]\nvary = ["maker"]\nworkloads = ["read"]\n'
    head = HEAD.replace("[design]", "[design]\nseed = 3").replace(
        'margin = "3%"', 'margin = "3%"\nguardrails = { "read.seconds" = "+10%" }'
    )
    only = head.replace(head[head.index("[factors.rsize]") : head.index("[factors.maker]")], "")
    study = parsed(stages, only)
    planned = next_trials(study, (), ())

    def both(trial: Trial) -> TrialRecord:
        on = dict(trial.treatment)["maker"] == "on"
        plain = measured(trial, 0.002, lambda _: 1.2e9 if on else 1e9)
        late = (0.02 if on else 0.01) * (1 + trial.number / 1000)
        slow = record(trial, late, "read.seconds")
        return replace(plain, measurements=plain.measurements + slow.measurements)

    done = [both(trial) for trial in planned]
    assert stood(study, planned, done) == {"maker": "off"}
    quick = [replace(r, measurements=r.measurements[:1]) for r in done]
    assert stood(study, planned, quick) == {"maker": "on"}


def test_before_it_begins_the_most_that_it_can_take_is_known() -> None:
    study = parsed()
    sizes = [
        len({t.treatment for t in trials_at_most(study) if t.stage == n}) for n in (1, 2, 3, 4)
    ]
    assert sizes == [21 * 2, 78, 10, 2]
    planned, _ = executed(study)
    assert len(planned) < len(trials_at_most(study))
    cost = estimate(study)
    assert cost.trials == len(trials_at_most(study))
    assert "upper bounds" in cost.notes[0]
    assert [course.stage.number for course in stages_at_most(study)] == [1, 2, 3, 4]


def test_what_only_reads_on_a_target_arms_nothing_there() -> None:
    study = parsed(
        STAGES.replace('target = "production"', 'target = "production"\nworkloads = ["read"]')
    )
    assert {load.name for load in loads_on(study, "production")} == {"read"}
    assert {load.name for load in loads_on(study, "test")} == {"read", "write"}


WRONG = [
    ('[[stage]]\nvary = ["rsise"]', "stage[0].vary[0]", "Did you mean 'rsize'?"),
    ("[[stage]]\nvary = []", "stage[0].vary", "no factor is varied"),
    ('[[stage]]\nthen = "confirm"', "stage[0].then", "no earlier stage selects a level"),
    ('[[stage]]\nvary = ["maker"]\nthen = "knee"', "stage[0].then", "numeric levels"),
    ('[[stage]]\nvary = ["maker"]\nrange = { step = 4 }', "stage[0].range", "with a range"),
    ('[[stage]]\nvary = ["rsize"]\nrange = { to = 1 }', "stage[0].range", "20480 to 98304"),
    ('[[stage]]\nvary = ["rsize"]\nfix = { rsize = 20480 }', "stage[0].fix.rsize", "and fixed"),
    ('[[stage]]\nvary = ["rsize"]\nfix = { pages = 5 }', "stage[0].fix.pages", "not one of"),
    ('[[stage]]\nvary = ["rsize"]\nfix = { sise = 5 }', "stage[0].fix.sise", "mean 'size'?"),
    ('[[stage]]\nvary = ["rsize"]\nworkloads = ["list"]', "stage[0].workloads[0]", "no 'list'"),
    ('[[stage]]\nvary = ["rsize"]\ntarget = "prod"', "stage[0].target", "no 'prod'"),
    ('[[stage]]\nvary = ["maker"]\nthen = "screen"', "stage[0].then", "at least two"),
    ('[[stage]]\nvary = ["rsize"]\nthen = "knee"\nkind = "race"', "stage[0].kind", "too seldom"),
    ('[[stage]]\nvary = ["rsize"]\nthen = "narow"', "stage[0].then", "narrow"),
    ('[[stage]]\nvary = ["rsize"]\noptions = { list = { x = 1 } }', "stage[0].options.list", "no"),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "key", "words"), WRONG)
def test_a_stage_that_cannot_be_meant_is_told_with_its_key(
    stage: str, key: str, words: str
) -> None:
    with pytest.raises(StudyError) as told:
        parsed(stage + "\n")
    text = f"{told.value} {told.value.advice}"
    assert key in text
    assert words in text


def test_a_baseline_that_only_the_host_knows_is_asked_for() -> None:
    head = HEAD.replace('step = 4 }\nbaseline = "unset"', "step = 4 }")
    with pytest.raises(StudyError, match="needs a baseline for each factor"):
        parsed(STAGES, head)


def test_a_factor_that_no_stage_varies_is_told() -> None:
    with pytest.raises(StudyError, match="no stage varies it"):
        parsed('[[stage]]\nvary = ["rsize", "pages"]\n')


def test_a_wrong_winner_is_rare_over_all_stages_together() -> None:
    """100 studies in which nothing matters: a change is recommended in hardly any; at an error of
    5 %, 13 or more of 100 would come once in 700."""
    stages = '\n[[stage]]\nvary = ["rsize"]\nthen = "narrow"\n[[stage]]\nvary = ["maker", "rsize"]'
    head = HEAD.replace("step = 4096", "step = 16384").replace('margin = "3%"', 'margin = "1%"')
    only = head.replace(head[head.index("[factors.pages]") : head.index("[factors.maker]")], "")
    study = parsed(stages, only)
    changed = 0
    for seed in range(100):
        noise = np.random.default_rng(seed)

        def value(_: Trial, noise: np.random.Generator = noise) -> float:
            return 1e9 * float(np.exp(noise.normal(0, 0.02)))

        planned, done = executed(study, sd=0.0, value=value)
        changed += stood(study, planned, done) != {"rsize": "unset", "maker": "off"}
    assert changed < 13


def test_the_plan_of_the_published_study_is_one_file() -> None:
    """Its ranges, file sizes and steps: what was swept, with what, and in which order."""
    path = Path(__file__).parents[1] / "data" / "studies" / "good" / "panasas-in-stages.toml"
    study = parse_study(path.read_text(), path.name, lambda _: "")
    swept = []
    for course in stages_at_most(study)[:8]:
        name = course.stage.vary[0]
        labels = [x.label for x in course.study.factor(name).levels if x.label != "unset"]
        sizes = {str(load.option("size")) for load in course.study.workloads}
        swept.append((name, int(labels[0]), int(labels[-1]), len(course.stage.vary), *sizes))
    assert swept == [
        ("rsize", 20480, 98304, 4, "1GiB"),
        ("rsize", 20480, 98304, 4, "10GiB"),
        ("rsize", 20480, 98304, 1, "100GiB"),
        ("wsize", 20480, 98304, 4, "1GiB"),
        ("wsize", 53248, 77824, 2, "10GiB"),
        ("wsize", 53248, 77824, 1, "100GiB"),
        ("pages", 0, 32, 1, "10GiB"),
        ("ahead", 0, 4, 1, ""),
    ]
    assert [course.study.targets[0].name for course in stages_at_most(study)[8:]] == [
        "test",
        "production",
    ]
