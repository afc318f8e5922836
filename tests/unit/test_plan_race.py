"""A race is planned as far as its next look, and goes on where it stood."""

from __future__ import annotations

import dataclasses
import math
import random
from pathlib import Path

import pytest
from stats_studies import METRIC, record

from iotrial.errors import StudyError
from iotrial.model.finding import Comparison
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.model.target import Target
from iotrial.model.trial import Trial, TrialRecord
from iotrial.model.workload import Workload
from iotrial.plan.ahead import all_blocks, most_left, standing
from iotrial.plan.estimate import estimate
from iotrial.plan.load import parse_study
from iotrial.plan.race import RaceStanding
from iotrial.plan.stages import next_trials
from iotrial.stats.judge import judge

LABELS = ("none", "mq-deadline", "kyber", "bfq")
TRUTH = {"none": 0.0, "mq-deadline": 0.002, "kyber": -0.2, "bfq": -0.4}


def study(blocks: int = 60, metric: str = METRIC, **rule: object) -> Study:
    return Study(
        "Which is best?",
        "race",
        (Target("disk", "loop"),),
        (Workload("w", "fio"),),
        (Factor("scheduler", "option", tuple(map(Level, LABELS)), baseline="none"),),
        Design("race", blocks=blocks),
        dataclasses.replace(DecisionRule((("w", metric),), margin=0.02), **rule),
        digest="0123456789ab",
    )


def value(trial: Trial, sd: float = 0.01) -> float:
    chance = random.Random(f"{trial.block}{trial.treatment}{trial.attempt}")
    return 1000 * math.exp(TRUTH[trial.treatment[0][1]] + chance.gauss(0, sd))


def executed(
    of: Study, *, sd: float = 0.01, most: int = 1000
) -> tuple[list[Trial], list[TrialRecord]]:
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while len(planned) < most and (more := next_trials(of, planned, done)):
        planned += more
        done += [record(trial, value(trial, sd)) for trial in more]
    return planned, done


def judged(of: Study, planned: list[Trial], done: list[TrialRecord]) -> Comparison:
    return judge(
        Results(Path("r"), of, tuple(planned), tuple(done), baselines={"scheduler": "none"})
    )


def test_the_first_plan_reaches_to_the_first_look() -> None:
    first = next_trials(study(), (), ())
    assert len(first) == 12
    assert {trial.block for trial in first} == {1, 2, 3}


def test_nothing_more_is_planned_while_trials_wait() -> None:
    first = next_trials(study(), (), ())
    done = [record(trial, value(trial)) for trial in first[:5]]
    assert next_trials(study(), first, done) == ()


def test_losers_are_left_out_of_later_blocks_and_the_race_ends_by_itself() -> None:
    planned, done = executed(study())
    last = max(trial.block for trial in planned)
    assert last < 60
    late = {trial.treatment[0][1] for trial in planned if trial.block == last}
    assert late == {"none", "mq-deadline"}
    found = judged(study(), planned, done)
    verdicts = {finding.level: finding.verdict for finding in found.findings}
    assert verdicts == {"mq-deadline": "same", "kyber": "worse", "bfq": "worse"}
    assert {finding.baseline for finding in found.findings} == {"none"}
    assert "no reason to change scheduler=none" in found.recommendation
    assert found.races[0].decided
    assert found.races[0].kept == "none"


def test_a_plan_cut_anywhere_goes_on_to_the_same_end() -> None:
    whole, _ = executed(study())
    for cut in range(1, len(whole)):
        kept = whole[:cut]
        done = [record(trial, value(trial)) for trial in kept]
        planned = list(kept)
        while more := next_trials(study(), planned, done):
            planned += more
            done += [record(trial, value(trial)) for trial in more]
        assert judged(study(), planned, done).races[0].kept == "none"


def test_the_most_blocks_end_it_undecided_and_that_is_said() -> None:
    of = study(blocks=3)
    planned, done = executed(of, sd=0.2)
    assert max(trial.block for trial in planned) == 3
    found = judged(of, planned, done)
    assert not found.races[0].decided
    assert "not decided yet" in found.recommendation
    assert {f.verdict for f in found.findings} == {"cannot-tell"}


def test_another_winner_than_the_baseline_is_told_against_it_first() -> None:
    of = dataclasses.replace(
        study(), factors=(dataclasses.replace(study().factors[0], baseline="bfq"),)
    )
    planned, done = executed(of)
    found = judge(
        Results(Path("r"), of, tuple(planned), tuple(done), baselines={"scheduler": "bfq"})
    )
    first = found.findings[0]
    assert (first.baseline, first.verdict) == ("bfq", "better")
    assert first.level in {"none", "mq-deadline"}
    assert first.low is not None
    assert first.low >= 1


