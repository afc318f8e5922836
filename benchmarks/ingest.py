"""How fast ``iotrial import`` takes a log of every I/O, as a whole process, beside pandas.

    ./dev bench ingest [--lines 3000000] [--large 86000000] [--rounds 5] [--quick] [--folder DIR]

Two logs as fio writes them are made in a temporary folder: one of 71 MiB, and one of 2 GiB, which
iotrial reads with its compiled reader (the extra "fast").  Each round imports both, from the start
of the process to the results folder, the small one in turn with other processes that read it:
pandas, in an environment of its own, and a plain loop that only reads, splits and adds up.  Both
keep nothing of the file; iotrial copies and digests it.  Then one import of each tells its parts:
the start of the process until a file is looked at, reading, deriving, writing.  Prints each figure
with its interval over the rounds beside its limit; exits 1 when one is missed.  The limits are
wall time: run it on a quiet machine.  --quick: two rounds, 20 million lines (which is less than
iotrial loads its compiled reader for).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _limits import Limits, machine, mean_of, ratio_of, run_main

NAMES = ["time", "value", "direction", "size", "priority"]
NAME = "job_clat.1.log"
GIB, MIB = 2**30, 2**20
LINES_A_SECOND = 10e6
"""Of the large log, from the start of the process to the results folder."""
READING = 5e6
"""Lines a second of the small log, of the part that reads it."""
MEMORY = 1.0 * GIB
PANDAS, LOOP = 0.6, 0.7
"""Times as long as ours, at least: of the small log, whole processes."""
PANDAS_AIM = 1.0
ROOM = 3
"""Times the large log: it, its copy, and what is not written out yet."""
READ_BY_PANDAS = """
import sys
import pandas
log = pandas.read_csv(sys.argv[1], header=None, names=sys.argv[2].split(","))
log.value.quantile([0.5, 0.9, 0.95, 0.99, 0.999, 0.9999])
print(len(log), log.value.sum())
"""
READ_IN_A_LOOP = """
import sys
count = total = 0
with open(sys.argv[1], encoding="ascii") as file:
    for line in file:
        total += int(line.split(",")[1])
        count += 1
print(count, total)
"""
IMPORT = "from iotrial.cli.main import main; main()"
PARTS = """
import atexit, json, os, sys, time
from pathlib import Path
spent = {}
def timed(module, name, part):
    real = getattr(module, name)
    def call(*words, **more):
        began = time.perf_counter()
        try:
            return real(*words, **more)
        finally:
            spent[part] = spent.get(part, 0.0) + time.perf_counter() - began
    setattr(module, name, call)
from iotrial.cli.main import main
from iotrial_import import files, folder, fio_logs, plausible
begun = files.given
def given(*words):
    spent["start"] = time.time() - float(os.environ["BEGAN"])
    return begun(*words)
files.given = given
timed(files, "read", "reading")
timed(folder, "keep", "writing")
atexit.register(lambda: Path(sys.argv[-1] + ".parts").write_text(json.dumps(spent)))
main()
"""


@dataclass(frozen=True)
class Took:
    """One process: wall and CPU seconds, peak memory in bytes, what it said."""

    wall: float
    cpu: float
    memory: int
    said: str


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


def executed(*argv: str | Path) -> Took:
    """A process from its start to its end.  Raises SystemExit where it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"ingest: {argv[-1]}: exit {process.returncode}")
    return Took(took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, said)


def imported(log: Path, expected: tuple[int, int]) -> Took:
    """``iotrial import``, into a folder that is removed; what it found is held against what the
    log was made of."""
    out = log.parent / "results"
    took = executed(sys.executable, "-c", IMPORT, "import", log, "--out", out, "--json")
    told = {each["metric"]: each["value"] for each in json.loads(took.said)["measurements"]}
    found = int(told["read.ios"]), round(told["read.clat.mean"] * told["read.ios"] * 1e9)
    right(found, expected, "iotrial")
    shutil.rmtree(out)
    return took


def right(found: tuple[int, int], expected: tuple[int, int], whose: str) -> None:
    if found[0] != expected[0] or abs(found[1] - expected[1]) > expected[0]:
        raise SystemExit(f"ingest: {whose} read {found}, not {expected}")


def parts(log: Path) -> dict[str, float]:
    """Seconds of each part of one import."""
    out = log.parent / "results"
    began = time.perf_counter()
    os.environ["BEGAN"] = f"{time.time()}"
    executed(sys.executable, "-c", PARTS, "import", log, "--out", out)
    whole = time.perf_counter() - began
    told = Path(f"{out}.parts")
    found: dict[str, float] = json.loads(told.read_text())
    told.unlink()
    shutil.rmtree(out)
    found["deriving, and the end"] = whole - sum(found.values())
    return found


