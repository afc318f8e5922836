"""The verdict by ranks beside each interval: right under any noise, and absent where it is not."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from rich.console import Console
from scipy import stats as oracle
from stats_studies import SCHEDULER, Floats, change, noisy, results, with_metric

from iotrial.errors import StudyError, UsageError
from iotrial.judgement import judge as judge_all
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.plan.aa import as_aa
from iotrial.plan.extend import check_extendable
from iotrial.plan.load import parse_study
from iotrial.report.document import document, findings_csv
from iotrial.report.junit import junit
from iotrial.report.study import html, markdown
from iotrial.report.text import verdict_table
from iotrial.report.view import view
from iotrial.stats.blocks import BlockLayout, fit
from iotrial.stats.critical import ONCE
from iotrial.stats.effects import main_effects
from iotrial.stats.judge import judge
from iotrial.stats.ranks import by_ranks, differences, sign_p
from iotrial.stats.responses import Responses
from iotrial.stats.unequal import critical_at
from iotrial.stats.verdict import rank_blocks

BLOCKS, SIZE = 12, 4
FACTOR = Factor("f", "option", tuple(Level(str(each)) for each in range(SIZE)))
CELLS = tuple((("f", level.label),) for level in FACTOR.levels)
STUDY = Study("", "", (), (), (FACTOR,), Design(blocks=BLOCKS), DecisionRule((("w", "read.iops"),)))
CONTRASTS = main_effects(CELLS, (FACTOR,), {"f": "0"})
LAYOUT = BlockLayout(np.repeat(np.arange(BLOCKS), SIZE), np.tile(np.arange(SIZE), BLOCKS))
Draw = Callable[[np.random.Generator], Floats]
"""Log responses in the order of execution, (blocks, treatments)."""


def response(logs: Floats) -> Responses:
    return Responses("read.iops", (), CELLS, LAYOUT, logs.ravel())


def told(logs: Floats) -> list[bool]:
    """Of each level, whether ranks tell it from the baseline."""
    found = by_ranks(STUDY, [("w", response(logs), CONTRASTS)], len(CONTRASTS))
    return [each.verdict != "cannot-tell" for _, each in sorted(found.items())]


def told_by_intervals(logs: Floats) -> list[bool]:
    rows = np.eye(SIZE)[1:] - np.eye(SIZE)[0]
    got = fit(LAYOUT, logs.ravel(), rows)
    critical = critical_at(ONCE, "one", SIZE, got.own_df, 0.05)
    return (np.abs(got.estimate) > critical * got.standard_error).tolist()


def shuffled(logs: Floats, rng: np.random.Generator) -> Floats:
    """What was executed in turn, given to treatments in random order, block by block."""
    return rng.permuted(logs, axis=1)


def hanging_together(rng: np.random.Generator, sd: float, correlation: float = 0.8) -> Floats:
    """Each trial close to the one before it, and 2 % of the trials ten times as far off."""
    steps = rng.normal(0, math.sqrt(1 - correlation**2), BLOCKS * SIZE)
    for place in range(1, len(steps)):
        steps[place] += correlation * steps[place - 1]
    wild = rng.normal(0, 10, len(steps)) * (rng.random(len(steps)) < 0.02)
    return np.asarray(sd * (steps + wild).reshape(BLOCKS, SIZE))


# -- the test itself -----------------------------------------------------------------------------


def test_exchanging_level_and_baseline_in_a_block_turns_its_difference_round_alone() -> None:
    rng = np.random.default_rng(1)
    logs = rng.standard_t(2, (BLOCKS, SIZE))
    before = differences(response(logs), CONTRASTS)[1]
    logs[4, [0, 2]] = logs[4, [2, 0]]
    after = differences(response(logs), CONTRASTS)[1]
    assert after[4] == -before[4] != 0
    assert np.delete(after, 4).tolist() == np.delete(before, 4).tolist()


def test_pairs_of_a_factorial_are_exchanged_together_and_other_factors_do_not_matter() -> None:
    factors = (
        Factor("a", "option", (Level("0"), Level("1"))),
        Factor("b", "option", (Level("0"), Level("1"), Level("2"))),
    )
    cells = tuple((("a", a), ("b", b)) for a, b in itertools.product("01", "012"))
    contrasts = main_effects(cells, factors, {"a": "0", "b": "0"})
    layout = BlockLayout(np.repeat(np.arange(9), 6), np.tile(np.arange(6), 9))
    logs = np.random.default_rng(2).normal(0, 0.01, (9, 6))

    def of(values: Floats) -> Floats:
        return differences(Responses("m", (), cells, layout, values.ravel()), contrasts)[0]

    before = of(logs)
    assert of(logs + np.arange(9)[:, None]).tolist() == before.tolist(), "not the block"
    large = of(logs + np.array([0, 5, -3, 0, 5, -3]))
    assert np.abs(large - before).max() <= 6, "nor factor b, but for the noise of its medians"
    logs[3] = logs[3, [3, 4, 5, 0, 1, 2]]
    assert of(logs).tolist() == [-x if place == 3 else x for place, x in enumerate(before)]


def test_p_is_the_share_of_all_signs() -> None:
    values = np.array([3.0, -1.5, 2.0, 0.0, 4.5, -0.5, 2.5, 1.0])
    sums = [abs(sum(s * v for s, v in zip(signs, values, strict=True)))
            for signs in itertools.product((1, -1), repeat=8)]  # fmt: skip
    assert sign_p(values, "") == np.mean([each >= abs(values.sum()) for each in sums])
    assert sign_p(np.arange(1.0, 9.0), "") == 2 / 2**8
    assert sign_p(np.zeros(8), "") == 1.0


@pytest.mark.parametrize("n", [20, 60, 250])
def test_signs_that_are_drawn_or_taken_to_be_normal_agree_with_all_of_them(n: int) -> None:
    """With the ranks 1 … n it is Wilcoxon's test, whose distribution is known."""
    rng = np.random.default_rng(n)
    values = rng.normal(0.35, 1, n)
    ranks = oracle.rankdata(np.abs(values)) * np.sign(values)
    expected = oracle.wilcoxon(values, method="exact").pvalue
    assert sign_p(ranks, "a study") == pytest.approx(expected, rel=0.1, abs=2e-4)
    assert sign_p(ranks, "a study") == sign_p(ranks, "a study")