def test_less_is_better_for_a_latency() -> None:
    of = study(metric="read.clat.p99")
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(of, planned, done):
        planned += more
        done += [record(trial, value(trial), "read.clat.p99") for trial in more]
    found = judged(of, planned, done)
    assert found.races[0].kept == "bfq"
    assert found.findings[0].verdict == "better"
    assert found.findings[0].ratio < 1


def test_an_invalid_trial_is_done_again_before_the_race_goes_on() -> None:
    first = next_trials(study(), (), ())
    done = [record(trial, value(trial)) for trial in first]
    done[3] = dataclasses.replace(done[3], state="invalid")
    (again,) = next_trials(study(), first, done)
    assert (again.attempt, again.block, again.treatment) == (2, first[3].block, first[3].treatment)


def test_a_treatment_that_breaks_a_guardrail_is_not_kept() -> None:
    """kyber is fastest here, but its p99 is twice the baseline's."""
    of = study(guardrails=(("read.clat.p99", 0.1),))
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while (more := next_trials(of, planned, done)) and len(planned) < 400:
        planned += more
        for trial in more:
            fast = 0.5 if trial.treatment[0][1] == "kyber" else 0.0
            slow = 2.0 if trial.treatment[0][1] == "kyber" else 1.0
            made = record(trial, value(trial) * math.exp(fast))
            tail = Measurement("read.clat.p99", 0.001 * slow * value(trial, 0.02) / 1000, "s")
            done.append(dataclasses.replace(made, measurements=(*made.measurements, tail)))
    found = judged(of, planned, done)
    assert found.races[0].kept == "none"
    assert "broken guardrail: kyber" in found.recommendation


def stands(of: Study, planned: list[Trial], done: list[TrialRecord]) -> tuple[RaceStanding, ...]:
    return standing(of, planned, done)


def test_whoever_watches_is_told_how_it_stands() -> None:
    of = study()
    planned = list(next_trials(of, (), ()))
    done = [record(trial, value(trial)) for trial in planned]
    (stand,) = stands(of, planned, done)
    assert stand.told == (
        f"w: after block 3 {stand.leader} leads; 1 dropped, 2 open (dropped now: bfq)"
    )


