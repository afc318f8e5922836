"""Throttling: the processor or a drive was slowed down by heat or by a limit of power.

Intel processors count thermal events; RAPL says how much energy was used, and its limit how much
might have been; NVMe drives have a warning temperature.  What a machine has not (a virtual one
has none of them) is not judged.

Sources: Documentation/ABI/testing/sysfs-devices-system-cpu (thermal_throttle);
Documentation/power/powercap/powercap.rst; drivers/nvme/host/hwmon.c (temp1_max is the drive's
WCTEMP).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from iotrial.model.doubt import Doubt
from iotrial.model.step import Probe
from iotrial.model.validity import Case, Check, Reading, Scene, Snapshot

NEAR = 0.97
"""Share of the power limit from which the processor is held back by it."""
_SCRIPT = (
    "grep -s . /sys/devices/system/cpu/cpu*/thermal_throttle/*_count"
    " /sys/class/powercap/intel-rapl:[0-9]*/name"
    " /sys/class/powercap/intel-rapl:[0-9]*/energy_uj"
    " /sys/class/powercap/intel-rapl:[0-9]*/max_energy_range_uj"
    " /sys/class/powercap/intel-rapl:[0-9]*/constraint_0_power_limit_uw\n"
    "for disk; do\n"
    'grep -s . "/sys/block/$disk/device/"hwmon*/temp1_input'
    ' "/sys/block/$disk/device/"hwmon*/temp1_max\ndone\n:'
)
_COUNTED = re.compile(r"/(cpu\d+)/thermal_throttle/(core|package)_(throttle|power_limit)_count$")


def _reads(scene: Scene) -> tuple[Reading, ...]:
    argv = ("sh", "-c", _SCRIPT, "iotrial-throttling", *scene.disks)
    return (Reading(Probe(argv=argv), str.strip),)


def judge(case: Case) -> Iterator[Doubt]:
    before, after = _values(case.before), _values(case.after)
    yield from _events(before, after)
    yield from _power(before, after, case.elapsed)
    yield from _hot(after)


def _values(snapshot: Snapshot) -> dict[str, str]:
    """Path → value; the reading's place ends in the disks, so it is found by its name."""
    said = (text for place, text in snapshot.said.items() if "iotrial-throttling" in place)
    rows = (line.rpartition(":") for text in said for line in text.splitlines())
    return {path: value for path, _, value in rows}


def _events(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Doubt]:
    """Heat makes a trial INVALID; many processors meet their power limit under any load."""
    grown: dict[tuple[str, str], int] = {}
    for path, value in after.items():
        if (found := _COUNTED.search(path)) and path in before:
            more = int(value) - int(before[path])
            grown[found[2], found[3]] = max(grown.get((found[2], found[3]), 0), more)
    for (part, kind), times in grown.items():
        if times > 0:
            hot = kind == "throttle"
            why = "too hot" if hot else "at its power limit"
            what = f"the processor was slowed down: {part} {why} ({times} times)"
            yield CHECK.doubt(what, invalid=hot)


def _power(before: Mapping[str, str], after: Mapping[str, str], seconds: float) -> Iterator[Doubt]:
    for path in after:
        folder, _, name = path.rpartition("/")
        limit = int(after.get(f"{folder}/constraint_0_power_limit_uw", "0"))
        if name != "energy_uj" or path not in before or not limit or seconds <= 0:
            continue
        used = int(after[path]) - int(before[path])
        if used < 0:  # the counter wraps around
            used += int(after.get(f"{folder}/max_energy_range_uj", "0"))
        watts = used / seconds / 1e6
        if watts >= NEAR * limit / 1e6:
            name = after.get(f"{folder}/name", folder.rpartition("/")[2])
            yield CHECK.doubt(f"{name} used {watts:.0f} W of the {limit / 1e6:.0f} W it may use")


def _hot(after: Mapping[str, str]) -> Iterator[Doubt]:
    for path, value in after.items():
        most = after.get(f"{path.removesuffix('input')}max", "")
        if path.endswith("temp1_input") and most and int(value) >= int(most) > 0:
            disk = path.split("/")[3]
            what = f"{disk} is at {int(value) // 1000} °C, its warning is at {int(most) // 1000} °C"
            yield CHECK.doubt(what)


CHECK = Check(
    name="throttling",
    title="slowed down by heat or power",
    looks_at="thermal_throttle/*_count of each CPU; powercap energy and limit (RAPL); the"
    " temperature of NVMe drives",
    limit="any thermal event of the processor (INVALID); an event of its power limit, 97 % of the"
    " limit on average, or a drive at its warning temperature (doubt)",
    remedy="Cool it, raise the power limit, or load it less; let it warm up before the first block"
    " so that all treatments meet the same heat.",
    source="Documentation/ABI/testing/sysfs-devices-system-cpu and powercap.rst of the kernel",
    invalid=True,
    reads=_reads,
    judge=judge,
)
