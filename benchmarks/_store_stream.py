"""Results that nobody measured, as a store takes them: for ``store.py``."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np

from iotrial_store.content import StoreCell, StoreContent, StoreMeasurements, StoreTrials

METRICS = 40
IN_RESULT, STUDIES, MACHINES = 1000, 40, 25
LEVELS = ("none", "mq-deadline", "kyber", "bfq")
DEPTHS = (1, 8, 32, 64, 128)
BEGAN, DAY = 1.7e9, 86_400.0


def stream(trials: int, seed: int = 1) -> Iterator[StoreContent]:
    """Results of :data:`IN_RESULT` trials each: twenty treatments of a study on a machine, a day
    later each time that all studies ran."""
    rng = np.random.default_rng(seed)
    for number in range(-(-trials // IN_RESULT)):
        yield _result(number, min(IN_RESULT, trials - number * IN_RESULT), rng)


def _result(number: int, count: int, rng: np.random.Generator) -> StoreContent:
    study, machine = f"study-{number % STUDIES:02d}", number % MACHINES
    result = hashlib.sha256(f"stream {number}".encode()).hexdigest()[:16]
    began = BEGAN + number // STUDIES * DAY
    cells = [
        StoreCell(0, "load", f"scheduler={level}, iodepth={depth}", "disk", "", "fio")
        for level in LEVELS
        for depth in DEPTHS
    ]
    places = np.arange(count, dtype=np.int32)
    cell = (places % len(cells)).astype(np.int32)
    values = rng.lognormal(9.0, 0.05, (count, METRICS))
    keys = tuple((f"m{at:02d}.iops", "all", "1/s", "", "fio.json") for at in range(METRICS))
    trials = StoreTrials(
        places + 1, cell, (places // len(cells) + 1).astype(np.int32),
        np.ones(count, dtype=np.int32), np.zeros(count, dtype=np.int32),
        np.zeros(count, dtype=np.bool_), began + 30.0 * places, np.full(count, 30.0),
        (cell // len(DEPTHS)).astype(np.int32),
        [f"{at:06x}" for at in range(count)], [result] * count, [""] * count,
    )  # fmt: skip
    settings = [
        (("sda", "queue.scheduler", level), ("sda", "queue.nr_requests", "256")) for level in LEVELS
    ]
    logs = np.log(values)
    points = []
    for at, place in enumerate(cells):
        own = logs[cell == at]
        points += [
            (result, study, began, "load", place.treatment, "disk", key[0], "1/s", True,
             len(own), 0, math.exp(float(mean)), float(sd))
            for key, mean, sd in zip(keys, own.mean(0), own.std(0, ddof=1), strict=True)
        ]  # fmt: skip
    head = (
        result, study, "0" * 12, "Which?", "Keep scheduler=none.", "full", "host:/results", result,
        began, began + 30.0 * count, began, False, count, count, 'question = "Which?"', "",
    )  # fmt: skip
    plain = {
        "results": [head],
        "machines": [
            (result, "host", f"{machine:016x}", f"6.{machine}", "", "CPU", 8, 2**34, "{}")
        ],
        "points": points,
    }
    return StoreContent(
        result, result, study, plain, cells, trials,
        [StoreMeasurements(keys, places, values)], settings,
    )  # fmt: skip
