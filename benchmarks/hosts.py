"""Many hosts: how far apart loads begin, beside ``fio --client``; IOPS beside it; the controller.

    ./dev bench hosts [--hosts 16] [--rounds 20] [--seconds 3]

Needs root, fio, sshd and network namespaces (``tests/lab.py``): each host is one of them, all on
this kernel and its clock, so that the time of the first I/O in fio's own logs can be compared.
In each round both start the same job on all hosts, in random order:

- ``fio --client`` with one ``fio --server`` a host, started beforehand;
- a common moment (:mod:`iotrial.execute.load.barrier`) over SSH, sampled once a second as in a
  trial.

*Skew* is between the first and the last host's first I/O.  The controller is this process; its
ssh(1) processes are counted beside it.  Exits 1 when ours is worse than fio's, beyond 50 ms (p99),
loses IOPS (lower end of the 95 % interval of the ratio below 0.97), or takes more than 5 % of a
core.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scipy.stats import t as student

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from iotrial.execute.interruption import Interruption
from iotrial.execute.load import barrier
from iotrial.execute.load.load import LoadWatch, execute_load
from iotrial.execute.load.sampler import Sampler
from iotrial.execute.load.start import EACH, FIRST, lead
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.ssh import SSHHost
from iotrial.model.tool import Load
from iotrial.model.workload import Workload
from iotrial.tools.fio import TOOL
from lab import Box, Lab, why_not

PORT = 8765
SIZE = 16 * 2**20
SKEW, CONTROLLER, KEPT = 0.05, 0.05, 0.97


@dataclass
class Seen:
    """Of each round: skew in seconds and IOPS over all hosts; of ours also the skew that it told
    itself, how long after the moment the last host's first I/O came, the lead it asks for next, and
    the controller's share of a core from the moment on, without and with its ssh processes."""

    skew: list[float] = field(default_factory=list)
    iops: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    lead: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    with_ssh: list[float] = field(default_factory=list)


def job(file: Path, seconds: float) -> list[str]:
    """Options of one job: every I/O is noted, at a rate that all hosts together can keep up."""
    return [
        f"filename={file}", "rw=randread", "bs=4k", "ioengine=psync", f"size={SIZE}",
        f"runtime={seconds}", "time_based=1", "rate_iops=200", "write_lat_log=each",
        "log_unix_epoch=1",
    ]  # fmt: skip


def first_io(logs: Iterator[Path]) -> float:
    """Seconds since the epoch."""
    return min(int(log.read_text().split(",", 1)[0]) for log in logs) / 1000


def iops(report: Path) -> float:
    told = json.loads(report.read_text()[report.read_text().index("{") :])
    jobs = [j for j in told.get("jobs", told.get("client_stats", ())) if j["jobname"] == "r"]
    return float(sum(each["read"]["iops"] for each in jobs))


def by_client(boxes: list[Box], file: Path, seconds: float, folder: Path, seen: Seen) -> None:
    """One round of ``fio --client``."""
    folder.mkdir()
    words = folder / "job.fio"
    words.write_text("\n".join(["[r]", *job(file, seconds)]) + "\n")
    clients = [w for box in boxes for w in (f"--client=ip:{box.address},{PORT}", str(words))]
    command = ["fio", "--output=fio.json", "--output-format=json+", *clients]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    firsts = [
        first_io(log for log in folder.glob("each_clat*") if box.address in log.name)
        for box in boxes
    ]
    seen.skew.append(max(firsts) - min(firsts))
    seen.iops.append(iops(folder / "fio.json"))


def by_moment(hosts: list[SSHHost], file: Path, seconds: float, folder: Path, seen: Seen) -> None:
    """One round of ours."""
    folder.mkdir()
    argv = ("fio", "--output-format=json+", "--output=fio.json", "--eta=never", "--name=r")
    load = Load((*argv, *(f"--{each}" for each in job(file, seconds))))
    gated = TOOL.gated(load, Workload("r", "fio", ()), barrier.GATE)
    assert gated is not None
    with ThreadPoolExecutor(len(hosts)) as pool:
        offsets = dict(zip(hosts, pool.map(barrier.offset, hosts), strict=True))
        order = time.time()
        at = order + (seen.lead[-1] if seen.lead else FIRST + EACH * len(hosts))
        before, began = _cpu(), time.monotonic()

        def one(host: SSHHost) -> tuple[float, float]:
            own = folder / host.name
            (own / "part").mkdir(parents=True)
            (own / "part" / "command").write_text("fio\n")
            words = barrier.together({"part": gated.argv}, at + offsets[host].seconds, {"part"})
            start, took = time.monotonic(), []
            with Sampler(host, "", own / "telemetry.jsonl") as sampler:
                begins = host.clock() + at - time.time()
                watch = LoadWatch(
                    60.0,
                    lambda past: sampler.sample(past, math.inf if past else begins),
                    Interruption(),
                    begins=begins,
                    begun=lambda: took.append(time.monotonic() - start),
                )
                execute_load(host, words, folder=own, token="", watch=watch)
            ready = barrier.noted(own / "part", barrier.READY)
            return took[0], (ready or 0.0) - offsets[host].seconds - order

        started, ready = (max(each) for each in zip(*pool.map(one, hosts), strict=True))
    lasted = time.monotonic() - began - (at - order)
    after = _cpu()
    seen.lead.append(lead(started, ready))
    seen.share.append((after[0] - before[0]) / lasted)
    seen.with_ssh.append((sum(after) - sum(before)) / lasted)
    parts = [folder / host.name / "part" for host in hosts]
    firsts = [first_io(part.glob("each_clat*")) for part in parts]
    seen.skew.append(max(firsts) - min(firsts))
    told = [barrier.noted(part) or 0.0 for part in parts]
    seen.told.append(max(told) - min(told))
    seen.late.append(max(firsts) - at)
    seen.iops.append(sum(iops(part / "fio.json") for part in parts))


