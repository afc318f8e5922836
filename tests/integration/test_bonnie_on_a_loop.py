"""bonnie++ for real: its own table beside its CSV, and a study on a loop device."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from iotrial.formats.bonnie import FILES, IO, runs
from iotrial.model.tool import ToolTarget
from iotrial.model.workload import Workload
from iotrial.tools.bonnie import TOOL
from stalls import stalled

pytestmark = pytest.mark.skipif(
    not shutil.which("bonnie++"), reason="bonnie++ is not installed (apt-get install bonnie++)"
)
STUDY = """
question = "Does the scheduler matter to bonnie++ here?"
[targets.disk]
loop = {{ size = "100MiB", directory = "{folder}" }}
filesystem = "ext4"
[workloads.load]
tool = "bonnie++"
options = {{ size = "32M", files = 0 }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[decide]
primary = "putc.bw"
[design]
blocks = 2
settle = "0s"
"""


def test_a_run_here_is_read_and_its_table_says_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "iotrial-bonnie" / "data"
    folder.mkdir(parents=True)
    user = "root" if os.geteuid() == 0 else ""
    options = (("size", "64M"), ("ram", 16), ("files", 1), ("user", user))
    workload = Workload("load", "bonnie++", options)
    load = TOOL.command(workload, ToolTarget(str(tmp_path), "directory"), {"memory": 2.0**33})
    done = subprocess.run(load.argv, capture_output=True, check=True, timeout=200)
    (tmp_path / "stdout").write_bytes(done.stdout)
    parsed = TOOL.parse(tmp_path)
    found = {each.metric: each.value for each in parsed.measurements}
    (row,), (table,) = runs(done.stdout, "stdout"), runs(done.stderr, "stderr")
    told = {each.metric: each.value for each in table.measurements}
    assert {name for name in (*IO, *FILES) if name in found} | set(row.censored) == {*IO, *FILES}
    assert found["putc.bw"] > 0
    assert len([name for name in found if name.endswith(".lat.max")]) == len(IO + FILES)
    for name, value in told.items():
        assert value == pytest.approx(found[name], rel=0.06)
    assert list(folder.iterdir()) == []


@pytest.mark.root
@pytest.mark.usefixtures("state")
def test_a_study_with_bonnie_on_a_file_system_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.format(folder=tmp_path))
    argv = [sys.executable, "-m", "iotrial.cli.main"]
    done = subprocess.run(
        [*argv, "run", "study.toml", "--out", "results", "--json"],
        capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    every = sorted((tmp_path / "results" / "trials").glob("*/trial.json"))
    trials = [path for path in every if not stalled(json.loads(path.read_text()))]
    assert len(trials) == 4
    for path in trials:
        trial = json.loads(path.read_text())
        assert (trial["state"], trial["tool"]) == ("valid", "bonnie++"), trial
        assert "page-cache" in {check for check, *_ in trial["doubts"]}
        lines = runs((path.parent / "stdout").read_bytes(), "stdout")
        assert {each.metric for each in lines[0].measurements} >= {"putc.bw", "putc.cpu"}
    told = subprocess.run(
        [*argv, "compare", "results"],
        capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "scheduler" in told.stdout
    rows = (tmp_path / "results" / "measurements.jsonl").read_text().splitlines()
    assert all(json.loads(row)["values"]["putc.bw"][0] > 0 for row in rows)
