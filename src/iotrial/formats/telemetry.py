"""What a trial's telemetry says over time: the bytes per second of the device under test.

``telemetry.jsonl`` holds the kernel's counters about once a second, from the moment the load began
(:mod:`iotrial.execute.load.sampler`); the rate is what two lines differ by.  A sector is 512 bytes,
whatever the device's own is (Documentation/block/stat.rst).
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from iotrial.model.tool import Course

SECTOR = 512
_SHORT = 0.5
"""Of the usual step: the last sample is taken when the load ends, at an odd time."""


def course(data: bytes) -> Course | None:
    """From the beginning of the load, ramp time included; None where there are no two samples of
    a device, or a line is torn."""
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
        rows = [(line["t"], _sectors(line["disk"])) for line in lines]
    except (ValueError, KeyError, TypeError):
        return None
    times = np.array([time for time, _ in rows], dtype=np.float64)
    apart = np.diff(times)
    if not len(apart) or (step := float(np.median(apart))) <= 0:
        return None
    kept = apart > _SHORT * step
    rates = np.diff([sectors for _, sectors in rows])[kept] * SECTOR / apart[kept]
    return Course(step, tuple(rates.tolist()), "the device's bytes")


def _sectors(disk: dict[str, int]) -> int:
    return disk["sectors_read"] + disk["sectors_written"]