def _cpu() -> tuple[float, float]:
    """CPU seconds of this process, and of the children it has now or had."""
    times = os.times()
    ticks = os.sysconf("SC_CLK_TCK")
    living = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            tail = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(tail[1]) == os.getpid():
            living += (int(tail[11]) + int(tail[12])) / ticks
    own = times.user + times.system
    return own, times.children_user + times.children_system + living


@contextmanager
def servers(boxes: list[Box], folder: Path) -> Iterator[None]:
    """A ``fio --server`` in every box."""
    with ExitStack() as stack:
        for box in boxes:
            place = folder / f"server-{box.name}"
            place.mkdir()
            inside = ["nsenter", "-t", str(box.pid), "-m", "-n", "--"]
            process = subprocess.Popen(
                [*inside, "fio", f"--server=ip:{box.address},{PORT}"],
                cwd=place,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        time.sleep(1.0)
        yield


def simulated(counts: tuple[int, ...], folder: Path) -> dict[int, float]:
    """Hosts → CPU seconds of this process for one second's samples of so many made-up hosts."""
    found = {}
    for count in counts:
        with ExitStack() as stack:
            samplers = [
                stack.enter_context(Sampler(FakeHost(seed=n), "", folder / f"{count}-{n}.jsonl"))
                for n in range(count)
            ]
            began = time.process_time()
            for _ in range(5):
                for sampler in samplers:
                    sampler.sample(1.0)
            found[count] = (time.process_time() - began) / 5
    return found


def p99(values: list[float]) -> float:
    return sorted(values)[max(0, math.ceil(0.99 * len(values)) - 1)]


def measured(count: int, rounds: int, seconds: float, folder: Path) -> tuple[Seen, Seen]:
    """fio's client, and ours, in turns."""
    client, ours = Seen(), Seen()
    file = folder / "data"
    file.write_bytes(bytes(SIZE))
    (folder / "lab").mkdir()
    order = random.Random(1)
    with ExitStack() as stack:
        lab = Lab(folder / "lab")
        stack.callback(lab.close)
        boxes = [lab.box(f"box{number}") for number in range(1, count + 1)]
        hosts = [stack.enter_context(SSHHost(box.where, name=box.name)) for box in boxes]
        stack.enter_context(servers(boxes, folder))
        for number in range(rounds):
            turns: list[Callable[[], None]] = [
                lambda n=number: by_client(boxes, file, seconds, folder / f"c{n}", client),
                lambda n=number: by_moment(hosts, file, seconds, folder / f"m{n}", ours),
            ]
            for turn in order.sample(turns, 2):
                turn()
    return client, ours


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    if missing := why_not():
        print(f"not run: {missing}")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="iotrial-hosts-"))
    try:
        client, ours = measured(given.hosts, given.rounds, given.seconds, folder)
        growth = simulated((1, 4, 16, 64), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratios = [math.log(a / b) for a, b in zip(ours.iops, client.iops, strict=True)]
    half = math.inf
    if len(ratios) > 1:
        half = student.ppf(0.975, len(ratios) - 1) * statistics.stdev(ratios) / len(ratios) ** 0.5
    mean = statistics.fmean(ratios)
    theirs, own = statistics.median(client.skew), statistics.median(ours.skew)
    share = statistics.median(ours.share)
    rows: list[tuple[str, float, bool, str]] = [
        ("skew of fio --client, median (s)", theirs, True, ""),
        ("  p99", p99(client.skew), True, ""),
        ("skew of ours, median (s)", own, own <= theirs, "<= fio's"),
        ("  p99", p99(ours.skew), p99(ours.skew) <= SKEW, f"<= {SKEW}"),
        ("  as it tells itself, p99", p99(ours.told), True, ""),
        ("last first I/O after the moment, p99 (s)", p99(ours.late), True, ""),
        ("lead, the longest (s)", max(ours.lead), True, ""),
        ("IOPS, ours / fio --client", math.exp(mean), True, ""),
        ("  lower end", math.exp(mean - half), math.exp(mean - half) >= KEPT, f">= {KEPT}"),
        ("controller, share of a core", share, share <= CONTROLLER, f"<= {CONTROLLER}"),
        ("  with its ssh processes", statistics.median(ours.with_ssh), True, ""),
        *((f"samples of {n} made-up hosts (s)", took, True, "") for n, took in growth.items()),
    ]
    for name, value, good, limit in rows:
        print(f"{name:42} {value:10.4f}  {limit:10} {'' if good else 'NOT KEPT'}".rstrip())
    return 0 if all(good for _, _, good, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
