"""A study in stages whose answers are known, and how it goes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stats_studies import record

from iotrial.model.study import Study
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.load import parse_study
from iotrial.plan.stages import courses, next_trials

HEAD = """
question = "Which settings suit the clients?"
[targets.test]
directory = "/mnt/test"
[targets.production]
directory = "/mnt/production"
[workloads.read]
tool = "dd"
options = { rw = "read", bs = "64KiB", size = "1GiB" }
[workloads.write]
tool = "dd"
options = { rw = "write", bs = "64KiB", size = "1GiB" }
[factors.rsize]
tunable = "mount.rsize"
range = { from = 20480, to = 98304, step = 4096 }
baseline = "unset"
[factors.pages]
tunable = "mount.wsize"
range = { from = 0, to = 32, step = 4 }
baseline = "unset"
[factors.maker]
baseline = "off"
levels = { off = {}, on = { "sysctl.vm.swappiness" = 10 } }
[design]
blocks = 3
[decide]
primary = { read = "read.bw", write = "write.bw" }
margin = "3%"
"""
STAGES = """
[[stage]]
vary = ["rsize", "maker"]
workloads = ["read"]
then = "narrow"
[[stage]]
vary = ["rsize"]
workloads = ["read"]
range = { step = 1024 }
fix = { size = "10GiB" }
then = "best"
[[stage]]
vary = ["pages"]
workloads = ["write"]
then = "knee"
[[stage]]
target = "production"
then = "confirm"
blocks = 5
"""


def parsed(stages: str = STAGES, head: str = HEAD) -> Study:
    if "production" not in stages:
        head = head.replace('[targets.production]\ndirectory = "/mnt/production"\n', "")
    return parse_study(head + stages, "panasas.toml", lambda name: Path(name).read_text())


def truth(trial: Trial) -> float:
    """Reads peak at an rsize of 86016 and writes saturate at 8 pages; the group does nothing."""
    at = dict(trial.treatment)
    value = 1e9
    if trial.workload == "read":
        rsize = 16384 if at["rsize"] == "unset" else int(at["rsize"])
        value *= math.exp(-(((rsize - 86016) / 40000) ** 2))
    else:
        pages = 0 if at["pages"] == "unset" else int(at["pages"])
        value *= 0.5 + 0.5 * min(pages, 8) / 8
    return value


def measured(trial: Trial, sd: float, value: Callable[[Trial], float] = truth) -> TrialRecord:
    """A trial's number depends on the trial alone, so that a study taken up again finds it."""
    chance = random.Random(f"{trial.stage}:{trial.block}:{trial.workload}:{trial.treatment}")
    metric = "read.bw" if trial.workload == "read" else "write.bw"
    return record(trial, value(trial) * math.exp(chance.gauss(0, sd)), metric)


def executed(
    study: Study, sd: float = 0.002, value: Callable[[Trial], float] = truth, most: int = 10_000
) -> tuple[list[Trial], list[TrialRecord]]:
    planned: list[Trial] = []
    done: list[TrialRecord] = []
    while added := next_trials(study, planned, done):
        planned += added
        for trial in added:
            if len(done) == most:
                return planned, done
            done.append(measured(trial, sd, value))
    return planned, done


def stood(study: Study, planned: Sequence[Trial], done: Sequence[TrialRecord]) -> Mapping[str, str]:
    return {kept.factor: kept.stands for c in courses(study, planned, done) for kept in c.kept}
