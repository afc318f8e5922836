"""A real device to be tuned, whose truth is known: for ``tune.py --real``.

A loop device over memory with twelve knobs, nine of its queue and three that are no setting at all.
One of them, drawn anew in each round, has a throttle of the control group (version 1) behind it: at
its baseline level fio gets :data:`SLOW` I/Os a second, at the last one as many as the device does,
at any other :data:`MIDDLE`.  Everything is written to the kernel, and measured by fio.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from iotrial.stats.additive import Cell

KNOBS: Mapping[str, tuple[str, ...]] = {
    "scheduler": ("none", "mq-deadline", "bfq", "kyber"),
    "nr_requests": ("128", "64", "32"),
    "nomerges": ("0", "1", "2"),
    "rq_affinity": ("1", "0", "2"),
    "rotational": ("0", "1"),
    "add_random": ("0", "1"),
    "iostats": ("1", "0"),
    "read_ahead_kb": ("128", "0", "1024"),
    "max_sectors_kb": ("1280", "512", "128"),
    "one": ("a", "b", "c"),
    "two": ("a", "b", "c"),
    "three": ("a", "b", "c", "d"),
}
"""Levels of each, the baseline first; those of the last three set nothing."""
SLOW, MIDDLE = 2000, 5000
SECONDS = 0.5
GROUPS = Path("/sys/fs/cgroup/blkio")


@dataclass(frozen=True)
class RealSurface:
    """What the searches are told: every knob's levels, without an order."""

    counts: tuple[int, ...] = tuple(map(len, KNOBS.values()))
    ordered: tuple[bool, ...] = (False,) * len(KNOBS)
    baseline: Cell = (0,) * len(KNOBS)


@dataclass(frozen=True)
class RealDevice:
    """The device, its control group, and the place of the knob that has the throttle behind it."""

    device: str
    group: Path
    hidden: int

    def trial(self, cell: Cell) -> float:
        """The log of the I/Os a second that fio got."""
        queue = Path("/sys/block", Path(self.device).name, "queue")
        for (name, levels), place in zip(KNOBS.items(), cell, strict=True):
            if (queue / name).exists():
                (queue / name).write_text(levels[place])
        last = len(list(KNOBS.values())[self.hidden]) - 1
        at = cell[self.hidden]
        limit = 0 if at == last else MIDDLE if at else SLOW
        number = (Path("/sys/block", Path(self.device).name, "dev")).read_text().strip()
        (self.group / "blkio.throttle.read_iops_device").write_text(f"{number} {limit}")
        done = subprocess.run(
            ("fio", "--name=x", f"--filename={self.device}", "--rw=randread", "--bs=4k",
             "--direct=1", "--ioengine=libaio", "--iodepth=8", "--readonly", "--time_based",
             f"--runtime={SECONDS * 1000:.0f}ms", "--norandommap", "--output-format=json"),
            check=True, capture_output=True, text=True,
            preexec_fn=lambda: (self.group / "cgroup.procs").write_text(str(os.getpid())),
        )  # fmt: skip
        return math.log(json.loads(done.stdout)["jobs"][0]["read"]["iops"])

    def found(self, cell: Cell) -> bool:
        """Whether nothing is throttled."""
        return cell[self.hidden] == list(RealSurface().counts)[self.hidden] - 1


@contextmanager
def real_device(seed: int) -> Iterator[RealDevice]:
    """Raises OSError and CalledProcessError where there is no root, loop device or such a group."""
    hidden = int(np.random.default_rng(seed).integers(len(KNOBS)))
    group = GROUPS / f"iotrial-bench-{os.getpid()}"
    with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="iotrial-bench-") as file:
        file.truncate(256 << 20)
        words: Sequence[str] = ("losetup", "--find", "--show", "--direct-io=on", file.name)
        device = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
        queue = Path("/sys/block", Path(device).name, "queue")
        former = {name: read(queue / name) for name in KNOBS if (queue / name).exists()}
        group.mkdir()
        try:
            yield RealDevice(device, group, hidden)
        finally:
            for name, value in former.items():
                (queue / name).write_text(value)
            subprocess.run(("losetup", "--detach", device), check=True)
            for _ in range(50):  # a fio that was interrupted is still in it
                with suppress(OSError):
                    group.rmdir()
                    break
                time.sleep(0.1)


def read(path: Path) -> str:
    """The value in force, of a choice the one in brackets."""
    words = path.read_text().split()
    chosen = [word.strip("[]") for word in words if word.startswith("[")]
    return (chosen or words)[0]
