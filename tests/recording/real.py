"""Recordings that are made on a real kernel: with fio, loop devices, and a real ``kill -9``."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

STATE = Path("/var/tmp/iotrial-0.1.0")
"""Whatever these recordings make, they make here; it is in journals, so it is nobody's home."""
DEVICE = "/dev/loop4711"
LOOP_CTL_REMOVE = 0x4C81
FORMER = {"scheduler": "kyber", "nr_requests": "72", "read_ahead_kb": "320"}
IOTRIAL = [sys.executable, "-m", "iotrial.cli.main"]
LOOP = """
question = "Which scheduler, for real?"
[targets.disk]
loop = { size = "16MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 4, ioengine = "libaio", runtime = "1s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [64]
[design]
kind = "full"
blocks = 3
settle = "0s"
"""
COMMAND = """
question = "Which size scores more?"
[targets.place]
directory = "/var/tmp/iotrial-0.1.0"
[workloads.count]
tool = "command"
argv = ["sh", "-c", "echo score: $((RANDOM_PART + {size} * 3)) of 100 ms"]
options = { size = 4, seconds = "1s", reads_only = true }
[workloads.count.metrics]
score = { pattern = "score: ([0-9.]+)", better = "higher" }
took = { pattern = "of ([0-9.]+)", better = "lower" }
[factors.size]
option = "size"
levels = [4, 40]
[design]
kind = "full"
blocks = 3
settle = "0s"
[decide]
primary = "score"
"""


@contextmanager
def folder() -> Iterator[Path]:
    """A results folder's place, with a state folder of its own beside it."""
    STATE.mkdir(mode=0o700)
    (STATE / "state").mkdir(mode=0o700)
    (STATE / "record").mkdir()
    os.environ["IOTRIAL_STATE"] = str(STATE / "state")
    os.chdir(STATE / "record")
    try:
        yield STATE
    finally:
        subprocess.run([*IOTRIAL, "restore"], check=True, capture_output=True)
        os.chdir("/")
        shutil.rmtree(STATE)


def do(*words: str) -> None:
    subprocess.run([*IOTRIAL, *words], check=True, capture_output=True)


def study(text: str) -> None:
    Path("study.toml").write_text(text)
    do("run", "study.toml", "--out", "results")
    _anonymous()


def killed() -> None:
    """Killed in the second trial's load; its guard gives everything back."""
    Path("study.toml").write_text(LOOP)
    run = _begun()
    shutil.copytree(_journals(), "journal.d")
    time.sleep(0.3)
    run.send_signal(signal.SIGKILL)
    run.wait()
    time.sleep(3)
    do("restore")
    _anonymous()


def _begun() -> subprocess.Popen[bytes]:
    """A run in its second trial."""
    run = subprocess.Popen(
        [*IOTRIAL, "run", "study.toml", "--out", "results"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not list(Path("results/trials").glob("0002-*.partial/fio.*")):
        if run.poll() is not None:
            sys.exit("the run came to its end")
        time.sleep(0.02)
    return run


def _journals() -> Path:
    return Path(os.environ["IOTRIAL_STATE"], "journal.d")


def owing(path: Path) -> None:
    """The journal of a run on a loop device of our own: its settings are owed."""
    image = Path("disk.img")
    image.write_bytes(b"")
    os.truncate(image, 64 * 2**20)
    attach = ["losetup", "--direct-io=on", DEVICE, str(image)]
    subprocess.run(attach, check=True)
    try:
        for name, value in FORMER.items():
            Path("/sys/block", Path(DEVICE).name, "queue", name).write_text(value)
        Path("study.toml").write_text(
            LOOP.replace('loop = { size = "16MiB" }', f'device = "{DEVICE}"')
        )
        run = _begun()
        (journal,) = _journals().iterdir()
        shutil.copy(journal, path)
        run.wait()
    finally:
        subprocess.run(["losetup", "--detach", DEVICE], check=True)
        with Path("/dev/loop-control").open("rb") as control:
            fcntl.ioctl(control, LOOP_CTL_REMOVE, int(DEVICE.removeprefix("/dev/loop")))


def checks() -> None:
    do("check", "scheduler/none", "scheduler/refuses-unknown", "--out", "results")


def _anonymous() -> None:
    """Without what tells one machine from another; kernel and tools stay."""
    for path in Path("results/hosts").glob("*.json"):
        facts = json.loads(path.read_text())
        for name in ("machine", "kernel_parameters", "mounts", "swaps", "interfaces"):
            facts[name] = type(facts[name])()
        facts["machine_id"] = "0" * 32
        facts["kernel_version"] = re.sub(r" \(\S+@\S+\)", "", facts["kernel_version"])
        path.write_text(json.dumps(facts, indent=1))


def recordings() -> Iterable[tuple[str, Callable[[], None]]]:
    yield "real-loop", lambda: study(LOOP)
    yield "real-command", lambda: study(COMMAND.replace("RANDOM_PART", "$$ % 7"))
    yield "real-loop-half-done", killed
    yield "real-checks", checks
