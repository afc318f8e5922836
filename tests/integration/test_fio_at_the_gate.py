"""A real fio is ready before the common moment and does its first I/O after it, in a full runtime.

It reads a small file, which needs no privilege, and says the time of every I/O itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from iotrial.execute.load import barrier
from iotrial.model.tool import ToolTarget
from iotrial.model.workload import Workload
from iotrial.tools.fio import TOOL

pytestmark = pytest.mark.skipif(not shutil.which("fio"), reason="fio is not installed")

AHEAD = 2.0
COARSE = 0.05
"""Seconds: the time of a file is that of the kernel's last tick."""
OPTIONS: dict[str, str | int] = {
    "rw": "randread", "bs": "4k", "ioengine": "psync", "direct": 0, "rate_iops": 100,
    "runtime": "1s", "write_lat_log": "each", "log_unix_epoch": 1,
}  # fmt: skip


@dataclass
class Run:
    """What was started together in ``folder``; its load lies in ``part`` there."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def part(self) -> Path:
        return self.folder / "part"

    def start(self, workload: Workload, at: float) -> subprocess.Popen[bytes]:
        (self.folder / "data").write_bytes(os.urandom(2**20))
        self.part.mkdir()
        aimed = ToolTarget(str(self.folder / "data"), "file", 2**20)
        load = TOOL.gated(TOOL.command(workload, aimed, {"cpus": 1.0}), workload, barrier.GATE)
        assert load is not None
        for name, content in load.files:
            (self.part / name).write_bytes(content)
        process = subprocess.Popen(
            barrier.together({"part": load.argv}, at, {"part"}),
            cwd=self.folder,
            env={**os.environ, "IOTRIAL_LOAD": str(self.folder)},
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def living(self) -> dict[int, list[str]]:
        """Every process of it, with its words."""
        found = {}
        for each in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"IOTRIAL_LOAD={self.folder}".encode() in each.read_bytes().split(b"\0"):
                    words = each.with_name("cmdline").read_text().split("\0")
                    found[int(each.parent.name)] = words
        return found

    def told(self, what: str = barrier.BEGAN) -> float:
        told = barrier.noted(self.part, what)
        assert told is not None
        return told

    def first_io(self, pattern: str = "each_clat*") -> list[float]:
        """When each job did its first I/O, in seconds since the epoch."""
        logs = sorted(self.part.glob(pattern))
        return [int(log.read_text().split(",", 1)[0]) / 1000 for log in logs]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    for pid in made.living():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in made.started:
        process.wait()


@pytest.mark.parametrize("thread", [0, 1], ids=["processes", "threads"])
def test_every_job_begins_after_the_moment_and_runs_its_time(run: Run, thread: int) -> None:
    options = {**OPTIONS, "numjobs": 3, "thread": thread}
    at = time.time() + AHEAD
    process = run.start(Workload("it's 4k", "fio", tuple(options.items())), at)
    assert process.wait(200) == 0, (run.part / "stderr").read_text()
    first = run.first_io()
    assert len(first) == 3
    assert min(first) >= at - 0.001
    assert run.told() >= at - COARSE
    assert run.told(barrier.READY) <= run.told()
    assert not [doubt for doubt in TOOL.parse(run.part).doubts if "prerun" in doubt.what]
    said = (run.part / "fio.json").read_text()
    jobs = json.loads(said[said.index("{") :])["jobs"]
    assert all(job["job_runtime"] >= 990 for job in jobs)
    assert not list(run.folder.rglob("*prerun*"))


def test_only_the_first_of_several_stages_waits(run: Run) -> None:
    words = "".join(f"{name}={value}\n" for name, value in OPTIONS.items() if name != "runtime")
    text = f"[global]\n{words}time_based\nruntime=300ms\n[a]\n[b]\nstonewall\n".replace("=1s", "=1")
    at = time.time() + AHEAD
    process = run.start(Workload("stages", "fio", (), text), at)
    assert process.wait(200) == 0, (run.part / "stderr").read_text()
    first, second = run.first_io()
    assert at - 0.001 <= first
    assert run.told() <= first + COARSE
    assert second >= first + 0.3


def test_a_fio_that_is_killed_at_the_gate_leaves_nothing_and_reads_nothing(run: Run) -> None:
    at = time.time() + AHEAD
    process = run.start(Workload("r", "fio", (*OPTIONS.items(), ("numjobs", 2))), at)
    deadline = time.monotonic() + 200
    while not (run.part / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    fios = {pid for pid, words in run.living().items() if words[0] == "fio"}
    (first,) = (pid for pid in fios if parent(pid) not in fios)
    os.kill(first, signal.SIGKILL)
    assert process.wait(200) == 128 + signal.SIGKILL
    while run.living():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert barrier.noted(run.part) is None
    assert not run.first_io()
