"""How often the verdicts are wrong, over 10,000 simulated studies: the code that judges is asked.

``answer`` is what ``judge`` itself calls; a test below holds the two together study by study.
The Monte-Carlo error of a share near 5 % over 10,000 studies is 0.22 % (one standard deviation).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from stats_studies import METRIC, SCHEDULER, Floats, record, results

from iotrial.model.results import Results
from iotrial.stats.judge import ComparisonQuestion, answer, judge, questions, verdict_on

STUDIES = 10_000
WORKLOADS = ("randread", "randmix", "seqwrite")
NOISE = {"randread": 0.05, "randmix": 0.05, "seqwrite": 0.12}
FACTORIAL = {"scheduler": ("none", "bfq"), "depth": ("1", "32")}
DEPTHS = {"depth": ("1", "2", "4", "8", "16", "32")}
EFFECT = {
    "2": 0.1,
    "4": 0.2,
    "8": 0.3,
    "16": 0.4,
    "bfq": -0.2,
    "kyber": -0.1,
    "mq-deadline": 0.03,
    "32": 0.5,
}


def template(factors: dict[str, tuple[str, ...]], blocks: int) -> Results:
    return results(factors, WORKLOADS, blocks, lambda _: 1000.0)


def simulated(
    question: ComparisonQuestion,
    studies: int,
    rng: np.random.Generator,
    *,
    noisy: str = "",
    times: float = 1.0,
    slow: float = 0.0,
) -> Floats:
    """Log responses (observations, studies): noise, and steps of 5 % between blocks.  The level
    ``noisy`` has ``times`` the noise; of all trials the share ``slow`` takes twice as long."""
    layout, sd = question.responses.layout, NOISE[question.workload]
    own = [noisy in {label for _, label in cell} for cell in question.responses.cells]
    noise = rng.normal(0, sd, (len(layout.cell), studies))
    noise *= np.where(own, times, 1.0)[layout.cell][:, None]
    steps = rng.normal(0, 0.05, (layout.block.max() + 1, studies))
    late = np.log(2) * (rng.random(noise.shape) < slow) if slow else 0.0
    return np.asarray(7 + noise + steps[layout.block] - late)


def true_effects(question: ComparisonQuestion) -> Floats:
    """What EFFECT adds to each observation."""
    cells = [sum(EFFECT.get(label, 0.0) for _, label in cell) for cell in question.responses.cells]
    return np.array(cells)[question.responses.layout.cell][:, None]


def crowned(
    of: Results, seed: int, *, noisy: str = "", times: float = 1.0, slow: float = 0.0
) -> float:
    """The share of studies with at least one better or worse, when nothing differs."""
    rng, any_claim = np.random.default_rng(seed), np.zeros(STUDIES, bool)
    for question in questions(of):
        logs = simulated(question, STUDIES, rng, noisy=noisy, times=times, slow=slow)
        got = answer(question, logs)
        assert got.low is not None
        assert got.high is not None
        outside = (got.low > 1) | (got.high < 1)  # only these can be better or worse
        for contrast, study in zip(*np.nonzero(outside), strict=True):
            low, high = float(got.low[contrast, study]), float(got.high[contrast, study])
            any_claim[study] |= verdict_on(of, question, low, high) in {"better", "worse"}
    return float(any_claim.mean())


def covered(of: Results, seed: int) -> float:
    """The share of studies whose intervals all hold the truth, when there are differences."""
    rng, all_hold = np.random.default_rng(seed), np.ones(STUDIES, bool)
    for question in questions(of):
        truth = np.array([[EFFECT[contrast.level]] for contrast in question.contrasts])
        logs = simulated(question, STUDIES, rng) + true_effects(question)
        got = answer(question, logs)
        assert got.low is not None
        assert got.high is not None
        all_hold &= ((got.low <= np.exp(truth)) & (np.exp(truth) <= got.high)).all(axis=0)
    return float(all_hold.mean())


def cut_short(of: Results) -> Results:
    """The same study ended by its budget, with two failed trials."""
    return without(of, {3, 17, *range(len(of.records) - 6, len(of.records) + 1)})


def without(of: Results, gone: set[int]) -> Results:
    kept = tuple(r for r in of.records if r.trial.number not in gone)
    return dataclasses.replace(of, records=kept)


DESIGNS = {
    "4 schedulers, 5 blocks": template(SCHEDULER, 5),
    "4 schedulers, 3 blocks": template(SCHEDULER, 3),
    "4 schedulers, 2 blocks": template(SCHEDULER, 2),
    "2x2, 5 blocks": template(FACTORIAL, 5),
    "2x2, 3 blocks": template(FACTORIAL, 3),
    "4 schedulers, 5 blocks, cut short": cut_short(template(SCHEDULER, 5)),
    "6 levels, 4 blocks, many failures": without(template(DEPTHS, 4), set(range(2, 72, 7))),
    "2x2, 3 blocks, cut short": cut_short(template(FACTORIAL, 3)),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_without_a_difference_few_studies_crown_a_winner(design: str) -> None:
    share = crowned(DESIGNS[design], seed=20_261)
    assert share <= 0.054, share
    if DESIGNS[design].study.design.blocks > 4:  # of fewer, one noisy treatment asks for more
        assert share > 0.003, "so wide that it tells nothing"


@pytest.mark.parametrize("times", [1.5, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("noisy", ["none", "bfq", "1", "32"])
@pytest.mark.parametrize("design", [d for d in DESIGNS if "many failures" not in d])
def test_whichever_treatment_is_noisier_few_studies_crown_a_winner(
    design: str, noisy: str, times: float
) -> None:
    of = DESIGNS[design]
    if any(noisy == level.label for f in of.study.factors for level in f.levels):
        share = crowned(of, seed=20_264, noisy=noisy, times=times)
        assert share <= 0.056, share


@pytest.mark.parametrize("design", DESIGNS)
def test_trials_that_are_slow_now_and_then_seldom_crown_a_winner(design: str) -> None:
    """One trial in five takes twice as long, whatever the treatment."""
    assert crowned(DESIGNS[design], seed=20_265, slow=0.2) <= 0.056


@pytest.mark.parametrize("design", DESIGNS)
def test_all_intervals_of_a_study_hold_the_truth_together(design: str) -> None:
    share = covered(DESIGNS[design], seed=20_262)
    assert share >= 0.95 - 3 * 0.0022, share


def test_a_stricter_confidence_is_kept_too() -> None:
    of = template(SCHEDULER, 3)
    decide = dataclasses.replace(of.study.decide, confidence=0.999)
    of = dataclasses.replace(of, study=dataclasses.replace(of.study, decide=decide))
    assert crowned(of, seed=20_263) <= 0.001 + 3 * 0.0003


@pytest.mark.parametrize("design", DESIGNS)
def test_a_simulated_study_is_judged_exactly_so(design: str) -> None:
    of, rng = DESIGNS[design], np.random.default_rng(4)
    asked = questions(of)
    logs = [simulated(question, 5, rng) for question in asked]
    answers = [answer(question, y) for question, y in zip(asked, logs, strict=True)]
    for study in range(5):
        value = {
            trial.number: float(np.exp(y[row, study]))
            for question, y in zip(asked, logs, strict=True)
            for row, trial in enumerate(question.responses.trials)
        }
        records = tuple(record(r.trial, value[r.trial.number], METRIC) for r in of.records)
        found = judge(dataclasses.replace(of, records=records)).findings
        for ends in ("low", "high", "ratio"):
            expected = np.concatenate([getattr(got, ends)[:, study] for got in answers])
            assert [getattr(f, ends) for f in found] == pytest.approx(list(expected))
