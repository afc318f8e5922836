"""A race executed for real: fio at four known rates, so far apart that noise hardly matters.

A machine under load may reach none of the rates in a trial; what is asserted leaves room for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.root

STUDY = """
question = "Which rate is highest?"
[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, ioengine = "libaio", runtime = "1s" }}
[factors.rate]
option = "rate_iops"
workload = "reads"
levels = [400, 200, 100, 50]
baseline = 200
[design]
kind = "race"
blocks = 12
settle = "0s"
[decide]
primary = "read.iops"
margin = "5%"
"""


def iotrial(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.charts
def test_a_race_says_how_it_stands_drops_the_losers_and_reports_it(
    tmp_path: Path, state: Path
) -> None:
    study, out = tmp_path / "study.toml", tmp_path / "results"
    study.write_text(STUDY.format(folder=tmp_path))
    planned = json.loads(iotrial("plan", str(study), "--json").stdout)
    assert (planned["at_most"], planned["most_trials"]) == (True, 48)
    assert {trial["block"] for trial in planned["trials"]} == {1, 2, 3}
    done = iotrial("run", str(study), "--out", str(out))
    notes = done.stderr
    assert "at most 48 trials" in notes
    assert "ETA at most" in notes
    assert "reads: after block 3 " in notes
    (race,) = json.loads((out / "findings.json").read_text("utf-8"))["races"]
    assert race["kept"] == "400"
    assert race["decided"]
    assert set(race["dropped"]) == {"200", "100", "50"}
    assert race["trials"] < 48
    assert "Decisions: difference from 400, block by block" in (
        (out / "report.html").read_text("utf-8")
    )
    status = json.loads(iotrial("status", str(out), "--json").stdout)
    assert status["races"][0]["decided"]
    assert status["at_most"] == 0
