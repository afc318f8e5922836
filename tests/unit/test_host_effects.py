"""Hosts as blocks: the host's own effect is taken out, and a winner that differs is told."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord
from iotrial.plan.load import parse_study
from iotrial.plan.stages import next_trials
from iotrial.stats.host_effects import host_doubts, host_effects
from iotrial.stats.judge import judge
from iotrial.stats.responses import drift_doubts

TEXT = """
[targets.disk]
loop = { size = "16MiB" }
hosts = "h[1-4]"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "10s" }
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [64, 128, 256]
baseline = 64
[design]
blocks_over = "hosts"
"""
HOSTS = "".join(f'[hosts.h{n}]\nssh = "root@h{n}"\n' for n in range(1, 5))
SPEED = {"h1": 1.0, "h2": 3.0, "h3": 0.2, "h4": 1.5}
EFFECT = {"64": 1.0, "128": 1.1, "256": 1.2}


def results(
    blocks: int, *, odd: str = "", seed: int = 1, noise: float = 0.01, speed: bool = True
) -> Results:
    """Hosts of different speed; on ``odd`` the levels do the contrary."""
    study = parse_study(f"{HOSTS}{TEXT}blocks = {blocks}\n", "spread.toml", lambda _: "")
    rng = np.random.default_rng(seed)
    planned = next_trials(study, (), ())
    records = []
    for trial in planned:
        label = trial.treatment[0][1]
        effect = math.log(EFFECT[label]) * (-1 if trial.host == odd else 1)
        own = math.log(SPEED[trial.host]) if speed else 0.0
        value = 1e4 * math.exp(own + effect + rng.normal(0, noise))
        measured = (Measurement("read.iops", value, "1/s", "all", "fio.json"),)
        records.append(TrialRecord(trial, "valid", trial.number, 10.0, measurements=measured))
    return Results(Path("r"), study, planned, tuple(records), {}, {"ahead": "64"})


def test_what_hosts_differ_by_is_taken_out() -> None:
    fast, even = (judge(results(12, speed=each)) for each in (True, False))
    assert [f.verdict for f in fast.findings if f.primary] == ["better", "better"]
    for one, other in zip(fast.findings, even.findings, strict=True):
        assert one.ratio == pytest.approx(other.ratio)
        assert one.low == pytest.approx(other.low)


def test_hosts_that_compare_alike_are_no_doubt_and_each_is_told_with_its_blocks() -> None:
    found = results(12)
    assert list(host_doubts(found)) == []
    told = {each.host: each for each in host_effects(found)}
    assert told["h2"].blocks == (2, 6, 10)
    assert told["h1"].broken == ()
    assert told["h2"].ratio / told["h1"].ratio == pytest.approx(3.0, rel=0.05)
    assert {each.best for each in told.values()} == {(("ahead", "256"),)}


def test_a_winner_that_differs_between_hosts_is_a_doubt_that_names_it() -> None:
    (doubt,) = host_doubts(results(12, odd="h3"))
    assert doubt.check == "hosts-differ"
    assert "ahead=256 is best on h[1-2,4]" in doubt.what
    assert "ahead=64 is best on h3" in doubt.what


def test_with_one_block_on_each_host_nobody_can_tell_and_that_is_said() -> None:
    (doubt,) = host_doubts(results(4, odd="h3"))
    assert "no host has measured two blocks" in doubt.what


def test_hosts_that_are_alike_are_doubted_in_one_of_a_hundred_studies() -> None:
    doubted = sum(bool(list(host_doubts(results(8, seed=seed)))) for seed in range(300))
    assert doubted <= 9  # 3 are expected; more than 9 in 300 has a chance of 1 in 1,000


def test_a_host_that_is_slower_is_no_drift() -> None:
    assert list(drift_doubts(results(12))) == []


def test_a_block_that_a_host_has_begun_and_lost_counts_by_itself() -> None:
    whole = results(12)
    fewer = tuple(r for r in whole.records if r.trial.number != 1)
    cut = Results(Path("r"), whole.study, whole.planned, fewer, {}, {"ahead": "64"})
    (first, *_) = host_effects(cut)
    assert (first.host, first.broken) == ("h1", (1,))
    assert first.blocks == (5, 9)
    assert judge(cut).findings[0].n >= 11
