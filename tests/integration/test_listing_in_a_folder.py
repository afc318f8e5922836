"""listing for real: entries are made, seen, and gone again, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from iotrial.model.tool import ToolTarget
from iotrial.model.workload import Workload
from iotrial.tools.listing import TOOL


def start(folder: Path, target: Path, **options: str | int) -> subprocess.Popen[bytes]:
    """In a folder such as iotrial makes for it."""
    workload = Workload("w", "listing", tuple(options.items()))
    (target / "iotrial-listing" / "data").mkdir(parents=True)
    made = TOOL.command(workload, ToolTarget(str(target), "directory"), {})
    folder.mkdir(exist_ok=True)
    for name, content in made.files:
        (folder / name).write_bytes(content)
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        return subprocess.Popen(
            made.argv, cwd=folder, stdout=out, stderr=err, env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )  # fmt: skip


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target with a blank"
    path.mkdir()
    return path


@pytest.mark.parametrize("what", ["ls", "find", "ls-l", "stat"])
def test_every_way_sees_every_entry_and_leaves_nothing(
    tmp_path: Path, target: Path, what: str
) -> None:
    folder = tmp_path / "trial"
    done = start(folder, target, entries=300, what=what, cache="warm", passes=2)
    assert done.wait(200) == 0, (folder / "stderr").read_text()
    found = {each.metric for each in TOOL.parse(folder).measurements}
    assert ("list.rate" in found) is (what in ("ls", "find"))
    assert ("stat.rate" in found) is (what in ("ls-l", "stat"))
    assert list((target / "iotrial-listing" / "data").iterdir()) == []


@pytest.mark.skipif(
    not os.access("/proc/sys/vm/drop_caches", os.W_OK), reason="the caches cannot be dropped here"
)
def test_a_cold_cache_was_emptied(tmp_path: Path, target: Path) -> None:
    folder = tmp_path / "trial"
    done = start(folder, target, entries=20000, passes=1)
    assert done.wait(200) == 0, (folder / "stderr").read_text()
    assert "cache" not in [each.check for each in TOOL.parse(folder).doubts]


def test_one_that_is_ended_removes_its_entries(tmp_path: Path, target: Path) -> None:
    done = start(tmp_path / "trial", target, entries=2000, cache="warm", passes=9999)
    folder = target / "iotrial-listing" / "data" / "entries"
    for _ in range(600):
        if folder.exists():
            break
        time.sleep(0.05)
    assert folder.exists()
    os.killpg(done.pid, signal.SIGTERM)
    assert done.wait(200) != 0
    assert list((target / "iotrial-listing" / "data").iterdir()) == []
