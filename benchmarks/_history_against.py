"""Runs of ``--against`` stored sessions with known truth, for ``history.py``: in as many blocks as
``blocks_needed`` says, and beside it in all.

Half of the variance between sessions is what all treatments of a session share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.load import parse_study
from iotrial.stats.regress import blocks_needed, regress

BLOCKS, LEVELS, MARGIN = 10, ("none", "mq-deadline"), 0.02
APART = ((0.02, 0.01), (0.01, 0.02), (0.003, 0.02), (0.003, 0.004))
"""Standard deviations between sessions and of trials."""
STORED = (4, 6, 10)
TEXT = """question = "Is it as fast as it was?"
[targets.disk]
device = "/dev/disk/by-id/nvme-A"
[workloads.load]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "2s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[design]
blocks = 10
[decide]
primary = "read.iops"
margin = "2%"
"""


@dataclass(frozen=True, slots=True)
class NightlyRun:
    """A run against ``stored`` sessions, of which the first treatment is ``ratio`` times as fast:
    in how many ``blocks``; whether any treatment was called worse or better that is not
    (``wrong``), and the changed one worse (``found``); the same in ``all`` blocks."""

    blocks: int
    wrong: bool
    found: bool
    all_wrong: bool
    all_found: bool


@cache
def study() -> Study:
    def none(name: str) -> str:
        raise FileNotFoundError(name)

    return parse_study(TEXT, "nightly.toml", none)


def session(
    rng: np.random.Generator, number: int, apart: tuple[float, float], ratio: float
) -> Results:
    between, within = apart[0] * math.sqrt(0.5), apart[1]
    shared, records = rng.normal(0, between), []
    for level in LEVELS:
        shift = shared + rng.normal(0, between) + (math.log(ratio) if level == LEVELS[0] else 0.0)
        for block in range(1, BLOCKS + 1):
            trial = Trial(len(records) + 1, "a", block, "load", (("scheduler", level),), "disk")
            value = 1e5 * math.exp(shift + rng.normal(0, within))
            measured = (Measurement("read.iops", value, "1/s"),)
            at = 1e6 * number + len(records)
            records.append(TrialRecord(trial, "valid", at, 2.0, measurements=measured))
    return Results(Path(str(number)), study(), (), tuple(records))


def first(results: Results, blocks: int) -> Results:
    records = tuple(each for each in results.records if each.trial.block <= blocks)
    return Results(results.folder, results.study, (), records)


def judged(stored: list[Results], latter: Results, ratio: float) -> tuple[bool, bool]:
    wrong = found = False
    for each in regress(stored, [latter]).findings:
        changed = ratio != 1 and each.level == f"scheduler={LEVELS[0]}"
        wrong |= each.verdict == "better" or (each.verdict == "worse" and not changed)
        found |= each.verdict == "worse" and changed
    return wrong, found


def run(asked: tuple[int, tuple[float, float], float, int]) -> NightlyRun:
    """``asked``: stored sessions, how far they and trials are apart, the ratio, the seed."""
    many, apart, ratio, seed = asked
    rng = np.random.default_rng([seed, many, *(round(1e4 * each) for each in (*apart, ratio))])
    stored = [session(rng, number, apart, 1.0) for number in range(many)]
    blocks, _ = blocks_needed(stored, most=BLOCKS)
    latter = session(rng, many, apart, ratio)
    few = judged(stored, first(latter, blocks), ratio)
    return NightlyRun(blocks, *few, *judged(stored, latter, ratio))
