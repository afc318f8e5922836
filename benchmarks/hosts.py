"""Many hosts: how far apart loads begin, and what they reach, beside ``fio --client``.

    ./dev bench hosts [--hosts 16] [--rounds 20] [--seconds 3]

Needs root, fio, sshd and network namespaces (``tests/lab.py``): each host is one of them, all on
this kernel and its clock, so that the time of the first I/O in fio's own logs can be compared.
In each round the same jobs are started on all hosts, in random order by:

- ``fio --client`` with one ``fio --server`` a host, started beforehand;
- iotrial: a common moment (:mod:`iotrial.execute.load.barrier`) over SSH, sampled once a second as
  in a trial;
- iotrial with ``start = "server"``: fio's client and server, started by iotrial for each load.

Each of them starts two jobs: one at 200 IOPS that notes every I/O, which tells the *skew* between
the first and the last host's first I/O; and one without any cap and without logs, which tells what
is left of the IOPS (all hosts share these CPUs, so whatever iotrial takes is missing there).  The
controller is this process; its ssh(1) processes are counted beside it.  Exits 1 when the skew of
ours is worse than fio's, beyond 50 ms (p99), when IOPS are lost (less than 0.97 of fio's, capped or
not), or when the controller takes more than 5 % of a core: of one that does the fixed piece of
Python of ``thousand`` in 0.41 s, and that is timed before each round.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from _limits import Limits, machine, mean_of, median_of, note, ratio_of, run_main
from thousand import fixed

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from iotrial.execute.interruption import Interruption
from iotrial.execute.load import barrier
from iotrial.execute.load.load import LoadWatch, execute_load
from iotrial.execute.load.sampler import Sampler
from iotrial.execute.load.served import ToolClient, through
from iotrial.execute.load.start import EACH, FIRST, SERVED, lead
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.ssh import SSHHost
from iotrial.model.tool import Load
from iotrial.model.workload import Workload
from iotrial.tools.fio import TOOL
from lab import Box, Lab, why_not

PORT = 8765
SIZE = 16 * 2**20
SKEW, CONTROLLER, KEPT = 0.05, 0.05, 0.97
PIECE = 0.41
"""CPU seconds of the fixed piece of Python on the core that :data:`CONTROLLER` is a share of."""


@dataclass
class Seen:
    """Of one way to start one job, in each round: skew in seconds and IOPS over all hosts; of ours
    also the skew that it told itself, how long after the moment the last host's first I/O came, the
    lead it asks for next, and the controller's share of a core from the moment on, without and with
    its ssh processes."""

    skew: list[float] = field(default_factory=list)
    iops: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    lead: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    with_ssh: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    """``capped``: every I/O is noted, at a rate that all hosts together can keep up."""

    file: Path
    seconds: float
    capped: bool

    def options(self) -> list[str]:
        plain = [
            f"filename={self.file}", "rw=randread", "bs=4k", "ioengine=psync", f"size={SIZE}",
            f"runtime={self.seconds}", "time_based=1",
        ]  # fmt: skip
        noted = ["rate_iops=200", "write_lat_log=each", "log_unix_epoch=1"]
        return [*plain, *noted] if self.capped else plain


def first_io(logs: Iterator[Path]) -> float:
    """Seconds since the epoch."""
    return min(int(log.read_text().split(",", 1)[0]) for log in logs) / 1000


def iops(report: Path) -> float:
    told = json.loads(report.read_text()[report.read_text().index("{") :])
    jobs = [j for j in told.get("jobs", told.get("client_stats", ())) if j["jobname"] == "r"]
    return float(sum(each["read"]["iops"] for each in jobs))


def by_client(boxes: list[Box], job: Job, folder: Path, seen: Seen) -> None:
    """One round of ``fio --client``."""
    folder.mkdir()
    words = folder / "job.fio"
    words.write_text("\n".join(["[r]", *job.options()]) + "\n")
    clients = [w for box in boxes for w in (f"--client=ip:{box.address},{PORT}", str(words))]
    command = ["fio", "--output=fio.json", "--output-format=json+", *clients]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    if job.capped:
        firsts = [
            first_io(log for log in folder.glob("each_clat*") if box.address in log.name)
            for box in boxes
        ]
        seen.skew.append(max(firsts) - min(firsts))
    seen.iops.append(iops(folder / "fio.json"))


@dataclass
class Ours:
    """iotrial's way; ``served``: by fio's own client and server.  ``lead`` is asked for by the
    last load for the next."""

    hosts: list[SSHHost]
    served: bool
    lead: float = 0.0

    def start(self, job: Job, folder: Path, seen: Seen) -> None:
        """One round."""
        folder.mkdir()
        argv = ("fio", "--output-format=json+", "--output=fio.json", "--eta=never", "--name=r")
        load = Load((*argv, *(f"--{each}" for each in job.options())))
        gated = TOOL.gated(load, Workload("r", "fio", ()), barrier.GATE)
        assert gated is not None
        with ThreadPoolExecutor(len(self.hosts)) as pool:
            offsets = dict(zip(self.hosts, pool.map(barrier.offset, self.hosts), strict=True))
            order = time.time()
            first = (FIRST + EACH * len(self.hosts)) * (SERVED if self.served else 1)
            at = order + (self.lead or first)
            # Counted from the moment on: what makes hosts ready ends before the load.
            before: list[tuple[float, float]] = []
            moment = threading.Timer(at - time.time(), lambda: before.append(_cpu()))
            moment.daemon = True  # a round that fails, or Ctrl-C, does not wait for it
            moment.start()

            def one(host: SSHHost) -> tuple[float, float]:
                own = folder / host.name
                took, ahead = self._on(host, gated, own, at, offsets[host].seconds)
                ready = barrier.noted(own / "part", barrier.READY)
                return took, (ready or 0.0) - ahead - order

            started, ready = (
                max(each) for each in zip(*pool.map(one, self.hosts), strict=True)
            )  # fmt: skip
        after, lasted = _cpu(), time.time() - at
        moment.join()
        self.lead = lead(started, ready)
        seen.lead.append(self.lead)
        seen.share.append((after[0] - before[0][0]) / lasted)
        seen.with_ssh.append((sum(after) - sum(before[0])) / lasted)
        parts = [folder / host.name / "part" for host in self.hosts]
        if job.capped:
            firsts = [first_io(part.glob("each_clat*")) for part in parts]
            seen.skew.append(max(firsts) - min(firsts))
            seen.late.append(max(firsts) - at)
        told = [barrier.noted(part) or 0.0 for part in parts]
        seen.told.append(max(told) - min(told))
        seen.iops.append(sum(iops(part / "fio.json") for part in parts))

    def _on(
        self, host: SSHHost, gated: Load, own: Path, at: float, ahead: float
    ) -> tuple[float, float]:
        """The load of one host, sampled; how long starting took."""
        (own / "part").mkdir(parents=True)
        (own / "part" / "command").write_text("fio\n")
        argv, execute = gated.argv, execute_load
        if self.served:
            argv, socket = TOOL.serving()
            load, link = TOOL.client(gated)
            execute = through([ToolClient(TOOL, own / "part", load, link, socket)])
        words = barrier.together({"part": argv}, at + ahead, {"part"})
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
            token = f"bench-{own.parent.name}-{host.name}"
            execute(host, words, folder=own, token=token, watch=watch)
        return took[0], ahead


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


Found = dict[str, Seen]
"""By ``WAY JOB``: ``client capped``, ``served full`` …"""
WAYS, JOBS = ("client", "ours", "served"), ("capped", "full")


def measured(count: int, rounds: int, seconds: float, folder: Path) -> tuple[Found, list[float]]:
    """Each way with each job, in turns, and the fixed piece's CPU seconds before each round."""
    pieces: list[float] = []
    found: Found = {f"{way} {job}": Seen() for way in WAYS for job in JOBS}
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
        own = {way: Ours(hosts, served=way == "served") for way in ("ours", "served")}
        for number in range(rounds):
            pieces.append(fixed().cpu)
            for name in order.sample(list(found), len(found)):
                way, _, what = name.partition(" ")
                job = Job(file, seconds, capped=what == "capped")
                place = folder / f"{way}-{what}-{number}"
                if way == "client":
                    by_client(boxes, job, place, found[name])
                else:
                    own[way].start(job, place, found[name])
                shutil.rmtree(place)
            note(f"round {number + 1} of {rounds}")
    return found, pieces


