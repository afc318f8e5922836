"""A pretended execution of iotrial's load ``listing`` (``tools/listing.sh``)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from iotrial.hosts.fake.loads.pace import Acted, Moved, failed, noise, pace
from iotrial.hosts.fake.machine import Machine

_CHANGES = 40_000.0  # entries made or removed a second
_SEEN = {"ls": 60_000.0, "find": 55_000.0, "ls-l": 20_000.0, "stat": 25_000.0}
_WARM = 8.0  # times as fast where the names are in memory
_KEPT = 9_000  # names that the kernel holds on to
_OTHERS = 20_000  # names of all else
_INODE = 256


def imitate(machine: Machine, words: Sequence[str], luck: random.Random) -> Acted:
    """``listing.sh FOLDER ENTRIES WHAT CACHE PASSES``."""
    folder, count, what, cache, passes = words
    if machine.kind(folder) != "directory":
        return failed(f"mkdir: cannot create directory '{folder}/entries': No such file")
    entries, speed = int(count), pace(machine, folder, luck)
    cold = cache == "cold"
    lines, total = [f"listing 1 {what} {cache} {entries} {passes}"], 0.0

    def step(name: str, rate: float) -> None:
        nonlocal total
        seconds = entries / speed.rate(rate * noise(luck))
        total += seconds
        lines.append(f"{name} {entries} {max(1, int(seconds * 1e9))}")

    step("create", _CHANGES)
    for _ in range(int(passes)):
        lines += [f"drop {entries + _OTHERS} {_KEPT}"] if cold else []
        step("pass", _SEEN[what] * (1.0 if cold else _WARM))
    step("delete", _CHANGES)
    said = "".join(f"{line}\n" for line in (*lines, "end"))
    size = float(entries * _INODE)
    moved = Moved(size * int(passes) if cold else 0.0, size, 4096)
    return Acted(total, {"stdout": said}, disk=speed.disk, moved=moved)
