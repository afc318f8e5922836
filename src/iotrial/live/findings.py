"""Findings so far, as data: how wide the intervals are after each block.  Pure.

A race's verdicts hold after every look.  A design of so many blocks is judged once, at its end:
until then its intervals say where things stand, and no verdict is read from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iotrial.judgement import Judged
from iotrial.model.finding import Finding
from iotrial.model.results import Results
from iotrial.plan.ahead import open_ended
from iotrial.plan.stages import next_trials

MOST = 200
"""Findings that are told; the rest is for the report."""

Judge = Callable[[Results], Judged]


def findings(results: Results, judge: Judge) -> list[dict[str, Any]]:
    """One for each primary comparison that has a number; of stages those of the one that is at
    work.  ``verdict`` is '' as long as none may be read."""
    if not results.valid:
        return []
    comparison = judge(results).comparison
    at_work, stage = results, 0
    if comparison.stages:
        at_work, stage = comparison.stages[-1].results, comparison.stages[-1].stage.number
    looks = open_ended(at_work.study) or is_over(at_work)
    found = [
        each
        for each in comparison.findings
        if each.primary and each.ratio > 0 and each.stage == stage
    ]
    return [_as_data(each, looks=looks, stage=stage) for each in found[:MOST]]


def is_over(results: Results) -> bool:
    """Whether nothing is left to do: then a verdict is read, whatever the design."""
    done = {record.trial.number for record in results.records}
    if any(trial.number not in done for trial in results.planned):
        return False
    return not next_trials(results.study, results.planned, results.records)


def _as_data(each: Finding, *, looks: bool, stage: int) -> dict[str, Any]:
    return {
        "workload": each.workload,
        "metric": each.metric,
        "factor": each.factor,
        "level": each.level,
        "baseline": each.baseline,
        "ratio": each.ratio,
        "low": each.low,
        "high": each.high,
        "verdict": each.verdict if looks else "",
        "n": each.n,
        "stage": stage,
    }
