"""IOzone for real, and fio in its place: a study on a file system of a loop device."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotrial.formats.iozone import FORMAT
from stalls import stalled

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("state"),
    pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed"),
]
STUDY = """
question = "Does the scheduler matter to IOzone here?"
[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}
filesystem = "ext4"
[workloads.load]
tool = "iozone"
options = {{ size = "4MiB", record = "64k", operations = "write, read", direct = true{more} }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[decide]
primary = "reread.bw"
[design]
blocks = 1
settle = "0s"
"""
IOZONE = pytest.mark.skipif(
    not shutil.which("iozone"),
    reason="iozone is not installed: package iozone3 of Debian's component non-free",
)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(", excel = true", marks=IOZONE),
        pytest.param(", threads = 2, each = true", marks=IOZONE),
        ', stand_in = "fio"',
    ],
)
def test_a_study_with_iozone_on_a_file_system_of_its_own(tmp_path: Path, more: str) -> None:
    (tmp_path / "study.toml").write_text(STUDY.format(folder=tmp_path, more=more))
    argv = [sys.executable, "-m", "iotrial.cli.main"]
    done = subprocess.run(
        [*argv, "run", "study.toml", "--out", "results", "--json"],
        capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    every = sorted((tmp_path / "results" / "trials").glob("*/trial.json"))
    trials = [path for path in every if not stalled(json.loads(path.read_text()))]
    assert len(trials) == 2
    for path in trials:
        trial = json.loads(path.read_text())
        assert (trial["state"], trial["tool"]) == ("valid", "iozone"), trial
        assert ("stand-in" in {check for check, *_ in trial["doubts"]}) == ("stand_in" in more)
        if "stand_in" not in more:
            (recording,) = FORMAT.read((path.parent / "stdout").read_bytes(), "stdout")
            assert ("direct", "1") in recording.treatment
            assert {"write.bw", "rewrite.bw", "read.bw", "reread.bw"} <= {
                each.metric for each in recording.measurements
            }
    rows = (tmp_path / "results" / "measurements.jsonl").read_text().splitlines()
    assert all(json.loads(row)["values"]["reread.bw"][0] > 0 for row in rows)
