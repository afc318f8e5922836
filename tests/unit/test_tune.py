"""The search for the best levels of many factors: what it finds, proves, puts back and claims."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iotrial.errors import StudyError
from iotrial.judgement import judge
from iotrial.keep.winner import winners
from iotrial.model.finding import Comparison
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan import tune
from iotrial.plan.ahead import all_blocks, each_study, most_left, trials_at_most
from iotrial.plan.design import cells
from iotrial.plan.load import parse_study
from iotrial.plan.stages import course_of, courses, next_trials, trials_of
from iotrial.report.staged import row
from iotrial.rows import trial_in_row, trial_out
from iotrial.stats.additive import processes
from iotrial.stats.tune import KnobGrid, KnobTrial, start, summary

KNOBS: Mapping[str, tuple[object, ...]] = {
    "scheduler": ("none", "mq-deadline", "kyber", "bfq"),
    "requests": (32, 64, 128),
    "merges": (0, 1, 2),
    "ahead": (0, 128, 1024),
    "affinity": (1, 0, 2),
    "random": (0, 1),
    "stats": (1, 0),
    "wbt": (75000, 0),
    "rotational": (1, 0),
    "swap": (60, 10, 1),
    "dirty": (20, 10, 40),
    "sectors": (1280, 512, 256),
}
TUNABLES = {
    "scheduler": "queue.scheduler",
    "requests": "queue.nr_requests",
    "merges": "queue.nomerges",
    "ahead": "queue.read_ahead_kb",
    "affinity": "queue.rq_affinity",
    "random": "queue.add_random",
    "stats": "queue.iostats",
    "wbt": "queue.wbt_lat_usec",
    "rotational": "queue.rotational",
    "swap": "sysctl.vm.swappiness",
    "dirty": "sysctl.vm.dirty_ratio",
    "sectors": "queue.max_sectors_kb",
}
Effects = Mapping[tuple[str, str], float]
"""Logs, by factor and level."""
FEW: Effects = {
    ("scheduler", "mq-deadline"): 0.10,
    ("scheduler", "bfq"): -0.2,
    ("merges", "2"): 0.05,
    ("sectors", "256"): -0.08,
}
THROTTLED: Effects = {("wbt", "75000"): -1.0, ("scheduler", "bfq"): -0.1}


SHORT = 'budget = "60s"\nsettle = "0s"'
"""Half of it for the search: 30 trials of a second."""


def text(design: str = SHORT, decide: str = 'primary = "read.iops"\nmargin = "3%"') -> str:
    lines = [
        'question = "Which settings are best?"',
        '[targets.disk]\nloop = { size = "256MiB" }',
        '[workloads.load]\ntool = "fio"',
        'options = { rw = "randread", bs = "4k", runtime = "2s" }',
    ]
    for name, levels in KNOBS.items():
        lines.append(f'[factors.{name}]\ntunable = "{TUNABLES[name]}"')
        lines.append(f"levels = {json.dumps(list(levels))}\nbaseline = {json.dumps(levels[0])}")
    lines.append(f'[design]\nkind = "tune"\n{design}\n[decide]\n{decide}')
    return "\n".join(lines)


def parsed(**keys: str) -> Study:
    return parse_study(text(**keys), "tune.toml", lambda name: Path(name).read_text())


OF = parsed()


def measured(trial: Trial, effects: Effects, sd: float, seed: int) -> TrialRecord:
    """iops and, 100 times the reciprocal, the 99th percentile; the machine drifts by 5 %."""
    chance = random.Random(f"{seed} {trial.id} {trial.number}")
    gain = sum(effects.get(pair, 0.0) for pair in trial.treatment)
    gain += 0.05 * math.sin(trial.number / 9) + chance.gauss(0, sd)
    values = {"read.iops": 1e4 * math.exp(gain), "read.clat.p99": 2e-3 * math.exp(-gain)}
    units = {"read.iops": "1/s", "read.clat.p99": "s"}
    found = tuple(Measurement(name, value, units[name]) for name, value in values.items())
    return TrialRecord(trial, "valid", float(trial.number), 1.0, measurements=found)


def executed(
    of: Study, effects: Effects, sd: float = 0.02, seed: int = 1, most: int = 10_000
) -> tuple[list[Trial], list[TrialRecord]]:
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while len(done) < most and (more := next_trials(of, planned, done)):
        planned += more
        done += [measured(trial, effects, sd, seed) for trial in more]
    return planned, done


def judged(
    of: Study, planned: list[Trial], done: list[TrialRecord]
) -> tuple[Results, Comparison, dict[str, str]]:
    results = Results(Path("r"), of, tuple(planned), tuple(done))
    comparison = judge(results).comparison
    return results, comparison, {each.factor: each.new for each in comparison.choices}


def kept(results: Results, comparison: Comparison) -> dict[str, str]:
    """What `keep` would change."""
    found = winners(results, comparison)
    return {name: level for name, level in found.items() if level != str(KNOBS[name][0])}


def test_it_finds_what_matters_among_twelve_and_proves_it() -> None:
    of = parsed(design="")
    planned, done = executed(of, FEW)
    results, comparison, new = judged(of, planned, done)
    assert new["scheduler"] == "mq-deadline"
    assert new["merges"] == "2"
    assert new["sectors"] != "256"
    changed = {name for name in new if new[name] != str(KNOBS[name][0])}
    assert changed <= {"scheduler", "merges", "sectors"}, "nothing that does nothing"
    assert comparison.recommendation.startswith("Change scheduler from none to mq-deadline")
    assert "Confirmed on disk: new against current is load better" in comparison.recommendation
    proof = comparison.stages[-1].comparison.findings[0]
    assert proof.low is not None
    assert proof.high is not None
    assert proof.low < math.exp(0.15) < proof.high
    assert kept(results, comparison) == {name: new[name] for name in changed}


def test_a_throttle_behind_one_of_twelve_is_found_at_once() -> None:
    planned, done = executed(OF, THROTTLED, sd=0.05)
    _, comparison, new = judged(OF, planned, done)
    assert {name: new[name] for name in new if new[name] != str(KNOBS[name][0])} == {"wbt": "0"}
    searched = [trial for trial in planned if trial.stage == 1]
    first = courses(OF, planned[:24], done[:24])[0]
    assert tune.summary(first.study, first.results.records).gain > 2
    assert len(searched) <= tune.most(OF.factors)
    assert comparison.recommendation.startswith("Change wbt from 75000 to 0.")


def test_where_nothing_matters_nothing_is_changed() -> None:
    claims = 0
    for seed in range(4):
        planned, done = executed(OF, {}, sd=0.03, seed=seed)
        results, comparison, _ = judged(OF, planned, done)
        claims += bool(kept(results, comparison))
    assert claims <= 1


def test_what_is_not_proved_is_not_kept() -> None:
    """The search was right about nothing: on fresh trials the combination is no better."""

    def flattered(trial: Trial) -> Effects:
        return {("scheduler", "bfq"): 0.3} if trial.stage < 3 else {}

    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(OF, planned, done):
        planned += more
        done += [measured(trial, flattered(trial), 0.01, 1) for trial in more]
    results, comparison, new = judged(OF, planned, done)
    assert new["scheduler"] == "bfq"
    assert comparison.recommendation.startswith("Change nothing: scheduler from none to bfq is not")
    assert kept(results, comparison) == {}


def test_of_two_that_do_the_same_neither_is_lost() -> None:
    """Either of two lifts the same limit.  Where the search changes both, neither is needed."""

    def either(trial: Trial) -> Effects:
        lifted = ("wbt", "0") in trial.treatment or ("rotational", "0") in trial.treatment
        return {} if lifted else {trial.treatment[0]: -0.7}

    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(OF, planned, done):
        planned += more
        done += [measured(trial, either(trial), 0.02, 1) for trial in more]
    results, comparison, _ = judged(OF, planned, done)
    assert set(kept(results, comparison)) & {"wbt", "rotational"}
    both = {"wbt": "0", "rotational": "0"}
    course = courses(OF, planned, done)[1]
    so_far = replace(course.so_far, stands={**course.baselines, **both})
    trials: list[Trial] = []
    alike: list[TrialRecord] = []
    course = course_of(OF, OF.stages[1], so_far, ((), (), 0))
    while not course.decided:
        trials += trials_of(OF, course, len(trials))
        alike = [measured(trial, {}, 0.001, 1) for trial in trials]
        course = course_of(OF, OF.stages[1], so_far, (trials, alike, 0))
    one, other = course.kept
    assert (one.stands, other.stands) == ("0", "0")
    assert one.why.endswith("kept, since none of them is needed by itself")


@pytest.mark.parametrize("at", [1, 13, 18, 41])
def test_stopped_anywhere_and_taken_up_again_it_ends_the_same(at: int) -> None:
    """What was written is read back; a planned line that was lost is planned again."""
    whole, _ = executed(OF, FEW)
    planned, done = executed(OF, FEW, most=at)
    done = done[:at]
    planned = [trial_in_row(json.loads(json.dumps(trial_out(t)))) for t in planned]
    left = planned[: max(at, len(planned) - 2)]
    while True:
        known = {record.trial.number for record in done}
        if not (todo := [trial for trial in left if trial.number not in known]):
            todo = list(next_trials(OF, left, done))
            left = [*left, *todo]
        if not todo:
            break
        done += [measured(trial, FEW, 0.02, 1) for trial in todo]
    assert sorted(left, key=lambda trial: trial.number) == whole


def test_an_invalid_trial_is_done_again_and_says_nothing() -> None:
    first = next_trials(OF, (), ())
    done = [measured(trial, FEW, 0.02, 1) for trial in first]
    done[3] = replace(done[3], state="invalid", measurements=())
    (again,) = next_trials(OF, first, done)
    assert (again.treatment, again.attempt) == (first[3].treatment, 2)
    assert len(tune.trials_of(courses(OF, first, done)[0].study, done)) == len(first) - 1


def test_nothing_is_chosen_while_trials_wait() -> None:
    first = next_trials(OF, (), ())
    done = [measured(trial, FEW, 0.02, 1) for trial in first[:-1]]
    assert next_trials(OF, first, done) == ()


def test_the_first_trials_have_the_baseline_and_every_level() -> None:
    first = next_trials(OF, (), ())
    assert len(first) == 5
    base = {name: str(levels[0]) for name, levels in KNOBS.items()}
    assert sum(dict(trial.treatment) == base for trial in first) == 1
    for name, levels in KNOBS.items():
        assert {dict(trial.treatment)[name] for trial in first} == set(map(str, levels))


def test_excluded_combinations_are_never_tried() -> None:
    of = parse_study(
        text() + '\n[[exclude]]\nscheduler = "kyber"\nrequests = [64, 128]\n',
        "tune.toml",
        lambda name: Path(name).read_text(),
    )
    planned, _ = executed(of, {("requests", "64"): 0.2, ("scheduler", "kyber"): 0.2}, most=60)
    tried = {(dict(t.treatment)["scheduler"], dict(t.treatment)["requests"]) for t in planned}
    assert not tried & {("kyber", "64"), ("kyber", "128")}


def test_a_latency_is_better_when_lower() -> None:
    of = parsed(decide='primary = "read.clat.p99"\nmargin = "3%"')
    planned, done = executed(of, FEW)
    _, comparison, new = judged(of, planned, done)
    assert new["scheduler"] == "mq-deadline"
    told = "\n".join(row(comparison.stages[0]).lines)
    assert "scheduler: mq-deadline of 4: −" in told
    worth = next(each for each in comparison.stages[1].kept if each.factor == "scheduler")
    assert "−" in worth.why


def test_a_limit_is_not_exceeded() -> None:
    """More operations cost latency here: the best levels are beyond the limit."""
    of = parsed(
        design='budget = "90s"\nsettle = "0s"',
        decide='primary = "read.iops"\nmargin = "3%"\nlimits = { "read.clat.p99" = "2ms" }',
    )
    costs = {("requests", "64"): 0.2, ("requests", "32"): 0.4, ("merges", "2"): 0.1}

    def late(record: TrialRecord) -> TrialRecord:
        over = 0.5 if ("requests", "32") in record.trial.treatment else -0.5
        values = tuple(
            replace(m, value=2e-3 * math.exp(over)) if m.metric == "read.clat.p99" else m
            for m in record.measurements
        )
        return replace(record, measurements=values)

    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while more := next_trials(of, planned, done):
        planned += more
        done += [late(measured(trial, costs, 0.02, 1)) for trial in more]
    results, comparison, _ = judged(of, planned, done)
    assert kept(results, comparison) == {"requests": "64", "merges": "2"}
    assert "without it read.clat.p99 is above its limit" in "".join(row(comparison.stages[1]).lines)
    later = [trial for trial in planned if trial.stage == 1][20:]
    beyond = sum(("requests", "32") in trial.treatment for trial in later)
    assert beyond <= len(later) / 4


def test_the_budget_ends_the_search_and_leaves_time_for_the_proof() -> None:
    of = parsed(design='budget = "40s"\nsettle = "0s"')
    planned, done = executed(of, FEW)
    assert sum(record.seconds for record in done if record.trial.stage == 1) == 20
    first = courses(of, planned, done)[0]
    found = tune.found(first.study, first.results.records)
    assert found is not None
    assert found.why == "its share of the budget is used"


def test_a_search_ends_by_itself_when_nothing_worth_the_margin_is_missing() -> None:
    of = parsed(design="")
    planned, done = executed(of, FEW)
    first = courses(of, planned, done)[0]
    found = tune.found(first.study, first.results.records)
    assert found is not None
    assert found.why == "more trials are not expected to pay"
    assert found.missing < tune.PAYS * 0.03
    assert 2 * len(KNOBS) <= found.trials < tune.most(of.factors)


def test_how_much_may_come_is_known_before_and_bounds_what_comes() -> None:
    planned, done = executed(OF, FEW)
    assert len(planned) <= sum(map(len, map(all_blocks, each_study(OF))))
    first = next_trials(OF, (), ())
    assert len(planned) <= most_left(OF, first, (), ())
    assert {trial.stage for trial in trials_at_most(OF)} == {1, 2, 3}
    part = courses(OF, planned, done)[0].study
    levels = {pair for cell in cells(part, "load") for pair in cell}
    assert len(levels) == sum(map(len, KNOBS.values()))


def test_the_error_is_shared_by_what_claims_something() -> None:
    planned, done = executed(OF, FEW)
    _, worth, confirm = courses(OF, planned, done)
    assert worth.study.decide.confidence == confirm.study.decide.confidence == 0.95**0.5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t + '\n[workloads.other]\ntool = "fio"\noptions = { rw = "read" }', "one work"),
        (lambda t: t + '\n[[stage]]\nvary = ["stats"]', "has stages of its own"),
        (lambda t: t.replace('baseline = "none"', ""), "needs a baseline"),
        (lambda t: t + '\n[[exclude]]\nscheduler = "none"\nstats = 1', "excludes the baseline"),
        (lambda t: t.replace("baseline = 32", "baseline = 32\nhard = true"), "hard to change"),
        (lambda t: t.replace('"read.iops"', '["read.iops", "read.bw"]'), "one primary metric"),
        (lambda t: t.replace('kind = "tune"', 'kind = "tune"\nblocks_over = "hosts"'), "decides"),
    ],
)
def test_what_cannot_be_tuned_is_refused(change: Callable[[str], str], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        parse_study(change(text()), "tune.toml", lambda name: Path(name).read_text())


# -- the model ------------------------------------------------------------------------------------


def test_sizes_are_found_and_what_does_nothing_stays_small() -> None:
    chance = np.random.default_rng(1)
    counts, ordered = (3, 2, 4, 2, 3, 2), (False,) * 6
    cells_ = np.stack([chance.integers(count, size=60) for count in counts], axis=1)
    effect = np.array([-0.2, 0.0, 0.2])[cells_[:, 0]] + 0.1 * cells_[:, 1] * (cells_[:, 2] == 3)
    found = processes(counts, ordered, cells_, effect + 0.02 * chance.standard_normal(60), 1)
    sizes = np.mean([np.sqrt(each.sizes) for each in found], axis=0)
    assert sizes[0] > 0.08
    assert max(sizes[3:]) < 0.03
    noise = np.mean([math.sqrt(each.noise) for each in found])
    assert 0.012 < noise < 0.03
    surface = found[0].mean()
    gain = surface.value((2, 0, 0, 0, 0, 0)) - surface.value((0, 0, 0, 0, 0, 0))
    assert abs(gain - 0.4) < 0.05


def test_levels_and_values_of_a_surface_agree() -> None:
    chance = np.random.default_rng(2)
    counts = (3, 2, 4)
    cells_ = np.stack([chance.integers(count, size=20) for count in counts], axis=1)
    process = processes(counts, (True, False, True), cells_, chance.standard_normal(20), 1)[0]
    surface = process.drawn(chance)
    for knob, count in enumerate(counts):
        base = (1, 1, 1)
        levels = surface.levels(base, knob, count)
        values = [surface.value((*base[:knob], at, *base[knob + 1 :])) for at in range(count)]
        assert np.allclose(levels - levels[0], np.array(values) - values[0])


def test_a_drawn_surface_agrees_with_what_was_measured() -> None:
    """Where the noise is small, all of them pass near the trials, up to a level."""
    chance = np.random.default_rng(3)
    counts = (3, 3, 2, 2)
    cells_ = np.stack([chance.integers(count, size=40) for count in counts], axis=1)
    values = 0.3 * cells_[:, 0] - 0.1 * cells_[:, 1] + 0.005 * chance.standard_normal(40)
    for process in processes(counts, (False,) * 4, cells_, values, 1)[:4]:
        off = process.drawn(chance).values(cells_) - values
        assert np.std(off) < 0.04


def test_levels_that_are_numbers_are_seen_in_their_order() -> None:
    grid = tune.grid_of(OF)
    names = [factor.name for factor in OF.factors]
    assert not grid.ordered[names.index("scheduler")]
    assert grid.ordered[names.index("swap")]
    assert grid.baseline[names.index("swap")] == 2, "60 is the largest of 1, 10, 60"


def test_the_first_design_is_balanced() -> None:
    grid = KnobGrid((2, 3, 4, 2), (False,) * 4, (1, 2, 0, 1))
    cells_ = start(grid, 24, 1)
    assert cells_[0] == grid.baseline
    for at, count in enumerate(grid.counts):
        seen = [sum(cell[at] == place for cell in cells_) for place in range(count)]
        assert max(seen) - min(seen) <= 2


def test_of_two_trials_something_can_be_said() -> None:
    grid = KnobGrid((2, 2), (False, False), (0, 0))
    found = summary(grid, (KnobTrial((0, 0), 1.0), KnobTrial((1, 1), 1.5)), 0.03, 1)
    assert found.promise >= 0
    assert len(found.worths) == 2


def test_a_pair_that_was_never_tried_is_not_expected_to_make_up_for_those_that_were() -> None:
    """Of effects that sum to 0 over levels, the one that is not known is as good as the others are
    bad."""
    chance = np.random.default_rng(4)
    good, bad = [(1, 1)] * 40, [(0, 1), (1, 0), (2, 1), (1, 2), (0, 2)] * 2
    cells_ = np.array([(a, b, int(chance.integers(2))) for a, b in (*bad, *good)])
    worse = np.where((cells_[:, 0] == 1) & (cells_[:, 1] == 1), 0.0, -2.0)
    values = worse + 0.03 * chance.standard_normal(len(cells_))
    for process in processes((3, 3, 2), (False,) * 3, cells_, values, 1):
        surface = process.mean()
        untried = max(surface.value((a, b, 0)) for a, b in ((0, 0), (2, 0), (2, 2)))
        assert untried < surface.value((1, 1, 0)) - 0.5
