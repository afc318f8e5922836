"""A log of every I/O read by a whole process: iotrial's readers beside DuckDB and polars.

    ./dev bench readers [--lines 20000000] [--rounds 5] [--limit 15]

A process is started, reads the log and gives what iotrial makes of one: I/Os, bytes and latencies
of each direction, second and bin, and whether times went back.  All must say the same.  DuckDB and
polars are put into an environment of their own.  What a process took of the CPU is told beside the
wall clock, and the rate that it would have were all cores its own: on a busy machine only that can
be compared.  Exits 1 when DuckDB or polars reaches --limit million lines/s by it: then numba can go
(docs/decisions/0035-libraries-measured.md).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections import defaultdict
from pathlib import Path

from _limits import Limits, run_main
from ingest import NAME, make

OURS = """
import mmap, sys
from pathlib import Path
from iotrial.formats import formats
from iotrial_import.formats import fio_log_ios
if sys.argv[2] == "numba":
    assert fio_log_ios.load()
else:
    fio_log_ios.reader = lambda *_: None
path = Path(sys.argv[1])
with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
    (run,) = formats()["fio-log"].read(data, path.name)
found = {each.metric: each.value for each in run.measurements}
print(int(found["read.ios"]), round(found["read.clat.mean"] * found["read.ios"] * 1e9))
"""
DUCKDB = """
import duckdb, sys
names = ("time", "value", "direction", "size", "priority")
bits = "floor(log2(value))::BIGINT"
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")  # it is drawn on stdout
rows = connection.execute(f'''
    WITH log AS (SELECT *, time - lag(time) OVER () AS step
                 FROM read_csv(?, header=false, auto_detect=false, delim=',', quote='', escape='',
                               columns={ {name: "BIGINT" for name in names} }))
    SELECT count(*), sum(value), direction, time // 1000 AS second,
           CASE WHEN value < 128 THEN value
                ELSE (({bits} - 5) << 6) + ((value >> ({bits} - 6)) & 63) END AS bin,
           min(value), max(value), sum(size), min(size), max(size), max(priority), min(time),
           max(time), max(step), count(*) FILTER (step < 0), count(*) FILTER (value < 40),
           count(*) FILTER (value > (time + 2) * 1000)
    FROM log GROUP BY ALL''', [sys.argv[1]]).fetchall()
print(sum(row[0] for row in rows), sum(row[1] for row in rows))
"""
POLARS = """
import sys
import polars as pl
names = ("time", "value", "direction", "size", "priority")
time, value, size, step = (pl.col(name) for name in ("time", "value", "size", "step"))
bits = value.cast(pl.Float64).reinterpret(dtype=pl.Int64) // 2**46 - (1023 + 5) * 64
log = pl.scan_csv(
    sys.argv[1], has_header=False, schema={name: pl.Int64 for name in names}, quote_char=None
)
found = (
    log.with_columns(
        step=time.diff(), second=time // 1000, bin=pl.when(value < 128).then(value).otherwise(bits)
    )
    .group_by("direction", "second", "bin")
    .agg(
        count=pl.len(), total=value.sum(), least=value.min(), most=value.max(), size=size.sum(),
        smallest=size.min(), largest=size.max(), priority=pl.col("priority").max(),
        first=time.min(), last=time.max(), pause=step.max(), back=(step < 0).sum(),
        quick=(value < 40).sum(), early=(value > (time + 2) * 1000).sum(),
    )
    .collect(engine="streaming")
)
print(found["count"].sum(), found["total"].sum())
"""


def environment(folder: Path) -> str:
    """A Python that has DuckDB and polars."""
    venv.create(folder / "peers", with_pip=True)
    python = str(folder / "peers/bin/python")
    install = (python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:")
    subprocess.run((*install, "duckdb", "polars"), check=True, timeout=600)
    return python


def run(command: tuple[str, ...]) -> tuple[list[int], float, float]:
    """What it said, and its seconds by the wall clock and of the CPU."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[0]} failed")
    taken = time.perf_counter() - began
    return [int(word) for word in said.split()], taken, used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=15.0)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="iotrial-bench-", dir="/var/tmp"))
    try:
        log, other = folder / NAME, environment(folder)
        expected = [asked.lines, make(log, asked.lines)]
        readers = {
            "iotrial, compiled (numba)": (sys.executable, "-c", OURS, str(log), "numba"),
            "iotrial, by pyarrow": (sys.executable, "-c", OURS, str(log), "usual"),
            "DuckDB": (other, "-c", DUCKDB, str(log)),
            "polars": (other, "-c", POLARS, str(log)),
        }
        order, taken = random.Random(1), defaultdict(list)
        for _ in range(asked.rounds):
            for name in order.sample(list(readers), len(readers)):
                said, wall, cpu = run(readers[name])
                if said[0] != expected[0] or abs(said[1] - expected[1]) > expected[0]:
                    raise SystemExit(f"{name} read {said}, not {expected}")
                taken[name].append((wall, cpu))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cores, limits = len(os.sched_getaffinity(0)), Limits()
    print(f"{asked.lines / 1e6:g} million lines, {cores} cores, the best of {asked.rounds} runs")
    print(f"{'':28} {'wall (s)':>9} {'CPU (s)':>9} {'million lines/s were all cores its own':>40}")
    for name in readers:
        wall, cpu = (min(each[at] for each in taken[name]) for at in (0, 1))
        rate = asked.lines * cores / cpu / 1e6
        print(f"{name:28} {wall:>9.2f} {cpu:>9.2f} {rate:>40.1f}")
        if not name.startswith("iotrial"):
            limits.at_most(f"  {name}, million lines/s", rate, asked.limit, form=".1f")
    return limits.status()


if __name__ == "__main__":
    run_main(main)
