"""A pretended bonnie++ 2.00a: the line of CSV that it writes (``bon_time.cpp``).

What took less than half a second is ``+++++`` there, as it is of the real one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from iotrial.hosts.fake.loads.pace import STREAM, Acted, Moved, Pace, failed, noise, pace
from iotrial.hosts.fake.machine import Machine

SAYS = "bonnie++: invalid option -- '-'\nbonnie++ version 2.00a\n"
"""It has no ``--version``."""
_LEAST = 0.5  # seconds
_SEEKS, _SEEK_RATE = 8192, 9000.0
_UNIT = 1024  # files
_BYTES = {
    "putc": 1.2e6,
    "write": 0.7 * STREAM,
    "rewrite": 0.35 * STREAM,
    "getc": 3e6,
    "read": STREAM,
}
_CHANGES = (14_000.0, 90_000.0, 18_000.0, 13_000.0, 90_000.0, 12_000.0)
"""Of create, stat and delete, in sequence and at random."""
_CHARACTERS = 5e6  # bytes that are moved one by one, whatever the size


def imitate(machine: Machine, words: Sequence[str], luck: random.Random) -> Acted:
    said = _said(words)
    folder = said.get("d", ".")
    if machine.kind(folder) != "directory":
        return failed(f"Can't chdir to {folder}: No such file or directory")
    speed = pace(machine, folder, luck)
    size = int(said.get("s", "0").partition(":")[0])
    files = int(said.get("n", "16").partition(":")[0])
    large = list(_large(size * 2**20, speed, luck, by_bytes="f" not in said)) if size else []
    small = list(_small(files * _UNIT, speed, luck)) if files else []
    io = [cell for cell, _ in large] or [""] * 12
    rates = [cell for cell, _ in small] or [""] * 12
    unit = f"{size // 1024}G" if size and not size % 1024 else f"{size}M"
    fields = [
        *("1.98", "2.00a", said.get("m", "fake"), "1", "1500000000", unit if size else ""),
        *("", "8192", "5", *io),
        *((str(files), "", "", "", "") if files else [""] * 5),
        *(*rates, *_latencies(bool(size), bool(files))),
    ]
    seconds = sum(taken for _, taken in (*large, *small))
    moved = Moved(2.0 * size * 2**20, 2.0 * size * 2**20 + files * _UNIT * 512.0, 8192)
    return Acted(seconds, {"stdout": ",".join(fields) + "\n"}, disk=speed.disk, moved=moved)


def _said(words: Sequence[str]) -> dict[str, str]:
    """Option → value; '' for a switch."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("-"):
            value = words[at + 1] if at + 1 < len(words) else ""
            found[word[1:]] = "" if value.startswith("-") else value
    return found


def _large(
    size: float, speed: Pace, luck: random.Random, *, by_bytes: bool
) -> Iterator[tuple[str, float]]:
    """Rates of the large file in KiB per second, each with its share of a CPU; and seconds."""
    for name, ideal in _BYTES.items():
        slow = name in ("putc", "getc")
        if slow and not by_bytes:
            yield from (("", 0.0), ("", 0.0))
            continue
        rate = speed.rate(ideal * noise(luck))
        taken = (_CHARACTERS if slow else size) / rate
        yield from _cells(f"{rate / 1024:.0f}", taken)
    rate = speed.rate(_SEEK_RATE * noise(luck))
    yield from _cells(f"{rate:.1f}", _SEEKS / rate)


def _small(count: float, speed: Pace, luck: random.Random) -> Iterator[tuple[str, float]]:
    for ideal in _CHANGES:
        rate = speed.rate(ideal * noise(luck))
        yield from _cells(f"{rate:.0f}", count / rate)


def _cells(rate: str, taken: float) -> Iterator[tuple[str, float]]:
    told = taken >= _LEAST
    yield (rate if told else "+++++", taken)
    yield ("42" if told else "+++", 0.0)


def _latencies(*which: bool) -> list[str]:
    return [f"{1000 + 37 * at}us" if asked else "" for asked in which for at in range(6)]
