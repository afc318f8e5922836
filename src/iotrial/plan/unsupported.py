"""What a study may say and this version does not execute: refused plainly, never ignored."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.plan.locate import KeyPath
from iotrial.plan.problem import Problem
from iotrial.plan.schema import StudyFile

_TARGET = {
    "devices": "Name one `device`",
    "hosts": "Name one `host`, or none for this machine",
}
_FACTOR = {
    "count": "Make one study for each number",
}


def unsupported(spec: StudyFile) -> Iterator[Problem]:
    """Every key of the contract that this version cannot execute."""
    for name in list(spec.hosts)[1:]:
        yield Problem(
            ("hosts", name),
            "several hosts in one study are not executed by this version of iotrial",
            "Make one study for each host",
        )
    for name, target in spec.targets.items():
        for key, advice in _TARGET.items():
            if getattr(target, key):
                yield _problem(("targets", name, key), advice)
    for name, factor in spec.factors.items():
        for key, advice in _FACTOR.items():
            if getattr(factor, key):
                yield _problem(("factors", name, key), advice)
    yield from _plan(spec)


def _plan(spec: StudyFile) -> Iterator[Problem]:
    for at, cell in enumerate(spec.exclude):
        if "factor" in cell:
            yield _problem(("exclude", at, "factor"), 'Exclude levels instead: scheduler = ["bfq"]')


def _problem(path: KeyPath, advice: str) -> Problem:
    return Problem(path, f"{path[-1]} is not executed by this version of iotrial", advice)
