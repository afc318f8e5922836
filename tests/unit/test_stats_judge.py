from __future__ import annotations

import dataclasses
import math
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from stats_studies import METRIC, SCHEDULER, change, noisy, record, results, with_metric

from iotrial.model.finding import Comparison
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Factor, Level
from iotrial.model.trial import Trial
from iotrial.stats.judge import judge
from iotrial.stats.power import resolvable

TWO = {"scheduler": ("none", "bfq")}
FACTORIAL = {"scheduler": ("none", "bfq"), "depth": ("1", "32")}


def scripted(*values: float | None) -> Results:
    """One workload, none and bfq in each block: none, bfq, none, bfq …"""
    return results(TWO, ["read"], len(values) // 2, lambda trial: values[trial.number - 1])


def verdicts(of: Comparison) -> dict[tuple[str, str], str]:
    return {(f.workload, f.level): f.verdict for f in of.findings if f.primary}


def test_three_blocks_by_hand() -> None:
    # Ratios 0.8, 0.9, 0.85: logs −0.22314, −0.10536, −0.16252; mean −0.16367, sd 0.05890,
    # t(2 df, 97.5 %) = 4.3027, half width 4.3027 · 0.05890 / √3 = 0.14632.
    [finding] = judge(scripted(100, 80, 200, 180, 300, 255)).findings
    assert finding.ratio == pytest.approx(math.exp(-0.16367), rel=1e-4)
    assert finding.low == pytest.approx(math.exp(-0.16367 - 0.14632), rel=1e-4)
    assert finding.high == pytest.approx(math.exp(-0.16367 + 0.14632), rel=1e-4)
    assert (finding.verdict, finding.n, finding.baseline) == ("worse", 3, "none")
    assert finding.noise == pytest.approx(0.05890 / math.sqrt(2), rel=1e-3)
    assert finding.trials == tuple(f"{n:04d}-{n:06x}" for n in range(1, 7))


def test_one_comparison_is_scipys_paired_t_test() -> None:
    values = [100.0, 104, 90, 97, 110, 108, 95, 99]
    [finding] = judge(scripted(*values)).findings
    logs = [math.log(value) for value in values]
    oracle = stats.ttest_rel(logs[1::2], logs[0::2]).confidence_interval(0.95)
    assert finding.low == pytest.approx(math.exp(oracle.low))
    assert finding.high == pytest.approx(math.exp(oracle.high))


def test_where_no_trial_is_valid_the_first_cause_is_the_answer() -> None:
    whole = scripted(*[1000.0] * 8)
    failed = tuple(
        dataclasses.replace(each, state="failed", error="fio: not found.", measurements=())
        for each in whole.records
    )
    told = judge(dataclasses.replace(whole, records=failed)).recommendation
    first = failed[0].trial.number
    assert told == (
        f"No claim possible: none of {len(failed)} trials is valid. Trial {first}: fio: not found."
    )


def test_findings_come_in_the_studys_order() -> None:
    of = results(SCHEDULER, ["zeta", "alpha"], 3, noisy(0.05, 1))
    keys = [(f.workload, f.level) for f in judge(of).findings]
    assert keys == [(w, level) for w in ("zeta", "alpha") for level in SCHEDULER["scheduler"][1:]]


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.floats(1e-9, 1e9))
def test_neither_the_order_of_records_nor_the_unit_matters(
    shuffler: random.Random, unit: float
) -> None:
    of = results(FACTORIAL, ["read", "write"], 3, noisy(0.2, 7))
    records = list(of.records)
    shuffler.shuffle(records)
    assert judge(dataclasses.replace(of, records=tuple(records))) == judge(of)
    scaled = tuple(record(r.trial, unit * (r.value(METRIC) or 0)) for r in of.records)
    pairs = zip(
        judge(of).findings, judge(dataclasses.replace(of, records=scaled)).findings, strict=True
    )
    for was, now in pairs:
        assert (now.ratio, now.low, now.high) == pytest.approx((was.ratio, was.low, was.high))
        assert now.verdict == was.verdict


