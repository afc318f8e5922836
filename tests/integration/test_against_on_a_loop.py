"""``iotrial run --against`` on a real loop device, one setting of which is changed by hand between
the stored night and the new one: it is seen, measured in turn, decided, and everything is restored.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from iotrial.store import open_results

pytestmark = pytest.mark.root

STUDY = """question = "Is it as fast as it was?"
[targets.disk]
device = "/dev/{device}"
[workloads.load]
tool = "fio"
options = {{ rw = "read", bs = "1m", ioengine = "libaio", iodepth = 4, runtime = "0.3s" }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[design]
blocks = 8
settle = "0s"
[decide]
primary = "read.iops"
"""


def iotrial(*words: str) -> list[str]:
    return [sys.executable, "-m", "iotrial.cli.main", *words]


def queue(device: str) -> dict[str, str]:
    folder = Path("/sys/block", device, "queue")
    names = ("scheduler", "max_sectors_kb", "nr_requests", "read_ahead_kb", "wbt_lat_usec")
    return {name: (folder / name).read_text().strip() for name in names}


def without_doubts(lines: Path) -> None:
    """As if nothing else had been at work: doubted trials are compared with nothing."""
    rows = [json.loads(line) | {"doubts": []} for line in lines.read_text().splitlines()]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))


def begun(folder: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a trial of the folder is done."""
    while not [each for each in folder.glob("trials/*") if each.suffix != ".partial"]:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_a_setting_changed_by_hand_is_measured_in_turn_and_stays_as_it_was_found(
    state: Path, tmp_path: Path, loop_device: str
) -> None:
    pytest.importorskip("duckdb", reason="the store needs its extra")
    (tmp_path / "nightly.toml").write_text(STUDY.format(device=loop_device))
    largest = Path("/sys/block", loop_device, "queue/max_sectors_kb")
    largest.with_name("scheduler").write_text("none")
    former = largest.read_text().strip()
    store = f"file:{tmp_path}/store"

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        command = iotrial("run", "nightly.toml", *words, "--quiet", "--json")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout)

    assert run("--out", "then")[0] == 0
    without_doubts(tmp_path / "then/measurements.jsonl")
    subprocess.run(iotrial("push", "then", "--store", store), cwd=tmp_path, check=True)
    largest.write_text("4")
    found = queue(loop_device)
    words = ["--out", "now", "--against", "last", "--store", store]
    assert run(*words, "--in-turn", "never")[0] == 0
    assert not (tmp_path / "now-in-turn").exists()
    turn = tmp_path / "now-in-turn"
    for how, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        command = iotrial("run", "nightly.toml", *words)
        process = subprocess.Popen(
            command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        begun(turn, process)
        os.kill(process.pid, how)
        process.communicate()
        assert process.returncode == code
    code, told = run(*words)
    assert code == 1
    assert len(told["in_turn"]["findings"]) == 2
    for finding in told["in_turn"]["findings"]:
        assert 4 <= finding["n"] <= 8
        assert finding["ratio"] < 1, finding
    # Where other programs keep the CPUs busy one of the two may stay undecided.
    assert "worse" in {finding["verdict"] for finding in told["in_turn"]["findings"]}
    assert {each["low"] for each in told["against"]["findings"]} == {None}, "of one night"
    held = {
        (dict(record.trial.treatment)["against"], value)
        for record in open_results(turn).valid
        for _, name, value in record.before
        if name == "queue.max_sectors_kb"
    }
    assert held == {("stored", former), ("now", "4")}
    assert queue(loop_device) == found
    left = subprocess.run(
        iotrial("status", "--json"), cwd=tmp_path, capture_output=True, check=True
    )
    assert not json.loads(left.stdout).get("owed")
