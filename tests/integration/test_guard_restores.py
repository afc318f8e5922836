"""kill -9 of iotrial at random moments, and nobody calls restore: the guard does it by itself.

Everything is real, as in test_killed_at_any_moment.py: loop devices, fio, kernel settings.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_killed_at_any_moment import (
    FORMER,
    LATEST,
    STUDY,
    guards_of,
    iotrial,
    loads_of,
    loops_of,
    queue_files,
)

pytestmark = pytest.mark.root

KILLS = 25
WITHIN = 200.0
"""Seconds after which what has not ended hangs; how fast it ends is asserted nowhere."""


def until(true: Callable[[], bool], seconds: float = WITHIN) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def begin(study: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        iotrial("run", str(study), "--out", str(out)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=study.parent,
    )


def journals(state: Path) -> list[Path]:
    return list((state / "journal.d").glob("*.journal"))


def reports(state: Path) -> list[Path]:
    return list((state / "journal.d").glob("*.restored"))


@pytest.fixture
def study(loop_device: str, tmp_path: Path) -> Path:
    for name, value in FORMER.items():
        Path("/sys/block", loop_device, "queue", name).write_text(value)
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(device=loop_device, folder=tmp_path))
    return path


def assert_as_before(
    before: dict[str, str], device: str, state: Path, folder: Path, hint: str
) -> None:
    assert queue_files(device) == before, hint
    assert loads_of(folder) == [], hint
    assert loops_of(folder) == [device], hint
    assert [path.name for path in folder.glob("*.img")] == ["loop.img"], hint
    assert journals(state) == [], hint


@pytest.mark.timeout(900)
def test_after_any_kill_the_guard_alone_gives_everything_back(
    loop_device: str, study: Path, state: Path, tmp_path: Path, times: Callable[[int], int]
) -> None:
    kills = times(KILLS)
    before = queue_files(loop_device)
    moments = random.Random(7)
    told = 0
    for kill in range(kills):
        process = begin(study, tmp_path / f"results-{kill}")
        if kill % 2:  # from when something is journalled on: a busy machine begins late
            until(lambda: bool(journals(state)) or process.poll() is not None)  # noqa: B023
        time.sleep(moments.uniform(0.0 if kill % 2 else 0.3, LATEST))
        process.kill()
        process.wait(timeout=200)
        assert until(lambda: not guards_of(state)), f"kill {kill}: a guard is still at work"
        hint = f"kill {kill}: {[path.read_text() for path in reports(state)]}"
        assert_as_before(before, loop_device, state, tmp_path, hint)
        told += len(reports(state))
        for path in reports(state):
            assert ", the controller died\n" in path.read_text()
            assert "\nowed: " not in path.read_text()
            path.unlink()
    assert told >= kills // 3, f"only {told} of {kills} kills left anything to restore"


@pytest.mark.timeout(900)
def test_a_restore_at_the_same_moment_and_the_guard_do_not_hinder_each_other(
    loop_device: str, study: Path, state: Path, tmp_path: Path
) -> None:
    before = queue_files(loop_device)
    moments = random.Random(8)
    for kill in range(8):
        process = begin(study, tmp_path / f"results-{kill}")
        time.sleep(moments.uniform(1.0, LATEST))
        process.kill()
        process.wait(timeout=200)
        time.sleep(moments.choice([0.0, 0.0, 0.1, 0.3]))
        done = subprocess.run(
            iotrial("restore"), capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr
        assert until(lambda: not guards_of(state))
        assert_as_before(before, loop_device, state, tmp_path, f"kill {kill}: {done.stdout}")
        subprocess.run(iotrial("status"), capture_output=True, timeout=200, check=True)
        assert not list((state / "journal.d").glob("*")), "reports are told once"


def test_what_the_guard_did_is_told_by_the_next_command(
    loop_device: str, study: Path, state: Path, tmp_path: Path
) -> None:
    process = begin(study, tmp_path / "results")
    assert until(lambda: bool(loads_of(tmp_path / "results"))), "the load never started"
    process.kill()
    process.wait(timeout=200)
    assert until(lambda: not guards_of(state))
    told = subprocess.run(
        iotrial("status"), capture_output=True, text=True, timeout=200, check=False
    )
    assert told.returncode == 0, told.stdout
    assert re.search(
        r"the guard restored at 20..-..-.. ..:..:.., the controller died: .*\d+ process",
        told.stdout,
    )
    again = subprocess.run(
        iotrial("status", "--json"), capture_output=True, text=True, timeout=200, check=False
    )
    assert json.loads(again.stdout)["guard"] == []


def test_a_stopped_controller_still_owes_and_the_guard_waits(
    loop_device: str, study: Path, state: Path, tmp_path: Path
) -> None:
    before = queue_files(loop_device)
    process = begin(study, tmp_path / "results")
    assert until(lambda: bool(loads_of(tmp_path / "results"))), "the load never started"
    process.send_signal(signal.SIGSTOP)
    time.sleep(8)
    held = queue_files(loop_device)
    assert journals(state)
    assert reports(state) == []
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=200) == 0, "it goes on, and ends as if nothing had been"
    assert until(lambda: not guards_of(state), 200)
    assert reports(state) == []
    assert held
    assert_as_before(before, loop_device, state, tmp_path, "after SIGCONT")


def test_a_guard_of_a_run_costs_next_to_nothing(
    loop_device: str, study: Path, state: Path, tmp_path: Path
) -> None:
    process = begin(study, tmp_path / "results")
    assert until(lambda: bool(loads_of(tmp_path / "results"))), "the load never started"
    (guard,) = guards_of(state)
    used = Path(f"/proc/{guard}/stat").read_text().rpartition(") ")[2].split()
    ticks = sum(map(int, used[11:15]))  # its own and its children's, user and system
    assert ticks / os.sysconf("SC_CLK_TCK") < 0.1
    process.terminate()
    process.wait(timeout=200)
    assert until(lambda: not guards_of(state), 200)
