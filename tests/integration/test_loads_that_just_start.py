"""A process in the middle of an execve(2) has no environment that could be read, and so no mark of
the load: neither a restore nor a guard may take that for nobody.

Here the middle lasts: the program lies on a loop device that gives a page every two seconds, or
four.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iotrial.execute.load.load import end_loads, loads
from iotrial.execute.settings.guard import guard_argv
from iotrial.execute.settings.journal import open_journal
from iotrial.hosts.local import LocalHost

GROUPS = Path("/sys/fs/cgroup/blkio")
LIMIT = "blkio.throttle.read_bps_device"
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
IN_THE_MIDDLE = ("program", "0")
Begin = Callable[..., subprocess.Popen[bytes]]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        not (GROUPS / LIMIT).exists(), reason="needs the blkio controller of control groups v1"
    ),
    pytest.mark.skipif(not shutil.which("mkfs.ext4"), reason="mkfs.ext4 is not installed"),
]


@pytest.fixture
def slow_program(loop_device: str, tmp_path: Path) -> Iterator[Begin]:
    """Makes a program on that device, which whoever is in the group reads slowly."""
    node, point = f"/dev/{loop_device}", tmp_path / "point"
    group = GROUPS / f"iotrial-test-{os.getpid()}"

    def do(*argv: str) -> None:
        subprocess.run(argv, check=True, timeout=60, capture_output=True)

    do("mkfs.ext4", "-q", node)
    point.mkdir()
    do("mount", node, str(point))
    # One that has data of its own, which the kernel reads while it makes the process.
    shutil.copy("/bin/bash", point / "program")
    do("umount", str(point))
    do("mount", "-o", "ro", node, str(point))
    Path("/sys/block", loop_device, "queue/read_ahead_kb").write_text("0")
    group.mkdir()
    numbers = Path("/sys/block", loop_device, "dev").read_text().strip()
    started: list[subprocess.Popen[bytes]] = []

    def start(token: str, speed: int = 2048) -> subprocess.Popen[bytes]:
        (group / LIMIT).write_text(f"{numbers} {speed}")
        inside = f'echo $$ >{group}/cgroup.procs; exec "$@"'
        argv = ["sh", "-c", inside, "sh", str(point / "program"), "-c", "read nothing"]
        environment = {**os.environ, "IOTRIAL_LOAD": token}
        started.append(subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE))
        deadline = time.monotonic() + 30
        # By name: the shell before it is in the middle of its own when Popen returns.
        while name_and_environment_end(started[0].pid) != IN_THE_MIDDLE:
            assert time.monotonic() < deadline, "it was never seen in the middle"
            time.sleep(0.005)
        return started[0]

    yield start
    for process in started:
        with process:  # its input is closed as well
            process.kill()
    do("umount", str(point))
    group.rmdir()


def name_and_environment_end(pid: int) -> tuple[str, str]:
    name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(") ")
    return name, rest.split()[48]


def test_a_restore_waits_for_it(slow_program: Begin) -> None:
    token = f"T{os.getpid()}"
    process = slow_program(token, 1024)  # 4 s, of 10 that it waits
    assert loads(LocalHost(), token) == []
    done = end_loads(LocalHost(), token)
    assert done == [f"ended process {process.pid} of the load"]
    assert process.wait(timeout=30) == -signal.SIGKILL


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_a_guard_waits_for_it(slow_program: Begin, tmp_path: Path, shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    token = f"T{os.getpid()}"
    folder = tmp_path / "state" / "journal.d"
    open_journal(LocalHost(), str(folder), {"token": token, "boot_id": BOOT})
    argv = guard_argv(str(folder / f"{token}.journal"), str(tmp_path / "state" / "lock"), 0)
    words = ("busybox", *argv) if shell == "busybox" else (shell, *argv[1:])
    process = slow_program(token)
    subprocess.run(words, stdin=subprocess.DEVNULL, timeout=60, check=True, capture_output=True)
    assert process.wait(timeout=30) == -signal.SIGKILL
    report = (folder / f"{token}.restored").read_text()
    assert f"process: {process.pid} of the load" in report
    assert "owed" not in report


def test_one_that_has_no_environment_is_waited_for_by_nobody() -> None:
    with subprocess.Popen(["env", "-i", shutil.which("sleep") or "sleep", "60"]) as process:
        try:
            time.sleep(0.2)
            began = time.monotonic()
            assert end_loads(LocalHost(), f"T{os.getpid()}") == []
            assert time.monotonic() - began < 5  # it looks 200 times where it waits: 10 s
            assert process.poll() is None
        finally:
            process.kill()
