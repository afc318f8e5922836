"""What the folders of trials hold of rates over time, and what is made of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from iotrial.judgement.noise import RateTrace, answer, noise, warmup_doubts
from iotrial.model.measurement import Measurement
from iotrial.model.results import NoTraces, Results
from iotrial.model.study import DecisionRule, Design, Study
from iotrial.model.target import Target
from iotrial.model.trial import TrialRecord
from iotrial.model.workload import Workload
from iotrial.plan.aa import as_aa, at_baseline
from iotrial.plan.stages import next_trials
from iotrial.report.noise_text import noise_text
from iotrial.stats.noise import Floats
from iotrial.trial_files import FolderTraces

Shape = Callable[[Floats], Floats]
"""The rate at so many seconds since the load began, as a share of what it comes to."""


def level(seconds: Floats) -> Floats:
    return np.ones_like(seconds)


def fading(depth: float, scale: float) -> Shape:
    return lambda seconds: np.asarray(1 + depth * np.exp(-seconds / scale))


def results(
    folder: Path,
    shape: Shape = level,
    *,
    ramp: float = 2.0,
    runtime: float = 10.0,
    within: float = 0.05,
    between: float = 0.02,
    tool: str = "fio",
    metric: str = "read.iops",
    options: tuple[tuple[str, str], ...] | None = None,
    blocks: int = 10,
) -> Results:
    """An A/A study of two arms: 100 points of fio's log each, and telemetry once a second."""
    rng = np.random.default_rng(1)
    said = options or (("ramp_time", f"{ramp}s"), ("runtime", f"{runtime}s"))
    workload = Workload(
        "load", tool, (("rw", "read"), *said), argv=("true",) if tool != "fio" else ()
    )
    made = Study(
        "Which?", "s", (Target("disk", "loop"),), (workload,), (), Design(blocks=blocks),
        DecisionRule((("load", metric),)), text="s", digest="s",
    )  # fmt: skip
    study = at_baseline(as_aa(made), {})
    records = []
    for trial in next_trials(study, (), ()):
        place = folder / "trials" / trial.folder
        place.mkdir(parents=True)
        rate = 20_000 * float(np.exp(rng.normal(0, between)))
        step = runtime / 100
        at = ramp + step * np.arange(1, 101)
        values = rate * shape(at) * (1 + rng.normal(0, within, 100))
        lines = (
            f"{round((t - ramp) * 1000)}, {v:.0f}, 0, 0, 0\n"
            for t, v in zip(at, values, strict=True)
        )
        if tool == "fio":
            (place / "rate_iops.1.log").write_text("".join(lines))
        second = np.arange(0, int(ramp + runtime) + 1)
        counters = np.cumsum(
            rate * 8 * shape(second.astype(float)) * (1 + rng.normal(0, within / 3, len(second)))
        )
        rows = (
            json.dumps({"t": int(t), "disk": {"sectors_read": int(s), "sectors_written": 0}})
            for t, s in zip(second, counters, strict=True)
        )
        (place / "telemetry.jsonl").write_text("\n".join(rows) + "\n")
        number = Measurement(metric, float(values.mean()), "1/s")
        records.append(
            TrialRecord(
                trial,
                "valid",
                15.0 * trial.number,
                ramp + runtime + 1.0,
                tool=tool,
                measurements=(number,),
            )
        )
    planned, traces = next_trials(study, (), ()), FolderTraces(folder)
    return Results(folder, study, planned, tuple(records), traces=traces)


def traced(folder: Path, *how: Shape, **more: float) -> RateTrace:
    found = noise(results(folder, *how, **more))[0].trace  # type: ignore[arg-type]
    assert found is not None
    return found


