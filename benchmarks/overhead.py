"""What iotrial costs: fio inside iotrial against bare fio, in one run, interleaved.

    ./dev bench overhead [--pairs 60] [--seconds 2]

Needs root (a loop device is made).  Prints each figure beside its limit; exits 1 when one is not
kept.  The ratio is of IOPS, pair by pair, with a 95 % t interval on the log scale; the order
within a pair is random.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from _limits import Limits, machine, median_of, ratio_of, run_main

from iotrial.execute.hosts import Hosts, open_hosts
from iotrial.execute.interruption import Interruption
from iotrial.execute.manual import ManualLevels, TrialLimits
from iotrial.execute.prepare import prepare
from iotrial.execute.session import HostSession
from iotrial.execute.settings.restore import RestoreReport
from iotrial.execute.trial import execute_trial
from iotrial.hosts.local import LocalHost, wakeup_pipe
from iotrial.model.event import ignore
from iotrial.model.study import Study
from iotrial.model.tool import aimed_at
from iotrial.model.trial import Trial, TrialRecord
from iotrial.plan.available import HostCapabilities
from iotrial.plan.design import workload_of
from iotrial.plan.load import parse_study
from iotrial.plan.stages import next_trials
from iotrial.store import Store, create
from iotrial.tools import tool

STUDY = """
question = "What does iotrial cost?"
[targets.disk]
loop = {{ size = "256MiB", directory = "{folder}" }}
[workloads.randread]
tool = "fio"
[workloads.randread.options]
rw = "randread"
bs = "4k"
iodepth = 32
ramp_time = "500ms"
runtime = "{seconds:.0f}s"
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "mq-deadline"]
[design]
blocks = {blocks}
settle = "0s"
[decide]
primary = {{ randread = "read.iops" }}
"""


@dataclasses.dataclass
class Pair:
    """IOPS and the costs of one trial beside its bare twin."""

    inside: float
    bare: float
    controller: float
    outside: float


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _bare(session: HostSession, trial: Trial, facts: dict[str, float], folder: Path) -> float:
    """The same command under the same settings, without iotrial around it."""
    folder.mkdir()
    workload = workload_of(session.study, trial)
    load = tool("fio").command(workload, aimed_at(session.aims[trial.target]), facts)
    for name, content in load.files:
        (folder / name).write_bytes(content)
    subprocess.run(load.argv, cwd=folder, check=True, capture_output=True, timeout=120)
    return sum(job["read"]["iops"] for job in json.loads((folder / "fio.json").read_text())["jobs"])


def pairs(count: int, seconds: float, folder: Path) -> list[Pair]:
    text = STUDY.format(folder=folder, seconds=seconds, blocks=(count + 1) // 2)
    study = parse_study(text, "overhead", str)
    order = random.Random(1)
    found = []
    with Interruption() as interruption, wakeup_pipe() as wakeup:
        host = LocalHost(wakeup=wakeup, purpose="overhead")
        with open_hosts(
            study,
            lambda _place: nullcontext(host),
            results=folder,
            payment=RestoreReport(),
            said=str,
        ) as hosts:
            store = prepare(hosts, folder / "results", interruption)
            hands = ManualLevels(hosts.first, ignore, None, interruption)
            limits = TrialLimits(ignore, interruption, hands)
            trials = next_trials(study, (), ())[:count]
            execute_trial(hosts, store, dataclasses.replace(trials[0], number=9999), limits)
            for trial in trials:
                found.append(_pair(hosts, store, trial, limits, order, folder))
                interruption.check()
    return found


def _pair(  # noqa: PLR0913, PLR0917
    hosts: Hosts,
    store: Store,
    trial: Trial,
    limits: TrialLimits,
    order: random.Random,
    folder: Path,
) -> Pair:
    session = hosts.first

    def inside() -> tuple[TrialRecord, float]:
        before = _cpu()
        record = execute_trial(hosts, store, trial, limits)
        return record, _cpu() - before

    def bare() -> float:
        from iotrial.plan.design import settings  # noqa: PLC0415

        session.hold(settings(session.study, trial, session.topologies))
        return _bare(session, trial, hosts.first.numbers, folder / f"bare-{trial.number}")

    if order.random() < 0.5:
        (record, cpu), iops = inside(), bare()
    else:
        iops = bare()
        # The trial must apply its settings itself: that is part of what it costs.
        session.release()
        record, cpu = inside()
    value = record.value("read.iops")
    if value is None:
        raise SystemExit(f"trial {trial.folder}: {record.state}: {record.error}")
    return Pair(value, iops, cpu / record.seconds, record.seconds - record.load_seconds)


def ten_thousand(folder: Path) -> dict[str, float]:
    """Planning, and compare and report over 10,000 trials, as whole processes."""
    study = parse_study(STUDY.format(folder=folder, seconds=2, blocks=5000), "large", str)
    began = time.perf_counter()
    trials = next_trials(study, (), ())
    planned = time.perf_counter() - began
    results = folder / "large"
    _lay_out(results, study, trials, folder / "results")
    figures = {"plan 10,000 trials (s)": planned}
    for verb in ("compare", "report"):
        figures |= _process(verb, results)
    return figures


def _lay_out(results: Path, study: Study, trials: tuple[Trial, ...], source: Path) -> None:
    """A results folder of 10,000 trials, each a copy of a real one with noise on its numbers."""
    pattern = next(path for path in sorted((source / "trials").iterdir()) if path.is_dir())
    model = json.loads((pattern / "trial.json").read_text())
    create(results, study, HostCapabilities()).append_plan(trials)
    shutil.copytree(source / "hosts", results / "hosts")
    rows = {
        json.loads(line)["folder"]: json.loads(line)
        for line in (source / "measurements.jsonl").read_text().splitlines()
    }
    row = rows[pattern.name]
    noise = random.Random(2)
    with (results / "measurements.jsonl").open("w") as derived:
        for trial in trials:
            folder = results / "trials" / trial.folder
            folder.mkdir()
            for path in pattern.iterdir():
                os.link(path, folder / path.name)
            (folder / "trial.json").unlink()
            planned = {
                "number": trial.number,
                "id": trial.id,
                "block": trial.block,
                "workload": trial.workload,
                "treatment": dict(trial.treatment),
                "target": trial.target,
                "attempt": 1,
            }
            started = model["started"] + 3 * trial.number
            (folder / "trial.json").write_text(
                json.dumps(model | {"trial": planned, "started": started})
            )
            factor = math.exp(noise.gauss(0, 0.05))
            values = {k: [v[0] * factor, *v[1:]] for k, v in row["values"].items()}
            line = row | {
                "trial": planned, "started": started, "folder": trial.folder, "values": values
            }  # fmt: skip
            derived.write(json.dumps(line) + "\n")


def _process(verb: str, results: Path) -> dict[str, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", verb, str(results)],
        check=True, stdout=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = max(after.ru_maxrss, before.ru_maxrss) / 1024
    return {f"{verb} 10,000 trials (s)": took, f"{verb} 10,000 trials, peak (MB)": peak}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=2.0)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="iotrial-bench-", dir="/var/tmp"))
    os.environ["IOTRIAL_STATE"] = str(folder / "state")
    try:
        measured = pairs(asked.pairs, asked.seconds, folder)
        large = ten_thousand(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    limits = Limits(42)
    print(machine())
    judged(limits, measured, large)
    return limits.status()


def judged(limits: Limits, measured: list[Pair], large: dict[str, float]) -> None:
    ratio = ratio_of([pair.inside for pair in measured], [pair.bare for pair in measured])
    limits.tell("IOPS inside / bare", ratio)
    limits.at_least("  lower end of its 95 % interval", ratio[1][0], 0.97)
    limits.at_most(
        "controller and sampler, share of a core",
        median_of([pair.controller for pair in measured]), 0.01, form=".4f",
    )  # fmt: skip
    limits.at_most(
        "wall time outside the tool (s)", median_of([pair.outside for pair in measured]), 0.3
    )
    for name, value in large.items():
        limits.at_most(name, value, 1.0 if "plan" in name else 500.0 if "peak" in name else 5.0)


if __name__ == "__main__":
    run_main(main)
