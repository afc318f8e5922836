"""What the live page costs: CPU of the server with nobody, one and many readers of its stream.

    ./dev bench live [--readers 50] [--seconds 20] [--targets 1 32]

A server of its own process is fed with samples once a second, as a run feeds it, and read by plain
readers of another.  CPU is that of the whole server process, the kernel's part for it included
(its CPU clock).  Exits 1 when the limit is not kept.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing as mp
import os
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

from _limits import Limits, run_main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import factories
from iotrial.live import address
from iotrial.live.live import LiveStatus
from iotrial.model.event import (
    CountersSampled,
    ResultsUpdated,
    SettingsInForce,
    TrialBegan,
    TrialEnded,
    TrialsPlanned,
)
from iotrial.model.results import TelemetrySample
from iotrial.model.tunable import Setting

LIMIT = 0.02
"""Of a core, with 50 readers."""
WARM = 3.0
_SCHEDULED = 2
"""CPUCLOCK_SCHED in the kernel's posix-timers.h."""


def serve(pipe: Connection, targets: int) -> None:
    """A run that goes on until it is told to stop: one trial, sampled once a second."""
    results = factories.results()
    trial = results.records[0].trial
    with tempfile.TemporaryDirectory() as folder:
        with LiveStatus(results.study, address.parse(address.FREE)) as live:
            live(TrialsPlanned(63, 63, Path(folder)))
            live(ResultsUpdated(results))
            for record in results.records[:12]:
                live(TrialEnded(record))
            live(TrialBegan(trial, 60.0))
            live(
                SettingsInForce("local", [Setting("sda", f"queue.q{n}", str(n)) for n in range(20)])
            )
            assert live.place
            pipe.send(live.place.url)
            t = 0
            while not pipe.poll(1.0):
                for number in range(targets):
                    live(CountersSampled(sample(number, t)))
                t += 1
        os._exit(0)


def sample(number: int, t: int) -> TelemetrySample:
    disk = {
        "reads": 98_765 * t, "sectors_read": 790_120 * t, "read_ms": 45_678 * t, "io_ms": 987 * t,
        "writes": 43_210 * t, "sectors_written": 345_680 * t, "write_ms": 9876 * t,
        "in_flight": 32,
    }  # fmt: skip
    cpu = {"user": 31 * t, "system": 17 * t, "idle": 144 * t, "iowait": 8 * t, "steal": 0}
    stalls = {what: {"some": 12_345 * t, "full": 1234 * t} for what in ("io", "cpu", "memory")}
    values = {"t": float(t), "disk": disk, "cpu": cpu, "pressure": stalls}
    return TelemetrySample(
        f"box{number // 4}", f"disk{number % 4}", f"sd{chr(97 + number % 4)}", values
    )


def used(pid: int) -> float:
    """Seconds of CPU of a process, to the nanosecond: /proc/PID/stat counts whole ticks, which
    short bursts fall between.  The clock's number is that of clock_getcpuclockid(3)."""
    return time.clock_gettime(((~pid) << 3) | _SCHEDULED)


class Reader(threading.Thread):
    """A plain reader of the stream: it reads, and looks at nothing."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        place = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(place.hostname), place.port)
        self._path = f"/stream?{place.query}"
        self.bytes = self.events = 0

    def run(self) -> None:
        self._connection.request("GET", self._path)
        answer = self._connection.getresponse()
        assert answer.status == 200, answer.status
        while line := answer.readline():
            self.bytes += len(line)
            self.events += line.startswith(b"event: ")


def measure(targets: int, readers: int, seconds: float) -> tuple[float, float, float]:
    """Share of a core, events a second of a reader, bytes of an event."""
    ours, theirs = mp.Pipe()
    process = mp.get_context("fork").Process(target=serve, args=(theirs, targets))
    process.start()
    assert process.pid
    url = ours.recv()
    crowd = [Reader(url) for _ in range(readers)]
    for reader in crowd:
        reader.start()
    time.sleep(WARM)
    told, sent = sum(r.events for r in crowd), sum(r.bytes for r in crowd)
    began, before = time.monotonic(), used(process.pid)
    time.sleep(seconds)
    cost, took = used(process.pid) - before, time.monotonic() - began
    events, size = sum(r.events for r in crowd) - told, sum(r.bytes for r in crowd) - sent
    ours.send("stop")
    process.join(10)
    return cost / took, events / took / max(readers, 1), size / max(events, 1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--targets", type=int, nargs="+", default=[1, 32])
    asked = parser.parse_args()
    print(
        f"{'targets':>8} {'readers':>8} {'share of a core':>16} {'events/s':>9} {'bytes/event':>12}"
    )
    limits = Limits()
    for targets in asked.targets:
        for readers in sorted({0, 1, asked.readers}):
            share, rate, size = measure(targets, readers, asked.seconds)
            print(f"{targets:>8} {readers:>8} {share:>16.2%} {rate:>9.2f} {size:>12,.0f}")
            if targets == asked.targets[0] and readers == asked.readers:
                limits.at_most("  share of a core", share, LIMIT)
    return limits.status()


if __name__ == "__main__":
    run_main(main)
