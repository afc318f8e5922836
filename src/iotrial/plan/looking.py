"""How many blocks of a fixed design are planned now, where it ends as soon as all is decided.

``[design] stop = "decided"``: after every block the study is judged as ``compare`` would judge it,
by intervals that hold at all looks together (:mod:`iotrial.stats.critical`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord

FIRST = 2
"""Blocks before the first look."""


def blocks_now(study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]) -> int:
    """The number of blocks that the plan should hold by now."""
    most = study.design.blocks
    if study.design.stop == "blocks":
        return most
    reached = max((trial.block for trial in planned), default=0)
    waiting = {trial.number for trial in planned} - {record.trial.number for record in done}
    if reached < FIRST:
        return min(FIRST, most)
    if waiting or reached >= most or _decided(study, planned, done):
        return reached
    return reached + 1


def _decided(study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]) -> bool:
    """Whether every primary comparison has a verdict."""
    from iotrial.stats.judge import judge  # noqa: PLC0415  SciPy is slow to import

    found = judge(Results(Path(), study, tuple(planned), tuple(done))).findings
    primary = [finding for finding in found if finding.primary]
    return bool(primary) and all(finding.verdict != "cannot-tell" for finding in primary)
