"""A published study in small, for real: made by init, planned, run, compared and reported."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("state"),
    pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed (apt install fio)"),
    pytest.mark.skipif(
        not shutil.which("mkfs.ext2"), reason="mkfs.ext2 is not installed (apt install e2fsprogs)"
    ),
]


def iotrial(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", *words],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"iotrial {' '.join(words)}\n{done.stdout[-800:]}{done.stderr}"
    return done.stdout


def test_the_study_of_clustered_arrays_runs_in_small_to_its_report(tmp_path: Path) -> None:
    """The shortest of them, cut to two of its six blocks."""
    iotrial(tmp_path, "init", "clustermd", "study.toml")
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace("blocks = 6", "blocks = 2"))
    planned = json.loads(iotrial(tmp_path, "plan", "study.toml", "--json"))
    began = time.monotonic()
    ran = json.loads(iotrial(tmp_path, "run", "study.toml", "--out", "results", "--json"))
    assert time.monotonic() - began < 6 * planned["seconds"], "planned for something else"
    assert ran["trials"]["valid"] == len(planned["trials"]) == 24
    told = json.loads(iotrial(tmp_path, "compare", "results", "--json"))
    assert {each["workload"] for each in told["findings"]} == {
        "ddwrite", "ddread", "read", "write", "randread", "randwrite"
    }  # fmt: skip
    assert {(each["level"], each["baseline"]) for each in told["findings"]} == {("kept", "bare")}
    iotrial(tmp_path, "report", "results")
    assert (tmp_path / "results" / "report.html").stat().st_size > 10_000
