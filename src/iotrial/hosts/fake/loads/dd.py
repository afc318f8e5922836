"""A pretended dd of coreutils 9.1: copies from and to devices, files, /dev/zero and /dev/null."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from iotrial.hosts.fake.loads.pace import Acted, Moved, failed, pace
from iotrial.hosts.fake.machine import Machine
from iotrial.units import parse_bytes

VERSION = "dd (coreutils) 9.1\n"
_ENDLESS = ("/dev/zero", "/dev/urandom", "/dev/random")
_UNITS = {1000: ("kB", "MB", "GB", "TB"), 1024: ("KiB", "MiB", "GiB", "TiB")}


def imitate(machine: Machine, words: Sequence[str], luck: random.Random) -> Acted:
    """Reads and writes at a rate that follows from the block and the disk."""
    given = dict(word.split("=", 1) for word in words if "=" in word)
    source, target = given.get("if", "/dev/stdin"), given.get("of", "/dev/stdout")
    reads, writes = source not in _ENDLESS, target != "/dev/null"
    if problem := refused(machine, given):
        return failed(problem)
    block = parse_bytes(given.get("bs", "512"))
    size = amount(machine, given)
    speed = pace(machine, source if reads else target, luck)
    both = 2.0 if reads and writes else 1.0
    seconds = max(size / speed.stream(block) * both, 1e-4)
    return Acted(
        seconds,
        {"stderr": report(size, block, seconds)},
        disk=speed.disk,
        moved=Moved(size if reads else 0.0, size if writes else 0.0, block),
        done=lambda: leave(machine, given),
    )


def refused(machine: Machine, given: Mapping[str, str]) -> str:
    """What dd complains of before it copies; '' where it can."""
    source, target = given.get("if", "/dev/stdin"), machine.real(given.get("of", ""))
    how, kind = given.get("conv", "").split(","), machine.kind(target)
    if source not in _ENDLESS and not machine.kind(source):
        return f"dd: failed to open '{source}': No such file or directory"
    if not kind and ("nocreat" in how or not machine.kind(str(PurePosixPath(target).parent))):
        return f"dd: failed to open '{target}': No such file or directory"
    if kind and "excl" in how:
        return f"dd: failed to open '{target}': File exists"
    device = kind in ("block special file", "character special file")
    if not device and amount(machine, given) > machine.room():
        return f"dd: error writing '{target}': No space left on device"
    return ""


def amount(machine: Machine, given: Mapping[str, str]) -> int:
    """Bytes that are copied: as many blocks as are asked for, at most what is there."""
    block = parse_bytes(given.get("bs", "512"))
    asked = block * int(given["count"]) if "count" in given else 0
    source = machine.real(given.get("if", "/dev/zero"))
    if source in _ENDLESS:
        return asked
    disk = machine.blocks.get(PurePosixPath(source).name) if source in machine.nodes else None
    file = machine.files.get(source)
    there = disk.size if disk else file.length if file else 0
    left = max(0, there - block * int(given.get("skip", "0")))
    return min(asked, left) if asked else left


def leave(machine: Machine, given: Mapping[str, str]) -> None:
    """The file that was written, if it is one."""
    path = machine.real(given.get("of", "/dev/stdout"))
    there = machine.files.get(path)
    if machine.kind(path) and there is None:
        return
    how = given.get("conv", "").split(",")
    begin = parse_bytes(given.get("bs", "512")) * int(given.get("seek", "0"))
    kept = there.length if there and "notrunc" in how else 0
    size = max(begin + amount(machine, given), kept)
    file = machine.put(path, b"", mode=0o644, size=size)
    file.inode = there.inode if there else file.inode
    file.durable = "fsync" in how


def report(size: int, block: int, seconds: float) -> str:
    """The three lines on stderr."""
    whole, rest = divmod(size, block)
    records = f"{whole}+{int(bool(rest))} records"
    told = [_human(size, base) for base in (1000, 1024) if size >= base]
    shown = f" ({', '.join(told)})" if told else ""
    rate = _human(int(size / seconds), 1000)
    return f"{records} in\n{records} out\n{size} bytes{shown} copied, {seconds:g} s, {rate}/s\n"


def _human(number: int, base: int) -> str:
    """As dd rounds: one digit behind the point below 10, else none."""
    value, unit = float(number), "B"
    for larger in _UNITS[base]:
        if value < base:
            break
        value, unit = value / base, larger
    tenths = unit != "B" and round(value, 1) < 10  # noqa: PLR2004 (dd's own limit)
    return f"{value:.1f} {unit}" if tenths else f"{value:.0f} {unit}"