def said(found: Results) -> str:
    console = Console(width=80, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(noise_text(noise(found)))
    return capture.get()


def test_a_level_rate_has_no_warmup_and_its_parts_are_those_it_was_made_of(tmp_path: Path) -> None:
    found = traced(tmp_path, blocks=60)
    assert found.settled
    assert found.alone == 0.0
    assert found.within == pytest.approx(0.05 / 10, rel=0.2)
    assert found.between is not None
    assert found.between == pytest.approx(0.02, rel=0.25)
    assert found.told
    assert found.independent > 60
    assert found.length is not None
    assert found.length.seconds < 5  # what differs from trial to trial, no second mends
    assert found.length.hours < 0.8


def test_where_seconds_are_all_the_noise_longer_trials_are_advised(tmp_path: Path) -> None:
    found = traced(tmp_path, level, between=0.0, within=0.3, blocks=60)
    assert found.length is not None
    assert found.length.seconds > 10
    assert not found.told


def test_a_warmup_beyond_the_ramp_is_measured_and_added_to_it(tmp_path: Path) -> None:
    found = traced(tmp_path, fading(2.0, 0.6), ramp=1.0)
    assert 1.0 <= found.alone <= 5.0
    assert found.warmup == pytest.approx(1.0 + found.alone)
    assert found.ratio > 1.05
    assert found.length is not None
    assert found.length.warmup == found.warmup


def test_a_ramp_longer_than_the_warmup_is_cut_by_the_bytes_of_the_device(tmp_path: Path) -> None:
    found = traced(tmp_path, fading(2.0, 0.8), ramp=20.0, runtime=20.0)
    assert found.alone == 0.0
    assert 1.0 <= found.warmup <= 10.0
    assert found.length is not None
    assert found.length.hours < 0.8


def test_a_ramp_that_samples_are_too_few_to_judge_stays(tmp_path: Path) -> None:
    assert traced(tmp_path, ramp=3.0).warmup == 3.0


def test_a_rate_that_still_falls_at_the_end_gets_no_length(tmp_path: Path) -> None:
    found = results(tmp_path, lambda seconds: np.asarray(2 - seconds / 12))
    part = noise(found)[0]
    assert part.trace is not None
    assert not part.trace.settled
    assert part.trace.length is None
    assert "is not steady" in said(found)


def test_a_latency_gets_a_warmup_and_no_length(tmp_path: Path) -> None:
    found = results(tmp_path, metric="read.clat.p99")
    part = noise(found)[0]
    assert part.trace is not None
    assert part.trace.between is None
    assert part.trace.length is None
    assert "At least 2" in said(found)


def test_other_tools_are_judged_by_the_bytes_of_the_device(tmp_path: Path) -> None:
    found = noise(results(tmp_path, tool="command", ramp=0.0, runtime=30.0, metric="read.bw"))[0]
    assert found.trace is not None
    assert found.trace.what == "the device's bytes"
    assert found.trace.points == 30


def test_trials_that_left_nothing_have_a_floor_and_no_length(tmp_path: Path) -> None:
    found = results(tmp_path)
    bare = dataclasses.replace(found, traces=NoTraces())
    assert noise(bare)[0].trace is None
    assert "trial length" not in said(bare)


def test_the_floor_is_said_in_words_that_fit_a_terminal(tmp_path: Path) -> None:
    found = results(tmp_path)
    text = said(found)
    for words in (
        "one trial varies by",
        "blocking removes it",
        "rank test",
        "ramp_time = ",
        "runtime = ",
    ):
        assert words in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert answer(noise(found)).startswith("This is the noise floor")


def test_an_ordinary_study_has_no_noise_floor(tmp_path: Path) -> None:
    found = results(tmp_path)
    plain = dataclasses.replace(found, study=dataclasses.replace(found.study, aa=None))
    assert noise(plain) == ()


def test_trials_that_measure_their_warmup_are_doubted(tmp_path: Path) -> None:
    found = results(tmp_path, fading(1.0, 3.0), ramp=1.0, runtime=40.0)
    (doubt,) = warmup_doubts(found)
    assert doubt.check == "warm-up"
    assert not doubt.invalid
    assert "ramp_time" in doubt.advice


def test_trials_that_end_before_their_rate_has_settled_are_doubted(tmp_path: Path) -> None:
    found = results(tmp_path, lambda seconds: np.asarray(2 - seconds / 60), runtime=40.0)
    (doubt,) = warmup_doubts(found)
    assert doubt.check == "warm-up"
    assert "still changes" in doubt.what


@pytest.mark.parametrize("shape", [level, fading(1.0, 1.0)])
def test_trials_whose_ramp_is_long_enough_are_not(tmp_path: Path, shape: Shape) -> None:
    assert not warmup_doubts(results(tmp_path, shape, ramp=10.0, runtime=40.0))


def test_a_load_that_ends_by_size_is_not_asked_for_its_warmup(tmp_path: Path) -> None:
    sized = (("size", "1g"),)
    found = results(tmp_path, fading(1.0, 3.0), ramp=0.0, runtime=40.0, options=sized)
    assert not warmup_doubts(found)