def test_all_comparisons_share_the_error_whatever_is_missing() -> None:
    logs = np.random.default_rng(3).normal(0, 0.01, (BLOCKS, SIZE))
    logs[:, 1] += 1
    logs[:, 2] += 0.012
    alone = by_ranks(STUDY, [("w", response(logs), CONTRASTS)], len(CONTRASTS))
    many = by_ranks(STUDY, [("w", response(logs), CONTRASTS)], 50)
    first, second, third = ("w", "read.iops", "f", "1"), *(("w", "read.iops", "f", x) for x in "23")
    assert alone[first].p == 3 * 2 / 2**BLOCKS
    assert many[first].p == 50 * 2 / 2**BLOCKS
    assert alone[first].p <= alone[second].p <= alone[third].p, "Holm's are in order"
    assert alone[second].p == 2 * sign_p(differences(response(logs), CONTRASTS)[1], "")


def test_more_comparisons_need_more_blocks_to_be_told_at_all() -> None:
    for family, level in itertools.product((1, 3, 7, 40, 1000), (0.05, 0.01, 0.5)):
        n = rank_blocks(family, level)
        assert n >= 8
        assert family * 2 / 2**n <= level
        assert n == 8 or family * 2 / 2 ** (n - 1) > level


# -- how often it is wrong, and how often it tells -----------------------------------------------

SD = 0.03
NOISES: dict[str, Draw] = {
    "normal": lambda rng: rng.normal(0, SD, (BLOCKS, SIZE)),
    "t3": lambda rng: SD * rng.standard_t(3, (BLOCKS, SIZE)),
    "outliers": lambda rng: (
        rng.normal(0, SD, (BLOCKS, SIZE)) * np.where(rng.random((BLOCKS, SIZE)) < 0.02, 20, 1)
    ),
    "two modes": lambda rng: (
        rng.normal(0, SD, (BLOCKS, SIZE)) - 0.4 * (rng.random((BLOCKS, SIZE)) < 0.3)
    ),
    "hanging together": lambda rng: hanging_together(rng, SD),
}
STUDIES = 500
MOST = 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES)


@pytest.mark.parametrize("noise", NOISES)
def test_of_studies_without_a_difference_few_are_told_one_in_any_noise(noise: str) -> None:
    rng = np.random.default_rng(4)
    wrong = sum(any(told(shuffled(NOISES[noise](rng), rng))) for _ in range(STUDIES))
    assert wrong / STUDIES <= MOST


