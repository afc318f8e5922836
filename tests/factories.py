"""Results of a study that never was: seeded, so that every test sees the same ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from iotrial.model.finding import Comparison, Finding, RequiredBlocks, Verdict
from iotrial.model.measurement import Measurement
from iotrial.model.results import Results
from iotrial.model.study import DecisionRule, Design, Factor, Level, Study
from iotrial.model.target import Target
from iotrial.model.trial import Doubt, Trial, TrialRecord
from iotrial.model.workload import OptionValue, Workload

LEVELS = ("none", "mq-deadline", "kyber", "bfq")
EFFECTS = {
    "randread": {"none": 1.0, "mq-deadline": 0.9, "kyber": 0.905, "bfq": 0.82},
    "randmix": {"none": 1.0, "mq-deadline": 0.93, "kyber": 0.97, "bfq": 0.85},
    "seqwrite": {"none": 1.0, "mq-deadline": 1.08, "kyber": 1.002, "bfq": 1.03},
}
PRIMARY = {"randread": "read.iops", "randmix": "read.iops", "seqwrite": "write.bw"}
TYPICAL = {"randread": 81_000.0, "randmix": 42_500.0, "seqwrite": 1.31e9}
NOISE = {"randread": 0.006, "randmix": 0.012, "seqwrite": 0.04}
STARTED = 1_795_167_000.0
OPTIONS: dict[str, tuple[tuple[str, OptionValue], ...]] = {
    "randread": (("rw", "randread"), ("bs", "4k"), ("iodepth", 32), ("runtime", "2s")),
    "randmix": (("rw", "randrw"), ("rwmixread", 70), ("bs", "4k"), ("iodepth", 32)),
    "seqwrite": (("rw", "write"), ("bs", "64k"), ("iodepth", 8), ("runtime", "2s")),
}
QUEUE = {
    "none": (("queue.nr_requests", "128"), ("queue.wbt_lat_usec", "2000")),
    "mq-deadline": (
        ("queue.nr_requests", "256"), ("queue.wbt_lat_usec", "2000"),
        ("queue.iosched.fifo_batch", "16"),
    ),
    "kyber": (
        ("queue.nr_requests", "256"), ("queue.wbt_lat_usec", "2000"),
        ("queue.iosched.read_lat_nsec", "2000000"),
    ),
    "bfq": (
        ("queue.nr_requests", "256"), ("queue.wbt_lat_usec", "0"),
        ("queue.iosched.low_latency", "1"),
    ),
}  # fmt: skip
FACTS = {
    "local": {
        "format": 1,
        "name": "local",
        "kernel": "6.18.4-amd64",
        "kernel_version": "Linux version 6.18.4-amd64 (Debian 6.18.4-1) #1 SMP PREEMPT_DYNAMIC",
        "kernel_parameters": "mitigations=auto",
        "distribution": "Debian GNU/Linux 13 (trixie)",
        "boot_id": "5d3bb6a2-7f83-4f0f-8d31-0f2d8a0f4c55",
        "clocksource": "tsc",
        "machine": "Example Rack Server",
        "virtualisation": "",
        "cpu_model": "AMD EPYC 7R13 Processor",
        "cpus": 8,
        "cpu_governor": "performance",
        "memory": 33_285_996_544,
        "swaps": [],
        "other_writers": ["tuned"],
        "programs": {"fio": "fio-3.39"},
        "targets": {
            "disk": {
                "kind": "loop", "path": "/dev/loop117", "device": "loop117", "size": 1 << 30,
                "identity": {
                    "kernel_name": "loop117", "devno": "7:117", "size": 1 << 30,
                    "ids": {"backing_file": "/var/tmp/iotrial/disk.img", "backing_inode": "8:1/77"},
                },
            },
        },
        "devices": {
            "loop117": {
                "size": 1 << 30,
                "queue": {
                    "scheduler": "[none] mq-deadline kyber bfq", "nr_requests": "128",
                    "read_ahead_kb": "128", "wbt_lat_usec": "2000", "rotational": "0",
                },
                "iosched": {},
                "legs": [],
            },
        },
        "mounts": ["/ (ext4 on /dev/vda1)"],
        "baselines": {"scheduler": "none"},
        "doubts": [],
    },
}  # fmt: skip
QUESTION = "Which I/O scheduler is faster on this disk?"


def study(blocks: int = 5) -> Study:
    return Study(
        question=QUESTION,
        name="scheduler",
        targets=(Target("disk", "loop", size=1 << 30),),
        workloads=tuple(Workload(name, "fio", options) for name, options in OPTIONS.items()),
        factors=(
            Factor(
                "scheduler",
                "tunable",
                tuple(Level(name, (("queue.scheduler", name),)) for name in LEVELS),
                subject="queue.scheduler",
                baseline="none",
            ),
        ),
        design=Design(blocks=blocks),
        decide=DecisionRule(primary=tuple(PRIMARY.items()), guardrails=(("read.clat.p99", 0.1),)),
        text=f'question = "{QUESTION}"\n\n[targets.disk]\nloop = {{ size = "1GiB" }}\n',
        digest="0123456789ab",
    )


def results(blocks: int = 5, seed: int = 1) -> Results:
    """12 trials a block (4 schedulers x 3 workloads) in a random order, with a slow drift; a few
    failed and INVALID, each INVALID one queued again."""
    rng = np.random.default_rng(seed)
    cells = [(workload, level) for workload in PRIMARY for level in LEVELS]
    planned: list[Trial] = []
    for block in range(1, blocks + 1):
        for cell in rng.permutation(len(cells)):
            planned.append(_trial(len(planned) + 1, block, cells[cell]))
    troubled = {4: "drift", 23: "steady-state", 38: "failed"}
    again = [dataclasses.replace(planned[n], attempt=2) for n in troubled if n < len(planned)]
    for trial in again:
        number = len(planned) + 1
        planned.append(dataclasses.replace(trial, number=number, id=f"{number * 7919:06x}"[-6:]))
    records = tuple(
        _record(trial, troubled.get(index, ""), rng) for index, trial in enumerate(planned)
    )
    doubts = (Doubt("noise", "the machine ran other work", "stop it and measure again"),)
    return Results(
        Path("results/scheduler"), study(blocks), tuple(planned), records, FACTS,
        {"scheduler": "none"}, doubts,
    )  # fmt: skip


def _trial(number: int, block: int, cell: tuple[str, str]) -> Trial:
    workload, level = cell
    ident = f"{number * 7919:06x}"[-6:]
    return Trial(number, ident, block, workload, (("scheduler", level),), "disk")


def _record(trial: Trial, trouble: str, rng: np.random.Generator) -> TrialRecord:
    level = dict(trial.treatment)["scheduler"]
    started = STARTED + (trial.number - 1) * 2.8 + rng.uniform(0, 0.2)
    values = (("queue.scheduler", level), *QUEUE[level], ("queue.read_ahead_kb", "128"))
    settings = tuple(("loop117", name, value) for name, value in values)
    doubts: tuple[Doubt, ...] = ()
    if trouble == "drift":
        what = "queue.nr_requests on loop117 was 256 before and 64 after"
        advice = "find who else writes to it (udev, tuned), and stop it for the study"
        doubts = (Doubt("drift", what, advice, invalid=True, trial=trial.folder),)
    elif trouble == "steady-state":
        what = "steady state was not reached in 2 s"
        advice = "make runtime or ramp_time longer"
        doubts = (Doubt("steady-state", what, advice, invalid=True, trial=trial.folder),)
    command = (
        "fio", "--output=fio.json", "--output-format=json+", "--filename=/dev/loop117",
        f"{trial.workload}.fio",
    )  # fmt: skip
    failed = trouble == "failed"
    return TrialRecord(
        trial,
        "failed" if failed else "invalid" if trouble else "valid",
        started,
        seconds=2.61,
        load_seconds=2.32,
        tool="fio",
        command=command,
        before=settings,
        after=settings,
        doubts=doubts,
        error="fio ended with exit status 1: io_uring_queue_init: Operation not permitted"
        if failed
        else "",
        measurements=() if failed else _measurements(trial, level, rng),
    )


def _measurements(trial: Trial, level: str, rng: np.random.Generator) -> tuple[Measurement, ...]:
    workload = trial.workload
    drift = 1 - 0.002 * (trial.block - 1) if trial.block < 20 else 0.96
    speed = EFFECTS[workload][level] * drift * float(np.exp(rng.normal(0, NOISE[workload])))
    value = TYPICAL[workload] * speed
    operation, quantity = PRIMARY[workload].split(".")
    size = 65536 if workload == "seqwrite" else 4096
    iops = value if quantity == "iops" else value / size
    depth = 8 if workload == "seqwrite" else 32
    mean = depth / iops
    made = [
        (f"{operation}.iops", iops, "1/s"),
        (f"{operation}.bw", iops * size, "bytes/s"),
        (f"{operation}.clat.mean", mean, "s"),
    ]
    for name, factor in (("p50", 0.86), ("p90", 1.7), ("p99", 3.4), ("p99.9", 11.0)):
        spread = float(np.exp(rng.normal(0, 0.03 if name != "p99.9" else 0.15)))
        made.append((f"{operation}.clat.{name}", mean * factor * spread, "s"))
    made += [("cpu.usr", 0.11, "fraction"), ("cpu.sys", 0.31, "fraction")]
    return tuple(Measurement(name, value, unit, raw="fio.json") for name, value, unit in made)


def comparison(of: Results) -> Comparison:
    """Plausible findings from the results themselves; not iotrial's own statistics."""
    findings = [
        _finding(of, workload, metric, level)
        for workload, metric in PRIMARY.items()
        for level in LEVELS[1:]
    ]
    guardrails = [
        dataclasses.replace(_finding(of, workload, "read.clat.p99", level), primary=False)
        for workload in ("randread", "randmix")
        for level in LEVELS[1:]
    ]
    return Comparison(
        QUESTION,
        tuple(findings + guardrails),
        "Keep none: for randread no other scheduler is faster, and bfq costs 18 %. "
        "For seqwrite mq-deadline may be faster; these trials cannot tell.",
        f"Randomised complete blocks, n = {of.study.design.blocks}; simultaneous 95 % intervals "
        "over 9 comparisons, from the pooled residual variance within blocks.",
        (("randread", 0.012), ("randmix", 0.024), ("seqwrite", 0.081)),
    )


