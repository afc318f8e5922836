"""How long the virtual labs take to come up, the memory of a node, and what they leave.

    ./dev bench labs [--rounds 3]

Beside each time stands how many times as long it is as the image's bare kernel takes to run, here
and now: on a busy machine both grow.  The first `up` is timed where there is no image yet.  The
array of the cluster is clustered md, made on the first node and assembled on the others.  Exits 1
when a limit is not kept.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _limits import Limits, run_main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from iotrial.hosts.local import LocalHost
from iotrial_vmlab.image import find
from iotrial_vmlab.lab import places
from iotrial_vmlab.qemu import accelerator, processes, runs
from nodes import VirtualLab

FIRST, DISKS, CLUSTER = 360.0, 30.0, 90.0
"""Seconds: `up disks` with the image built, without; three nodes with their array."""
MEMORY = 600e6
"""Bytes of a node's QEMU."""
BARE_WITHIN = 120.0
_MOUNTS = Path("/proc/self/mounts")


def timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def bare(lab: VirtualLab) -> float:
    """Seconds until the image's kernel runs, with nothing around it."""
    host, there = LocalHost(), places(os.geteuid(), lab.environment)
    image = find(there)
    assert image
    how = accelerator(host, image, there.labs)  # tried once a boot of this machine, for 15 s
    return timed(lambda: runs(host, image, how, within=BARE_WITHIN))


def do(lab: VirtualLab, node: str, *words: str) -> str:
    done = lab.said("vmlab", "exec", node, *words)
    assert done.returncode == 0, f"{node}: {words}: {done.stdout}{done.stderr}"
    return done.stdout


def clustered(lab: VirtualLab) -> None:
    """Three nodes, and an array that is active on all of them."""
    lab.vmlab("up", "cluster", "--nodes", "3")
    listed = do(lab, "cluster-1", "find", "/dev/disk/by-id", "-name", "scsi-0QEMU*").split()
    disks = sorted(listed)[:2]
    array = "--create /dev/md0 --run --level=1 --raid-devices=2 --bitmap=clustered --assume-clean"
    do(lab, "cluster-1", "mdadm", *array.split(), "--size=65536", *disks)
    others = ("cluster-2", "cluster-3")
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(lambda each: do(lab, each, "mdadm", "--assemble", "/dev/md0", *disks), others)
        )
    for each in ("cluster-1", *others):
        assert "[UU]" in do(lab, each, "cat", "/proc/mdstat"), each


def memory(lab: VirtualLab) -> int:
    """Of the largest node, in bytes."""
    (there,) = lab.vmlab("list")["labs"]
    return max(int(node["memory"]) for node in there["nodes"])


def left(cache: Path) -> list[str]:
    """Processes and files of labs."""
    folder = cache / "vmlab/labs"
    files = [str(each) for each in folder.iterdir() if each.is_dir()]
    return [*map(str, processes(folder)), *files]


def row(limits: Limits, what: str, value: float, limit: float, kernel: float = 0.0) -> None:
    """``kernel``: what the bare kernel took (0: it is nothing that a kernel takes too)."""
    beside = f"{value / kernel:.1f} × the bare kernel's {kernel:.1f} s" if kernel else ""
    limits.at_most(what, value, limit, form=".1f", beside=beside)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    limits = Limits(40)
    with tempfile.TemporaryDirectory(prefix="iotrial-labs-") as folder:
        cache, mounts = Path(folder), _MOUNTS.read_text()
        lab = VirtualLab(cache)
        image = find(places(os.geteuid(), lab.environment))
        try:
            if image:
                print(f"The first `up` is not timed: there is an image, {image.folder}")
            else:
                row(limits, "first `up disks` (s)", timed(lambda: lab.vmlab("up", "disks")), FIRST)
                lab.vmlab("down", "disks")
            for _ in range(asked.rounds):
                kernel = bare(lab)
                took = timed(lambda: lab.vmlab("up", "disks"))
                row(limits, "`up disks` (s)", took, DISKS, kernel)
                row(limits, "  memory of its node (MB)", memory(lab) / 1e6, MEMORY / 1e6)
                lab.vmlab("down", "disks")
            kernel = bare(lab)
            took = timed(lambda: clustered(lab))
            row(limits, "clustered array on 3 nodes (s)", took, CLUSTER, kernel)
            row(limits, "  memory of the largest (MB)", memory(lab) / 1e6, MEMORY / 1e6)
        finally:
            lab.said("vmlab", "down", "disks")
            lab.said("vmlab", "down", "cluster")
        rest = [*left(cache), *set(_MOUNTS.read_text().splitlines()) - set(mounts.splitlines())]
        row(limits, "processes, folders and mounts left", len(rest), 0)
        print(*rest, sep="\n", end="")
    return limits.status()


if __name__ == "__main__":
    run_main(main)
