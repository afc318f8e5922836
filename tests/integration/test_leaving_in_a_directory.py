"""kill -9 in the middle of a load in a directory that was there before: it is as it was, soon.

A file system on a loop device of the test's own, mounted by the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_killed_at_any_moment import kill_with_guard

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("state")]
ARGV = (sys.executable, "-m", "iotrial.cli.main")
STUDY = """
question = "What is left?"
[targets.data]
directory = "{point}"
[workloads.load]
tool = "{tool}"
options = {options}
[design]
blocks = {blocks}
settle = "0s"
[decide]
primary = "{primary}"
"""
LOADS = {
    "listing": ('{ entries = 60000, passes = 500, cache = "warm" }', "list.rate"),
    "fio": ('{ rw = "randread", bs = "4k", size = "2m", runtime = "600s" }', "read.iops"),
    "dd": ('{ rw = "write", bs = "4k", size = "800MiB", direct = true }', "write.bw"),
    "bonnie++": ('{ size = "512M", files = 4 }', "putc.bw"),
    "iozone": ('{ size = "400m", record = "4k", threads = 2, direct = true }', "read.bw"),
}
THEIRS = ("reads.0.0", "load.0.0", "lost+found", "thesis")


def _unmount(folder: Path) -> None:
    """A load that was killed holds its files until the kernel has done with its last I/O."""
    end = time.monotonic() + 200
    while True:
        done = subprocess.run(
            ["umount", str(folder)], check=False, timeout=200, capture_output=True
        )
        if done.returncode == 0:
            return
        assert time.monotonic() < end, done.stderr
        time.sleep(0.1)


@pytest.fixture
def point(loop_device: str, state: Path, tmp_path: Path) -> Iterator[Path]:
    """An ext4 with somebody's files on it."""
    folder = tmp_path / "their data"
    folder.mkdir()
    device = f"/dev/{loop_device}"
    # Room for loads that last: one that has ended before the kill leaves nothing to restore.
    os.truncate(tmp_path / "loop.img", 1 << 30)
    subprocess.run(["losetup", "-c", device], check=True, timeout=200)
    subprocess.run(["mkfs.ext4", "-q", "-N", "70000", device], check=True, timeout=200)
    subprocess.run(["mount", device, str(folder)], check=True, timeout=200)
    try:
        for name in THEIRS:
            if not (folder / name).exists():
                (folder / name).write_text("years of work")
        yield folder
    finally:
        if list(state.glob("journal.d/*.journal")):  # a test that failed: no load may live on
            subprocess.run([*ARGV, "restore"], check=False, timeout=200, capture_output=True)
        _unmount(folder)


def study(tmp_path: Path, point: Path, tool: str, blocks: int = 1, options: str = "") -> None:
    said, primary = LOADS[tool]
    text = STUDY.format(
        point=point, tool=tool, options=options or said, primary=primary, blocks=blocks
    )
    (tmp_path / "study.toml").write_text(text)


def iotrial(tmp_path: Path, *verb: str, ends: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*ARGV, *verb], capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done


def begun(tmp_path: Path, point: Path) -> subprocess.Popen[bytes]:
    """A run in the middle of its first load: something of it lies in the directory."""
    process = subprocess.Popen(
        [*ARGV, "run", "study.toml", "--out", "results"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    until = time.monotonic() + 200
    while not any(not_theirs(path, point) for path in files(point)):
        assert process.poll() is None, "it ended before there was anything"
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


def files(point: Path) -> list[Path]:
    """All files below it, also while some go."""
    return [Path(folder, name) for folder, _, names in os.walk(point) for name in names]


def not_theirs(path: Path, point: Path) -> bool:
    name = path.relative_to(point).parts[0]
    return name not in THEIRS and path.name not in ("made-by-iotrial", ".made-by-iotrial.new")


def theirs(point: Path) -> bool:
    names = sorted(path.name for path in point.iterdir())
    return names == sorted(THEIRS) and (point / "thesis").read_text() == "years of work"


def need(tool: str) -> None:
    if tool != "listing" and not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")


@pytest.mark.parametrize("tool", LOADS)
def test_the_guard_removes_what_a_killed_load_leaves(
    tmp_path: Path, point: Path, tool: str
) -> None:
    need(tool)
    study(tmp_path, point, tool)
    process = begun(tmp_path, point)
    process.kill()
    process.wait(timeout=200)
    until = time.monotonic() + 200
    while not theirs(point):
        assert time.monotonic() < until, sorted(map(str, point.iterdir()))
        time.sleep(0.1)
    assert "restored" in iotrial(tmp_path, "restore").stdout


@pytest.mark.parametrize("tool", LOADS)
def test_where_the_guard_was_killed_too_restore_removes_it(
    tmp_path: Path, point: Path, state: Path, tool: str
) -> None:
    need(tool)
    study(tmp_path, point, tool)
    kill_with_guard(begun(tmp_path, point), state)
    assert not theirs(point)
    told = iotrial(tmp_path, "status", ends=4).stdout
    assert f"{point}/i" in " ".join(told.split()), "what is owed is named"
    iotrial(tmp_path, "restore")
    assert theirs(point)


def test_two_trials_that_end_well_leave_nothing(tmp_path: Path, point: Path) -> None:
    study(tmp_path, point, "listing", 2, '{ entries = 500, passes = 2, cache = "warm" }')
    iotrial(tmp_path, "run", "study.toml", "--out", "results")
    assert theirs(point)


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_somebody_s_own_thing_of_that_name_is_left_alone(
    tmp_path: Path, point: Path, kind: str
) -> None:
    mine = point / "iotrial-listing"
    if kind == "link":
        mine.symlink_to(tmp_path)
    elif kind == "folder":
        mine.mkdir()
        (mine / "thesis.txt").write_text("years of work")
    else:
        mine.write_text("years of work")
    study(tmp_path, point, "listing")
    iotrial(tmp_path, "run", "study.toml", "--out", "results", ends=5)
    (trial,) = (tmp_path / "results" / "trials").glob("*/trial.json")
    assert f"{mine} exists" in trial.read_text()
    file = mine / "thesis.txt" if kind == "folder" else mine
    assert mine.is_symlink() if kind == "link" else file.read_text() == "years of work"
