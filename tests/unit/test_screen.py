"""Screening: a few trials lay aside what does nothing, and never what might do something."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from stats_studies import record

from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.model.target import Target
from iotrial.model.trial import Trial
from iotrial.model.workload import Workload
from iotrial.plan.design import cells
from iotrial.plan.stages import next_trials
from iotrial.plan.subset import may_matter, narrowed, screening
from iotrial.stats.judge import judge

NAMES = "abcdefg"


def study(blocks: int = 6) -> Study:
    labels = ("0", "1", "2")
    return Study(
        "Which of these matter?", "s", (Target("disk", "loop"),), (Workload("reads", "fio"),),
        tuple(Factor(name, "option", tuple(map(Level, labels))) for name in NAMES),
        Design(blocks=blocks), DecisionRule((("reads", "read.iops"),), margin=0.05),
        digest="0123456789ab",
    )  # fmt: skip


def executed(of: Study, effects: dict[tuple[str, str], float], sd: float, seed: int = 1) -> Results:
    rng = np.random.default_rng(seed)

    def response(trial: Trial) -> float:
        product = 1000 * float(np.prod([effects.get(part, 1.0) for part in trial.treatment]))
        return product * float(np.exp(rng.normal(0, sd)))

    trials = next_trials(of, (), ())
    return Results(Path("r"), of, trials, tuple(record(t, response(t)) for t in trials))


def test_seven_factors_of_three_levels_are_screened_by_eight_treatments() -> None:
    first = screening(study())
    assert len(cells(first, "reads")) == 8
    assert len(cells(study(), "reads")) == 3**7
    assert {level.label for level in first.factors[0].levels} == {"0", "2"}


def test_only_what_may_matter_goes_on() -> None:
    first = screening(study())
    found = judge(executed(first, {("b", "2"): 1.3, ("f", "2"): 0.8}, 0.01)).findings
    assert may_matter(study(), found) == ("b", "f")
    rest = narrowed(study(), ("b", "f"))
    assert len(cells(rest, "reads")) == 9
    assert {dict(cell)["a"] for cell in cells(rest, "reads")} == {"0"}


def test_what_nobody_can_tell_goes_on() -> None:
    found = judge(executed(screening(study(blocks=2)), {}, 0.3)).findings
    assert may_matter(study(), found) == tuple(NAMES)
    assert may_matter(study(), ()) == tuple(NAMES)


def test_what_is_same_in_one_workload_only_goes_on() -> None:
    found = judge(executed(screening(study()), {}, 0.001)).findings
    assert may_matter(study(), found) == ()
    other = replace(found[0], workload="writes", verdict="cannot-tell")
    assert may_matter(study(), (*found, other)) == ("a",)


def test_a_factor_that_matters_is_rarely_laid_aside() -> None:
    """200 screenings with an effect twice the margin: its interval lies inside the margin in fewer
    than 5 % of them; 23 of 200 would come once in 10,000."""
    lost = 0
    for seed in range(200):
        found = judge(executed(screening(study(3)), {("c", "2"): 1.1}, 0.03, seed)).findings
        lost += "c" not in may_matter(study(), found)
    assert lost <= 22


def test_the_level_to_screen_can_be_chosen() -> None:
    first = screening(study(), {"a": "1"})
    assert [level.label for level in first.factors[0].levels] == ["0", "1"]
    for wrong in ({"a": "0"}, {"a": "9"}, {"z": "1"}):
        with pytest.raises(UsageError, match="cannot be screened"):
            screening(study(), wrong)
