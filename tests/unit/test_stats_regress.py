"""One results folder against another: what is worse is named, what cannot be told is not."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest
from scipy.stats import norm, ttest_ind

import factories
from factories import results
from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.model.trial import treatment_text
from iotrial.stats.regress import regress, unlike_loads, unlike_machines


def scaled(former: Results, factor: float, *, seed: int = 2) -> Results:
    """Another execution of the same study in which everything is ``factor`` times as fast."""
    return replace(scaled_by(results(seed=seed), factor), folder=Path("after"))


def scaled_by(other: Results, factor: float) -> Results:
    records = tuple(
        replace(
            record,
            measurements=tuple(
                replace(m, value=m.value * factor) if m.metric.endswith((".iops", ".bw")) else m
                for m in record.measurements
            ),
        )
        for record in other.records
    )
    return replace(other, records=records)


def spell(seed: int, sd: float, factor: float = 1.0) -> Results:
    """A session of its own, which all of its trials are out by together."""
    return scaled(results(), factor * math.exp(random.Random(seed).gauss(0, sd)), seed=seed)


def test_a_slower_execution_is_worse_and_named() -> None:
    before = [spell(seed, 0.02) for seed in range(4)]
    comparison = regress(before, [spell(9, 0.02, 0.5)])
    assert {finding.verdict for finding in comparison.findings} == {"worse"}
    assert comparison.recommendation.startswith("Yes: after is worse for ")
    assert all(finding.factor == "results" for finding in comparison.findings)


def test_one_session_of_each_claims_nothing_and_tells_the_largest_change() -> None:
    comparison = regress([results()], [scaled(results(), 0.5)])
    assert {f.low for f in comparison.findings} == {None}
    assert {f.verdict for f in comparison.findings} == {"cannot-tell"}
    assert "The largest change is" in comparison.recommendation
    study = results().study
    treatments = [treatment_text(each) for each in study.treatments(study.workloads[0].name)]
    told = [f.level for f in comparison.findings if f.workload == study.workloads[0].name]
    assert told == sorted(told, key=treatments.index), "in the study's order"


def test_sessions_that_are_alike_but_for_the_day_are_seldom_called_worse_or_better() -> None:
    """2 % within a session and 3 % between: within alone it would be every second pair."""
    wrong = 0
    for study in range(200):
        every = [spell(10 * study + n, 0.03) for n in range(4)]
        found = regress(every[:3], every[3:]).findings
        wrong += any(f.verdict in ("worse", "better") for f in found)
    assert wrong <= 200 * 0.05 + 2 * math.sqrt(200 * 0.05 * 0.95)


def test_the_same_in_turn_is_held_pair_by_pair() -> None:
    """What both of a pair share, however much, is in neither's difference."""
    days = [spell(seed, 0.3) for seed in range(6)]
    halves = [scaled_by(day, 0.9 * (1 + seed / 1000)) for seed, day in enumerate(days)]
    apart = regress(days, halves)
    assert {f.verdict for f in apart.findings} == {"cannot-tell"}
    paired = regress(days, halves, paired=True)
    assert {f.verdict for f in paired.findings} == {"worse"}
    assert paired.findings[0].n == len(days)


def test_a_turn_that_lacks_a_treatment_on_one_side_moves_no_other_turn() -> None:
    """Each day is 10 % faster, and nothing else differs: a lost run is no reason to see more."""
    days = [scaled(results(), 1.1**day, seed=day) for day in range(5)]
    again = [scaled_by(day, 1 + seed / 1000) for seed, day in enumerate(days)]
    key = days[0].records[0].trial.workload, days[0].records[0].trial.treatment
    short = replace(
        days[0],
        records=tuple(
            r for r in days[0].records if (r.trial.workload, r.trial.treatment) != key
        ),
    )  # fmt: skip
    found = regress([short, *days[1:]], again, paired=True).findings
    assert {f.verdict for f in found} <= {"same", "cannot-tell"}
    assert {round(f.ratio, 2) for f in found} == {1.0}
    assert sorted({f.n for f in found}) == [4, 5]


def test_one_run_of_each_says_nothing_of_how_far_runs_are_apart() -> None:
    one = replace(results(), records=results().records[:1])
    (found,) = regress([one], [scaled_by(one, 1.03)], between=0.01).findings
    assert (found.low, found.verdict) == (None, "cannot-tell")


def test_the_same_execution_is_not_worse_than_itself() -> None:
    comparison = regress([results()], [replace(results(), folder=Path("after"))], between=0.02)
    assert all(finding.ratio == pytest.approx(1) for finding in comparison.findings)
    assert not [f for f in comparison.findings if f.verdict in ("worse", "better")]


def logs_behind(finding: Finding, seen: Results) -> list[float]:
    """Logarithms of the valid responses of the finding's workload and treatment."""
    return [
        math.log(value)
        for record in seen.valid
        if record.trial.workload == finding.workload
        and treatment_text(record.trial.treatment) == finding.level
        and (value := record.value(finding.metric))
    ]


