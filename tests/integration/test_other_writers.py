"""Another program that changes settings, for real: seen, recorded, and named where one drifted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_killed_at_any_moment import loops_of

pytestmark = pytest.mark.root

STUDY = """
question = "Does anybody interfere?"
[targets.disk]
loop = {{ size = "16MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, runtime = "{runtime}" }}
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [128]
[design]
blocks = 1
settle = "0s"
"""


@pytest.fixture
def irqbalance(tmp_path: Path) -> Iterator[int]:
    """The pid of a harmless process of that name: only the name counts."""
    program = tmp_path / "irqbalance"
    shutil.copy("/bin/sleep", program)
    process = subprocess.Popen([str(program), "120"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def meddle(folder: Path, done: list[str], back: float = 0.0) -> None:
    """Change the read-ahead of the study's own loop device once its load runs; and ``back``, so
    many seconds later."""
    ends = time.monotonic() + 200
    while time.monotonic() < ends:
        running = list(folder.glob("results/trials/*.partial/fio.json"))
        loops = loops_of(folder)
        telemetry = list(folder.glob("results/trials/*.partial/telemetry.jsonl"))
        if loops and (running or telemetry):
            ahead = Path("/sys/block", loops[0], "queue/read_ahead_kb")
            ahead.write_text("256")
            if back:
                time.sleep(back)
                ahead.write_text("128")
            done.append(loops[0])
            return
        time.sleep(0.05)


def meddled_with(folder: Path, runtime: str = "2s", back: float = 0.0) -> list[dict[str, Any]]:
    """The trials of a study while another program changes its setting."""
    study = folder / "study.toml"
    study.write_text(STUDY.format(folder=folder, runtime=runtime))
    done: list[str] = []
    other = threading.Thread(target=meddle, args=(folder, done, back))
    other.start()
    ran = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", "run", str(study),
         "--out", str(folder / "results"), "--json"],
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    other.join()
    assert done, ran.stderr
    return [
        json.loads(path.read_text())
        for path in sorted((folder / "results" / "trials").glob("*/trial.json"))
    ]


def test_a_setting_that_was_changed_for_a_part_of_the_load_and_back_is_seen(
    tmp_path: Path, state: Path
) -> None:
    """Before and after the load it is alike: only who looks meanwhile can tell."""
    first = meddled_with(tmp_path, runtime="15s", back=7.0)[0]
    assert first["state"] == "invalid"
    (doubt,) = [doubt for doubt in first["doubts"] if doubt[0] == "drift"]
    assert "queue.read_ahead_kb on loop" in doubt[1]
    assert re.search(r"was 128, then 256 from about \d s on, then 128 from about \d s on", doubt[1])
    assert doubt[3] is True


def test_who_was_at_work_is_recorded_and_named_where_a_setting_drifted(
    tmp_path: Path, state: Path, irqbalance: int
) -> None:
    trials = meddled_with(tmp_path)
    named = f"irqbalance (pid {irqbalance})"
    for trial in trials:
        assert all(named in at for at in trial["writers"]), trial["writers"]
    doubts = [doubt for trial in trials for doubt in trial["doubts"] if doubt[0] == "drift"]
    assert len(doubts) == 1
    assert "queue.read_ahead_kb" in doubts[0][1]
    at_work = doubts[0][1].partition("active then: ")[2].split(", ")
    assert named in at_work, "whoever else is at work on this machine"
    assert doubts[0][3] is True


def test_the_doctor_finds_it(state: Path, irqbalance: int) -> None:
    asked = [sys.executable, "-m", "iotrial.cli.main", "doctor", "--json"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=200, check=False).stdout
    (check,) = (c for c in json.loads(said)["checks"] if c["name"] == "other-writers")
    assert f"irqbalance (pid {irqbalance})" in check["reason"]
