"""Rates: what a device and its host did between two samples.  Pure.

The device's own counters are the truth: what the kernel completed, whoever asked for it.

Sources: Documentation/admin-guide/iostats.rst (sectors are 512 bytes; times are those of completed
I/O, in ms, so that time over count is the mean latency), Documentation/accounting/psi.rst
(stall totals in µs), proc(5) (jiffies; interfaces).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SECTOR = 512
SHORTEST = 0.2
"""Seconds between two samples below which a difference is mostly rounding."""
OPERATIONS = (
    ("read", "reads", "sectors_read", "read_ms"),
    ("write", "writes", "sectors_written", "write_ms"),
)
PRESSURES = ("io", "cpu", "memory")

Values = Mapping[str, Any]
Rates = dict[str, float]
"""By dotted name, in base units.  ``busy`` and ``cpu.*`` are shares of the time, ``pressure.*``
the share in which something waited; a name that is not there is not known."""


def device_rates(before: Values, after: Values) -> Rates:
    """``read.iops`` ``read.bw`` ``read.lat`` (only where something was read), the same of
    ``write``, ``busy`` and ``in_flight``; of a remote target ``received.bw`` and ``sent.bw``."""
    span = _span(before, after)
    if not span:
        return {}
    if "network" in after:
        return _network(before, after, span)
    old, new = before.get("disk", {}), after.get("disk", {})
    found: Rates = {}
    for name, count, sectors, waited in OPERATIONS:
        done = _grown(old, new, count)
        if done is None:
            continue
        found[f"{name}.iops"] = done / span
        found[f"{name}.bw"] = (_grown(old, new, sectors) or 0) * SECTOR / span
        if done:
            found[f"{name}.lat"] = (_grown(old, new, waited) or 0) / done / 1000
    if (busy := _grown(old, new, "io_ms")) is not None:
        found["busy"] = min(busy / 1000 / span, 1.0)
    if "in_flight" in new:
        found["in_flight"] = float(new["in_flight"])
    return found


def path_rates(before: Values, after: Values) -> dict[str, Rates]:
    """The same of each disk that the device is built on, and ``share``, its share of their I/O."""
    old, new = before.get("paths", {}), after.get("paths", {})
    found = {
        name: device_rates(
            {"t": before["t"], "disk": old[name]}, {"t": after["t"], "disk": new[name]}
        )
        for name in new
        if name in old
    }
    done = {
        name: rates.get("read.iops", 0.0) + rates.get("write.iops", 0.0)
        for name, rates in found.items()
    }
    if whole := sum(done.values()):
        for name, rates in found.items():
            rates["share"] = done[name] / whole
    return found


def host_rates(before: Values, after: Values) -> Rates:
    """``cpu.busy`` ``cpu.system`` ``cpu.iowait`` ``cpu.steal`` and ``pressure.io`` and so on."""
    span = _span(before, after)
    if not span:
        return {}
    found: Rates = {}
    old, new = before.get("cpu", {}), after.get("cpu", {})
    spent = {name: max(new[name] - old.get(name, 0), 0) for name in new} if old else {}
    if whole := sum(spent.values()):
        idle = spent.get("idle", 0) + spent.get("iowait", 0)
        found["cpu.busy"] = 1 - idle / whole
        for name in ("system", "iowait", "steal"):
            found[f"cpu.{name}"] = spent.get(name, 0) / whole
    for what in PRESSURES:
        stalled = _grown(
            before.get("pressure", {}).get(what, {}),
            after.get("pressure", {}).get(what, {}),
            "some",
        )
        if stalled is not None:
            found[f"pressure.{what}"] = min(stalled / 1e6 / span, 1.0)
    return found


def total(rows: Iterable[Rates]) -> Rates:
    """Of several devices: counts and bytes added, latencies weighed by what was done, shares
    left out."""
    found: Rates = {}
    waited: Rates = {}
    for row in rows:
        for name, value in row.items():
            if name.endswith((".iops", ".bw")) or name == "in_flight":
                found[name] = found.get(name, 0.0) + value
            elif name.endswith(".lat"):
                done = row[name.replace(".lat", ".iops")]
                waited[name] = waited.get(name, 0.0) + value * done
    for name, seconds in waited.items():
        found[name] = seconds / found[name.replace(".lat", ".iops")]
    return found


def _span(before: Values, after: Values) -> float:
    """Seconds between them; 0 where they are too near, or of two loads."""
    span = float(after["t"]) - float(before["t"])
    return span if span >= SHORTEST else 0.0


def _grown(before: Mapping[str, int], after: Mapping[str, int], name: str) -> int | None:
    """By how much a counter grew; None where it is not there, or began anew."""
    if name not in before or name not in after:
        return None
    grown = after[name] - before[name]
    return grown if grown >= 0 else None


def _network(before: Values, after: Values, span: float) -> Rates:
    names = ("received.bw", "sent.bw")
    old, new = (interfaces(each["network"].get("/proc/net/dev", "")) for each in (before, after))
    found = [
        sum(max(new[name][way] - old[name][way], 0) for name in new if name in old) / span
        for way in range(2)
    ]
    return dict(zip(names, found, strict=True)) if new else {}


def interfaces(text: str) -> dict[str, tuple[int, int]]:
    """/proc/net/dev → bytes received and sent, by interface, but for the loopback."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) > 8 and name.strip() != "lo":  # noqa: PLR2004 (the ninth is bytes sent)
            found[name.strip()] = (int(words[0]), int(words[8]))
    return found
