"""The pulse: a process that was stopped knows it afterwards; far and made-up hosts have none."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from iotrial.execute.load.sampler import LATE, StallWatch
from iotrial.hosts.fake import FakeHost
from iotrial.validity import written

_FEEL = """
import sys
import time
from pathlib import Path
from iotrial.execute.load.sampler import StallWatch
from iotrial.hosts.local import LocalHost
with StallWatch(LocalHost(), sys.argv[2], Path(sys.argv[1])):
    time.sleep(0.5)  # it has looked for the first time: where all is busy that may take a while
    print("ready", flush=True)
    sys.stdin.read()
"""


def stopped(folder: Path, device: str) -> None:
    """A process that feels the pulse of this machine, and is stopped for half a second."""
    process = subprocess.Popen(
        [sys.executable, "-c", _FEEL, str(folder), device],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_process_that_was_stopped_knows_how_long(tmp_path: Path) -> None:
    stopped(tmp_path, "")
    pauses = written.pauses(tmp_path / written.PAUSES)
    assert max(each.seconds for each in pauses) >= LATE
    assert {each.bytes for each in pauses} == {None}


def test_a_device_that_is_gone_is_not_counted(tmp_path: Path) -> None:
    stopped(tmp_path, "none-of-this-name")
    assert {each.bytes for each in written.pauses(tmp_path / written.PAUSES)} == {None}


def test_a_made_up_host_has_no_pulse(tmp_path: Path) -> None:
    with StallWatch(FakeHost(), "fake0", tmp_path):
        time.sleep(0.1)
    assert not list(tmp_path.iterdir())
