"""Offered rates on a loop device whose limit is known: the kernel holds the load back.

The control group of the load may read so many times a second (blkio of cgroup v1, which iotrial
sets as a factor, as in ``throttled``), so the highest rate within a bound lies just below that,
whatever the machine can do.  Of the reads beyond it each waits for a slice of the throttle: an I/O
that has started waits 0.1 s and more, and one that is to start waits for those before it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from iotrial.store import open_results
from throttled import why_not

pytestmark = [
    pytest.mark.alone,
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]

SLOW, FAST, FAR = 3000, 4000, 8000
STUDY = """
[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}
[workloads.open]
tool = "fio"
offered = {{ rates = [2000, 2600, 2800, 3000, 3300, 3600, 3800, 4000, 4400, {far}], within = {{ p99 = "100ms" }} }}
options = {{ rw = "randread", bs = "4k", runtime = "2s" }}
[workloads.late]
tool = "fio"
options = {{ rw = "randread", bs = "4k", ioengine = "psync", rate_iops = {far}, runtime = "2s" }}
[factors.limit]
levels = {{ slow = {{ "cgroup.v1.read_iops" = {slow} }}, fast = {{ "cgroup.v1.read_iops" = {fast} }} }}
baseline = "slow"
[design]
kind = "full"
blocks = 2
settle = "0s"
[decide]
primary = {{ late = "read.clat.p99" }}
margin = "5%"
"""  # noqa: E501 (tables of one line)


@pytest.mark.timeout(900)
def test_the_highest_rate_within_a_bound_is_what_the_kernel_lets_through(
    tmp_path: Path, state: Path
) -> None:
    study, out = tmp_path / "study.toml", tmp_path / "out"
    study.write_text(STUDY.format(folder=tmp_path, slow=SLOW, fast=FAST, far=FAR))
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((out / "findings.json").read_text("utf-8"))
    (finding,) = [each for each in found["findings"] if each["metric"] == "read.iops.within"]
    assert finding["baseline_value"] == pytest.approx(SLOW, rel=0.10)
    assert finding["value"] == pytest.approx(FAST, rel=0.10)
    wrong = {"capped", "offered-above", "offered-below", "steady-state", "warm-up"}
    assert not wrong & {each["check"] for each in found["doubts"]}, "its rates rise on purpose"
    # Far above the limit: what fio says of its I/Os, and what those waited that were to start.
    results = open_results(out)

    def middle(workload: str, metric: str) -> float:
        own = [r for r in results.records if r.trial.workload == workload and r.state == "valid"]
        return median(value for r in own if (value := r.value(metric)) is not None)

    response = middle("open", f"read.response.p99[{FAR}]")
    assert response == pytest.approx(0.99 * 2 * (1 - (SLOW + FAST) / 2 / FAR), rel=0.3)
    assert response > 5 * middle("open", f"read.lat.p99[{FAR}]")
    assert response > 20 * middle("late", "read.clat.p99"), "one client: most meet no full slice"


@pytest.mark.timeout(600)
def test_in_a_directory_the_clients_read_one_file_that_goes_with_the_study(
    tmp_path: Path, state: Path
) -> None:
    study, out, data = tmp_path / "study.toml", tmp_path / "out", tmp_path / "data"
    data.mkdir()
    text = f"""
[targets.here]
directory = "{data}"
[workloads.open]
tool = "fio"
offered = {{ rates = [50, 70], within = {{ p90 = "30s" }} }}
options = {{ rw = "randread", bs = "4k", size = "8m", runtime = "3s" }}
[factors.align]
option = "bs"
levels = ["4k", "8k"]
[design]
blocks = 1
settle = "0s"
"""
    study.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "run", str(study), "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(data.iterdir()) == []
    for record in open_results(out).records:
        assert record.value("read.iops.within") == 70
        assert [each.check for each in record.doubts if each.check == "offered-above"]