def pandas_here(folder: Path) -> Path:
    """A Python that has pandas.  Raises SubprocessError, OSError."""
    venv.create(folder / "pandas", with_pip=True)
    python = folder / "pandas/bin/python"
    subprocess.run(
        (python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "pandas"),
        check=True, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return python


def rounds(
    small: tuple[Path, tuple[int, int]], peers: Mapping[str, Sequence[str | Path]], count: int
) -> dict[str, list[Took]]:
    """Everybody reads the small log once a round, in random order."""
    order, took = random.Random(1), defaultdict(list)
    log, expected = small
    for number in range(count + 1):
        for name in order.sample(["ours", *peers], 1 + len(peers)):
            if name == "ours":
                made = imported(log, expected)
            else:
                made = executed(*peers[name])
                right((int(made.said.split()[0]), int(made.said.split()[1])), expected, name)
            if number:  # the first round reads programs, and the log into memory
                took[name].append(made)
    return took


def judged(
    limits: Limits,
    small: tuple[int, Mapping[str, Sequence[Took]], Mapping[str, float]],
    large: tuple[int, Sequence[Took], Mapping[str, float]],
) -> None:
    """Of each log its lines, what was taken, and the parts of one import."""
    lines, took, own = small
    wall = {name: [each.wall for each in made] for name, made in took.items()}
    print(f"\n{lines / 1e6:g} million lines")
    limits.tell("import, whole process (s)", mean_of(wall["ours"]))
    limits.tell("  million lines/s", mean_of([lines / each / 1e6 for each in wall["ours"]]))
    limits.tell("  CPU (s)", mean_of([each.cpu for each in took["ours"]]))
    for name, least in (("pandas", PANDAS), ("loop", LOOP)):
        if name in wall:
            found = ratio_of(wall[name], wall["ours"])
            aim = f"aim >= {PANDAS_AIM:g}: {'reached' if found[0] >= PANDAS_AIM else 'NOT REACHED'}"
            beside = aim if name == "pandas" else ""
            limits.at_least(f"  time of {name} / ours", found, least, beside=beside)
        else:
            limits.unmeasured(f"  time of {name} / ours", "see above")
    _parts(limits, own)
    rate = lines / own["reading"]
    limits.at_least("  million lines/s while it reads", rate / 1e6, READING / 1e6)
    lines, made, own = large
    print(f"\n{lines / 1e6:g} million lines")
    limits.tell("import, whole process (s)", mean_of([each.wall for each in made]))
    limits.at_least(
        "  million lines/s",
        mean_of([lines / each.wall / 1e6 for each in made]),
        LINES_A_SECOND / 1e6,
    )
    limits.tell("  CPU (s)", mean_of([each.cpu for each in made]))
    peak = max(each.memory for each in made)
    limits.at_most("  peak memory (GiB)", peak / GIB, MEMORY / GIB)
    _parts(limits, own)


def _parts(limits: Limits, own: Mapping[str, float]) -> None:
    for name in ("start", "reading", "deriving, and the end", "writing"):
        limits.tell(f"    of one import: {name} (s)", own[name])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=3_000_000)
    parser.add_argument("--large", type=int, default=86_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))  # noqa: S108
    asked = parser.parse_args()
    count, many = (2, 20_000_000) if asked.quick else (asked.rounds, asked.large)
    need = ROOM * 25 * many
    if (free := shutil.disk_usage(asked.folder).free) < need:
        raise SystemExit(f"ingest: {asked.folder} has {free / GIB:.1f} GiB free, not the"
                         f" {need / GIB:.1f} that it takes")  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="iotrial-bench-", dir=asked.folder))
    limits = Limits()
    try:
        log, long = folder / "small" / NAME, folder / "large" / NAME
        log.parent.mkdir()
        long.parent.mkdir()
        expected = asked.lines, make(log, asked.lines)
        peers: dict[str, Sequence[str | Path]] = {
            "loop": (sys.executable, "-c", READ_IN_A_LOOP, log)
        }
        try:
            python = pandas_here(folder)
            peers["pandas"] = (python, "-c", READ_BY_PANDAS, log, ",".join(NAMES))
        except (subprocess.SubprocessError, OSError) as error:
            why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
            print(f"pandas: cannot be installed here: {why}", file=sys.stderr)
        took = rounds((log, expected), peers, count)
        of_small = asked.lines, took, parts(log)
        of_long = many, make(long, many)
        made = [imported(long, of_long) for _ in range(count)]
        print(machine())
        print(f"{log.stat().st_size / MIB:.0f} MiB and {long.stat().st_size / GIB:.2f} GiB,"
              f" {count} rounds, in {asked.folder}")  # fmt: skip
        judged(limits, of_small, (many, made, parts(long)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return limits.status()


if __name__ == "__main__":
    run_main(main)
