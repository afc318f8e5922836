"""What recording costs: fio beside `iotrial record` against fio alone, in one run, interleaved.

    ./dev bench record [--rounds 20] [--seconds 4]

Needs root (a loop device on a tmpfs is made).  Two loads: one job that waits for each I/O, so that
processors are idle in between, and as many jobs as there are processors, so that none is.  The
ratio is of IOPS, round by round, with a 95 % t interval on the log scale; the order within a round
is random.  A recording with lost events is not measured.  What the kernel takes to write the three
events, which no recorder can save, is measured beside: they are written to a buffer that nobody
reads.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from _limits import Limits, machine, mean_of, ratio_of, run_main

from iotrial_record.trace import EVENTS, TraceFacts, load_index

FIO = (
    "fio", "--name=x", "--rw=randread", "--bs=4k", "--direct=1", "--time_based",
    "--group_reporting", "--output-format=json",
)  # fmt: skip
BYTES = 30
IDLE = 0.97
MEMORY = 400.0
"""MiB of the recorder, whatever it records."""


@dataclass(frozen=True)
class Round:
    alone: float
    written: float
    """IOPS while the events are written and nobody reads them."""
    recorded: float
    recorder: float
    """Share of a processor that the recorder took."""
    bytes: float
    """Of the folder, an I/O."""
    memory: float


@contextmanager
def disk(folder: Path) -> Iterator[str]:
    image = folder / "image"
    image.touch()
    os.truncate(image, 256 << 20)
    subprocess.run(["dd", "if=/dev/zero", f"of={image}", "bs=1M", "count=256"], check=True,
                   capture_output=True)  # fmt: skip
    made = subprocess.run(["losetup", "--find", "--show", str(image)], check=True,
                          capture_output=True, text=True)  # fmt: skip
    name = made.stdout.strip()
    try:
        yield name
    finally:
        subprocess.run(["losetup", "--detach", name], check=True)


def iops(device: str, seconds: float, *words: str) -> float:
    argv = [*FIO, f"--filename={device}", f"--runtime={seconds:g}", *words]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["jobs"][0]["read"]["iops"])


def recorded(device: str, folder: Path, seconds: float, *words: str) -> tuple[float, float, float]:
    """IOPS beside a recorder, the share of a processor that this took, and its MiB."""
    argv = [sys.executable, "-m", "iotrial.cli.main", "record", device, "--for", "10m",
            "--out", str(folder)]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while not (folder / "recording.json").exists():
            if process.poll() is not None:
                raise SystemExit(f"the recorder ended: {process.communicate()[1].decode()}")
            time.sleep(0.1)
        began = time.monotonic()
        found = iops(device, seconds, *words)
        cpu = _cpu(process.pid)
        took = time.monotonic() - began
        memory = _peak(process.pid)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    return found, cpu / took, memory


def _cpu(pid: int) -> float:
    """Seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


@contextmanager
def events_of(device: str) -> Iterator[None]:
    """They are written to an instance of the kernel's trace buffer, of 64 MiB for each CPU."""
    tracing = Path("/sys/kernel/tracing")
    mounted = not (tracing / "events").is_dir()
    if mounted:
        subprocess.run(["mount", "-t", "tracefs", "none", tracing], check=True)
    folder = tracing / "instances" / f"iotrial-bench-{os.getpid()}"
    number = Path(device).stat().st_rdev
    folder.mkdir()
    try:
        (folder / "trace_clock").write_text("mono")
        (folder / "buffer_size_kb").write_text("65536")
        for name in EVENTS:
            event = folder / "events" / "block" / name
            (event / "filter").write_text(f"dev == {os.major(number) << 20 | os.minor(number)}")
            (event / "enable").write_text("1")
        yield
        stats = [path.read_text() for path in folder.glob("per_cpu/cpu*/stats")]
        if not any(int(text.split("entries: ")[1].split()[0]) for text in stats):
            raise SystemExit("no event was written")
    finally:
        (folder / "events" / "enable").write_text("0")
        folder.rmdir()
        if mounted:
            subprocess.run(["umount", tracing], check=True)


def one_round(
    device: str, folder: Path, chance: random.Random, seconds: float, *words: str
) -> Round:
    found: dict[str, float] = {}

    def alone() -> None:
        found["alone"] = iops(device, seconds, *words)

    def written() -> None:
        with events_of(device):
            found["written"] = iops(device, seconds, *words)

    def beside() -> None:
        result = recorded(device, folder, seconds, *words)
        found["recorded"], found["recorder"], found["memory"] = result

    ways: list[Callable[[], None]] = [alone, written, beside]
    chance.shuffle(ways)
    for way in ways:
        way()
    index: TraceFacts = load_index(folder)
    if index.doubt:
        raise SystemExit(f"a recording is doubtful: {index.doubt}")
    size = sum(each.stat().st_size for each in folder.iterdir())
    return Round(**found, bytes=size / index.counts["block_bio_queue"])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--seconds", type=float, default=4.0)
    asked = options.parse_args()
    limits, chance = Limits(), random.Random(1)
    print(machine())
    processors = len(os.sched_getaffinity(0))
    loads = {
        "one job that waits for each I/O": ("--ioengine=psync",),
        f"{processors} jobs, no processor idle": (
            "--ioengine=io_uring", "--iodepth=32", f"--numjobs={processors}",
        ),
    }  # fmt: skip
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, disk(Path(folder)) as device:
        for place, (name, words) in enumerate(loads.items()):
            found = [
                one_round(device, Path(folder) / f"{place}-{number}", chance, asked.seconds, *words)
                for number in range(asked.rounds)
            ]
            _judged(limits, name, found, idle=not place)
    return limits.status()


def _judged(limits: Limits, name: str, found: list[Round], *, idle: bool) -> None:
    print(name)
    limits.tell("  kIOPS alone", mean_of([each.alone / 1000 for each in found]), form=".1f")
    alone, written = [each.alone for each in found], [each.written for each in found]
    beside = [each.recorded for each in found]
    ratio = ratio_of(beside, alone)
    if idle:
        limits.at_least("  IOPS recorded / alone", ratio, IDLE)
    else:
        limits.tell("  IOPS recorded / alone", ratio)
    limits.tell("  IOPS events written, not read / alone", ratio_of(written, alone))
    limits.tell("  IOPS recorded / events written, not read", ratio_of(beside, written))
    limits.tell("  recorder, share of a processor", mean_of([each.recorder for each in found]))
    limits.at_most("  bytes an I/O", mean_of([each.bytes for each in found]), BYTES, form=".1f")
    peak = max(each.memory for each in found)
    limits.at_most("  MiB of the recorder", peak, MEMORY, form=".0f")


if __name__ == "__main__":
    run_main(main)
