"""1,000 hosts: seconds and memory of a plan, a dry run and a report, on pretended hosts.

    ./dev bench thousand [--hosts 1000]

Two studies: all hosts loaded together, and their blocks spread over them.  Each verb is a process
of its own, as a person starts it, with the real code behind a pretended kernel for each host; the
results lie in memory where there is /dev/shm, so that the disk here is not measured.  Printed for
each: wall seconds, CPU seconds, peak memory, and how many lines a person gets.

A machine that others use takes up to half as long again for the same instructions, from one minute
to the next.  So a fixed piece of Python is timed before and after each verb, and the limits are
ratios to it, of wall time and of CPU time: 73 for the CPU of the three verbs together (88 where
blocks are spread: 2,000 trials in place of 2, with as many loads), which is 30 and 36 s where the
piece takes 0.41 s (an AMD EPYC of November 2026).  Exits with 1 where the ratio, within the
interval that the fixed pieces leave, is above its limit, where a verb takes more than 1 GB, or
where plan or report have a line for each host.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _limits import Limits, machine, mean_of, run_main

CPU = {"together": 73.0, "spread": 88.0}
WALL = {"together": 80.0, "spread": 97.0}
"""Times the fixed piece of Python: a verb may wait for its files, a tenth of its time."""
MEMORY, LINES = 1e9, 100
FIXED = """
import json
rows = [{"host": f"h{n}", "bins": {str(k * n): k for k in range(60)}} for n in range(2500)]
for _ in range(3):
    text = [json.dumps(row) for row in rows]
    rows = [json.loads(each) for each in text]
    found = {}
    for row in rows:
        for key, value in row["bins"].items():
            if key.startswith("1") and not key.endswith("9"):
                found[key, row["host"]] = found.get((key, "h1"), 0) + value
    assert sorted(found)
"""
STUDY = """question = "Which scheduler, on {hosts} hosts?"
{places}
[targets.disk]
device = "FAKE0000"
hosts = "h[1-{hosts}]"
[workloads.reads]
tool = "fio"
options = {{ rw = "randread", bs = "4k", runtime = "4s" }}
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[design]
settle = "0s"
{design}
"""


@dataclass(frozen=True)
class Took:
    wall: float
    cpu: float
    memory: float
    lines: int


def study(hosts: int, design: str) -> str:
    places = "".join(f'[hosts.h{n}]\nssh = "root@h{n}"\n' for n in range(1, hosts + 1))
    return STUDY.format(hosts=hosts, places=places, design=design)


def verb(folder: Path, *words: str) -> Took:
    """One verb in a process of its own."""
    command = [sys.executable, "-m", "iotrial.cli.main", *words]
    began = time.monotonic()
    with (folder / f"{words[0]}.txt").open("w") as said, (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    if process.returncode:
        sys.exit(f"{' '.join(words)}: exit {process.returncode}\n{(folder / 'errors').read_text()}")
    lines = len((folder / f"{words[0]}.txt").read_text().splitlines())
    return Took(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, lines)


def fixed() -> Took:
    """The fixed piece of Python, in a process of its own."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", FIXED])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit("the fixed piece of Python failed")
    wall = time.monotonic() - began
    return Took(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, 0)


def measured(
    folder: Path, hosts: int, name: str, design: str
) -> tuple[dict[str, Took], list[Took]]:
    """All verbs of one study, and the fixed pieces around them."""
    (folder / f"{name}.toml").write_text(study(hosts, design))
    out = f"results-{name}"
    verbs = {
        "plan": ("plan", f"{name}.toml", "--pretend"),
        "dry run": ("run", f"{name}.toml", "--pretend", "--out", out),
        "report": ("report", out),
        "compare": ("compare", out),
    }
    told: dict[str, Took] = {}
    pieces = []
    for what, words in verbs.items():
        pieces.append(fixed())
        told[what] = verb(folder, *words)
    pieces.append(fixed())
    return told, pieces


def judged(limits: Limits, name: str, told: Mapping[str, Took], pieces: Sequence[Took]) -> None:
    """What one study took, beside its limits."""
    print(f"\n{name}")
    print(f"{'':10}{'wall':>9}{'CPU':>9}{'memory':>11}{'lines':>8}")
    for what, took in told.items():
        print(
            f"{what:10}{took.wall:7.1f} s{took.cpu:7.1f} s{took.memory / 1e6:8.0f} MB{took.lines:8}"
        )
    verbs = [told[what] for what in ("plan", "dry run", "report")]
    for what, limit, own, each in (
        ("wall", WALL[name], sum(took.wall for took in verbs), [p.wall for p in pieces]),
        ("CPU", CPU[name], sum(took.cpu for took in verbs), [p.cpu for p in pieces]),
    ):
        limits.tell(f"a fixed piece of Python, {what} (s)", mean_of(each))
        limits.tell(f"plan, dry run and report, {what} (s)", own, form=".1f")
        limits.at_most(f"  times the fixed piece, {what}", times(own, each), limit, form=".1f")
    memory = max(took.memory for took in told.values())
    limits.at_most("peak memory (MB)", memory / 1e6, MEMORY / 1e6, form=".0f")
    lines = max(told[what].lines for what in ("plan", "compare"))
    limits.at_most("lines of plan and compare, at most", lines, LINES, form=".0f")


def times(own: float, pieces: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """How many fixed pieces fit in it, and the interval that comes of theirs."""
    mean, (low, high) = mean_of(pieces)
    return own / mean, (own / high, own / low if low > 0 else math.inf)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    asked = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 (a folder of ours in it)
    designs = {
        "together": "blocks = 1",
        "spread": f'blocks = {asked.hosts}\nblocks_over = "hosts"',
    }
    limits = Limits()
    print(f"{asked.hosts} hosts; {machine()}")
    with tempfile.TemporaryDirectory(prefix="iotrial-thousand-", dir=memory) as made:
        for name, design in designs.items():
            judged(limits, name, *measured(Path(made), asked.hosts, name, design))
    return limits.status()


if __name__ == "__main__":
    run_main(main)