@pytest.mark.parametrize("noise", ["normal", "t3", "two modes"])
@pytest.mark.parametrize("who", [0, 1], ids=["baseline", "another"])
@pytest.mark.parametrize("times", [2, 3, 5])
def test_nor_where_one_treatment_is_noisier_and_another_much_slower(
    noise: str, who: int, times: int
) -> None:
    """Its noise is scaled around its median: it is no other treatment for it."""
    rng, wrong = np.random.default_rng(5), 0
    for _ in range(STUDIES // 2):
        logs = NOISES[noise](rng)
        logs[:, who] *= times
        logs[:, 3] -= 0.3
        wrong += any(told(logs)[:2])
    assert wrong / (STUDIES // 2) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / (STUDIES // 2))


def test_a_difference_is_told_that_wild_trials_hide_from_the_intervals() -> None:
    """Autocorrelated noise, 2 % outliers, 12 blocks, −12 %."""
    rng = np.random.default_rng(6)
    ranks = intervals = 0
    for _ in range(150):
        logs = shuffled(hanging_together(rng, 0.08), rng)
        logs[:, 1] += math.log(0.88)
        ranks += told(logs)[0]
        intervals += told_by_intervals(logs)[0]
    assert ranks / 150 >= intervals / 150 + 0.12
    assert ranks / 150 >= 0.86


def test_normal_noise_costs_little_of_what_intervals_tell() -> None:
    rng = np.random.default_rng(7)
    ranks = intervals = 0
    for _ in range(150):
        logs = rng.normal(0, 0.08, (BLOCKS, SIZE))
        logs[:, 1] += math.log(0.86)
        ranks += told(logs)[0]
        intervals += told_by_intervals(logs)[0]
    assert ranks / 150 >= intervals / 150 - 0.15


# -- in a study ------------------------------------------------------------------------------------


def wild(blocks: int = 12, effect: float = 0.92, times: tuple[float, float] = (0.3, 3)) -> Results:
    """kyber is slower in each block; two trials of the baseline lie far off."""
    rng = np.random.default_rng(8)

    def number(trial: object) -> float:
        level, block = trial.treatment[0][1], trial.block  # type: ignore[attr-defined]
        value = 1000 * math.exp(rng.normal(0, 0.01)) * (effect if level == "kyber" else 1)
        far = dict(zip((3, 7), times, strict=True)) if level == "none" else {}
        return float(value * far.get(block, 1.0))

    return results(SCHEDULER, ["w"], blocks, number)


def finding(of: Results, level: str = "kyber"):  # noqa: ANN201 (a Finding)
    return next(each for each in judge(of).findings if each.level == level)


def test_both_verdicts_stand_beside_each_other_in_every_shape() -> None:
    of = wild()
    found = finding(of)
    assert found.verdict == "cannot-tell"
    assert found.ranks is not None
    assert found.ranks.verdict == "worse"
    judged = judge_all(of)
    words = f"by ranks: worse (p = {found.ranks.p:.1g})"
    shown = view(judged)
    for text in (markdown(shown), html(shown)):
        assert words in text
        assert "cannot tell" in text
    assert words in junit(shown)
    console = Console(file=io.StringIO(), width=80, no_color=True)
    console.print(verdict_table(shown))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "by ranks: " in said
    assert f"kyber worse (p = {found.ranks.p:.1g})" in " ".join(said.split())
    row = next(each for each in document(judged)["findings"] if each["level"] == "kyber")
    assert row["verdict"] == "cannot-tell"
    assert row["by_ranks"] == {"verdict": "worse", "p": found.ranks.p}
    line = next(
        r for r in csv.DictReader(io.StringIO(findings_csv(judged))) if r["level"] == "kyber"
    )
    assert (line["by_ranks"], float(line["p_by_ranks"])) == ("worse", found.ranks.p)
    assert "By ranks: randomisation test" in judged.comparison.method


def test_less_is_better_for_times_and_nothing_is_where_nobody_says() -> None:
    slow = with_metric(wild(), "read.clat.mean", lambda r: 1 / r.measurements[0].value)
    of = change(slow, primary=(("w", "read.clat.mean"),))
    rank = finding(of).ranks
    assert rank is not None
    assert rank.verdict == "worse"


def test_a_second_family_has_its_own() -> None:
    of = change(
        with_metric(wild(), "read.clat.mean", lambda r: 1 / r.measurements[0].value),
        secondary=(("w", "read.clat.mean"),),
    )
    second = {each.level: each for each in judge(of).secondary}
    assert second["kyber"].ranks == finding(of).ranks


def test_guardrails_have_none() -> None:
    of = change(
        with_metric(wild(), "read.clat.mean", lambda r: 1 / r.measurements[0].value),
        guardrails=(("read.clat.mean", 0.1),),
    )
    assert [f.ranks for f in judge(of).findings if not f.primary] == [None] * 3


def designed(of: Results, **changes: object) -> Results:
    design = dataclasses.replace(of.study.design, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(of, study=dataclasses.replace(of.study, design=design))


def test_it_is_not_shown_where_trials_cannot_be_exchanged_or_are_looked_at_again() -> None:
    of = wild()
    hard = tuple(dataclasses.replace(factor, hard=True) for factor in of.study.factors)
    others: Sequence[Results] = (
        wild(blocks=7),
        designed(of, stop="decided"),
        designed(of, extended=(8,)),
        designed(of, kind="fraction"),
        dataclasses.replace(of, study=dataclasses.replace(of.study, factors=hard)),
    )
    for each in others:
        assert {f.ranks for f in judge(each).findings} == {None}
    assert "By ranks" not in judge(others[0]).method
    assert finding(designed(of, kind="one-at-a-time")).ranks == finding(of).ranks
    assert finding(wild(blocks=8)).ranks is not None


def test_a_block_without_a_trial_of_the_pair_is_left_out_and_too_few_are_none() -> None:
    of = wild(blocks=9)

    def without(blocks: int) -> Results:
        kept = tuple(
            r for r in of.records if r.trial.block > blocks or r.trial.treatment[0][1] != "kyber"
        )
        return dataclasses.replace(of, records=kept)

    assert finding(without(1)).ranks is not None
    assert finding(without(2)).ranks is None
    assert finding(without(2), "bfq").ranks is not None


# -- chosen beforehand -----------------------------------------------------------------------------


def test_ranks_decide_where_the_study_chose_them() -> None:
    chosen = change(wild(), test="ranks")
    assert finding(chosen).verdict == "worse"
    assert finding(chosen).needs is None
    assert "As the study file chose, better and worse are the verdicts by ranks" in (
        judge(chosen).method
    )
    assert "kyber" in judge(chosen).recommendation
    assert finding(change(wild(blocks=7), test="ranks")).verdict == "cannot-tell"


def test_same_is_the_intervals_and_a_mean_of_the_other_sign_tells_nothing() -> None:
    steady = results(SCHEDULER, ["w"], 12, noisy(0.001, 9, {("w", "kyber"): 0.99}))
    found = finding(change(steady, test="ranks"))
    assert found.ranks is not None
    assert (found.verdict, found.ranks.verdict) == ("same", "worse")
    upset = wild(times=(0.1, 1))
    rank = finding(upset).ranks
    assert rank is not None
    assert (rank.verdict, finding(upset).ratio > 1) == ("worse", True)
    assert finding(change(upset, test="ranks")).verdict == "cannot-tell"


def test_what_a_strict_interval_tells_and_ranks_do_not_is_open_and_says_what_it_needs() -> None:
    of = results(SCHEDULER, ["w"], 8, noisy(0.01, 10, {("w", "bfq"): 0.9}))
    rest = dataclasses.replace(
        of,
        records=tuple(
            r for r in of.records if r.trial.block < 8 or r.trial.treatment[0][1] != "bfq"
        ),
    )
    assert finding(rest, "bfq").verdict == "worse"
    found = finding(change(rest, test="ranks"), "bfq")
    assert (found.verdict, found.ranks) == ("cannot-tell", None)
    assert found.needs is not None


FILE = """question = "?"
[targets.disk]
loop = {{ size = "16MiB" }}
[workloads.w]
tool = "fio"
options = {{ rw = "randread", runtime = "1s", time_based = 1 }}
[factors.depth]
option = "iodepth"
levels = [1, 2, 4, 8, 16, 32, 64, 128]
{factor}
[design]
{design}
[decide]
test = "ranks"
"""


def parsed(design: str, factor: str = "") -> Study:
    return parse_study(FILE.format(design=design, factor=factor), "study.toml", str)


@pytest.mark.parametrize(
    ("design", "factor", "why"),
    [
        ('kind = "race"', "", "a race looks at its results after each block"),
        ('blocks = 12\nstop = "decided"', "", "the study is looked at after each block"),
        ("blocks = 12", "hard = true", "depth is hard to change"),
        ("blocks = 8", "", "ranks decide 7 comparisons from 9 blocks on"),
    ],
)
def test_a_study_that_ranks_cannot_decide_is_refused(design: str, factor: str, why: str) -> None:
    with pytest.raises(StudyError, match=why) as caught:
        parsed(design, factor)
    assert "decide.test" in str(caught.value)


def test_it_is_part_of_the_study_and_such_a_study_is_not_extended() -> None:
    study = parsed("blocks = 9")
    assert study.decide.test == "ranks"
    assert (
        study.digest != parse_study(study.text.replace('"ranks"', '"intervals"'), "s", str).digest
    )
    assert as_aa(study).decide.test == "intervals"
    of = wild()
    with pytest.raises(UsageError, match="by ranks, which hold at one look"):
        check_extendable(change(of, test="ranks"))
    check_extendable(of)
