"""4,500 imported runs of fio: seconds and memory of import, compare and each shape of a report.

    ./dev bench grids [--shapes html,md,json,xlsx]

One run each of 5 workloads × 10 block sizes × 9 depths × 10 numbers of jobs, a file each as fio
writes it, made here; and of them those of every fourth block size.  Each verb is a process
of its own.  Printed for each: wall and CPU seconds, peak memory, and by how much more CPU it takes
for the whole than for the part, beyond what it takes to start.  Exits with 1 where one verb takes
more than 30 s of CPU or 1 GB, or grows more than 1.5 times as fast as the runs do.

As in ``thousand``, a fixed piece of Python is timed in the same minutes, and the limit of 30 s
grows as that takes longer than in a quiet one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _limits import Limits, run_main
from thousand import Took, fixed, verb

SECONDS, MEMORY, GROWTH = 30.0, 1e9, 1.5
QUIET = 0.5
"""CPU seconds of the fixed piece in the quiet minutes of a Xeon at 2.8 GHz, where 30 s are the
limit."""
LOADS = {"randread": 410e3, "randwrite": 190e3, "read": 600e3, "write": 300e3, "randrw": 250e3}
DEPTHS, JOBS = (1, 2, 4, 8, 16, 32, 64, 128, 256), (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SIZES = tuple(4096 * 2**power for power in range(10))
PERCENTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)


def side(iops: float, flying: int, size: int) -> dict[str, object]:
    """What fio says of reads, or of writes, of 30 s."""
    mean, count = 0.96e9 * flying / iops, int(iops * 30)
    spread = {"stddev": mean / 4, "N": count}
    shares = {f"{p:.6f}": int(mean * (0.5 + p / 200 + max(0, p - 90) / 8)) for p in PERCENTILES}
    return {
        "io_bytes": int(iops * size * 30), "io_kbytes": int(iops * size * 30 / 1024),
        "bw_bytes": int(iops * size), "iops": iops, "runtime": 30000, "total_ios": count,
        "iops_min": int(iops * 0.9), "iops_max": int(iops * 1.1), "iops_mean": iops,
        "iops_stddev": iops / 50, "iops_samples": 60,
        "slat_ns": {"min": 900, "max": int(mean / 3), "mean": mean / 99, **spread},
        "clat_ns": {"min": int(mean / 4), "max": int(mean * 4), "mean": mean, **spread,
                    "percentile": shares},
        "lat_ns": {"min": int(mean / 4), "max": int(mean * 5), "mean": mean * 1.01, **spread},
    }  # fmt: skip


def written(folder: Path, sizes: Sequence[int]) -> int:
    """A file for each run; gives back how many."""
    dice = random.Random(7)
    folder.mkdir()
    count = 0
    for load, most in LOADS.items():
        for size in sizes:
            for depth in DEPTHS:
                for jobs in JOBS:
                    flying, full = depth * jobs, most * (4096 / size) ** 0.9
                    iops = full * flying / (flying + 60) * math.exp(dice.gauss(0, 0.02))
                    # A queue as long as that of 2 MiB and 8,192 in flight is none that fio tells.
                    iops = max(iops, flying / 2)
                    ways = ("read", "write") if load == "randrw" else (load.removeprefix("rand"),)
                    job = {
                        "jobname": "j", "groupid": 0, "error": 0, "elapsed": 31,
                        "job options": {
                            "rw": load, "bs": f"{size // 1024}k", "iodepth": str(depth),
                            "numjobs": str(jobs), "ioengine": "libaio", "direct": "1",
                            "group_reporting": "1", "filename": "/dev/nvme0n1",
                        },
                        **{way: side(iops / len(ways), flying, size) for way in ways},
                    }  # fmt: skip
                    said = {"fio version": "fio-3.36", "timestamp": 1700000000, "jobs": [job]}
                    name = f"{load}-{size // 1024}k-{depth}-{jobs}.json"
                    (folder / name).write_text(json.dumps(said))
                    count += 1
    return count


def measured(folder: Path, runs: str, shapes: Sequence[str]) -> dict[str, Took]:
    """Every verb, in turn."""
    out = f"results-{runs}"
    told = {"import": verb(folder, "import", runs, "--out", out, "--quiet")}
    told["compare"] = verb(folder, "compare", out)
    for shape in shapes:
        told[f"report {shape}"] = verb(folder, "report", out, "--as", shape)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="html,md,json,xlsx,csv,junit")
    shapes = parser.parse_args().shapes.split(",")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 (a folder of ours in it)
    with tempfile.TemporaryDirectory(prefix="iotrial-grids-", dir=memory) as made:
        folder = Path(made)
        few, many = written(folder / "part", SIZES[::4]), written(folder / "whole", SIZES)
        start = verb(folder, "knobs", "queue.scheduler").cpu
        machine = [fixed().cpu]
        part = measured(folder, "part", shapes)
        machine.append(fixed().cpu)
        whole = measured(folder, "whole", shapes)
        machine.append(fixed().cpu)
    slower = max(1.0, statistics.mean(machine) / QUIET)
    limit = SECONDS * slower
    print(f"{many:,} runs, and {few:,}; {limit:.1f} s is the limit here and now")
    print(f"{'':14}{'wall':>9}{'CPU':>9}{'memory':>11}{'growth':>9}")
    limits = Limits(14)
    for what, took in whole.items():
        growth = (took.cpu - start) / max(part[what].cpu - start, 0.1) / (many / few)
        print(
            f"{what:14}{took.wall:7.1f} s{took.cpu:7.1f} s{took.memory / 1e6:8.0f} MB{growth:9.2f}"
        )
        limits.at_most(f"  CPU of {what} (s)", took.cpu, limit, form=".1f")
        limits.at_most("    memory (MB)", took.memory / 1e6, MEMORY / 1e6, form=".0f")
        limits.at_most("    growth (1: as the runs do)", growth, GROWTH, form=".2f")
    return limits.status()


if __name__ == "__main__":
    run_main(main)
