"""A/A on a real device: three names for the same thing, and no winner is crowned."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.root

STUDY = """
question = "Is there a difference where there is none?"
[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 16, ramp_time = "200ms", runtime = "1s" }}
[factors.nothing]
levels = {{ A = {{}}, B = {{}}, C = {{}} }}
[design]
blocks = 6
settle = "0s"
[decide]
confidence = 0.999
"""


def test_a_real_study_of_nothing_crowns_no_winner(tmp_path: Path, state: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(folder=tmp_path))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--json"),
            *("--out", str(tmp_path / "results")),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["trials"]["valid"] == 18
    assert {f["level"] for f in answer["findings"]} == {"B", "C"}
    assert {f["verdict"] for f in answer["findings"]} <= {"same", "cannot-tell"}
    assert all(f["low"] < f["ratio"] < f["high"] and f["n"] == 6 for f in answer["findings"])
