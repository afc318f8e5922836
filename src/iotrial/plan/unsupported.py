"""What a study may say and this version does not execute: refused plainly, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.plan.locate import KeyPath
from iotrial.plan.problem import Problem
from iotrial.plan.schema import StudyFile


def unsupported(spec: StudyFile) -> Iterator[Problem]:
    """Every key of the contract that this version cannot execute."""
    for at, cell in enumerate(spec.exclude):
        if "factor" in cell:
            yield _problem(("exclude", at, "factor"), 'Exclude levels instead: scheduler = ["bfq"]')


def _problem(path: KeyPath, advice: str) -> Problem:
    return Problem(path, f"{path[-1]} is not executed by this version of iotrial", advice)
