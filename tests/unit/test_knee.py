"""The knee: never too small more often than allowed, whatever the curve looks like."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from stats_studies import METRIC, noisy, results

from iotrial.stats.blocks import BlockLayout, fit
from iotrial.stats.levels import PairwiseGains, StageFactor, decide, judged, knee, pairwise, steps
from iotrial.stats.unequal import critical

MARGIN = 0.05
DELTA = math.log1p(MARGIN)
BLOCKS = 6
SD = 0.03
STUDIES = 2000


def pairs(means: np.ndarray, sd: float, df: int, blocks: int = BLOCKS) -> PairwiseGains:
    """All differences with the same standard error and degrees of freedom."""
    labels = tuple(str(2**place) for place in range(len(means)))
    gain = means[:, None] - means[None, :]
    error = np.full(gain.shape, sd * math.sqrt(2 / blocks))
    np.fill_diagonal(error, 0.0)
    return PairwiseGains(labels, gain, error, np.full(gain.shape, float(df)), blocks)


def simulated(truth: np.ndarray, seed: int, spread: float = SD) -> PairwiseGains:
    """Complete blocks of levels that are equally noisy."""
    rng, size = np.random.default_rng(seed), len(truth)
    values = truth + rng.normal(0, spread, (BLOCKS, size))
    layout = BlockLayout(np.repeat(np.arange(BLOCKS), size), np.tile(np.arange(size), BLOCKS))
    first, second = np.triu_indices(size, 1)
    got = fit(layout, values.ravel(), np.eye(size)[first] - np.eye(size)[second])
    gain, error, df = (np.zeros((size, size)) for _ in range(3))
    gain[first, second], gain[second, first] = got.estimate, -got.estimate
    error[first, second] = error[second, first] = got.standard_error
    df[first, second] = df[second, first] = got.own_df
    labels = tuple(str(2**place) for place in range(size))
    return PairwiseGains(labels, gain, error, df, BLOCKS)


SHAPES = {
    "saturates": [-0.6, -0.3, -DELTA, 0, 0, 0, 0, 0],
    "every level just too bad": [-DELTA] * 7 + [0],
    "falls again": [-0.4, -0.2, -DELTA, 0, -DELTA, -0.1, -0.2, -0.3],
    "the smallest is best": [0] + [-DELTA] * 7,
    "wavy": [-DELTA, 0, -DELTA, -0.001, -DELTA, 0, -DELTA, 0],
    "two levels": [-DELTA, 0],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_level_that_is_not_as_good_is_called_so_in_five_of_a_hundred_studies(
    shape: str, times: Callable[[int], int]
) -> None:
    """Of 2,000 seeded studies 5 % are 100; 131 or more would come once in 1,000."""
    truth = np.array(SHAPES[shape])
    bad = {str(2**place) for place in np.flatnonzero(truth <= truth.max() - DELTA + 1e-12)}
    wrong, studies = 0, times(STUDIES)
    for seed in range(studies):
        own = simulated(truth, seed)
        found = steps(own, own.labels, MARGIN, 0.95)
        wrong += any(step.as_good and step.level in bad for step in found)
    assert wrong < 0.05 * studies + 3.2 * math.sqrt(0.05 * 0.95 * studies)


def test_the_knee_is_found_where_it_is() -> None:
    """A plateau from the fourth of eight levels, with the third far off: nearly always found."""
    truth = np.array([-0.6, -0.4, -0.2, 0, 0, 0, 0, 0])
    found = [knee(steps(own, own.labels, MARGIN, 0.95)) for own in map_seeds(truth)]
    assert found.count("8") > 0.6 * len(found)
    assert not {"1", "2", "4"} & set(found)


def test_the_knee_is_found_on_a_curve_that_falls_again() -> None:
    truth = np.array([-0.6, -0.3, 0, -0.005, -0.3, -0.6])
    found = [knee(steps(own, own.labels, MARGIN, 0.95)) for own in map_seeds(truth)]
    assert found.count("4") > 0.5 * len(found)


def map_seeds(truth: np.ndarray) -> list[PairwiseGains]:
    return [simulated(truth, seed, SD / 2) for seed in range(300)]


def test_all_pairs_hold_together(times: Callable[[int], int]) -> None:
    """2,000 studies of five alike levels: any two differ in at most 5 % of them (131: 1 in
    1,000)."""
    truth = np.zeros(5)
    wrong, studies = 0, times(STUDIES)
    for seed in range(studies):
        own = simulated(truth, seed)
        both = judged(own, MARGIN, 0.95)
        wrong += bool((np.abs(own.gain) > both.half)[~np.eye(5, dtype=bool)].any())
    assert wrong < 0.05 * studies + 3.2 * math.sqrt(0.05 * 0.95 * studies)


def test_pairs_have_the_critical_value_of_all_pairs_by_their_own_blocks() -> None:
    def value(found: PairwiseGains, at: tuple[int, int]) -> float:
        return float(judged(found, MARGIN, 0.95).half[at] / found.error[at])

    of = results({"x": "abcde"}, ["reads"], 6, noisy(0.03, 2))
    whole = pairwise(of, "reads", METRIC, "x")
    tukey = 4.232 / math.sqrt(2)  # studentized range, 5 means, 20 degrees of freedom
    assert tukey < value(whole, (1, 0)) < 1.25 * tukey
    assert value(whole, (1, 0)) == pytest.approx(float(critical("pairs", 5, np.array(5.0), 0.05)))
    lost = replace(of, records=tuple(r for r in of.records if r.trial.number not in {1, 11, 21}))
    some = pairwise(lost, "reads", METRIC, "x")
    assert some.df[1, 0] < 3 < some.df[2, 1]
    assert value(some, (1, 0)) > value(whole, (1, 0))
    apart = tuple(
        r for r in of.records if (r.trial.treatment[0][1] in "ab") == (r.trial.block % 2 > 0)
    )
    two = pairwise(replace(of, records=apart), "reads", METRIC, "x")  # a and b never met c, d and e
    assert math.isnan(two.error[2, 0])
    assert two.df[2, 0] == 0
    assert two.df[1, 0] == pytest.approx(2)


def test_without_an_estimate_of_noise_nothing_is_said() -> None:
    own = pairs(np.array([0.0, 1.0, 2.0]), math.nan, 0, 1)
    assert not any(step.as_good for step in steps(own, own.labels, MARGIN, 0.95))
    both = judged(own, MARGIN, 0.95)
    assert not any(both.beyond(label) for label in own.labels)
    assert both.verdict("1", "4") == "cannot-tell"


def test_pairs_of_a_study_are_its_main_effects_and_lower_latency_is_better() -> None:
    effects = {("reads", "a"): 1.0, ("reads", "b"): 1.1, ("reads", "c"): 1.21}
    of = results({"x": "abc"}, ["reads"], 4, noisy(0.0, 1, effects))
    found = pairwise(of, "reads", METRIC, "x")
    assert found.labels == ("a", "b", "c")
    assert found.gain[2, 0] == pytest.approx(2 * math.log(1.1))
    assert found.gain[0, 2] == pytest.approx(-2 * math.log(1.1))
    assert found.df[2, 0] == pytest.approx(3)


def case(
    means: list[float], baseline: str = "1", margin: float = MARGIN, **more: object
) -> StageFactor:
    own = pairs(np.array(means), 0.005, 20)
    both = judged(own, margin, 0.95)
    given = {
        "factor": "x", "labels": own.labels, "order": own.labels, "baseline": baseline,
        "broken": frozenset(), "workloads": (("reads", both),), "margin": margin,
        "confidence": 0.95,
    }  # fmt: skip
    return StageFactor(**(given | more))  # type: ignore[arg-type]


def test_narrow_keeps_what_may_be_the_best_and_what_lies_between() -> None:
    kept = decide(case([-0.5, -0.2, 0.0, -0.2, 0.0, -0.3]), "narrow")
    assert kept.kept == ("4", "8", "16")
    assert kept.stands == "4"
    assert "1, 2, 32" in kept.why


def test_narrow_keeps_all_where_nothing_is_worse_beyond_the_margin() -> None:
    kept = decide(case([0.0, -0.04, -0.02]), "narrow")
    assert kept.kept == ("1", "2", "4")
    assert kept.stands == "1"


def test_best_leaves_the_baseline_only_for_what_is_better_and_takes_the_first_of_a_tie() -> None:
    assert decide(case([-0.3, -0.1, -0.001, 0.0]), "best").stands == "4"
    assert decide(case([-0.02, -0.01, 0.0]), "best").stands == "1"
    assert decide(case([-0.3, 0.0, 0.01], baseline=""), "best").stands == "2"


def test_what_breaks_a_guardrail_is_not_taken() -> None:
    broken = frozenset({"4"})
    assert decide(case([-0.3, -0.1, 0.0], broken=broken), "best").stands == "2"
    assert decide(case([-0.3, 0.0, 0.0, 0.0], broken=frozenset({"2"})), "knee").stands == "4"


def test_workloads_that_disagree_keep_the_baseline_and_the_whole_range() -> None:
    up, down = (
        judged(pairs(np.array(means), 0.005, 20), MARGIN, 0.975)
        for means in ([-0.6, -0.3, 0.0], [0.0, -0.3, -0.6])
    )
    both = (("reads", up), ("writes", down))
    told = decide(case([0.0] * 3, "2", workloads=both), "best")
    assert told.stands == "2"
    assert "without being worse in another" in told.why
    wide = decide(case([0.0] * 3, "2", workloads=both), "narrow")
    assert wide.kept == ("1", "2", "4")
    assert "disagree" in wide.why


def test_the_knee_keeps_a_baseline_that_is_no_number_and_as_good() -> None:
    means = [-0.3, 0.0, 0.0, 0.0]
    assert decide(case(means, "8"), "knee").stands == "2"
    assert decide(case(means, "8", order=("1", "2", "4")), "knee").stands == "8"
    own = pairs(np.array(means), 0.2, 20)
    unsure = case(means, "8", workloads=(("reads", judged(own, MARGIN, 0.95)),))
    assert decide(unsure, "knee").stands == "8"
    assert "more blocks" in decide(unsure, "knee").why
