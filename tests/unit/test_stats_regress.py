"""One results folder against another: what is worse is named, what cannot be told is not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import ttest_ind

from factories import results
from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.model.trial import treatment_text
from iotrial.stats.regress import regress


def scaled(former: Results, factor: float, *, seed: int = 2) -> Results:
    """Another execution of the same study in which everything is ``factor`` times as fast."""
    other = results(seed=seed)
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
    return replace(other, folder=Path("after"), records=records)


def test_a_slower_second_execution_is_worse_and_named() -> None:
    comparison = regress(results(), scaled(results(), 0.5))
    assert {finding.verdict for finding in comparison.findings} == {"worse"}
    assert comparison.recommendation.startswith("Yes: after is worse for ")
    assert all(finding.factor == "results" for finding in comparison.findings)


def test_the_same_execution_is_not_worse_than_itself() -> None:
    comparison = regress(results(), replace(results(), folder=Path("after")))
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


def test_each_interval_is_welchs_at_the_corrected_confidence() -> None:
    before, after = results(), scaled(results(), 0.9)
    comparison = regress(before, after)
    finding = comparison.findings[0]
    logs = [logs_behind(finding, each) for each in (before, after)]
    level = before.study.decide.confidence ** (1 / len(comparison.findings))
    interval = ttest_ind(logs[1], logs[0], equal_var=False).confidence_interval(level)
    assert finding.low == pytest.approx(math.exp(interval.low))
    assert finding.high == pytest.approx(math.exp(interval.high))


def test_folders_that_share_nothing_are_said_to() -> None:
    other = replace(results(), folder=Path("after"), records=())
    comparison = regress(results(), other)
    assert comparison.findings == ()
    assert "nothing can be compared" in comparison.recommendation
