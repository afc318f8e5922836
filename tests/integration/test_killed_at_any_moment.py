"""kill -9 of iotrial and of its guard at random moments, then ``iotrial restore``: the machine is
as it was.  (What the guard does when it lives: test_guard_restores.py.)

Everything is real: a loop device with unusual settings of its own as one target, a loop device
that iotrial makes as the other, fio as the load.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.root

KILLS = 50
LATEST = 4.0
"""Seconds after the start; a run of the study below takes about as long."""

STUDY = """
question = "Is everything given back?"
[targets.mine]
device = "/dev/{device}"
[targets.made]
loop = {{ size = "16MiB", directory = "{folder}" }}
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", iodepth = 4, numjobs = 2, runtime = "0.2s" }}
[factors.where]
targets = ["mine", "made"]
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline", "kyber", "bfq"]
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [64, 256]
[design]
blocks = 1
settle = "0s"
"""

FORMER = {
    "scheduler": "kyber",
    "rotational": "0",
    "iostats": "1",
    "max_sectors_kb": "512",
    "read_ahead_kb": "320",
    "nr_requests": "72",
    "wbt_lat_usec": "1500",
    "iosched/read_lat_nsec": "1234567",
}
"""Settings that no default gives back by chance."""


def queue_files(device: str) -> dict[str, str]:
    folder = Path("/sys/block", device, "queue")
    return {str(path): _content(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        return f"errno {error.errno}"


def iotrial(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "iotrial.cli.main", *arguments]


def loads_of(folder: Path) -> list[str]:
    """Command lines of loads whose files lie in ``folder``.

    A probe (``fio --version``, 4 KiB by an engine) of a run that was killed before it owed anything
    is no load: nobody is told of it, and it ends by itself within milliseconds.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            where = (process / "cwd").readlink()
        except OSError:
            continue
        probes = words[1:2] in ([b"--version"], [b"--name=probe"])
        if words[0].endswith(b"fio") and not probes and where.is_relative_to(folder):
            found.append(" ".join(word.decode() for word in words))
    return found


def guards_of(state: Path) -> list[int]:
    """Guards whose journal lies below ``state``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[3:4] == [b"iotrial-guard"] and words[4].decode().startswith(f"{state}/"):
            found.append(int(process.name))
    return found


def kill_with_guard(process: subprocess.Popen[bytes], state: Path) -> None:
    """End a run and whoever would restore after it; the guard first, which acts at once."""
    process.send_signal(signal.SIGSTOP)
    for guard in guards_of(state):
        os.kill(guard, signal.SIGKILL)
    process.kill()
    process.wait(timeout=200)


def loops_of(folder: Path) -> list[str]:
    """Loop devices whose backing file lies in ``folder``."""
    return [
        path.parent.parent.name
        for path in Path("/sys/block").glob("loop*/loop/backing_file")
        if _content(path).startswith(f"{folder}/")
    ]


@pytest.mark.timeout(900)
def test_after_any_of_many_kills_and_a_restore_everything_reads_as_before(
    loop_device: str, state: Path, tmp_path: Path, times: Callable[[int], int]
) -> None:
    kills = times(KILLS)
    for name, value in FORMER.items():
        Path("/sys/block", loop_device, "queue", name).write_text(value)
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(device=loop_device, folder=tmp_path))
    before = queue_files(loop_device)
    assert before[f"/sys/block/{loop_device}/queue/nr_requests"] == "72\n"
    moments = random.Random(20)
    changed = 0
    for kill in range(kills):
        out = tmp_path / f"results-{kill}"
        process = subprocess.Popen(
            iotrial("run", str(study), "--out", str(out)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tmp_path,
        )
        if kill % 2:  # at any moment; and, however slow the machine is, while something is held
            deadline = time.monotonic() + 200
            while queue_files(loop_device) == before and time.monotonic() < deadline:
                time.sleep(0.02)
        time.sleep(moments.uniform(0.0 if kill % 2 else 0.2, LATEST / 2 if kill % 2 else LATEST))
        kill_with_guard(process, state)
        changed += queue_files(loop_device) != before
        restored = subprocess.run(
            iotrial("restore"), capture_output=True, text=True, timeout=200, check=False
        )
        assert restored.returncode == 0, restored.stderr
        assert queue_files(loop_device) == before, f"kill {kill}: {restored.stdout}"
        assert loads_of(tmp_path) == []
        assert loops_of(tmp_path) == [loop_device]
        assert [path.name for path in tmp_path.glob("*.img")] == ["loop.img"]
        assert not list((state / "journal.d").glob("*"))
    # The kills must strike while something is owed, or this test shows nothing.
    assert changed >= kills // 10, f"only {changed} of {kills} kills left anything to restore"


def test_interrupted_by_ctrl_c_it_restores_and_exits_130(
    loop_device: str, state: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(device=loop_device, folder=tmp_path).replace("0.2s", "5s"))
    before = queue_files(loop_device)
    process = subprocess.Popen(
        iotrial("run", str(study), "--out", str(tmp_path / "results")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 200
    while not loads_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert loads_of(tmp_path), "the load never started"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 130, errors
    assert "SIGINT" in errors
    assert queue_files(loop_device) == before
    assert loads_of(tmp_path) == []
    assert not list((state / "journal.d").glob("*"))


def test_two_runs_at_once_the_second_is_told_who_holds_the_lock(
    loop_device: str, state: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(device=loop_device, folder=tmp_path).replace("0.2s", "5s"))
    first = subprocess.Popen(
        iotrial("run", str(study), "--out", str(tmp_path / "one")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 200
    while not loads_of(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    second = subprocess.run(
        iotrial("run", str(study), "--out", str(tmp_path / "two")),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=200) == 130
    assert second.returncode == 75, second.stderr
    assert f"pid {first.pid}" in second.stderr
    assert not (tmp_path / "two" / "trials").exists()
