"""Studies whose true effects are known: a loop device slowed by the control group of the load.

A study of :func:`study` varies ``cgroup.v1.read_iops``, which iotrial sets, reads back and gives
back, as it does for anybody.  Its load is this file as a program.  It asks the kernel for the
limit in force, draws the trial's own limit around it (log-normally), puts that on a group below,
enters it and becomes fio.  So the kernel slows every arm, the arms differ by what iotrial has set
and by nothing else, and trials of one arm differ by noise of a known size, which the throttle
alone does not have.  Under cgroup v1 each group counts for itself, so the lower group's limit
holds also where it is above the upper one's (block/blk-throttle.c: no parent below v2; measured
on 6.18).

A draw depends on seed, block and arm alone, not on the order of trials: two runs with one seed
have the same noise, also when one of them was killed in between.

What is left to chance then is how near fio comes to its limit.  Trials of one second at 1000 reads
were 0.1 to 0.3 % below it, all arms alike, with a standard deviation of 0.3 to 0.4 % on two cores
with a load of five to ten (6.18, fio 3.33).  Three things make it so: few reads, so that each
slice of the throttle (0.1 s) has time to spare and a pause in it is made good; fio before other
programs, by its nice value; and no ``ramp_time``, for what the throttle held back when the ramp
ended would count as measured (one trial in ten was 8 % above its limit).

A real-time class for fio seems worse than none: the throttle and the loop device do their work in
the kernel's ordinary threads. With a load of 10 to 25 on two cores (6.18), two such loads at a
time, 11 of 120 trials lost a slice or two (11 to 16 %) where a SCHED_FIFO load ran, and none of 120
where none did (the worst 4 %).
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path

GROUP = Path("/sys/fs/cgroup/blkio/iotrial")
"""Where iotrial puts the load."""
BELOW = GROUP / "drawn"
"""Where the load puts itself."""
LIMIT = "blkio.throttle.read_iops_device"
FULL = 1000
"""Reads a second of the arms whose truth is 0."""
ARMS = {"truth": 0.0, "copy": 0.0, "two": -0.02, "five": -0.05, "twenty": -0.20}
"""Arm → how much more it truly does; ``copy`` makes an A/A pair of the first two.  Levels that
come to the same are refused, rightly, so it limits writes as well, of which there are none."""
MARGIN = 0.015
SD = 0.03
"""Of one trial's log limit around its arm's."""

_REMOVE = (
    f"for i in $(seq 100); do test -d {BELOW} || exit 0; rmdir {BELOW} && exit; sleep 0.1; done;"
    " exit 1"
)
"""A killed load waits in its group for the reads that the throttle still holds back: its memory,
and the mark in its environment, are gone before it is."""

_STUDY = """
question = "Are the effects seen that are there?"

[targets.disk]
loop = {{ size = "64MiB", directory = "{folder}" }}

[workloads.reads]
tool = "command"
argv = ["{python}", "-I", "-S", "{program}", "{{target}}", "{{noise}}", "{{spread}}", "{{runtime}}"]
cleanup = [{{ command = ["sh", "-c", "{remove}"], each = "study" }}]

[workloads.reads.options]
noise = {noise}
spread = "{spread}"
runtime = "{runtime}"
seconds = "1s"
reads_only = true

[workloads.reads.metrics]
"read.iops" = {{ json = "jobs[0].read.iops", file = "fio.json", unit = "iops" }}

[factors.limit]
baseline = "{baseline}"

[factors.limit.levels]
{levels}

[design]
{design}
settle = "0s"

[decide]
primary = "read.iops"
margin = {margin}
"""


def why_not() -> str:
    """What this machine lacks for it, '' when nothing."""
    there = (GROUP.parent / LIMIT).exists()
    return "" if there else f"no blkio controller of cgroup v1 at {GROUP.parent}"


def study(
    folder: Path,
    *,
    noise: int,
    design: str,
    arms: Mapping[str, float] = ARMS,
    spread: float = SD,
    runtime: str = "1s",
) -> str:
    """The text of a study file.  ``noise`` is the seed of all draws, ``design`` lines of its
    table; the first arm is the baseline."""
    levels = "\n".join(
        f'{arm} = {{ "cgroup.v1.read_iops" = {round(FULL * (1 + effect))}'
        + (f', "cgroup.v1.write_iops" = {FULL} }}' if arm == "copy" else " }")
        for arm, effect in arms.items()
    )
    return _STUDY.format(
        folder=folder,
        python=sys.executable,
        program=Path(__file__).resolve(),
        remove=_REMOVE,
        noise=noise,
        spread=spread,
        runtime=runtime,
        baseline=next(iter(arms)),
        levels=levels,
        margin=MARGIN,
        design=design,
    )


def wrong(level: str, other: str, verdict: str, margin: float = MARGIN) -> bool:
    """Whether a verdict of one arm against another is not true.  ``cannot-tell`` never is."""
    truly = math.log1p(ARMS[level]) - math.log1p(ARMS[other])
    limit = math.log1p(margin)
    true = {"better": truly > 0, "worse": truly < 0, "same": abs(truly) <= limit}
    return not true.get(verdict, True)


def draw(noise: int, block: int, arm: str, spread: float = SD) -> float:
    """The log of a trial's limit, less that of its arm's."""
    # Seeded on purpose: noise that can be had again.
    return random.Random(f"{noise}:{block}:{arm}").gauss(0.0, spread)


def _become_fio(node: str, noise: str, spread: str, runtime: str) -> None:
    trial = Path.cwd()
    block, arm = _planned(trial.parent.parent / "plan.jsonl", int(trial.name.split("-")[0]))
    device, limit = (GROUP / LIMIT).read_text().split()
    drawn = round(int(limit) * math.exp(draw(int(noise), block, arm, float(spread))))
    BELOW.mkdir(exist_ok=True)
    (BELOW / LIMIT).write_text(f"{device} {drawn}")
    (BELOW / "cgroup.procs").write_text(str(os.getpid()))
    Path("drawn").write_text(f"{drawn}\n")
    os.setpriority(os.PRIO_PROCESS, 0, -10)
    job = ["--name=reads", f"--filename={node}", "--rw=randread", "--bs=4k", "--direct=1"]
    job += ["--ioengine=libaio", "--iodepth=4", f"--runtime={runtime}", "--time_based"]
    os.execvp("fio", ["fio", *job, "--output=fio.json", "--output-format=json"])  # noqa: S606


def _planned(plan: Path, number: int) -> tuple[int, str]:
    """Block and arm of a trial."""
    for line in plan.read_text("utf-8").splitlines():
        row = json.loads(line)
        if row.get("number") == number:
            return row["block"], dict(row["treatment"])["limit"]
    raise LookupError(f"trial {number} is not in {plan}")


if __name__ == "__main__":
    _become_fio(*sys.argv[1:])
