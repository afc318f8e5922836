"""`iotrial saturate` beside a whole grid and a hand-made job, with a latency bound and without.

    ./dev bench saturate [--quick] [--size 512] [--blocks 32] [--runtime 1s] [--p99 100us]
                         [--json FILE]

Needs root, fio and room in /dev/shm: the target is a loop device over memory.  The search is run
once, as a user would.  The grid is every load that the search could have chosen, each measured once
by bare fio, for as long as a deciding trial and in random order; what it would take with trials as
short as those of the search is printed too, without a limit.

The search is then run with a bound on the 99th percentile of latency (``--p99``; otherwise the
median of the grid's, which half of the loads keep), and is held against the best of the grid that
keeps it.

Who is highest of five hundred single trials is high by luck as well.  So the grid's best
:data:`TOP` are measured again, in :data:`CHOOSING` blocks, to choose the one that is its best (that
keeps the bound in their median), and then that one, the search's answer and, without a bound, the
hand-made job of the violin study (libaio, 20 jobs, depth 20) are measured side by side in blocks of
their own, each block in random order.  None of the trials that chose anything is in the ratios
(D. R. Cox (1975), A note on data-splitting for the evaluation of significance levels, Biometrika
62, 441-444).

Prints each figure beside its limit, ratios with 95 % t intervals on the log scale; exits 1 when a
limit is missed.  The grid's best against the hand-made job says whether this machine has room for
the limit on that.  Other work takes CPU from all of them: how much, at least, is printed (what all
processes spent in user mode, less what fio did).  ``--quick`` measures 8 blocks side by side in
place of 32; ``--json`` writes every number.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from _limits import Interval, Limits, machine, median_of, note, ratio_of, run_main

from iotrial.formats.fio import json_output
from iotrial.model.study import Study
from iotrial.model.tool import ToolTarget
from iotrial.model.trial import Treatment, Trial, treatment_text
from iotrial.model.workload import Workload
from iotrial.plan.design import workload_of
from iotrial.store import open_results
from iotrial.tools import tool
from iotrial.units import parse_seconds

SHARE, TIME, HAND = 0.98, 0.10, 1.3
TOP, CHOOSING = 5, 4
BY_HAND = {"ioengine": "libaio", "numjobs": "20", "iodepth": "20"}
FACTS = {"cpus": float(os.cpu_count() or 1), "memory": 8.0 * 2**30, "io_uring": 1.0}


@contextmanager
def loop_over_memory(size: int) -> Iterator[str]:
    """A loop device over a file of random bytes in memory, with direct I/O where it can be had."""
    folder = Path(tempfile.mkdtemp(prefix="iotrial-saturate-", dir="/dev/shm"))
    backing, node = folder / "backing", ""
    try:
        with backing.open("wb") as file:
            for _ in range(size >> 20):
                file.write(os.urandom(1 << 20))
        attach = ["losetup", "--find", "--show"]
        for more in (["--direct-io=on"], []):
            done = subprocess.run(
                [*attach, *more, str(backing)], capture_output=True, text=True, check=False
            )
            if not done.returncode:
                node = done.stdout.strip()
                break
        else:
            raise SystemExit(f"saturate: no loop device: {done.stderr.strip()}")
        yield node
    finally:
        if node:
            subprocess.run(["losetup", "--detach", node], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def searched(
    node: str, folder: Path, runtime: str, p99: str = ""
) -> tuple[dict[str, Any] | None, float]:
    """What ``iotrial saturate --json`` says, and how long it took; None where no load keeps the
    bound."""
    argv = [sys.executable, "-m", "iotrial.cli.main", "saturate", node, "--json", "--out"]
    argv += [str(folder), "--runtime", runtime, *(["--p99", p99] if p99 else [])]
    began = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        said, _ = process.communicate()
    except BaseException:
        process.terminate()  # it restores the settings before it ends
        process.wait(60)
        raise
    took = time.monotonic() - began
    if p99 and process.returncode == 1:
        return None, took
    if process.returncode:
        raise SystemExit(f"saturate: the search ended with {process.returncode}: {said}")
    answer: dict[str, Any] = json.loads(said)
    return answer["ceiling"], took


def command(study: Study, workload: str, cell: Treatment, node: str) -> list[str]:
    """fio's command for a load, as a trial has it."""
    size = int(subprocess.check_output(["blockdev", "--getsize64", node]))
    made = workload_of(study, Trial(1, "", 1, workload, cell, "target"))
    return list(tool("fio").command(made, ToolTarget(node, "device", size), FACTS).argv)


