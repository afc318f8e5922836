"""Two loads at the same time, for real: one is judged, and the other is reported."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from iotrial.store import open_results
from stalls import stalled

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("state"),
    pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed"),
]
STUDY = """
question = "What does a backup cost the database?"
[targets.data]
loop = {{ size = "64MiB", directory = "{folder}" }}
[targets.backups]
loop = {{ size = "32MiB", directory = "{folder}" }}
filesystem = "ext4"
[workloads.db]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, runtime = "{runtime}" }}
{always}
[workloads.backup]
tool = "fio"
target = "backups"
options = {{ rw = "write", bs = "64k", size = "4m", rate = "2m", runtime = "{runtime}" }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
{factor}
[design]
blocks = 1
settle = "0s"
"""


FACTOR = '[factors.neighbour]\noption = "beside"\nlevels = ["alone", "backup"]'


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "iotrial.cli.main", *words]


def study(folder: Path, runtime: str = "2s", factor: str = FACTOR, always: str = "") -> None:
    text = STUDY.format(folder=folder, runtime=runtime, factor=factor, always=always)
    (folder / "study.toml").write_text(text)


def left(folder: Path) -> list[str]:
    """Mounts, loop devices, files and processes that are of the study."""
    loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    lines = (loops + Path("/proc/self/mountinfo").read_text()).splitlines()
    found = [line for line in lines if str(folder) in line]
    found += [str(path) for path in folder.glob("iotrial-*")]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"fio") and any(str(folder).encode() in word for word in words):
            found.append(b" ".join(words).decode())
    return found


def first_and_last(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    lines = path.read_text().splitlines()
    return json.loads(lines[0]), json.loads(lines[-1])


def test_both_loads_run_at_the_same_time_each_on_its_own_target(tmp_path: Path) -> None:
    study(tmp_path)
    done = subprocess.run(
        command(tmp_path, "run", "study.toml", "--out", "results", "--json"),
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == []
    results = open_results(tmp_path / "results")
    kept = [
        record
        for record in results.records
        if not stalled(
            json.loads((results.folder / "trials" / record.trial.folder / "trial.json").read_text())
        )
    ]
    assert {record.state for record in kept} == {"valid"}
    assert {dict(record.trial.treatment)["neighbour"] for record in kept} == {"alone", "backup"}
    for record in kept:
        folder = results.folder / "trials" / record.trial.folder
        rate = record.value("write.bw[backup]")
        assert record.value("read.iops")
        if dict(record.trial.treatment)["neighbour"] == "alone":
            assert rate is None
            assert record.beside == ()
            continue
        assert rate == pytest.approx(2 * 2**20, rel=0.1), "as fast as it was told to be"
        assert record.beside == ("backup", "fio", "local/beside")
        # The kernel counted reads of the one device and writes of the other in the same seconds.
        data, backups = (
            first_and_last(folder / "local" / name / "telemetry.jsonl")
            for name in ("data", "beside")
        )
        assert [line["t"] for line in data] == [line["t"] for line in backups]
        assert data[1]["disk"]["reads"] > data[0]["disk"]["reads"]
        assert backups[1]["disk"]["writes"] > backups[0]["disk"]["writes"]
        assert data[1]["disk"]["writes"] == data[0]["disk"]["writes"]
    findings = json.loads((results.folder / "findings.json").read_text())["findings"]
    assert {row["metric"] for row in findings if row["secondary"]} == {"write.iops[backup]"}


def test_a_killed_run_leaves_neither_of_them(tmp_path: Path) -> None:
    study(tmp_path, runtime="600s", factor="", always='beside = "backup"')
    process = subprocess.Popen(
        command(tmp_path, "run", "study.toml", "--out", "results"),
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 200
    while not list((tmp_path / "results").glob("trials/*.partial/local/beside/telemetry.jsonl")):
        assert time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = subprocess.run(
        command(tmp_path, "restore"),
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    until = time.monotonic() + 60
    while left(tmp_path) and time.monotonic() < until:
        time.sleep(0.2)
    assert left(tmp_path) == []