def test_a_winner_ends_it_though_the_others_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four that differ by less than the margin: none is shown to be the same, none to be worse."""
    for label, log in (("mq-deadline", -0.012), ("kyber", -0.013), ("bfq", -0.014)):
        monkeypatch.setitem(TRUTH, label, log)
    planned, done = executed(of := study(goal="winner"), sd=0.04)
    found, every = judged(of, planned, done), executed(study(), sd=0.04)
    assert len(done) < 0.6 * len(every[1])
    (story,) = found.races
    assert story.decided
    assert {racer.place for racer in story.racers} >= {"kept", "not-better"}
    assert (
        f"no treatment is better than scheduler={story.kept} by more than 2 %"
        in found.recommendation
    )
    assert "Not better by more than 2 %, perhaps worse: " in found.recommendation
    assert "The study asks for the winner: " in found.method
    for finding in found.findings:
        assert finding.needs is None, "nothing is open"
        assert finding.verdict != "same"


def test_the_plan_of_a_race_expects_a_winner_sooner() -> None:
    every, winner = (estimate(study(goal=goal), noise=0.02).races[0] for goal in ("all", "winner"))
    assert winner.worse < every.worse
    assert winner.same <= every.same


def test_a_winner_is_for_races() -> None:
    text = (
        'question = "?"\n[targets.disk]\nloop = { size = "16MiB" }\n[workloads.w]\ntool = "fio"\n'
        'options = { rw = "randread", runtime = "1s" }\n[factors.depth]\noption = "iodepth"\n'
        'levels = [1, 2]\n[design]\nblocks = 5\n[decide]\ngoal = "winner"\n'
    )
    with pytest.raises(StudyError, match="a winner ends a race only") as caught:
        parse_study(text, "study.toml", str)
    assert "decide.goal" in str(caught.value)
    raced = text.replace("blocks = 5", 'kind = "race"')
    assert parse_study(raced, "study.toml", str).decide.goal == "winner"


def test_the_last_line_says_what_is_kept() -> None:
    of = study()
    (stand,) = stands(of, *executed(of))
    assert stand.decided
    assert stand.told.startswith(f"w: after block {stand.blocks} decided, none is kept; 2 dropped")
    assert stand.told.endswith("(same now: mq-deadline)")


def test_a_block_that_is_not_complete_changes_nothing() -> None:
    of = study()
    first = list(next_trials(of, (), ()))
    done = [record(trial, value(trial)) for trial in first]
    more = list(next_trials(of, first, done))
    begun = [*done, record(more[0], value(more[0]))]
    assert stands(of, [*first, *more], begun) == stands(of, first, done)


def test_what_may_still_come_never_grows_and_ends_at_nothing() -> None:
    of = study(blocks=30)
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    left = [len(all_blocks(of))]
    while more := next_trials(of, planned, done):
        planned += more
        left.append(most_left(of, planned, done, stands(of, planned, done)))
        done += [record(trial, value(trial)) for trial in more]
        assert most_left(of, planned, done, stands(of, planned, done)) >= 0
    assert left[0] == left[1] == 120
    assert left == sorted(left, reverse=True)
    assert most_left(of, planned, done, stands(of, planned, done)) == 0


def test_an_estimate_is_of_all_blocks_and_says_how_long_a_race_is_likely_to_take() -> None:
    of = study(blocks=12)
    found = estimate(of, noise=0.01)
    assert found.trials == 48
    (expected,) = found.races
    planned, done = executed(of, sd=0.01)
    (story,) = judged(of, planned, done).races
    assert expected.worse < expected.same
    assert story.blocks <= 3 * expected.same
    assert estimate(dataclasses.replace(of, design=Design(blocks=12)), noise=0.01).races == ()


def grid(sizes: int, groups: int) -> Study:
    factors = tuple(
        Factor(name, "option", tuple(Level(f"{name}{place}") for place in range(count)))
        for name, count in (("size", sizes), ("group", groups))
    )
    return dataclasses.replace(study(blocks=400), factors=factors)


def on_the_grid(trial: Trial) -> float:
    """A smooth hill with its top at size 13, group 5."""
    size, group = (int(label.strip("sizegroup")) for _, label in trial.treatment)
    chance = random.Random(f"{trial.block}{trial.treatment}")
    return 1000 * math.exp(-0.03 * abs(size - 13) - 0.06 * abs(group - 5) + chance.gauss(0, 0.005))


def test_a_large_grid_is_raced_in_small_blocks_and_its_top_is_found() -> None:
    """20 sizes in 8 groups: 160 treatments, each measured, in fewer than four trials each: a pair
    needs three blocks in common before it says what its own noise is."""
    of = grid(20, 8)
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(of, planned, done):
        assert len(more) <= 48
        planned += more
        done += [record(trial, on_the_grid(trial)) for trial in more]
    found = judged(of, planned, done)
    assert found.races[0].decided
    assert found.races[0].kept == "size=size13 group=group5"
    assert len({trial.treatment for trial in planned}) == 160
    assert len(planned) < 640


def test_neighbours_of_the_leader_come_first() -> None:
    """When half of the grid is measured, most of what lies next to its top is."""
    of = grid(20, 8)
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while len({trial.treatment for trial in planned}) < 60:
        more = next_trials(of, planned, done)
        planned += more
        done += [record(trial, on_the_grid(trial)) for trial in more]
    near = {
        (("size", f"size{size}"), ("group", f"group{group}"))
        for size in (12, 13, 14)
        for group in (4, 5, 6)
    }
    assert len(near & {trial.treatment for trial in planned}) >= 7


def test_the_story_is_told_against_the_one_kept_in_the_end() -> None:
    of = study()
    planned, done = executed(of)
    (story,) = judged(of, planned, done).races
    places = {racer.label: racer.place for racer in story.racers}
    assert places == {"none": "kept", "mq-deadline": "same", "kyber": "worse", "bfq": "worse"}
    for racer in story.racers[1:]:
        assert racer.path[-1][0] == racer.after
        assert racer.ratio == pytest.approx(math.exp(racer.path[-1][1]), rel=0.02)
    assert sum(racer.trials for racer in story.racers) == story.trials == len(done)
    assert story.seconds == len(done)
    assert story.ahead is None
    assert "The widest interval at the end is ±" in judged(of, planned, done).recommendation


def test_an_open_race_is_told_with_what_going_on_would_cost() -> None:
    of = study(blocks=3)
    planned, done = executed(of, sd=0.2)
    found = judged(of, planned, done)
    (story,) = found.races
    assert story.ahead is not None
    assert story.ahead.allowed == 0
    assert story.ahead.seconds == pytest.approx(story.ahead.trials)
    assert f"about {story.ahead.blocks} more blocks" in found.recommendation
    assert "The study allows no more" in found.recommendation


def test_a_spent_budget_allows_no_more_blocks() -> None:
    of = dataclasses.replace(study(blocks=3), design=Design("race", blocks=30, budget=12.5))
    planned, done = executed(of, sd=0.2, most=12)
    (story,) = judged(of, planned, done).races
    assert story.ahead is not None
    assert story.ahead.allowed == 0


def test_what_was_never_measured_is_open_and_nobody_is_best_before_it_was() -> None:
    of = dataclasses.replace(grid(20, 8), design=Design("race", blocks=3))
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(of, planned, done):
        planned += more
        done += [record(trial, on_the_grid(trial)) for trial in more]
    found = judged(of, planned, done)
    assert len({trial.treatment for trial in planned}) < 160
    assert not found.races[0].decided
    assert "not decided yet" in found.recommendation