def test_a_blocks_own_level_cancels() -> None:
    values = [100.0, 104, 90, 97, 110, 108, 95, 99]
    moved = [value * 3 ** (n // 2) for n, value in enumerate(values)]
    [was], [now] = judge(scripted(*values)).findings, judge(scripted(*moved)).findings
    assert (now.ratio, now.low, now.high) == pytest.approx((was.ratio, was.low, was.high))


@pytest.mark.parametrize("useless", [0.0, -5.0, math.nan, math.inf, None])
def test_a_trial_without_a_positive_number_shows_in_n(useless: float | None) -> None:
    comparison = judge(scripted(100, 80, 200, useless, 300, 255, 90, 75))
    assert [f.n for f in comparison.findings] == [3]
    # None fails the trial; the others are valid trials whose number is of no use.
    assert ("1 excluded" in comparison.method) is (useless is not None)


def test_the_last_valid_attempt_counts() -> None:
    of = scripted(100, 80, 200, 180, 300, 255)
    again = dataclasses.replace(of.records[1].trial, number=7, attempt=2)
    more = dataclasses.replace(of, records=(record(again, 85), *of.records))
    assert (
        judge(more).findings[0].ratio
        == judge(scripted(100, 85, 200, 180, 300, 255)).findings[0].ratio
    )
    invalid = dataclasses.replace(record(again, 1), state="invalid")
    assert judge(dataclasses.replace(of, records=(*of.records, invalid))) == dataclasses.replace(
        judge(of), method=judge(of).method.replace("6 trials executed", "7 trials executed")
    )


@pytest.mark.parametrize(
    ("resolved", "declared", "expected"),
    [("bfq", "kyber", "bfq"), ("", "kyber", "kyber"), ("gone", "", "none"), ("", "", "none")],
)
def test_the_baseline_is_resolved_declared_or_first(
    resolved: str, declared: str, expected: str
) -> None:
    of = results(SCHEDULER, ["read"], 2, noisy(0.01, 1))
    [factor] = of.study.factors
    study = dataclasses.replace(of.study, factors=(dataclasses.replace(factor, baseline=declared),))
    given_baselines = {"scheduler": resolved} if resolved else {}
    of = dataclasses.replace(of, study=study, baselines=given_baselines)
    found = judge(of).findings
    assert {f.baseline for f in found} == {expected}
    assert expected not in {f.level for f in found}


def test_main_effects_are_averaged_over_the_other_factor() -> None:
    # bfq costs 20 % at depth 1 and 5 % at depth 32: on average sqrt(0.8 · 0.95).
    table = {("none", "1"): 100, ("bfq", "1"): 80, ("none", "32"): 1000, ("bfq", "32"): 950}
    of = results(FACTORIAL, ["read"], 3, lambda t: table[t.treatment[0][1], t.treatment[1][1]])
    scheduler, depth = judge(of).findings
    assert scheduler.ratio == pytest.approx(math.sqrt(0.8 * 0.95))
    assert depth.ratio == pytest.approx(math.sqrt(10 * 950 / 80))
    assert (scheduler.factor, depth.factor, depth.level) == ("scheduler", "depth", "32")


def test_an_excluded_cell_leaves_only_whole_pairs() -> None:
    table = {("none", "1"): 100, ("bfq", "1"): 80, ("none", "32"): 1000, ("bfq", "32"): 950}
    of = results(FACTORIAL, ["read"], 3, lambda t: table[t.treatment[0][1], t.treatment[1][1]])

    def allowed(trial: Trial) -> bool:
        return trial.treatment != (("scheduler", "bfq"), ("depth", "32"))

    of = dataclasses.replace(
        of,
        planned=tuple(filter(allowed, of.planned)),
        records=tuple(r for r in of.records if allowed(r.trial)),
    )
    scheduler, depth = judge(of).findings
    assert scheduler.ratio == pytest.approx(0.8)
    assert depth.ratio == pytest.approx(10)


def test_a_level_that_never_met_its_baseline_is_not_compared() -> None:
    # bfq only in blocks 1 and 2, none only in 3 and 4: block and treatment cannot be told apart.
    early = {"none": False, "bfq": True}
    levels = {"scheduler": ("none", "bfq")}
    of = results(
        levels,
        ["read"],
        4,
        lambda t: 100.0 + t.number if early[t.treatment[0][1]] is (t.block < 3) else None,
    )
    assert judge(of).findings == ()
    assert "no level shares a block with none" in judge(of).recommendation


def test_a_factor_of_one_workload_is_compared_there_only() -> None:
    of = results(TWO, ["read", "write"], 3, noisy(0.1, 3))
    depth = Factor("depth", "option", (Level("1"), Level("32")), workload="read")
    trials = [
        dataclasses.replace(r.trial, treatment=(*r.trial.treatment, ("depth", label)))
        for r in of.records
        if r.trial.workload == "read"
        for label in ("1", "32")
    ] + [r.trial for r in of.records if r.trial.workload == "write"]
    trials = [dataclasses.replace(t, number=n) for n, t in enumerate(trials, 1)]
    of = dataclasses.replace(
        of,
        study=dataclasses.replace(of.study, factors=(*of.study.factors, depth)),
        planned=tuple(trials),
        records=tuple(record(t, 100.0 + t.number % 7) for t in trials),
    )
    found = [(f.workload, f.factor) for f in judge(of).findings]
    assert found == [("read", "scheduler"), ("read", "depth"), ("write", "scheduler")]


def test_a_family_of_more_workloads_widens_every_interval() -> None:
    read_only = results(SCHEDULER, ["read"], 4, noisy(0.1, 5))
    # The second workload has lost all its trials and still belongs to the family.
    lost = results(SCHEDULER, ["read", "write"], 4, lambda _: None)
    both = dataclasses.replace(lost, records=(*read_only.records, *lost.records))
    for alone, beside in zip(judge(read_only).findings, judge(both).findings, strict=True):
        assert alone.ratio == beside.ratio
        assert (beside.low or 0) < (alone.low or 0)
        assert (beside.high or 0) > (alone.high or 0)


def test_guardrails_follow_their_workload_with_their_own_interval() -> None:
    of = results(TWO, ["read", "write"], 4, noisy(0.02, 2))
    of = with_metric(
        of,
        "read.clat.p99",
        lambda r: (1.3 if r.trial.treatment[0][1] == "bfq" else 1) * (1 + r.trial.number / 1000),
    )
    of = change(of, guardrails=(("read.clat.p99", 0.1),))
    found = judge(of).findings
    assert [(f.workload, f.metric, f.primary) for f in found] == [
        ("read", METRIC, True), ("read", "read.clat.p99", False),
        ("write", METRIC, True), ("write", "read.clat.p99", False),
    ]  # fmt: skip
    assert [f.verdict for f in found if not f.primary] == ["worse", "worse"]
    logs = [math.log(r.value("read.clat.p99") or 0) for r in of.records[:16]]
    oracle = stats.ttest_rel(
        [x for x, r in zip(logs, of.records, strict=False) if r.trial.workload == "read"][1::2],
        [x for x, r in zip(logs, of.records, strict=False) if r.trial.workload == "read"][0::2],
    ).confidence_interval(0.95)
    assert found[1].high == pytest.approx(math.exp(oracle.high))


def test_lower_latency_is_better() -> None:
    of = scripted(100, 80, 200, 160, 300, 242)
    slow = dataclasses.replace(
        of, records=tuple(record(r.trial, r.value(METRIC), "read.clat.mean") for r in of.records)
    )
    assert verdicts(judge(of))["read", "bfq"] == "worse"
    assert verdicts(judge(change(slow, primary=(("read", "read.clat.mean"),)))) == {
        ("read", "bfq"): "better"
    }


def test_a_metric_nobody_knows_is_never_better() -> None:
    of = scripted(100, 80, 200, 160, 300, 242)
    odd = dataclasses.replace(
        of, records=tuple(record(r.trial, r.value(METRIC), "read.oddity") for r in of.records)
    )
    assert verdicts(judge(change(odd, primary=(("read", "read.oddity"),)))) == {
        ("read", "bfq"): "cannot-tell"
    }


def test_what_the_data_could_have_told_is_about_what_the_plan_promised() -> None:
    comparison = judge(results(SCHEDULER, ["a", "b", "c"], 5, noisy(0.05, 4)))
    for (_, seen), noise in zip(
        comparison.resolvable, [f.noise for f in comparison.findings[::3]], strict=True
    ):
        promised = resolvable(noise or 0, 5, 4, 9, 0.95)
        assert promised * 0.95 < seen <= promised


def test_equal_numbers_everywhere_are_the_same_even_without_a_margin() -> None:
    of = results(SCHEDULER, ["read"], 3, lambda _: 1234.5)
    assert set(verdicts(judge(of)).values()) == {"same"}
    assert set(verdicts(judge(change(of, margin=0.0))).values()) == {"cannot-tell"}


def test_numbers_stay_finite_however_wild_the_data() -> None:
    of = scripted(1e-300, 1e300, 1e300, 1e-300)
    [finding] = judge(of).findings
    assert all(math.isfinite(x) for x in (finding.ratio, finding.low or 0, finding.high or 0))
    assert all(math.isfinite(x) for _, x in judge(of).resolvable)


def test_ten_thousand_trials_are_judged_in_well_under_a_second() -> None:
    of = results(SCHEDULER, ["a", "b", "c"], 834, noisy(0.05, 6))
    judge(of)
    started = time.process_time()
    judge(of)
    assert time.process_time() - started < 0.8


def test_trials_on_several_targets_are_compared_within_each() -> None:
    of = scripted(100, 80, 200, 180, 300, 255)
    other = [
        record(
            dataclasses.replace(r.trial, target="nas", number=r.trial.number + 6),
            50 * (r.value(METRIC) or 0),
        )
        for r in of.records
    ]
    [finding] = judge(dataclasses.replace(of, records=(*of.records, *other))).findings
    assert finding.n == 6
    assert finding.ratio == pytest.approx(judge(of).findings[0].ratio)


def test_a_decision_rule_that_names_no_workload_finds_nothing() -> None:
    of = results(TWO, ["read"], 3, noisy(0.1, 1), DecisionRule(primary=()))
    assert judge(of).findings == ()


def test_repeats_that_are_alike_to_the_last_digit_are_known_to_that_digit_only() -> None:
    """1000 and 1010, twice: what 1000 stands for may be anything from 999.5 to 1000.5."""
    (finding,) = judge(scripted(1000, 1010, 1000, 1010)).findings
    assert finding.low is not None
    assert finding.high is not None
    assert finding.low < 1.01 - 0.003
    assert finding.high > 1.01 + 0.003
    (more,) = judge(scripted(*[1000, 1010] * 5)).findings
    assert more.low is not None
    assert 1.008 < more.low < 1.0099
