"""The recommendation says what the verdicts say, and no more."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import pytest
from stats_studies import METRIC, SCHEDULER, change, noisy, record, results, with_metric

from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.model.trial import Trial
from iotrial.stats.judge import judge
from iotrial.stats.recommend import RecommendationBasis, recommend

TWO = {"scheduler": ("none", "bfq")}


def steady(effects: Mapping[tuple[str, str], float]) -> Results:
    """Three levels, two workloads, five blocks, noise 0.2 %."""
    levels = {"scheduler": ("none", "kyber", "bfq")}
    return results(levels, ["read", "write"], 5, noisy(0.002, 1, effects))


def said(of: Results) -> str:
    return judge(of).recommendation


def test_a_loser_is_named_with_its_interval() -> None:
    text = said(steady({("read", "bfq"): 0.82}))
    assert text.startswith("Keep scheduler=none: for read bfq is 17.9 % slower (95 % interval −18.")
    assert "Same as none within ±2 %: read (kyber); write (all levels)." in text


def test_a_winner_is_recommended() -> None:
    text = said(steady({("write", "kyber"): 1.1}))
    assert text.startswith("Change scheduler=none to kyber: for write kyber is 10.")
    assert "faster" in text


def test_two_winners_are_not_claimed_to_have_been_compared() -> None:
    text = said(steady({("read", "kyber"): 1.1, ("read", "bfq"): 1.2}))
    assert text.startswith("Change scheduler=none to bfq or kyber (not compared with each other): ")


def test_workloads_that_disagree_are_not_averaged() -> None:
    text = said(steady({("read", "bfq"): 1.1, ("write", "bfq"): 0.8}))
    assert text.startswith("Which scheduler is best depends on the workload: for read bfq is ")
    assert "; for write bfq is 19." in text or "; for write bfq is 20." in text


def test_all_the_same() -> None:
    text = said(steady({}))
    assert text == (
        "No difference that matters (±2 %) between scheduler=none and each of kyber, bfq."
        " Same as none within ±2 %: read (all levels); write (all levels)."
    )


def test_nothing_to_be_told_says_what_could_have_been() -> None:
    text = said(results(SCHEDULER, ["read"], 3, noisy(0.1, 3)))
    assert text.startswith(
        "Cannot tell: no level of scheduler was shown to differ from scheduler=none."
    )
    assert "smallest detectable difference " in text


def test_of_hundreds_of_times_nobody_is_told_how_many() -> None:
    text = said(results(SCHEDULER, ["read"], 2, noisy(3.0, 2)))
    assert "smallest detectable difference more than 100× (read)" in text


def test_some_same_and_some_unknown_is_no_reason_to_change() -> None:
    of = steady({})
    wild = {1: 0.8, 2: 1.2, 3: 1.0, 4: 0.7, 5: 1.3}
    records = tuple(
        record(r.trial, 1000 * wild[r.trial.block])
        if (r.trial.workload, r.trial.treatment[0][1]) == ("write", "bfq")
        else r
        for r in of.records
    )
    text = said(dataclasses.replace(of, records=records))
    assert text.startswith("No reason to change scheduler=none.")
    assert "Undecided: write (all levels)" in text


def test_what_may_cost_another_load_is_no_reason_to_change() -> None:
    """kyber is better for reads, and nobody knows what it does to writes."""
    of = steady({("read", "kyber"): 1.1})
    wild = {1: 0.8, 2: 1.2, 3: 1.0, 4: 0.7, 5: 1.3}
    records = tuple(
        record(r.trial, 1000 * wild[r.trial.block])
        if (r.trial.workload, r.trial.treatment[0][1]) == ("write", "kyber")
        else r
        for r in of.records
    )
    assert re.match(
        r"No reason to change scheduler=none yet, for kyber may cost write up to"
        r" [0-9.]+ % \(undecided\): for read kyber is 10\.\d % faster",
        said(dataclasses.replace(of, records=records)),
    )


@pytest.mark.parametrize(("low", "change"), [(0.9, "bfq"), (0.99, "kyber or bfq")])
def test_of_two_winners_the_one_that_may_cost_nothing_is_recommended(
    low: float, change: str
) -> None:
    """Writes with kyber may lose 10 % (or 1 %, less than the margin), with bfq nothing."""
    of = steady({})
    (factor,) = of.study.factors
    ends = {
        ("read", "kyber"): (1.1, 1.05, 1.15, "better"),
        ("read", "bfq"): (1.05, 1.03, 1.08, "better"),
        ("write", "kyber"): (1.0, low, 1.1, "cannot-tell"),
        ("write", "bfq"): (1.0, 1.0, 1.1, "cannot-tell"),
    }
    findings = tuple(
        Finding(load, METRIC, factor.name, level, "none", *told, 5)  # type: ignore[arg-type]
        for (load, level), told in ends.items()
    )
    case = RecommendationBasis(of.study, {factor.name: "none"}, findings, {})
    text = recommend(case)
    assert text.startswith(f"Change scheduler=none to {change}"), text
    assert (" (not compared" in text.partition(":")[0]) is ("or" in change.split())


def test_one_block_makes_no_claim() -> None:
    comparison = judge(results(SCHEDULER, ["read"], 1, noisy(0.05, 1)))
    assert comparison.recommendation.startswith("No claim possible for scheduler: n = 1, and 1 ")
    assert {f.verdict for f in comparison.findings} == {"cannot-tell"}
    assert {(f.low, f.high, f.noise, f.n) for f in comparison.findings} == {(None, None, None, 1)}
    assert comparison.resolvable == ()


def test_no_factor_leaves_only_what_was_measured() -> None:
    comparison = judge(results({}, ["read"], 3, lambda t: 1000.0 * t.block))
    assert comparison.findings == ()
    assert comparison.recommendation == (
        "No factor was varied: no recommendation. read: read.iops 1.82 kIOPS (n = 3, sd 56 %)."
    )


def test_a_level_that_lost_all_its_trials_is_named() -> None:
    def response(trial: Trial) -> float | None:
        return None if trial.treatment[0][1] == "bfq" else 1000.0 + trial.number % 5

    text = said(results(SCHEDULER, ["read"], 3, response))
    assert text.endswith("No valid trials to compare: read bfq.")


def test_a_baseline_that_lost_all_its_trials_ends_every_claim() -> None:
    def response(trial: Trial) -> float | None:
        return None if trial.treatment[0][1] == "none" else 1000.0 + trial.number % 5

    assert said(results(SCHEDULER, ["read"], 3, response)) == (
        "No claim possible for scheduler: no level shares a block with none in valid trials."
    )


def test_no_valid_trial_at_all_is_no_crash() -> None:
    comparison = judge(results(SCHEDULER, ["read"], 3, lambda _: None))
    assert comparison.findings == ()
    assert comparison.recommendation.startswith("No claim possible: none of 12 trials is valid")
    empty = dataclasses.replace(results({}, ["read"], 3, lambda _: None), records=())
    assert judge(empty).recommendation.startswith("No factor was varied")


def test_one_level_leaves_nothing_to_compare() -> None:
    text = said(results({"scheduler": ("none",)}, ["read"], 3, noisy(0.1, 1)))
    assert text == "No claim possible for scheduler: it has no second level to compare."


@pytest.mark.parametrize(
    ("tail", "lead"),
    [
        (1.5, "Keep scheduler=none unless the broken guardrail does not matter"),
        (1.0, "Change scheduler=none to bfq"),
    ],
)
def test_a_broken_guardrail_stops_a_recommendation(tail: float, lead: str) -> None:
    of = results(TWO, ["read"], 5, noisy(0.002, 1, {("read", "bfq"): 1.2}))
    of = with_metric(
        of,
        "read.clat.p99",
        lambda r: (tail if r.trial.treatment[0][1] == "bfq" else 1) * (1 + r.trial.number / 1e4),
    )
    text = said(change(of, guardrails=(("read.clat.p99", 0.1),)))
    assert text.startswith(lead)
    assert ("Guardrail broken: read bfq (read.clat.p99 +50." in text) is (tail > 1)


def test_an_unsettled_guardrail_is_said_beside_a_winner() -> None:
    of = results(TWO, ["read"], 5, noisy(0.002, 1, {("read", "bfq"): 1.2}))
    wild = {1: 0.5, 2: 2.0, 3: 1.0, 4: 0.7, 5: 1.6}
    of = with_metric(of, "read.clat.p99", lambda r: wild[r.trial.block] ** (r.trial.number % 2))
    text = said(change(of, guardrails=(("read.clat.p99", 0.1),)))
    assert "Guardrail undecided: read bfq (read.clat.p99)." in text


def test_each_factor_gets_its_own_sentence_and_its_name() -> None:
    factors = {"scheduler": ("none", "bfq"), "depth": ("1", "32")}
    text = said(results(factors, ["read"], 5, noisy(0.002, 1, {("read", "32"): 5.0})))
    assert text.startswith(
        "No difference that matters (±2 %) between scheduler=none and scheduler=bfq. Same as none"
    )
    assert "Change depth=1 to 32: for read depth=32 is 4" in text


def test_many_claims_are_cut_to_the_largest() -> None:
    levels = {"depth": tuple(str(2**n) for n in range(8))}
    effects = {("read", str(2**n)): 1 + n / 5 for n in range(8)}
    text = said(results(levels, ["read"], 5, noisy(0.002, 1, effects)))
    assert text.startswith("Change depth=1 to 128, 64, 32 or 16 (not compared with each other): ")
    assert "; 3 more in the table." in text


def test_latency_is_lower_not_faster() -> None:
    of = results(TWO, ["read"], 5, noisy(0.002, 1, {("read", "bfq"): 0.8}))
    records = tuple(record(r.trial, r.value(METRIC), "read.clat.p99") for r in of.records)
    of = change(dataclasses.replace(of, records=records), primary=(("read", "read.clat.p99"),))
    assert said(of).startswith("Change scheduler=none to bfq: for read bfq is ")
    assert "% lower in read.clat.p99 (95 % interval" in said(of)


def test_the_method_names_every_term() -> None:
    text = judge(results(SCHEDULER, ["a", "b", "c"], 5, noisy(0.05, 1))).method
    for term in (
        "Randomised complete blocks: n = 5 blocks planned, 60 valid of 60 trials executed",
        "a: n = 5 blocks, 20 trials, 12 residual df, noise of one trial",
        "critical value 4.",
        "at least 85 % of that by the pooled noise",
        "simultaneous 95 % intervals for the family of all 9 primary comparisons",
        "margin of ±2 %",
    ):
        assert term in text
