"""A pretended fio 3.33: what it would move, for how long, and the json+ it would write.

Rates depend on what a study may vary (scheduler, depth, block size, direction) and on log-normal
noise seeded by (seed, number of the load), so that a pretended study has a truth to be found:
``EFFECT`` times the rate under ``none``.  The layout of the result is that of a real fio 3.33.
"""

from __future__ import annotations

import json
import math
import random
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

from iotrial.units import parse_bytes, parse_seconds

VERSION = "fio-3.33"
EFFECT = {"none": 1.0, "bfq": 0.82, "mq-deadline": 0.90, "kyber": 0.90}
NOISE = 0.03
"""Standard deviation of one load on the log scale."""

ENGINES = ("cpuio", "io_uring", "libaio", "mmap", "null", "posixaio", "psync", "sync")
_ASYNCHRONOUS = ("io_uring", "libaio", "posixaio")
_CEILING = 60_000.0  # operations per second
_BANDWIDTH = 1.2e9  # bytes per second
_HALFWAY = 8.0  # depth at which half the ceiling is reached
_SPREAD = 0.35  # of latencies, on the log scale
_PERCENTILES = {
    f"{percent:.6f}": percent
    for percent in (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
}
_QUANTILES = tuple(
    math.exp(_SPREAD * NormalDist().inv_cdf((i + 0.5) / 200)) for i in range(200)
)  # of the latencies, in ascending order; 1 is the median

Options = dict[str, str]


@dataclass(frozen=True, slots=True)
class FakeJob:
    name: str
    options: Options

    @property
    def depth(self) -> int:
        engine = self.options.get("ioengine", "psync")
        depth = int(self.options.get("iodepth", "1")) if engine in _ASYNCHRONOUS else 1
        return depth * self.clones

    @property
    def clones(self) -> int:
        return int(self.options.get("numjobs", "1"))

    @property
    def offered(self) -> float:
        """The rate that all its clones offer together; 0: as much as they can."""
        return float(self.options.get("rate_iops", "0").split(",")[0]) * self.clones

    @property
    def waits(self) -> bool:
        """Whether it begins when those before it have ended."""
        return any(self.options.get(key, "0") != "0" for key in ("stonewall", "wait_for_previous"))

    @property
    def block(self) -> int:
        return parse_bytes(self.options.get("bs", "4k").split(",")[0])

    @property
    def ramp(self) -> float:
        return parse_seconds(self.options.get("ramp_time", "0"))

    @property
    def reads(self) -> float:
        """The share of operations that read."""
        how = self.options.get("rw", "read")
        if how in ("rw", "readwrite", "randrw"):
            return int(self.options.get("rwmixread", "50")) / 100
        return 1.0 if how in ("read", "randread") else 0.0

    @property
    def path(self) -> str:
        if "filename" in self.options:
            return self.options["filename"].replace("\\:", ":")
        named = self.options.get("filename_format", f"{self.name}.0.0").replace("$jobnum", "0")
        return f"{self.options.get('directory', '.')}/{named}"


@dataclass(frozen=True, slots=True)
class FioCommand:
    """What a command line asks for.  ``output`` is empty for stdout."""

    jobs: tuple[FakeJob, ...]
    everywhere: Options = field(default_factory=dict)
    output: str = ""


@dataclass(frozen=True, slots=True)
class JobResult:
    """A job with what it achieves: operations per second and how long it measures.  ``depth`` is
    how many are in flight where they are not those of the whole job (0); ``group`` counts the jobs
    that others wait for."""

    job: FakeJob
    rate: float
    seconds: float
    depth: float = 0.0
    group: int = 0


def parse(argv: Sequence[str], folder: Path) -> FioCommand:
    """Options and job files of a fio command line, as far as a study uses them.

    Raises ValueError, with fio's words, for a job file that is not there.
    """
    if all(word.startswith("--") for word in argv[1:]):
        return _of_options(tuple(argv))
    return _parsed(argv, folder)


@lru_cache(maxsize=256)
def _of_options(argv: tuple[str, ...]) -> FioCommand:
    """Without job files it follows from the words alone, and hosts that are alike get the same.
    Nobody changes what is parsed."""
    return _parsed(argv, Path())


def _parsed(argv: Sequence[str], folder: Path) -> FioCommand:
    everywhere: Options = {}
    jobs: list[FakeJob] = []
    output = ""
    for word in argv[1:]:
        if not word.startswith("--"):
            more, found = _job_file(folder / word, word)
            everywhere |= more
            jobs += found
            continue
        key, _, value = word.removeprefix("--").partition("=")
        if key == "output":
            output = value
        elif key == "name":
            jobs.append(FakeJob(value, {}))
        elif jobs:
            jobs[-1].options[_plain(key)] = value or "1"
        else:
            everywhere[_plain(key)] = value or "1"
    if not jobs:
        raise ValueError("No job(s) defined")
    whole = (replace(job, options={**everywhere, **job.options}) for job in jobs)
    return FioCommand(tuple(whole), everywhere, output)


def _plain(key: str) -> str:
    return {"readwrite": "rw", "blocksize": "bs"}.get(key, key)


def _job_file(path: Path, word: str) -> tuple[Options, list[FakeJob]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:
        raise ValueError(f"fio: unable to open '{word}' job file") from None
    everywhere: Options = {}
    jobs: list[FakeJob] = []
    for line in map(str.strip, lines):
        if not line or line[0] in ";#":
            continue
        if head := re.fullmatch(r"\[(.+)\]", line):
            jobs += [] if head[1] == "global" else [FakeJob(head[1], {})]
            continue
        key, _, value = line.partition("=")
        (jobs[-1].options if jobs else everywhere)[_plain(key.strip())] = value.strip() or "1"
    return everywhere, jobs


def work(job: FakeJob, scheduler: str, luck: random.Random, pace: float = 1.0) -> JobResult:
    """What a job achieves under a scheduler, on a disk that has this share of its rate."""
    ceiling = min(_CEILING, _BANDWIDTH / job.block)
    rate = ceiling * job.depth / (job.depth + _HALFWAY) * EFFECT.get(scheduler, 1.0)
    rate *= pace * math.exp(luck.gauss(0.0, NOISE))
    if job.offered:
        return _offering(job, rate)
    runtime = parse_seconds(job.options.get("runtime", "0"))
    size = job.options.get("size", "0")
    amount = 0 if "%" in size else parse_bytes(size)
    whole = amount * job.clones / (rate * job.block)
    if runtime and ("time_based" in job.options or not whole):
        return JobResult(job, rate, runtime)
    return JobResult(job, rate, min(whole, runtime) if runtime else max(whole, 0.001))


def _offering(job: FakeJob, most: float) -> JobResult:
    """A load that offers a rate, of a storage that gives its clones ``most`` where they never
    pause: the nearer to what it can do at all, the longer an I/O takes (M/M/1)."""
    whole = most * (job.depth + _HALFWAY) / job.depth
    rate = min(job.offered, most)
    least = _HALFWAY / whole
    waiting = min(job.depth, rate * least / max(1 - rate / whole, least * rate / job.depth))
    return JobResult(job, rate, parse_seconds(job.options.get("runtime", "1s")), waiting)


def after_each_other(works: Sequence[JobResult]) -> list[list[JobResult]]:
    """The jobs by the moments at which they begin, each with the number of its group."""
    groups: list[list[JobResult]] = []
    for each in works:
        if each.job.waits or not groups:
            groups.append([])
        groups[-1].append(replace(each, group=len(groups) - 1))
    return groups


def lasting(group: Sequence[JobResult]) -> float:
    """Seconds until the last of jobs that begin together has ended."""
    return max(each.job.ramp + each.seconds for each in group)


def result(command: FioCommand, works: Sequence[JobResult], disk: str, now: float) -> bytes:
    """The json+ document, on one line: a thousand of them are written and read."""
    entries = []
    for each in works:
        grouped = "group_reporting" in each.job.options
        clones = 1 if grouped else each.job.clones
        one = replace(each, rate=each.rate / clones, depth=(each.depth or each.job.depth) / clones)
        entries += [_entry(one)] * clones
    document = {
        "fio version": VERSION,
        "timestamp": int(now),
        "timestamp_ms": int(now * 1000),
        "time": "Thu Jan  1 00:00:00 1970",
        "global options": command.everywhere,
        "jobs": entries,
        "disk_util": [_utilisation(works, disk)] if disk else [],
    }
    return (json.dumps(document) + "\n").encode()


def _entry(each: JobResult) -> dict[str, Any]:
    job, reads = each.job, each.job.reads
    depth = job.depth
    return {
        "jobname": job.name,
        "groupid": each.group,
        **({"desc": job.options["description"]} if "description" in job.options else {}),
        "error": 0,
        "eta": 0,
        "elapsed": int(job.ramp + each.seconds) + 1,
        "job options": {"name": job.name, **job.options},
        "read": _direction(each, reads),
        "write": _direction(each, 1.0 - reads),
        "trim": _direction(each, 0.0),
        "sync": {"total_ios": 0, "lat_ns": _spread(0, 0, 0.0, 0.0, 0)},
        "job_runtime": int(each.seconds * 1000),
        "usr_cpu": 2.5,
        "sys_cpu": min(95.0, each.rate / 2000),
        "ctx": int(each.rate * each.seconds / 4),
        "majf": 0,
        "minf": 12,
        "iodepth_level": {
            level: 100.0 if level == _level(depth) else 0.0
            for level in ("1", "2", "4", "8", "16", "32", ">=64")
        },
        **{f"latency_{unit}": {"1000": 0.0} for unit in ("ns", "us", "ms")},
        "latency_depth": depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    }


def _level(depth: int) -> str:
    level = 1 << (depth.bit_length() - 1)
    return str(level) if level <= 32 else ">=64"  # noqa: PLR2004 (fio's last level but one)


def _direction(each: JobResult, share: float) -> dict[str, Any]:
    total = round(each.rate * each.seconds * share)
    moved = total * each.job.block
    rate = total / each.seconds if each.seconds else 0.0
    mean = (each.depth or each.job.depth) / each.rate * 1e9  # Little's law
    samples = max(1, int(each.seconds * 2)) if total else 0
    return {
        "io_bytes": moved,
        "io_kbytes": moved // 1024,
        "bw_bytes": int(rate * each.job.block),
        "bw": int(rate * each.job.block) // 1024,
        "iops": round(rate, 6),
        "runtime": int(each.seconds * 1000) if total else 0,
        "total_ios": total,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": _spread(900, 90_000, 2000.0, 500.0, total),
        "clat_ns": _told("clat", each.job, mean, total),
        "lat_ns": _told("lat", each.job, mean + 2000, total),
        **_figures("bw", rate * each.job.block / 1024, samples),
        "bw_agg": 100.0 if total else 0.0,
        **_figures("iops", rate, samples),
    }


def _figures(name: str, value: float, samples: int) -> dict[str, Any]:
    deviation = "bw_dev" if name == "bw" else "iops_stddev"
    figures = {f"{name}_min": int(value), f"{name}_max": int(value), f"{name}_mean": value}
    return {**figures, deviation: 0.0, f"{name}_samples": samples}


def _spread(low: int, high: int, mean: float, deviation: float, count: int) -> dict[str, Any]:
    if not count:
        low = high = 0
        mean = deviation = 0.0
    return {"min": low, "max": high, "mean": mean, "stddev": deviation, "N": count}


def _told(stage: str, job: FakeJob, mean: float, count: int) -> dict[str, Any]:
    """With a histogram where the job's options ask for one."""
    usual = "1" if stage == "clat" else "0"
    if job.options.get(f"{stage}_percentiles", usual) != "0":
        return _completion(mean, count)
    return _spread(int(mean / 3), int(mean * 4), mean, mean / 3, count)


def _completion(mean: float, count: int) -> dict[str, Any]:
    """clat_ns with bins (log-normal around ``mean``) and the percentiles of these very bins."""
    if not count:
        return _spread(0, 0, 0.0, 0.0, 0)
    centre = mean / math.exp(_SPREAD**2 / 2)
    steps, upto = len(_QUANTILES), 0
    below: dict[int, int] = {}  # bin → how many I/Os are in it or below it
    for i, quantile in enumerate(_QUANTILES, 1):
        before, upto = upto, count * i // steps
        if upto > before:
            below[bin_of(int(centre * quantile))] = upto
    values, sums = [*below], [*below.values()]
    return {
        **_spread(values[0], values[-1], mean, mean * _SPREAD, count),
        "percentile": {
            name: values[bisect_left(sums, count * percent / 100)]
            for name, percent in _PERCENTILES.items()
        },
        "bins": {
            str(value): upto - before
            for value, upto, before in zip(values, sums, (0, *sums), strict=False)
        },
    }


def bin_of(nanoseconds: int) -> int:
    """The value of fio's histogram bin (stat.c, plat_val_to_idx and plat_idx_to_val, 64 bins an
    octave)."""
    bits = max(0, nanoseconds.bit_length() - 7)
    if not bits:
        return nanoseconds
    return (nanoseconds >> bits << bits) + (1 << bits - 1)


def _utilisation(works: Sequence[JobResult], disk: str) -> dict[str, Any]:
    reads = sum(int(w.rate * w.seconds * w.job.reads) for w in works)
    writes = sum(int(w.rate * w.seconds * (1 - w.job.reads)) for w in works)
    counts = {"read_ios": reads, "write_ios": writes, "read_merges": 0, "write_merges": 0}
    ticks = {"read_ticks": reads // 10, "write_ticks": writes // 10, "in_queue": 0, "util": 99.0}
    return {"name": disk, **counts, **ticks}
