"""Bytes that the device moved and bytes that the load says it moved: what several checks compare.

The load's own account leaves out what it did before it measured (fio's ``ramp_time``, laying out
of files), the device's counters do not.  Two ways around it: the load's rate over the whole time
that its process lived, which is too much by the time it took to start; and the telemetry of only
those seconds at the end that the load measured.

Source: the kernel's Documentation/block/stat.rst (sectors are of 512 bytes whatever the device).
"""

from __future__ import annotations

from iotrial.model.step import Probe
from iotrial.model.validity import Case, Moved, Reading, Sample, Scene

SECTOR = 512
_READ, _WRITTEN = 2, 6
OPERATIONS = ("read", "write")
_FEWEST = 4
"""Samples in what was measured below which its ends weigh too much."""


def stat(scene: Scene) -> tuple[Reading, ...]:
    """The counters of the device under test."""
    return (Reading(Probe(place(scene))),) if scene.device else ()


def place(scene: Scene) -> str:
    return f"/sys/block/{scene.device}/stat"


def counters(text: str) -> Moved | None:
    """``/sys/block/X/stat`` in bytes; None where it says nothing."""
    fields = text.split()
    if len(fields) <= _WRITTEN:
        return None
    return Moved(int(fields[_READ]) * SECTOR, int(fields[_WRITTEN]) * SECTOR)


def by_device(case: Case) -> Moved | None:
    """What the device moved between the snapshots; None where nobody can tell (no device, or one
    that does not count: ``queue.iostats`` 0)."""
    where = place(case.scene)
    first, last = (counters(each.text(where)) for each in (case.before, case.after))
    if not case.scene.device or first is None or last is None:
        return None
    moved = last - first
    return moved if moved.read + moved.write > 0 else None


def by_load(case: Case) -> Moved | None:
    """What the load says that it moved while it measured; None where it does not say."""
    told = [case.own(f"{operation}.bytes") for operation in OPERATIONS]
    if not any(told) or case.own("mixed.bytes") is not None:
        return None
    return Moved(*(value or 0.0 for value in told))


def measured(case: Case) -> float:
    """Seconds that the load measured, as its own bytes and rate say; 0 unknown."""
    spans = [0.0]
    for operation in OPERATIONS:
        size, rate = (case.own(f"{operation}.{what}") for what in ("bytes", "bw"))
        if size and rate:
            spans.append(size / rate)
    return min(max(spans), case.seconds) if case.seconds else max(spans)


def at_the_end(case: Case) -> tuple[Sample, ...]:
    """The telemetry of those seconds at the end that the load measured; () where these are too
    few.  The last sample may be of a moment after the load's last I/O: it is left out."""
    span = measured(case)
    inside = [each for each in case.samples[:-1] if each.t >= case.seconds - span]
    return tuple(inside) if span and len(inside) >= _FEWEST else ()