def judged(limits: Limits, found: Found, pieces: Sequence[float], growth: dict[int, float]) -> None:
    theirs = found["client capped"]
    limits.tell("skew of fio --client, median (s)", median_of(theirs.skew), form=".4f")
    limits.tell("  p99", p99(theirs.skew), form=".4f")
    for way, name in (("ours", "ours"), ("served", 'ours, start = "server"')):
        own, full = found[f"{way} capped"], found[f"{way} full"]
        limits.at_most(
            f"skew of {name}, median (s)", median_of(own.skew), median_of(theirs.skew)[0],
            form=".4f", beside="fio's",
        )  # fmt: skip
        limits.at_most("  p99", p99(own.skew), SKEW, form=".4f")
        limits.tell("  as it tells itself, p99", p99(own.told), form=".4f")
        limits.tell("  last first I/O after the moment, p99 (s)", p99(own.late), form=".4f")
        limits.tell("  lead, the longest (s)", max(own.lead))
        limits.at_least("  IOPS / those of fio --client", ratio_of(own.iops, theirs.iops), KEPT)
        limits.at_least(
            "  the same, uncapped", ratio_of(full.iops, found["client full"].iops), KEPT
        )
    limits.tell("kIOPS of fio --client, uncapped",
                mean_of([each / 1000 for each in found["client full"].iops]))  # fmt: skip
    own = found["ours capped"]
    limits.tell("a fixed piece of Python, CPU (s)", mean_of(pieces))
    limits.tell("controller, share of a core", median_of(own.share), form=".4f")
    shares = [share * PIECE / each for share, each in zip(own.share, pieces, strict=True)]
    limits.at_most(
        f"  of a core that does the piece in {PIECE} s", median_of(shares), CONTROLLER, form=".4f"
    )
    limits.tell("  with its ssh processes", median_of(own.with_ssh), form=".4f")
    limits.tell("  with a client for each host", median_of(found["served capped"].with_ssh))
    for count, took in growth.items():
        limits.tell(f"samples of {count} made-up hosts (s)", took, form=".4f")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    limits = Limits(44)
    if missing := why_not():
        limits.unmeasured("hosts", missing)
        return limits.status()
    folder = Path(tempfile.mkdtemp(prefix="iotrial-hosts-"))
    try:
        found, pieces = measured(given.hosts, given.rounds, given.seconds, folder)
        growth = simulated((1, 4, 16, 64), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(machine())
    print(f"{given.hosts} hosts, {given.rounds} rounds")
    judged(limits, found, pieces, growth)
    return limits.status()


if __name__ == "__main__":
    run_main(main)
