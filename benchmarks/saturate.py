"""`iotrial saturate` beside an exhaustive grid and a hand-made job, on a loop device over memory.

    ./dev bench saturate [--quick] [--size 512] [--blocks 32] [--runtime 1s] [--p99 0] [--json FILE]

Needs root, fio and room in /dev/shm.  The search is run once, as a user would.  The grid is every
load that the search could have chosen, each measured once by bare fio, for as long as a deciding
trial and in random order; what it would take with trials as short as those of the search is printed
too, without a limit.

Who is highest of five hundred single trials is high by luck as well.  So the grid's best
:data:`TOP` are measured again, in :data:`CHOOSING` blocks, to choose the one that is its best, and
then that one, the search's answer and the hand-made job of the violin study (libaio, 20 jobs,
depth 20) are measured side by side in blocks of their own, each block in random order.  None of the
trials that chose anything is in the ratios (D. R. Cox (1975), A note on data-splitting for the
evaluation of significance levels, Biometrika 62, 441-444).

Prints each figure beside its limit, ratios with 95 % t intervals on the log scale; exits 1 when a
limit is not kept.  Where the interval holds the limit, *nobody can tell* stands beside it.  The
same is said of the grid's best against the hand-made job: where that has no room for the limit,
this machine has none to give.  Other work takes CPU from all of them: how much, at least, is
printed (what all processes spent in user mode, less what fio did).  ``--quick`` measures 8 blocks
side by side in place of 32; ``--json`` writes every number.
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
from pathlib import Path
from typing import Any

from scipy.stats import t as student

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


def searched(node: str, folder: Path, asked: argparse.Namespace) -> tuple[dict[str, Any], float]:
    """What ``iotrial saturate --json`` says, and how long it took."""
    argv = [sys.executable, "-m", "iotrial.cli.main", "saturate", node, "--json", "--out"]
    argv += [str(folder), "--runtime", asked.runtime]
    argv += ["--p99", asked.p99] if asked.p99 != "0" else []
    began = time.monotonic()
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"saturate: the search ended with {done.returncode}: {done.stdout}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer["ceiling"], time.monotonic() - began


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


def iops(argv: Sequence[str], folder: Path) -> float:
    """One load by bare fio; 0 where it fails."""
    done = subprocess.run(argv, cwd=folder, capture_output=True, check=False, timeout=120)
    if done.returncode:
        return 0.0
    found = json_output.parse((folder / "fio.json").read_bytes(), "fio.json").measurements
    return next((m.value for m in found if m.metric == "read.iops" and m.job == "all"), 0.0)


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
) -> dict[str, list[float]]:
    """IOPS of each rival, by block, each block in a random order of its own."""
    values: dict[str, list[float]] = {name: [] for name in rivals}
    for block in range(blocks):
        names = list(rivals)
        random.Random(f"{seed} {block}").shuffle(names)
        for name in names:
            values[name].append(iops(rivals[name], folder))
    return values


def lasts(workload: Workload) -> float:
    """Seconds of ramp and runtime."""
    return sum(parse_seconds(str(workload.option(name))) for name in ("ramp_time", "runtime"))


def ratio(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Of geometric means, with its interval, paired by block."""
    logs = [math.log(a / b) for a, b in zip(one, other, strict=True) if a and b]
    mean = statistics.fmean(logs)
    half = float(student.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / len(logs) ** 0.5
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def said(what: str, value: tuple[float, float, float], limit: float) -> bool:
    kept = value[0] >= limit
    unkept = "  NOT KEPT" + (", but nobody can tell" if value[2] >= limit else "")
    print(f"{what:46} {value[0]:7.3f}  ({value[1]:.3f} … {value[2]:.3f})  >= {limit}"
          f"{'' if kept else unkept}")  # fmt: skip
    return kept


def typical(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(max(each, 1.0)) for each in values))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--size", type=int, default=512, help="of the device, in MiB")
    parser.add_argument("--blocks", type=int, default=32)
    parser.add_argument("--runtime", default="1s")
    parser.add_argument("--p99", default="0")
    parser.add_argument("--json", type=Path, help="where to write every number")
    asked = parser.parse_args()
    if os.geteuid() or not shutil.which("fio"):
        raise SystemExit("saturate: needs root and fio")
    folder = Path(tempfile.mkdtemp(prefix="iotrial-saturate-", dir="/var/tmp"))
    os.environ["IOTRIAL_STATE"] = str(folder / "state")
    try:
        with loop_over_memory(asked.size << 20) as node:
            return _compare(node, folder, asked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compare(node: str, folder: Path, asked: argparse.Namespace) -> int:
    busy: list[float] = []
    with others(busy):
        found, took = searched(node, folder / "results", asked)
    study = open_results(folder / "results").study
    final = study.workloads[1].name
    best: Treatment = tuple(found["best"]["treatment"].items())
    cells = list(study.treatments(final))
    random.Random(1).shuffle(cells)  # an order that can be had again
    began = time.monotonic()
    with others(busy):
        grid = {cell: iops(command(study, final, cell, node), folder) for cell in cells}
    whole = time.monotonic() - began
    top = {treatment_text(cell): command(study, final, cell, node)
           for cell in sorted(grid, key=lambda cell: -grid[cell])[:TOP]}  # fmt: skip
    with others(busy):
        chosen = side_by_side(top, folder, CHOOSING, 1)
    strongest = max(chosen, key=lambda name: typical(chosen[name]))
    ours = command(study, final, best, node)
    rivals = {"search": ours, "grid": top[strongest], "by hand": by_hand(ours)}
    with others(busy):
        values = side_by_side(rivals, folder, 8 if asked.quick else asked.blocks, 2)
    if asked.json:
        everything = {"grid": {treatment_text(cell): value for cell, value in grid.items()},
                      "chosen": chosen, "values": values, "search": found, "others": busy,
                      "seconds": {"search": took, "grid": whole}}  # fmt: skip
        asked.json.write_text(json.dumps(everything, indent=1), encoding="utf-8")
    print(f"the search's answer   {treatment_text(best)}")
    print(f"the grid's best       {strongest}")
    for name, each in (*chosen.items(), *values.items()):
        sd = statistics.stdev(map(math.log, each)) if all(each) else math.nan
        print(f"  {name:58} IOPS {typical(each):8.0f}  a trial's sd {sd:.1%}")
    shares = ", ".join(f"{share:.0%}" for share in busy)
    print(f"CPU taken by other work, at least (search, grid, choosing, side by side): {shares}")
    print(f"loads: {found['searched']} searched, {found['racing']} raced, {len(cells)} in the grid")
    good = said("best of the search / best of the grid", ratio(values["search"], values["grid"]),
                SHARE)  # fmt: skip
    share = took / whole
    print(f"{'time of the search / of the grid':46} {share:7.3f}  ({took:.0f} s, {whole:.0f} s)"
          f"  <= {TIME}{'' if share <= TIME else '  NOT KEPT'}")  # fmt: skip
    shorter = whole - len(cells) * (lasts(study.workloads[1]) - lasts(study.workloads[0]))
    print(f"  / of a grid of trials as short as the search's {took / shorter:5.3f}")
    hand = said("search / libaio, 20 jobs, depth 20", ratio(values["search"], values["by hand"]),
                HAND)  # fmt: skip
    room = ratio(values["grid"], values["by hand"])
    print(f"{'  / of the best of the grid, which has the room':46} {room[0]:7.3f}  "
          f"({room[1]:.3f} … {room[2]:.3f})"
          f"{f'  this machine has no {HAND} to give' if room[2] < HAND else ''}")  # fmt: skip
    return 0 if good and hand and share <= TIME else 1


if __name__ == "__main__":
    sys.exit(main())
