"""Telemetry: the kernel's counters about once a second, from the moment the load began.

``telemetry.jsonl`` (:mod:`iotrial.execute.load.sampler`) says the bytes per second of the device
under test, as what two lines differ by, and *strains*: what CPU, links, adapters, devices and paths
of a host bore while a load was measured.  These are differences between two samples: the first
one of the time that was measured, and the last one but the very last (which may be of a moment
after the last I/O).

Sources: Documentation/block/stat.rst (a sector is 512 bytes, whatever the device's own is);
proc_stat(5); Documentation/admin-guide/iostats.rst (time with I/O in flight, and that
time weighed by how many there were: its mean is the mean depth);
Documentation/block/queue-sysfs.rst (nr_requests, of each hardware queue).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from iotrial.model.results import DevicePoint, ResourceUsage, StrainKind
from iotrial.model.tool import RateSeries

SECTOR = 512
_SHORT = 0.5
"""Of the usual step: the last sample is taken when the load ends, at an odd time."""


def course(data: bytes) -> RateSeries | None:
    """From the beginning of the load, ramp time included; None where there are no two samples of
    a device, or a line is torn."""
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
        rows = [
            (line["t"], line["disk"]["sectors_read"] + line["disk"]["sectors_written"])
            for line in lines
        ]
        steps = [(after - before, new - old) for (before, old), (after, new) in pairwise(rows)]
    except (ValueError, KeyError, TypeError):
        return None
    if not steps or (step := float(median(apart for apart, _ in steps))) <= 0:
        return None
    rates = (sectors * SECTOR / apart for apart, sectors in steps if apart > _SHORT * step)
    return RateSeries(step, tuple(rates), "the device's bytes")


def samples(data: bytes) -> tuple[DevicePoint, ...]:
    """What the device did between each two lines, ramp time included; () where it is not counted,
    or a line is torn."""
    rows: list[tuple[float, dict[str, int]]] = []
    for line in data.splitlines():
        moment, counted = _T.match(line), _DISK.search(line)
        if not moment or not counted:
            return ()
        try:
            rows.append((float(moment[1]), json.loads(counted[1])))
        except ValueError:
            return ()
    return tuple(
        DevicePoint(
            (before + after) / 2,
            (done := grown["reads"] + grown["writes"]) / (after - before),
            (grown["read_ms"] + grown["write_ms"]) / 1000 / done if done else None,
            grown["weighted_ms"] / 1000 / (after - before),
        )
        for (before, old), (after, new) in pairwise(rows)
        if after > before and old.keys() >= _COUNTED and new.keys() >= _COUNTED
        for grown in [{name: max(0, new[name] - old[name]) for name in _COUNTED}]
    )


_DISK = re.compile(rb'"disk":(\{[^{}]*\})')
_COUNTED = {"reads", "writes", "read_ms", "write_ms", "weighted_ms"}
_T = re.compile(rb'^\{"t":([0-9.]+)')
_TASKS = re.compile(rb'"tasks":\[(\d+),(\d+)\]')
_FEW = 2
_IDLE = ("idle", "iowait", "steal")

Row = Mapping[str, Any]
"""One line of telemetry.jsonl."""


@dataclass(frozen=True, slots=True)
class DiskAdapter:
    """What a disk hangs on, as far as it is counted: the name of its adapter ('': none), and what
    that carries in bytes per second (0: not known)."""

    adapter: str = ""
    speed: float = 0.0


@dataclass(frozen=True, slots=True)
class TelemetryRange:
    """What is known of one part of a host: its name, the ``first`` and ``last`` line of its
    telemetry in the time measured, its ``device`` ('': remote), the disks below it and what they
    hang on, how many I/Os each disk takes (``limits``), what its interfaces carry (``nics``)."""

    part: str
    device: str
    first: Row
    last: Row
    ways: Mapping[str, DiskAdapter] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    nics: Mapping[str, float] = field(default_factory=dict)


def between(data: bytes, measured: float, seconds: float) -> tuple[Row, Row] | None:
    """First and last line of the time that was ``measured`` at the end of a load that took
    ``seconds``; of all, where too few are in it.  None where there are no two whole lines.  The
    last has the mean ``load`` too: tasks that ran or waited for I/O, where they were counted."""
    timed = [(float(found[1]), line) for line in data.splitlines() if (found := _T.match(line))]
    inside = [line for t, line in timed[:-1] if t >= seconds - measured] if measured else []
    lines = inside if len(inside) >= _FEW else [line for _, line in timed]
    try:
        rows = [json.loads(lines[place]) for place in (0, -1)]
    except (IndexError, ValueError):
        return None
    counted = [int(found[1]) + int(found[2]) for line in lines if (found := _TASKS.search(line))]
    if counted:
        rows[1]["load"] = sum(counted) / len(counted)
    return (rows[0], rows[1]) if rows[1]["t"] > rows[0]["t"] else None


def limits(data: bytes, queues: Mapping[str, int]) -> dict[str, int]:
    """How many I/Os each disk takes at once, as the first line of its telemetry says: of each of
    its hardware ``queues``, or a SCSI disk itself.  What is not known is left out."""
    try:
        told = json.loads(data.splitlines()[0]).get("limits", {})
    except (IndexError, ValueError, AttributeError):
        return {}
    found: dict[str, int] = {}
    for disk, (requests, depth) in told.items():
        known = [each for each in (requests * queues.get(disk, 1), depth) if each > 0]
        found |= {disk: min(known)} if known else {}
    return found


def strains(host: str, told: Sequence[TelemetryRange]) -> Iterator[ResourceUsage]:
    """Everything of one host, whose parts these are."""
    yield from _processors(host, told)
    yield from _links(host, told)
    disks: dict[str, tuple[ResourceUsage, DiskAdapter]] = {}
    for each in told:
        if not each.device:
            continue
        paths = each.last.get("paths", {})
        whole = _device(host, each, each.device, "device")
        if whole:
            yield whole
        for name in paths:
            if path := _device(host, each, name, "path"):
                yield path
                disks[name] = path, each.ways.get(name, DiskAdapter())
        if whole and not paths:
            disks[each.device] = whole, each.ways.get(each.device, DiskAdapter())
    yield from _adapters(host, disks)


def _processors(host: str, told: Sequence[TelemetryRange]) -> Iterator[ResourceUsage]:
    for each in told:
        old, new = each.first.get("cpu", {}), each.last.get("cpu", {})
        spent = {name: new[name] - old.get(name, 0) for name in new} if old else {}
        if (whole := sum(spent.values())) <= 0:
            continue
        yield ResourceUsage(
            host,
            "cpu",
            "all",
            busy=_round(1 - sum(spent.get(state, 0) for state in _IDLE) / whole),
            interrupts=_round((spent.get("irq", 0) + spent.get("softirq", 0)) / whole),
            stolen=_round(spent.get("steal", 0) / whole),
            iowait=_round(spent.get("iowait", 0) / whole),
            load=round(each.last["load"], 2) if "load" in each.last else None,
        )
        break
    for each in told:
        if most := _busiest(each.first.get("cores", {}), each.last.get("cores", {})):
            name, busy, interrupted = most
            yield ResourceUsage(
                host, "core", name, busy=_round(busy), interrupts=_round(interrupted)
            )
            break


def _busiest(
    old: Mapping[str, list[int]], new: Mapping[str, list[int]]
) -> tuple[str, float, float] | None:
    """The one CPU that did most: its number, busy, in interrupts."""
    found = []
    for name in new:
        if name in old:
            busy, interrupted, whole = (b - a for a, b in zip(old[name], new[name], strict=True))
            if whole > 0:
                found.append((busy / whole, interrupted / whole, name))
    if len(found) < _FEW:  # it is the whole
        return None
    most = max(found)
    return most[2], most[0], most[1]


def _links(host: str, told: Sequence[TelemetryRange]) -> Iterator[ResourceUsage]:
    for each in told:
        old, new = each.first.get("nics", {}), each.last.get("nics", {})
        span = each.last["t"] - each.first["t"]
        for name in new:
            if name not in old:
                continue
            moved = [max(0, b - a) / span for a, b in zip(old[name], new[name], strict=True)]
            came, went = (round(way, 1) for way in moved)
            speed = each.nics.get(name, 0.0)
            busy = _round(max(moved) / speed) if speed else None
            yield ResourceUsage(host, "nic", name, busy=busy, came=came, went=went)


def _device(host: str, told: TelemetryRange, name: str, kind: StrainKind) -> ResourceUsage | None:
    old, new = (_counters(row, name, kind) for row in (told.first, told.last))
    span = told.last["t"] - told.first["t"]
    if not old or not new:
        return None
    grown = {key: max(0, new[key] - old.get(key, 0)) for key in new}
    done = grown.get("reads", 0) + grown.get("writes", 0)
    waited = (grown.get("read_ms", 0) + grown.get("write_ms", 0)) / 1000
    return ResourceUsage(
        host,
        kind,
        name,
        of=told.part,
        busy=_round(grown.get("io_ms", 0) / 1000 / span),
        ios=round(done / span, 3),
        came=round(grown.get("sectors_read", 0) * SECTOR / span, 1),
        went=round(grown.get("sectors_written", 0) * SECTOR / span, 1),
        latency=waited / done if done else 0.0,
        depth=round(grown.get("weighted_ms", 0) / 1000 / span, 3),
        limit=told.limits.get(name, 0),
    )


def _counters(row: Row, name: str, kind: StrainKind) -> Mapping[str, int]:
    found = row.get("disk", {}) if kind == "device" else row.get("paths", {}).get(name, {})
    return found if isinstance(found, Mapping) else {}


def _adapters(
    host: str, disks: Mapping[str, tuple[ResourceUsage, DiskAdapter]]
) -> Iterator[ResourceUsage]:
    """What went through each adapter: the sum over its disks, each once."""
    for adapter in dict.fromkeys(hung.adapter for _, hung in disks.values() if hung.adapter):
        mine = [strain for strain, hung in disks.values() if hung.adapter == adapter]
        ios, came, went = (
            sum(column) for column in zip(*((s.ios, s.came, s.went) for s in mine), strict=True)
        )
        speed = next(hung.speed for _, hung in disks.values() if hung.adapter == adapter)
        yield ResourceUsage(
            host,
            "adapter",
            adapter,
            busy=_round(max(came, went) / speed) if speed else None,
            ios=round(ios, 3),
            came=round(came, 1),
            went=round(went, 1),
            latency=sum(s.latency * s.ios for s in mine) / ios if ios else 0.0,
            depth=round(sum(s.depth for s in mine), 3),
        )


def _round(share: float) -> float:
    return round(min(max(share, 0.0), 1.0), 4)
