"""Loads whose truth is known: latencies that a test draws, and the report that fio would write of
them.  For tests of what iotrial makes of several hosts together.

Binning and percentiles are reckoned here on their own, from fio's ``stat.c``, and from all
latencies rather than from histograms.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from iotrial.hosts.fake.host import FakeProcess
from iotrial.hosts.fake.machine import FakeTask
from iotrial.model.host import CompletedCommand
from iotrial.model.step import Step, StepResult
from losable import Losable

BLOCK = 4096
BIN = 1 / 64
"""Width of a bin of fio's histograms, as a share of its least value."""
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True, slots=True)
class KnownLoad:
    """What one host's load is: ``latencies`` in nanoseconds, one an I/O, in ``seconds``; it goes
    on ``late`` seconds after the moment.  The clock of its host is ``ahead`` of ours."""

    latencies: tuple[int, ...]
    seconds: float
    late: float = 0.0
    ahead: float = 0.0

    @property
    def iops(self) -> float:
        return len(self.latencies) / self.seconds

    def report(self) -> str:
        """The report, as fio 3.33 writes it (json+)."""
        values = np.array(self.latencies, dtype=np.int64)
        bins = Counter(bin_of(each) for each in self.latencies)
        clat = {
            "min": int(values.min()), "max": int(values.max()), "mean": float(values.mean()),
            "stddev": float(values.std(ddof=1)), "N": len(values),
            "percentile": {f"{p:.6f}": bin_of(ranked(self.latencies, p)) for p in PERCENTILES},
            "bins": {str(value): bins[value] for value in sorted(bins)},
        }  # fmt: skip
        none = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
        milliseconds, size = round(self.seconds * 1000), BLOCK * len(values)
        read = {
            "io_bytes": size, "io_kbytes": size // 1024, "bw_bytes": int(size / self.seconds),
            "bw": int(size / self.seconds / 1024), "iops": self.iops, "runtime": milliseconds,
            "total_ios": len(values), "short_ios": 0, "drop_ios": 0, "slat_ns": none,
            "clat_ns": clat, "lat_ns": {k: v for k, v in clat.items() if k != "bins"},
        }  # fmt: skip
        idle = {
            "io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0,
            "total_ios": 0, "short_ios": 0, "drop_ios": 0, "slat_ns": none, "clat_ns": none,
            "lat_ns": none,
        }  # fmt: skip
        job = {
            "jobname": "reads", "groupid": 0, "error": 0, "elapsed": int(self.seconds) + 1,
            "job options": {"name": "reads", "rw": "randread", "bs": "4k"},
            "read": read, "write": idle, "trim": idle, "job_runtime": milliseconds,
            "usr_cpu": 1.0, "sys_cpu": 2.0, "ctx": len(values), "majf": 0, "minf": 0,
        }  # fmt: skip
        return json.dumps(
            {"fio version": "fio-3.33", "timestamp": 1, "global options": {}, "jobs": [job]}
        )


def drawn(seed: int, iops: float, seconds: float, *, median: float, late: float = 0.0) -> KnownLoad:
    """A load of so many I/Os a second with log-normal latencies around ``median`` (seconds)."""
    rng = np.random.default_rng(seed)
    values = rng.lognormal(np.log(median * 1e9), 0.6, round(iops * seconds)).astype(np.int64)
    return KnownLoad(tuple(values.tolist()), seconds, late)


def bin_of(nanoseconds: int) -> int:
    """What fio prints of a latency: the middle of its bin, 64 of which are in a power of two."""
    bits = max(0, nanoseconds.bit_length() - 7)
    return (nanoseconds >> bits << bits) + (1 << bits >> 1)


def ranked(latencies: Sequence[int], p: float) -> int:
    """The nearest-rank percentile of these very values."""
    ordered = sorted(latencies)
    return ordered[max(0, -(-len(ordered) * round(p * 1000) // 100_000) - 1)]


class KnownHost(Losable):
    """A pretended host behind a link, whose loads are known; ``truth`` may be changed between
    trials.  It is lost in the middle of its load with the number ``cut_under`` (from 1)."""

    remote = True

    def __init__(self, name: str, truth: KnownLoad, *, seed: int) -> None:
        super().__init__(seed=seed)
        self.name, self.truth = name, truth
        self.cut_under = self._begun = 0
        self._cut_at = math.inf

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        if argv[0] == "date":
            return CompletedCommand(
                tuple(argv), 0, f"{time.time() + self.truth.ahead:.9f}\n".encode(), b""
            )
        return super().run(argv, stdin=stdin, timeout=timeout)

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        self.cut |= self.machine.clock >= self._cut_at
        return super().batch(steps)

    def mend(self) -> None:
        """The link is there again."""
        self.cut, self._cut_at = False, math.inf

    def start(
        self, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> FakeProcess:
        process = super().start(argv, folder=folder, environment=environment)
        together = "iotrial-together" in argv
        if together or "--output=fio.json" in argv:
            self._begun += 1
            moment = int(argv[argv.index("iotrial-together") + 1]) if together else 0
            self._know(self.machine.tasks[process.pid], moment, folder)
        return process

    def _know(self, leader: FakeTask, moment: int, folder: Path) -> None:
        """The load does what its truth says."""
        truth, finish = self.truth, leader.finish
        for task in self.machine.tasks.values():
            if task.group == leader.group:
                # What waits for a moment knows our clock alone.
                task.begins += truth.late - (truth.ahead if moment else 0.0)
                task.ends = task.begins + truth.seconds
        sectors = BLOCK // 512
        leader.moves = dict.fromkeys(leader.moves, (truth.iops, truth.iops * sectors, 0.0, 0.0))
        if self._begun == self.cut_under:
            self._cut_at = leader.begins + truth.seconds / 2

        def told() -> int:
            status = finish()
            for place in folder.glob("**/fio.json"):
                place.write_text(truth.report())
                (place.parent / "began").write_text(f"{moment + round(truth.late * 1e9)}\n")
            return status

        leader.finish = told
