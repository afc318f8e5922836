"""Real responses to settings of a loop device, for ``tune.py``: how they are measured, and what its
surfaces take from them.

``./dev bench tune --measure`` writes ``tune-loop.csv``.  The device lies over a file in memory.
For each of three workloads of fio, combinations of ten settings are drawn in which every level
occurs about equally often; each is run :data:`REPEATS` times, for a second, all of a workload in
random order, and the baseline before every :data:`EVERY` th.

From the table come the *effects* of a setting's levels (least squares on the logs, of each
combination the mean of its repeats), the *noise* of a trial (what the repeats of a combination
differ by, drift taken off) and the *drift* (the running median of the baseline's runs).  Noise and
drift are in units of the noise (by its quartiles): how large that is, the surfaces say, for it is
a matter of what else the machine does.
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from _limits import machine, note

Floats = npt.NDArray[np.float64]
Levels = tuple[str, ...]
TABLE = Path(__file__).with_name("tune-loop.csv")
REPEATS, EVERY, COMBINATIONS = 2, 4, 36
SIZE = 512 << 20
QUEUE: dict[str, Levels] = {
    "scheduler": ("mq-deadline", "none", "kyber", "bfq"),
    "nr_requests": ("128", "16", "32", "64"),
    "read_ahead_kb": ("128", "0", "512", "4096"),
    "nomerges": ("0", "1", "2"),
    "rq_affinity": ("1", "0", "2"),
    "wbt_lat_usec": ("0", "2000", "75000"),
    "iostats": ("1", "0"),
    "add_random": ("0", "1"),
}
"""Files of the queue, in the order in which they are written; the first level is the baseline."""
FIO: dict[str, Levels] = {"direct": ("0", "1"), "ioengine": ("psync", "libaio", "io_uring")}
SETTINGS = QUEUE | FIO
WORKLOADS: dict[str, tuple[str, ...]] = {
    "randread": ("--rw=randread", "--bs=4k"),
    "read": ("--rw=read", "--bs=64k"),
    "randrw": ("--rw=randrw", "--rwmixread=70", "--bs=4k"),
}
QUARTILES = 1.349
"""How far apart they are in normal noise, in standard deviations."""
ORDERED = ("nr_requests", "read_ahead_kb", "wbt_lat_usec")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: which of its workload, at what place of each setting, and the log of its I/Os per
    second."""

    workload: str
    number: int
    places: tuple[int, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Effect:
    """What a setting did to a workload: the logs against the baseline's level, which is the first;
    ``sure`` is the ratio of the largest to its standard error."""

    setting: str
    workload: str
    ordered: bool
    logs: tuple[float, ...]
    sure: float


@dataclass(frozen=True, slots=True)
class Measured:
    """``noise`` holds one array for each workload: what trials differ by, about 0; ``drift`` the
    level of the machine from trial to trial; both in units of ``sd``, which is by workload too."""

    effects: tuple[Effect, ...]
    sd: tuple[float, ...]
    noise: tuple[Floats, ...]
    drift: tuple[Floats, ...]


# -- measuring -------------------------------------------------------------------------------------


def measure(path: Path = TABLE) -> None:
    """Write the table; as root, some minutes."""
    rng = np.random.default_rng(1)
    lines = [
        "# I/Os per second of fio on a loop device over a file in memory, a second each, nice -15,",
        "# one job of depth 8, in this order; levels are those of _tune_measured.py by number,",
        "# 0 is the baseline.  Measured by: ./dev bench tune --measure",
        f"# {machine()}; {_version()}",
        "workload,number," + ",".join(SETTINGS) + ",iops",
    ]
    with _loop() as node:
        for workload in WORKLOADS:
            order = _order(rng)
            for number, places in enumerate(order):
                iops = _run(node, workload, places)
                lines.append(",".join([workload, str(number), *map(str, places), f"{iops:.0f}"]))
                if number % 20 == 0:
                    note(f"{workload} {number}/{len(order)}: {iops:.0f} I/Os per second")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _order(rng: np.random.Generator) -> list[tuple[int, ...]]:
    counts = [len(levels) for levels in SETTINGS.values()]
    columns = [rng.permutation(np.arange(COMBINATIONS) % count) for count in counts]
    cells = [tuple(map(int, row)) for row in zip(*columns, strict=True)] * REPEATS
    base = (0,) * len(counts)
    order = []
    for at, which in enumerate(rng.permutation(len(cells)).tolist()):
        order += [base, cells[which]] if at % EVERY == 0 else [cells[which]]
    return [*order, base]


@contextmanager
def _loop() -> Iterator[str]:
    folder, node = Path(tempfile.mkdtemp(prefix="iotrial-tune-", dir="/dev/shm")), ""
    try:
        with (folder / "backing").open("wb") as file:
            for _ in range(SIZE >> 20):
                file.write(os.urandom(1 << 20))
        node = subprocess.check_output(
            ("losetup", "--find", "--show", folder / "backing"), text=True
        ).strip()
        yield node
    finally:
        if node:
            subprocess.run(["losetup", "--detach", node], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _run(node: str, workload: str, places: Sequence[int]) -> float:
    chosen = {name: levels[at] for (name, levels), at in zip(SETTINGS.items(), places, strict=True)}
    for name in QUEUE:
        file = Path("/sys/block", Path(node).name, "queue", name)
        file.write_text(chosen[name], encoding="ascii")
        said = file.read_text("ascii").split()
        if chosen[name] not in said and f"[{chosen[name]}]" not in said:
            raise SystemExit(f"tune: {file} is {said}, not {chosen[name]}")
    argv = [
        "nice",
        "-n",
        "-15",
        "fio",
        "--name=a",
        f"--filename={node}",
        *WORKLOADS[workload],
        "--iodepth=8",
    ]
    argv += ["--thread", "--time_based", "--runtime=1s"]
    argv += ["--randrepeat=0", "--output-format=json"]
    argv += [f"--{name}={chosen[name]}" for name in FIO]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    return float(job["read"]["iops"] + job["write"]["iops"])


def _version() -> str:
    return subprocess.check_output(("fio", "--version"), text=True).strip()


# -- what is taken from it -------------------------------------------------------------------------


@lru_cache
def measured(path: Path = TABLE) -> Measured:
    by_workload: dict[str, list[Run]] = defaultdict(list)
    for run in _runs(path):
        by_workload[run.workload].append(run)
    effects: list[Effect] = []
    noise, drift, sds = [], [], []
    for workload, runs in by_workload.items():
        level = _level(runs)
        values = np.array([run.value for run in runs]) - level
        left = _differences(runs, values)
        quarter, three = np.quantile(left, (0.25, 0.75)).tolist()
        sds.append((three - quarter) / QUARTILES)
        drift.append(level / sds[-1])
        noise.append(left / sds[-1])
        effects += _effects(workload, runs, values)
    return Measured(tuple(effects), tuple(sds), tuple(noise), tuple(drift))


def _runs(path: Path) -> Iterator[Run]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            places = tuple(int(row[name]) for name in SETTINGS)
            yield Run(row["workload"], int(row["number"]), places, math.log(float(row["iops"])))


def _level(runs: Sequence[Run]) -> Floats:
    """The level at each run: the median of five of the baseline's runs, and between them a line."""
    base = [run for run in runs if not any(run.places)]
    values = np.array([run.value for run in base])
    smooth = [float(np.median(values[max(0, at - 2) : at + 3])) for at in range(len(values))]
    found: Floats = np.interp([run.number for run in runs], [run.number for run in base], smooth)
    centred: Floats = found - found.mean()
    return centred


def _cells(runs: Sequence[Run], values: Floats) -> Mapping[tuple[int, ...], Floats]:
    found: dict[tuple[int, ...], list[float]] = defaultdict(list)
    for run, value in zip(runs, values.tolist(), strict=True):
        found[run.places].append(value)
    return {places: np.array(each) for places, each in found.items()}


def _differences(runs: Sequence[Run], values: Floats) -> Floats:
    """What the runs of a combination are off its mean by, as wide as single runs are."""
    parts = [
        (each - each.mean()) * math.sqrt(len(each) / (len(each) - 1))
        for each in _cells(runs, values).values()
        if len(each) > 1
    ]
    return np.sort(np.concatenate(parts))


def _effects(workload: str, runs: Sequence[Run], values: Floats) -> Iterator[Effect]:
    cells = _cells(runs, values)
    places, logs = list(cells), np.array([float(each.mean()) for each in cells.values()])
    counts = [len(levels) for levels in SETTINGS.values()]
    columns, owner = [np.ones(len(places))], [-1]
    for at, count in enumerate(counts):
        for level in range(1, count):
            columns.append(np.array([float(place[at] == level) for place in places]))
            owner.append(at)
    design = np.stack(columns, axis=1)
    found, *_ = np.linalg.lstsq(design, logs)
    left = logs - design @ found
    variance = float(left @ left) / (len(logs) - design.shape[1])
    errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    for at, name in enumerate(SETTINGS):
        own = [column for column, whose in enumerate(owner) if whose == at]
        sure = float(np.abs(found[own] / errors[own]).max())
        yield Effect(name, workload, name in ORDERED, (0.0, *found[own].tolist()), sure)
