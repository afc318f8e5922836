"""An A/A study of real trials: noise, series from fio's own logs, settings written each time."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("state")]

STUDY = """
question = "Which scheduler?"
[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, numjobs = 2, ramp_time = "200ms", runtime = "1s" }}
[workloads.copy]
tool = "dd"
options = {{ rw = "read", bs = "1M", size = "32MiB" }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
baseline = "mq-deadline"
[design]
blocks = 3
settle = "0s"
[decide]
confidence = 0.999
primary = {{ reads = "read.iops", copy = "read.bw" }}
"""  # noqa: E501 (TOML has no continuation within braces)


def iotrial(*words: str, cwd: Path) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", *words, "--json"],
        capture_output=True, text=True, timeout=200, check=False, cwd=cwd,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY.format(folder=tmp_path))
    return tmp_path


def test_the_noise_of_real_trials_is_measured_and_planned_with(work: Path) -> None:
    code, answer, said = iotrial("run", "study.toml", "--aa", cwd=work)
    assert code == 0, said
    assert answer["trials"]["valid"] == 12
    assert {f["factor"] for f in answer["findings"]} == {"arm"}
    assert {f["verdict"] for f in answer["findings"]} <= {"same", "cannot-tell"}
    floors = {each["floor"]["workload"]: each for each in answer["noise"]}
    for each in floors.values():
        inside = each["floor"]["within"]
        assert 0 < inside["low"] < inside["sd"] < inside["high"]
        assert inside["df"] == 3
    trace = floors["reads"]["trace"]
    assert trace["what"] == "fio's iops log"
    assert trace["ramp"] == 0.2
    assert trace["points"] >= 20
    assert trace["points"] * trace["step"] + trace["alone"] + 0.5 > 0.8
    assert floors["copy"]["trace"] is None  # over within a second
    code, planned, said = iotrial("plan", "study.toml", cwd=work)
    assert code == 0, said
    assert planned["noise_from"]["workloads"] == {
        name: each["floor"]["within"]["sd"] for name, each in floors.items()
    }


def test_fios_logs_say_what_its_report_says(work: Path) -> None:
    from iotrial.tools.fio import TOOL  # noqa: PLC0415

    code, answer, said = iotrial("run", "study.toml", "--aa", "--blocks", "2", cwd=work)
    assert code == 0, said
    trials = sorted((Path(work) / answer["results"] / "trials").glob("*"))
    seen = 0
    for trial in trials:
        if not (trial / "fio.json").exists():
            continue
        seen += 1
        course = TOOL.course(trial, "read.iops")
        assert course is not None
        jobs = json.loads((trial / "fio.json").read_text())["jobs"]
        total = sum(job["read"]["iops"] for job in jobs)
        mean = sum(course.values) / len(course.values)
        assert math.isclose(mean, total, rel_tol=0.25)  # a loaded machine: edges differ
    assert seen == 4


def test_settings_are_written_before_each_trial_and_all_are_given_back(work: Path) -> None:
    code, answer, said = iotrial("run", "study.toml", "--aa", "--blocks", "2", cwd=work)
    assert code == 0, said
    for before in sorted((Path(work) / answer["results"] / "trials").glob("*/before.json")):
        rows = json.loads(before.read_text())
        assert [value for _, name, value in rows if name == "queue.scheduler"] == ["mq-deadline"]
    assert iotrial("status", cwd=work)[0] == 0