def by_hand(argv: Sequence[str]) -> list[str]:
    """The same load, but for what the hand-made job says."""
    ours = ("fixedbufs", "registerfiles", "sqthread_poll", "hipri", "iodepth_batch")
    kept = [w for w in argv if not w.startswith(tuple(f"--{o}" for o in (*BY_HAND, *ours)))]
    return [*kept, *(f"--{option}={value}" for option, value in BY_HAND.items())]


class Point(NamedTuple):
    """One load: IOPS (0: it failed), and the 99th percentile of its latencies in seconds."""

    iops: float
    p99: float


def point(argv: Sequence[str], folder: Path) -> Point:
    """One load by bare fio."""
    done = subprocess.run(argv, cwd=folder, capture_output=True, check=False, timeout=120)
    if done.returncode:
        return Point(0.0, math.inf)
    found = json_output.parse((folder / "fio.json").read_bytes(), "fio.json").measurements
    told = {m.metric: m.value for m in found if m.job == "all"}
    return Point(told.get("read.iops", 0.0), told.get("read.clat.p99", math.inf))


def user_seconds() -> float:
    """What all processes spent in user mode since the machine began."""
    said = Path("/proc/stat").read_text("ascii").split()
    return (int(said[1]) + int(said[2])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def others(share: list[float]) -> Iterator[None]:
    """Append the share of all CPUs that others than our children had meanwhile, at least."""
    began, all_of_it = time.monotonic(), user_seconds()
    ours = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    yield
    ours = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - ours
    took = (time.monotonic() - began) * (os.cpu_count() or 1)
    share.append(max(0.0, (user_seconds() - all_of_it - ours) / took))


def side_by_side(
    rivals: Mapping[str, Sequence[str]], folder: Path, blocks: int, seed: int
) -> dict[str, list[Point]]:
    """What each rival did, by block, each block in a random order of its own."""
    values: dict[str, list[Point]] = {name: [] for name in rivals}
    for block in range(blocks):
        names = list(rivals)
        random.Random(f"{seed} {block}").shuffle(names)
        for name in names:
            values[name].append(point(rivals[name], folder))
    return values


def lasts(workload: Workload) -> float:
    """Seconds of ramp and runtime."""
    return sum(parse_seconds(str(workload.option(name))) for name in ("ramp_time", "runtime"))


def ratio(one: Sequence[Point], other: Sequence[Point]) -> tuple[float, Interval]:
    """Of IOPS: geometric means, with the interval, paired by block."""
    pairs = [(a.iops, b.iops) for a, b in zip(one, other, strict=True) if a.iops and b.iops]
    return ratio_of([a for a, _ in pairs], [b for _, b in pairs])


def typical(values: Sequence[Point]) -> float:
    return math.exp(statistics.fmean(math.log(max(each.iops, 1.0)) for each in values))


def usual_p99(values: Sequence[Point]) -> float:
    return statistics.median(each.p99 for each in values)


@dataclass
class Comparison:
    """Of one bound in seconds (infinity: none): the search's answer (None: it found no load), its
    seconds and those of the grid, and what was measured to choose and side by side."""

    bound: float
    found: dict[str, Any] | None
    seconds: tuple[float, float]
    chosen: dict[str, list[Point]]
    values: dict[str, list[Point]]


def strongest(chosen: Mapping[str, Sequence[Point]], bound: float) -> str:
    """The one with the most IOPS of those that keep the bound; of all where none does."""
    keeping = [name for name, each in chosen.items() if usual_p99(each) <= bound]
    return max(keeping or chosen, key=lambda name: typical(chosen[name]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--size", type=int, default=512, help="of the device, in MiB")
    parser.add_argument("--blocks", type=int, default=32)
    parser.add_argument("--runtime", default="1s")
    parser.add_argument("--p99", default="", help="the bound; the median of the grid's otherwise")
    parser.add_argument("--json", type=Path, help="where to write every number")
    asked = parser.parse_args()
    limits = Limits(46)
    if os.geteuid() or not shutil.which("fio"):
        limits.unmeasured("saturate", "needs root and fio")
        return limits.status()
    folder = Path(tempfile.mkdtemp(prefix="iotrial-saturate-", dir="/var/tmp"))
    os.environ["IOTRIAL_STATE"] = str(folder / "state")
    try:
        with loop_over_memory(asked.size << 20) as node:
            measured(limits, node, folder, asked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return limits.status()


def measured(limits: Limits, node: str, folder: Path, asked: argparse.Namespace) -> None:
    busy: list[float] = []
    with others(busy):
        found, took = searched(node, folder / "results", asked.runtime)
    study = open_results(folder / "results").study
    final = study.workloads[1].name
    cells = list(study.treatments(final))
    random.Random(1).shuffle(cells)  # an order that can be had again
    began = time.monotonic()
    grid = {}
    with others(busy):
        for number, cell in enumerate(cells, 1):
            grid[cell] = point(command(study, final, cell, node), folder)
            if number % 20 == 0:
                left = (time.monotonic() - began) / number * (len(cells) - number)
                note(f"grid: {number} of {len(cells)} loads, {left:.0f} s left")
    whole = time.monotonic() - began
    bound = parse_seconds(asked.p99) if asked.p99 else usual_p99(list(grid.values()))
    blocks = 8 if asked.quick else asked.blocks

    def compared(bound: float, found: dict[str, Any] | None, took: float) -> Comparison:
        keeping = [cell for cell in grid if grid[cell].p99 <= bound] or [*grid]
        best = sorted(keeping, key=lambda cell: -grid[cell].iops)[:TOP]
        top = {treatment_text(cell): command(study, final, cell, node) for cell in best}
        with others(busy):
            chosen = side_by_side(top, folder, CHOOSING, 1)
        rivals = {"grid": top[strongest(chosen, bound)]}
        if found:
            answer: Treatment = tuple(found["best"]["treatment"].items())
            rivals["search"] = command(study, final, answer, node)
            if bound == math.inf:
                rivals["by hand"] = by_hand(rivals["search"])
        with others(busy):
            values = side_by_side(rivals, folder, blocks, 2)
        return Comparison(bound, found, (took, whole), chosen, values)

    free = compared(math.inf, found, took)
    with others(busy):
        found, took = searched(
            node, folder / "bounded", asked.runtime, f"{bound * 1e6:.1f}us"
        )  # fmt: skip
    bounded = compared(bound, found, took)
    if asked.json:
        everything = {"grid": {treatment_text(cell): value for cell, value in grid.items()},
                      "free": asdict(free), "bounded": asdict(bounded), "others": busy}  # fmt: skip
        asked.json.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    print(machine())
    shares = ", ".join(f"{share:.0%}" for share in busy)
    print(f"CPU taken by other work, at least, in each of the parts: {shares}")
    print(f"{len(cells)} loads in the grid")
    shorter = whole - len(cells) * (lasts(study.workloads[1]) - lasts(study.workloads[0]))
    limits.tell("time of the search / a grid of trials as short", free.seconds[0] / shorter)
    judged(limits, free)
    judged(limits, bounded)


def judged(limits: Limits, made: Comparison) -> None:
    """What the search came to beside the grid, under one bound."""
    free = made.bound == math.inf
    print("\nwithout a bound" if free else f"\nwith a p99 of {made.bound * 1e6:.0f} µs at most")
    for name, each in (*made.chosen.items(), *made.values.items()):
        print(f"  {name:58} IOPS {typical(each):8.0f}  p99 {usual_p99(each) * 1e6:6.0f} µs")
    took, whole = made.seconds
    if made.found is None:
        limits.unmeasured("best of the search / best of the grid", "no load kept the bound")
        return
    print(
        f"  the search's answer: {treatment_text(tuple(made.found['best']['treatment'].items()))}"
    )
    print(f"  loads: {made.found['searched']} searched, {made.found['racing']} raced")
    search, grid = made.values["search"], made.values["grid"]
    limits.at_least("best of the search / best of the grid", ratio(search, grid), SHARE)
    limits.at_most("time of the search / of the grid", took / whole, TIME,
                   beside=f"({took:.0f} s, {whole:.0f} s)")  # fmt: skip
    if not free:
        late = median_of([each.p99 * 1e6 for each in search])
        limits.at_most("p99 of the search's answer (µs)", late, made.bound * 1e6, form=".0f")
        return
    hand = made.values["by hand"]
    room = ratio(grid, hand)
    beside = f"this machine has no {HAND} to give" if room[1][1] < HAND else ""
    limits.at_least("search / libaio, 20 jobs, depth 20", ratio(search, hand), HAND, beside=beside)
    limits.tell("  best of the grid / the same", room)


if __name__ == "__main__":
    run_main(main)
