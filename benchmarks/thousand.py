"""1,000 hosts: seconds and memory of a plan, a dry run and a report, on pretended hosts.

    ./dev bench thousand [--hosts 1000]

Two studies: all hosts loaded together, and their blocks spread over them.  Each verb is a process
of its own, as a person starts it, with the real code behind a pretended kernel for each host; the
results lie in memory where there is /dev/shm, so that the disk here is not measured.  Printed for
each: wall seconds, CPU seconds, peak memory, and how many lines a person gets.  Exits with 1 where
the three verbs take more than 30 s of CPU together (36 s where blocks are spread: 2,000 trials in
place of 2, with as many loads), one of them more than 1 GB, or where plan or report have a line for
each host.

These are seconds of a quiet machine.  On one that others use, the same instructions take up to
half as long again, from one minute to the next; so a fixed piece of Python is timed before each
verb, and the limits grow as that takes longer than in a quiet minute.  Both are printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SECONDS = {"together": 30.0, "spread": 36.0}
MEMORY, LINES = 1e9, 100
QUIET = 0.5
"""CPU seconds of :data:`FIXED` in the quiet minutes of a Xeon at 2.8 GHz, where the limits are
:data:`SECONDS`."""
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


def fixed() -> float:
    """CPU seconds of the fixed piece of Python, in a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", FIXED])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit("the fixed piece of Python failed")
    return used.ru_utime + used.ru_stime


def measured(folder: Path, hosts: int, name: str, design: str) -> bool:
    """All verbs of one study; whether they are within the limits."""
    (folder / f"{name}.toml").write_text(study(hosts, design))
    out = f"results-{name}"
    verbs = {
        "plan": ("plan", f"{name}.toml", "--pretend"),
        "dry run": ("run", f"{name}.toml", "--pretend", "--out", out),
        "report": ("report", out),
        "compare": ("compare", out),
    }
    told: dict[str, Took] = {}
    machine = []
    for what, words in verbs.items():
        machine.append(fixed())
        told[what] = verb(folder, *words)
    machine.append(fixed())
    print(f"\n{name}: {design!r}")
    print(f"{'':10}{'wall':>9}{'CPU':>9}{'memory':>11}{'lines':>8}")
    for what, took in told.items():
        print(
            f"{what:10}{took.wall:7.1f} s{took.cpu:7.1f} s{took.memory / 1e6:8.0f} MB{took.lines:8}"
        )
    cpu = sum(told[what].cpu for what in ("plan", "dry run", "report"))
    memory = max(took.memory for took in told.values())
    lines = max(told[what].lines for what in ("plan", "compare"))
    slower = max(1.0, statistics.mean(machine) / QUIET)
    print(
        f"a fixed piece of Python {statistics.mean(machine):.2f} s, {min(machine):.2f} to "
        f"{max(machine):.2f} (quiet: {QUIET:.2f} s)"
    )
    print(
        f"CPU of plan, dry run and report {cpu:.1f} s "
        f"(limit {SECONDS[name]:.0f} s; here and now {SECONDS[name] * slower:.1f} s)"
    )
    print(f"peak memory {memory / 1e6:.0f} MB (limit {MEMORY / 1e6:.0f} MB)")
    print(f"lines of plan and compare {lines} at most (limit {LINES})")
    return cpu <= SECONDS[name] * slower and memory <= MEMORY and lines <= LINES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    asked = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 (a folder of ours in it)
    with tempfile.TemporaryDirectory(prefix="iotrial-thousand-", dir=memory) as made:
        folder = Path(made)
        kept = [
            measured(folder, asked.hosts, "together", "blocks = 1"),
            measured(
                folder, asked.hosts, "spread", f'blocks = {asked.hosts}\nblocks_over = "hosts"'
            ),
        ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