def test_each_interval_is_students_over_sessions_at_the_corrected_confidence() -> None:
    before = [spell(seed, 0.03) for seed in range(3)]
    after = [spell(seed, 0.03, 0.9) for seed in range(10, 12)]
    comparison = regress(before, after)
    finding = comparison.findings[0]
    means = [[mean(logs_behind(finding, each)) for each in side] for side in (before, after)]
    level = before[0].study.decide.confidence ** (1 / len(comparison.findings))
    interval = ttest_ind(means[1], means[0]).confidence_interval(level)
    assert finding.low == pytest.approx(math.exp(interval.low))
    assert finding.high == pytest.approx(math.exp(interval.high))


def test_what_sessions_vary_by_is_added_to_welchs_interval() -> None:
    before, after = results(), scaled(results(), 0.9)
    comparison = regress([before], [after], between=0.03)
    finding = comparison.findings[0]
    logs = [logs_behind(finding, each) for each in (before, after)]
    level = before.study.decide.confidence ** (1 / len(comparison.findings))
    welch = ttest_ind(logs[1], logs[0], equal_var=False).confidence_interval(level)
    within = (welch.high - welch.low) / 2
    apart = norm.ppf((1 + level) / 2) * math.log1p(0.03) * math.sqrt(2)
    assert finding.low is not None
    assert finding.high is not None
    assert math.log(finding.high / finding.low) / 2 == pytest.approx(math.hypot(within, apart))


def test_folders_that_share_nothing_are_said_to() -> None:
    other = replace(results(), folder=Path("after"), records=())
    comparison = regress([results()], [other])
    assert comparison.findings == ()
    assert "no comparison is possible" in comparison.recommendation


def test_what_the_machine_was_is_held_against_what_it_is() -> None:
    before = results()
    facts = {
        **before.facts["local"],
        "kernel": "6.19.1-amd64",
        "programs": {"fio": "fio-3.41"},
    }
    facts["targets"] = {"disk": {"identity": {"ids": {"serial": "S2", "backing_file": "/b"}}}}
    after = replace(before, folder=Path("after"), facts={"local": facts})
    (doubt,) = unlike_machines(before, after)
    assert doubt.check == "unlike"
    for told in ("kernel 6.18.4-amd64 and 6.19.1-amd64", "fio fio-3.39 and fio-3.41", "serial S2"):
        assert told in doubt.what
    assert list(unlike_machines(before, replace(before, folder=Path("after")))) == []


def test_another_target_or_another_option_is_another_load() -> None:
    before = results()
    study = before.study
    larger = replace(study.targets[0], size=2 * study.targets[0].size)
    found = unlike_loads(study, replace(study, targets=(larger,)))
    assert set(found) == {workload.name for workload in study.workloads}
    assert f"size of target {larger.name} = " in found["randread"]
    deeper = tuple(
        replace(w, options=(*w.options, ("iodepth", 4))) if w.name == "randread" else w
        for w in study.workloads
    )
    found = unlike_loads(study, replace(study, workloads=deeper))
    assert found == {"randread": "iodepth = 32 and 4"}
    assert unlike_loads(study, study) == {}


# -- what differs ---------------------------------------------------------------------------------


def test_what_differs_is_named_by_its_kind_with_its_two_values() -> None:
    former = factories.results(3)
    facts = dict(factories.FACTS["local"]) | {
        "kernel": "6.19.0", "memory": 1 << 33, "programs": {"fio": "fio-3.41"},
    }  # fmt: skip
    records = tuple(
        replace(
            record,
            before=tuple(
                (device, name, "64" if name == "queue.read_ahead_kb" else value)
                for device, name, value in record.before
            ),
        )
        for record in former.records
    )
    texts = ('[design]\nblocks = 3\nsettle = "1s"\n', '[design]\nblocks = 4\nsettle = "1s"\n')
    ours, theirs = (
        replace(former, folder=Path(name, "results"), study=replace(former.study, text=text))
        for name, text in zip(("old", "new"), texts, strict=True)
    )
    theirs = replace(theirs, facts={"local": facts}, records=records)
    comparison = regress([ours], [theirs])
    assert comparison.differences is not None
    told = {each.what: (each.kind, each.before, each.after) for each in comparison.differences}
    assert told == {
        "kernel": ("kernel", "6.18.4-amd64", "6.19.0"),
        "memory (bytes)": ("machine", "33285996544", str(1 << 33)),
        "fio": ("tool", "fio-3.39", "fio-3.41"),
        "queue.read_ahead_kb on loop117": ("settings", "128", "64"),
        "design.blocks": ("study", "3", "4"),
    }
    assert [each.kind for each in comparison.differences] == [
        "kernel", "machine", "tool", "settings", "study",
    ]  # fmt: skip
    assert "old/results and new/results" in comparison.recommendation, "names as they are"
    (settings,) = [each for each in comparison.differences if each.kind == "settings"]
    assert set(settings.where) == {f"scheduler={level}" for level in factories.LEVELS}


def test_two_executions_of_one_study_differ_in_nothing() -> None:
    former = factories.results(3)
    latter = replace(factories.results(3, seed=2), folder=Path("results/after"))
    assert regress([former], [latter]).differences == ()
