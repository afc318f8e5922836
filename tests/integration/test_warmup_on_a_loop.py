"""A load whose rate really changes while it is measured: reads that fill the page cache."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.root

# 1,000 reads of 4 KiB a second of 32 MiB: after 8 s two thirds are in the cache.  The rate is held
# down, so that a busy machine makes no difference.
STUDY = """
question = "What is measured here?"
[targets.disk]
loop = {{ size = "32MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
cache = "drop"
options = {{ rw = "randread", bs = "4k", direct = 0, rate_iops = 1000, runtime = "13s" }}
[design]
blocks = 4
settle = "0s"
"""


def test_trials_that_measure_a_cache_filling_up_are_doubted(tmp_path: Path, state: Path) -> None:
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
    answer = json.loads(done.stdout)
    assert "warm-up" in {doubt["check"] for doubt in answer["doubts"]}, done.stderr