def _finding(of: Results, workload: str, metric: str, level: str) -> Finding:
    logs = [_logs(of, workload, metric, name) for name in (level, "none")]
    blocks = sorted(set(logs[0]) & set(logs[1]))
    steps = np.array([logs[0][block] - logs[1][block] for block in blocks])
    middle = float(steps.mean())
    half = 3.2 * float(steps.std(ddof=1)) / len(blocks) ** 0.5
    low, high = (float(np.exp(middle + side)) for side in (-half, half))
    trials = tuple(r.trial.folder for r in of.valid if r.trial.workload == workload)
    verdict = _verdict(low, high, "clat" not in metric)
    told = verdict != "cannot-tell"
    return Finding(
        workload, metric, "scheduler", level, "none", float(np.exp(middle)), low, high,
        verdict, len(blocks), trials, noise=float(steps.std(ddof=1)),
        needs=None if told or "clat" in metric else _needs(middle, half, len(blocks)),
    )  # fmt: skip


def _needs(middle: float, half: float, blocks: int) -> RequiredBlocks:
    """Plausible as well: half widths fall with the root of the blocks."""
    away = max(abs(middle), 0.02)
    more = int(blocks * (1.5 * half / away) ** 2)
    return RequiredBlocks(
        float(np.expm1(away)), blocks + more, more, more * 84.0, same=away == 0.02
    )


def _verdict(low: float, high: float, more: bool) -> Verdict:  # noqa: FBT001
    if low > 0.98 and high < 1.02:
        return "same"
    if low > 1:
        return "better" if more else "worse"
    if high < 1:
        return "worse" if more else "better"
    return "cannot-tell"


def _logs(of: Results, workload: str, metric: str, level: str) -> dict[int, float]:
    found = {}
    for record in of.valid:
        value = record.value(metric)
        if record.trial.workload == workload and record.trial.treatment[0][1] == level and value:
            found[record.trial.block] = float(np.log(value))
    return found


def many() -> Results:
    """10,000 trials: 834 blocks of 12, cut to a round number."""
    whole = results(blocks=834)
    return dataclasses.replace(
        whole, planned=whole.planned[:10_000], records=whole.records[:10_000]
    )
