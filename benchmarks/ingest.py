"""How fast a log of every I/O is read, beside counting its lines, pandas and a plain loop.

    ./dev bench ingest [--lines 3000000] [--rounds 5] [--large 100000000] [--quick]

A log as fio writes it is made in a temporary folder.  In each round every peer reads it once, in
turn; what counts is the median.  pandas is put into an environment of its own, in that folder; the
plain loop only reads, splits and adds up.  What is slow to begin with is ready before the rounds:
pandas is imported, and so is iotrial with its compiled reader (the extra "fast"), which by itself
iotrial loads for logs of 1.5 GiB and more.  How long that takes is printed, as is the time of the
usual reader, which reads smaller logs.  Then iotrial reads a log of 100 million lines (--quick:
10 million) in a process of its own, whose peak memory is measured.  Prints each figure beside its
limit; exits 1 when one is not kept.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyarrow import csv

from iotrial.formats import formats
from iotrial_import.formats import fio_log_ios

NAMES = ["time", "value", "direction", "size", "priority"]
NAME = "job_clat.1.log"
GIB = 2**30
PANDAS = """
import sys, time
import pandas
for line in sys.stdin:
    began = time.perf_counter()
    log = pandas.read_csv(sys.argv[1], header=None, names=sys.argv[2].split(","))
    log.value.quantile([0.5, 0.9, 0.95, 0.99, 0.999, 0.9999])
    print(len(log), log.value.sum(), time.perf_counter() - began, flush=True)
"""
READ = """
import mmap, sys, time
from pathlib import Path
from iotrial.formats import formats
path = Path(sys.argv[1])
with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
    began = time.perf_counter()
    (run,) = formats()["fio-log"].read(data, path.name)
    took = time.perf_counter() - began
(ios,) = (each.value for each in run.measurements if each.metric == "read.ios")
# Not getrusage: its peak is handed on by the process that started this one.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(ios), took, int(status["VmHWM"].split()[0]) * 1024)
"""


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    limit: str = ""
    kept: bool = True


def at_least(name: str, value: float, limit: float) -> Figure:
    return Figure(name, value, f">= {limit:g}", value >= limit)


def against_pandas(took: dict[str, float]) -> Figure:
    if "pandas" not in took:
        return Figure("  time of pandas / ours: not measured, see above", 0.0, ">= 4", kept=False)
    return at_least(
        "  time of pandas / ours, both loaded beforehand", took["pandas"] / took["ours"], 4.0
    )


def at_most(name: str, value: float, limit: float) -> Figure:
    return Figure(name, value, f"<= {limit:g}", value <= limit)


def make(path: Path, count: int) -> int:
    """A log of random reads, 50 a millisecond; a block of it is written again and again with
    later times.  Returns the sum of the values."""
    rng = np.random.default_rng(1)
    block, total, written = 200_000, 0, 0
    values = rng.lognormal(11.0, 0.5, block).astype(np.int64).tolist()
    ends = [b"%d, 0, 4096, 0\n" % value for value in values]
    with path.open("wb") as file:
        while written < count:
            take = min(block, count - written)
            heads = [b"%d, " % (each // 50) for each in range(written, written + take)]
            file.write(b"".join([part for pair in zip(heads, ends, strict=False) for part in pair]))
            total += sum(values[:take])
            written += take
    return total


def counting(path: Path) -> tuple[int, int]:
    """The limit: nothing that looks at each line can be faster."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return int(np.count_nonzero(np.frombuffer(bytes(data), np.uint8) == ord("\n"))), 0


def ours(path: Path) -> tuple[int, int]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        (run,) = formats()["fio-log"].read(data, path.name)
    found = {each.metric: each.value for each in run.measurements}
    return int(found["read.ios"]), round(found["read.clat.mean"] * found["read.ios"] * 1e9)


def usual(path: Path) -> tuple[int, int]:
    """Ours without the compiled reader."""
    reader, fio_log_ios.reader = fio_log_ios.reader, lambda *_: None
    try:
        return ours(path)
    finally:
        fio_log_ios.reader = reader


def loading() -> Figure:
    """Loads the compiled reader."""
    began = time.perf_counter()
    ready = fio_log_ios.load() is not None
    name = "loading ours, beforehand (s)" if ready else "loading ours: there is no numba here"
    return Figure(name, time.perf_counter() - began)


