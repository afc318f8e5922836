"""Interactions and shares: by hand, against textbooks, and by simulation."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from stats_studies import results

from iotrial.judgement import judge as judge_all
from iotrial.model.finding import Comparison, VarianceShare
from iotrial.model.results import Results
from iotrial.model.trial import Trial
from iotrial.stats.blocks import SHARE
from iotrial.stats.designs import columns, rows
from iotrial.stats.effects import anova, interactions, reach
from iotrial.stats.judge import judge
from iotrial.stats.responses import counted, responses

TWO = {"scheduler": ("none", "bfq"), "depth": ("1", "32")}
THREE = {"scheduler": ("none", "bfq", "kyber"), "depth": ("1", "8", "32"), "size": ("4k", "64k")}


def study(
    factors: dict[str, tuple[str, ...]], effects: dict[tuple[str, ...], float], sd: float,
    blocks: int = 5, seed: int = 1,
) -> Results:  # fmt: skip
    """Effects multiply; the noise is log-normal, and each block is slower than the last."""
    rng = np.random.default_rng(seed)

    def response(trial: Trial) -> float:
        levels = set(trial.treatment)
        product = 1000.0 * 0.97**trial.block
        for key, effect in effects.items():
            if {tuple(part.split("=")) for part in key} <= levels:
                product *= effect
        return float(product * np.exp(rng.normal(0, sd)))

    return results(factors, ["reads"], blocks, response)


def told(of: Comparison) -> dict[tuple[str, str], tuple[float, str]]:
    return {i.levels: (i.ratio, i.verdict) for i in of.interactions}


def test_an_interaction_is_a_ratio_of_ratios() -> None:
    of = study(TWO, {("scheduler=bfq",): 0.8, ("scheduler=bfq", "depth=32"): 1.5}, 0.0)
    [found] = judge(of).interactions
    assert found.factors == ("scheduler", "depth")
    assert (found.levels, found.baselines) == (("bfq", "32"), ("none", "1"))
    assert found.ratio == pytest.approx(1.5)
    assert (found.verdict, found.n) == ("differs", 5)
    simple = {each.at: each.ratio for each in judge(of).simple}
    assert simple == {"1": pytest.approx(0.8), "32": pytest.approx(1.2)}


def test_one_interaction_is_scipys_t_test_of_the_blocks_contrasts() -> None:
    of = study(TWO, {}, 0.05, blocks=4)
    [found] = judge(of).interactions
    logs = {
        (r.trial.block, *(label for _, label in r.trial.treatment)):
        math.log(r.measurements[0].value) for r in of.records
    }  # fmt: skip
    contrasts = [
        logs[b, "bfq", "32"] - logs[b, "none", "32"] - logs[b, "bfq", "1"] + logs[b, "none", "1"]
        for b in range(1, 5)
    ]
    assert found.ratio == pytest.approx(math.exp(float(np.mean(contrasts))))
    residuals = []
    table = np.array([[logs[b, s, d] for s in ("none", "bfq") for d in ("1", "32")]
                      for b in range(1, 5)])  # fmt: skip
    residuals = table - table.mean(0) - table.mean(1)[:, None] + table.mean()
    pooled = math.sqrt((residuals**2).sum() / 9 * 4 / 4)
    own = float(np.std(contrasts, ddof=1)) / math.sqrt(4)
    assert own > SHARE * pooled, "or the pooled noise is the larger one"
    half = stats.t.ppf(0.975, 3) * own
    assert found.low == pytest.approx(math.exp(float(np.mean(contrasts)) - half))
    assert found.high == pytest.approx(math.exp(float(np.mean(contrasts)) + half))


def test_factors_that_multiply_are_alike_everywhere() -> None:
    of = study(THREE, {("scheduler=bfq",): 0.8, ("depth=32",): 3.0, ("size=64k",): 0.2}, 1e-4)
    found = judge(of).interactions
    assert len(found) == 4 + 2 + 2
    assert {each.verdict for each in found} == {"same"}


def test_one_factor_has_no_interactions() -> None:
    of = study({"scheduler": ("none", "bfq")}, {}, 0.01)
    assert judge(of).interactions == ()
    assert judge(of).shares == ()


def test_opposite_effects_make_a_doubt_that_names_the_cells() -> None:
    of = study(TWO, {("scheduler=bfq",): 0.8, ("scheduler=bfq", "depth=32"): 1.6}, 0.002)
    doubted = judge_all(of)
    comparison = doubted.comparison
    main = next(f for f in comparison.findings if f.factor == "scheduler")
    assert main.ratio == pytest.approx(math.sqrt(0.8 * 1.28), rel=0.01), "the average hides it"
    [doubt] = [each for each in doubted.doubts if each.check == "interaction"]
    assert "the average effect of scheduler=bfq hides opposite effects" in doubt.what
    assert "with depth=1" in doubt.what
    assert "with depth=32" in doubt.what


def test_effects_of_one_direction_make_no_doubt() -> None:
    of = study(TWO, {("scheduler=bfq",): 0.8, ("scheduler=bfq", "depth=32"): 0.9}, 0.002)
    doubted = judge_all(of)
    comparison = doubted.comparison
    assert told(comparison) == {("bfq", "32"): (pytest.approx(0.9, rel=0.01), "differs")}
    assert not [each for each in doubted.doubts if each.check == "interaction"]


def test_a_fraction_tells_the_interactions_it_can_and_names_the_others() -> None:
    names = dict.fromkeys("abcd", ("off", "on"))
    tried = {
        tuple((name, ("off", "on")[place]) for name, place in zip("abcd", row, strict=True))
        for row in rows(columns(4, 8))
    }
    whole = study(names, {("c=on", "d=on"): 1.5}, 0.0)
    design = replace(whole.study.design, kind="fraction")
    kept = replace(
        whole,
        study=replace(whole.study, design=design),
        planned=tuple(t for t in whole.planned if t.treatment in tried),
        records=tuple(r for r in whole.records if r.trial.treatment in tried),
    )
    found = {each.factors: each for each in judge(kept).interactions}
    assert set(found) == {("a", "b"), ("a", "c"), ("a", "d")}
    assert found["a", "b"].beside == (("c", "d"),)
    assert found["a", "b"].ratio == pytest.approx(1.5), "that of c×d, as it warns"
    assert found["a", "c"].ratio == pytest.approx(1.0)


def test_a_lost_cell_takes_only_its_own_fours() -> None:
    of = study(THREE, {("scheduler=kyber", "depth=32"): 1.25}, 0.0)
    lost = (("scheduler", "kyber"), ("depth", "32"), ("size", "4k"))
    records = tuple(r for r in of.records if r.trial.treatment != lost)
    found = told(judge(replace(of, records=records)))
    assert found["kyber", "32"] == (pytest.approx(1.25), "differs"), "from size=64k"
    assert len(found) == 8


def test_intervals_of_interactions_hold_together() -> None:
    """400 studies of nothing: all intervals of a study hold in 95 % at least, and in nearly all
    with three blocks and noise that is equal.  Below 366 comes once in 10,000."""
    held = 0
    for seed in range(400):
        found, _ = interactions(study(THREE, {}, 0.1, blocks=3, seed=seed))
        held += all(
            each.low is not None and each.high is not None and each.low <= 1 <= each.high
            for each in found
        )
    assert held >= 366


# -- shares -----------------------------------------------------------------------------------


def table(of: Results, kind: str = "II") -> dict[tuple[str, ...], VarianceShare]:
    data = responses(counted(of)["reads"], "read.iops", of.study)
    return {each.source: each for each in anova(of.study, "reads", data, kind)}  # type: ignore[arg-type]


def test_the_textbooks_survival_times() -> None:
    """Box and Cox (1964), the poisons: Box, Hunter and Hunter, tables 8.1 and 8.4.  The analysis of
    1/y gives, with replicates in place of blocks: poisons 34.877, treatments 20.414, interaction
    1.571, residual 8.643 on 36 degrees of freedom.  Here replicates are blocks, and the residual
    loses what lies between them."""
    times = {
        "I": "0.31 0.82 0.43 0.45 0.45 1.10 0.45 0.71 0.46 0.88 0.63 0.66 0.43 0.72 0.76 0.62",
        "II": "0.36 0.92 0.44 0.56 0.29 0.61 0.35 1.02 0.40 0.49 0.31 0.71 0.23 1.24 0.40 0.38",
        "III": "0.22 0.30 0.23 0.30 0.21 0.37 0.25 0.36 0.18 0.38 0.24 0.31 0.23 0.29 0.22 0.33",
    }
    values = {
        (block + 1, poison, "ABCD"[at]): float(text.split()[block * 4 + at])
        for poison, text in times.items()
        for block in range(4)
        for at in range(4)
    }

    def response(trial: Trial) -> float:
        poison, treatment = (label for _, label in trial.treatment)
        return math.exp(1 / values[trial.block, poison, treatment])

    of = results({"poison": ("I", "II", "III"), "treatment": tuple("ABCD")}, ["reads"], 4, response)
    found = table(of)
    assert found[("poison",)].squares == pytest.approx(34.877, abs=0.001)
    assert found[("treatment",)].squares == pytest.approx(20.414, abs=0.001)
    assert found[("poison", "treatment")].squares == pytest.approx(1.571, abs=0.001)
    rest = found[("blocks",)], found[("residual",)]
    assert sum(each.squares for each in rest) == pytest.approx(8.643, abs=0.001)
    assert [found[source].df for source in found] == [3, 2, 3, 6, 33]
    assert sum(each.plain for each in found.values()) == pytest.approx(1)
    assert found[("poison",)].share < found[("poison",)].plain


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_with_all_cells_the_types_agree_and_the_shares_add_up(seed: int) -> None:
    of = study(THREE, {("scheduler=bfq", "depth=8", "size=64k"): 1.2}, 0.1, blocks=2, seed=seed)
    second, third = table(of), table(of, "III")
    assert {s: t.squares for s, t in second.items()} == pytest.approx(
        {s: t.squares for s, t in third.items()}
    )
    assert sum(each.plain for each in second.values()) == pytest.approx(1)
    assert sum(each.df for each in second.values()) == len(of.records) - 1
    for each in second.values():
        if each.effect:
            assert each.low is not None
            assert each.high is not None
            assert 0 <= each.low <= each.share <= each.high <= 1


def test_without_some_cells_type_two_is_the_difference_of_two_fits() -> None:
    of = study(TWO, {("scheduler=bfq",): 1.3}, 0.1, blocks=4)
    records = tuple(r for r in of.records if r.trial.number % 5)
    part = replace(of, records=records)
    logs = np.array([math.log(r.measurements[0].value) for r in records])
    block = np.eye(4)[[r.trial.block - 1 for r in records]]
    one, other = (
        np.array([[dict(r.trial.treatment)[name] == label] for r in records], dtype=float)
        for name, label in (("scheduler", "bfq"), ("depth", "32"))
    )

    def left(*parts: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        design = np.hstack(parts)
        rest = logs - design @ np.linalg.lstsq(design, logs, rcond=None)[0]
        return float(rest @ rest)

    found = table(part)
    expected = left(block, other) - left(block, one, other)
    assert found[("scheduler",)].squares == pytest.approx(expected)
    third = left(block, 2 * other - 1, (2 * one - 1) * (2 * other - 1))
    third -= left(block, one, other, one * other)
    assert table(part, "III")[("scheduler",)].squares == pytest.approx(third)


def test_one_degree_of_freedom_has_students_interval() -> None:
    # An estimate of 3 with standard error 0.5: t(10, 97.5 %) = 2.2281.
    low, high = reach(9.0, 1, 0.25, 10, 0.95)
    assert math.sqrt(low) == pytest.approx(3 - 2.2281 * 0.5, abs=1e-4)
    assert math.sqrt(high) == pytest.approx(3 + 2.2281 * 0.5, abs=1e-4)


def test_an_interval_begins_at_nothing_where_the_f_test_finds_nothing() -> None:
    critical = stats.f.ppf(0.95, 3, 20)
    assert reach(3 * critical * 0.99, 3, 1.0, 20, 0.95)[0] == 0
    assert reach(3 * critical * 1.01, 3, 1.0, 20, 0.95)[0] > 0


def test_intervals_of_the_effects_length_hold() -> None:
    """2,000 effects of 3 degrees of freedom: at least 95 % (1,869 comes once in 10,000)."""
    rng = np.random.default_rng(1)
    truth = np.array([1.5, -0.5, 0.5])
    held = 0
    for _ in range(2000):
        squares = float(((truth + rng.normal(size=3)) ** 2).sum())
        low, high = reach(squares, 3, float(rng.chisquare(12)) / 12, 12, 0.95)
        held += low <= float(truth @ truth) <= high
    assert held >= 1869


def test_noise_alone_explains_nothing_on_average() -> None:
    """Plain shares of pure noise are above 0 always; corrected ones about half the time not."""
    found = [table(study(THREE, {}, 0.1, blocks=2, seed=seed)) for seed in range(60)]
    shares = [each for every in found for each in every.values() if each.effect]
    assert np.mean([each.plain for each in shares]) > 2 * np.mean([s.share for s in shares])
    covered = [each.low == 0 for each in shares]
    assert 0.93 <= np.mean(covered) <= 1.0


def test_pairs_of_factors_are_all_there() -> None:
    of = study(THREE, {}, 0.1, blocks=2)
    sources = [source for source in table(of) if len(source) == 2]
    assert sources == list(itertools.combinations(THREE, 2))