def columnar(path: Path) -> tuple[int, int]:
    """pyarrow alone: a table in memory, one column added up; nothing is checked."""
    table = csv.read_csv(path, csv.ReadOptions(column_names=NAMES))
    return table.num_rows, int(table["value"].to_numpy().sum())


def loop(path: Path) -> tuple[int, int]:
    count = total = 0
    with path.open(encoding="ascii") as file:
        for line in file:
            total += int(line.split(",")[1])
            count += 1
    return count, total


class Pandas:
    """pandas in an environment of its own, one process for all rounds."""

    def __init__(self, folder: Path, log: Path) -> None:
        venv.create(folder / "pandas", with_pip=True)
        python = folder / "pandas/bin/python"
        subprocess.run(
            (python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "pandas"),
            check=True, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        self._process = subprocess.Popen(
            (python, "-c", PANDAS, log, ",".join(NAMES)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def read(self, _: Path) -> tuple[int, int]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        count, total, _ = self._process.stdout.readline().split()
        return int(count), int(total)

    def close(self) -> None:
        self._process.communicate()


def race(
    log: Path, expected: tuple[int, int], peers: dict[str, Callable[[Path], tuple[int, int]]],
    rounds: int,
) -> dict[str, float]:  # fmt: skip
    """Median seconds of each, read in a random order in every round.  All must find the same."""
    order, took = random.Random(1), {name: [] for name in peers}
    for number in range(rounds + 1):
        for name in order.sample(list(peers), len(peers)):
            began = time.perf_counter()
            found = peers[name](log)
            spent = time.perf_counter() - began
            if found[0] != expected[0] or (found[1] and abs(found[1] - expected[1]) > expected[0]):
                raise SystemExit(f"{name} read {found}, not {expected}")
            if number:  # the first round reads programs, and the log into memory
                took[name].append(spent)
    return {name: statistics.median(each) for name, each in took.items()}


def large(folder: Path, count: int) -> list[Figure]:
    path = folder / "large" / NAME
    path.parent.mkdir()
    make(path, count)
    size = path.stat().st_size
    done = subprocess.run(
        (sys.executable, "-c", READ, path), capture_output=True, text=True, check=True
    )
    path.unlink()
    lines, took, peak = (float(word) for word in done.stdout.split())
    name = f"{count / 1e6:g} million lines, {size / GIB:.2f} GiB"
    return [
        at_most(f"{name}: peak memory (GiB)", peak / GIB, 1.0),
        Figure("  lines read (million)", lines / 1e6, f"= {count / 1e6:g}", lines == count),
        Figure("  million lines/s, from the disk or memory", lines / took / 1e6),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", type=int, default=100_000_000)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="iotrial-bench-", dir="/var/tmp"))
    kept, pandas = True, None
    try:
        log = folder / NAME
        expected = (asked.lines, make(log, asked.lines))
        loaded = loading()
        peers = {"counting": counting, "ours": ours, "usual": usual, "pyarrow": columnar,
                 "loop": loop}  # fmt: skip
        try:
            pandas = Pandas(folder, log)
            peers["pandas"] = pandas.read
        except (subprocess.SubprocessError, OSError) as error:
            why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
            print(f"pandas: cannot be installed here: {why}", file=sys.stderr)
        took = race(log, expected, peers, asked.rounds)
        cores = len(os.sched_getaffinity(0))
        words = f"{asked.lines / 1e6:g} million lines, {cores} cores, medians of {asked.rounds}"
        figures = [
            loaded,
            at_least(f"{words}: ours, million lines/s", asked.lines / took["ours"] / 1e6, 10.0),
            *(Figure(f"  {name} (s)", seconds) for name, seconds in took.items()),
            against_pandas(took),
            at_least("  time of a plain loop / ours", took["loop"] / took["ours"], 2.5),
            Figure("  time of pyarrow alone / ours", took["pyarrow"] / took["ours"]),
            Figure("  time of ours / counting lines", took["ours"] / took["counting"]),
            Figure("  time of ours by the usual reader / ours", took["usual"] / took["ours"]),
            *large(folder, 10_000_000 if asked.quick else asked.large),
        ]
        for each in figures:
            shown = f"{each.name:64} {each.value:10.3f}  {each.limit:8}"
            print(f"{shown} {'' if each.kept else 'NOT KEPT'}".rstrip(), flush=True)
            kept &= each.kept
    finally:
        if pandas:
            pandas.close()
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
