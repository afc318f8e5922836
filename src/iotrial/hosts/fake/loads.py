"""Load tools that the fake machine imitates besides fio: what they move, for how long, and what
they say, in the very format of the tool.

The rates are made up, and the same for the same seed and load: a scheduler's ``EFFECT``, the size
of a block, and noise.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from iotrial.hosts.fake.disk import SECTOR, FakeBlockDevice
from iotrial.hosts.fake.fio import EFFECT, NOISE
from iotrial.hosts.fake.machine import FakeMachine, Rates, block_below
from iotrial.units import parse_bytes

STREAM = 600e6
"""Bytes per second of large blocks."""
_EACH = 25e-6
"""Seconds that a block takes besides its bytes."""


@dataclass(frozen=True, slots=True)
class LoadBytes:
    """Bytes that a load reads and writes in all, in blocks of ``block`` bytes."""

    read: float = 0.0
    written: float = 0.0
    block: int = 65536


@dataclass(frozen=True, slots=True)
class FakeLoad:
    """A load: its seconds, what it moves, the files that it leaves beside its output (``stdout``
    and ``stderr`` among them), its exit status; ``done`` is called when it ends by itself."""

    seconds: float
    said: Mapping[str, str] = field(default_factory=dict)
    exit: int = 0
    disk: FakeBlockDevice | None = None
    moved: LoadBytes = field(default_factory=LoadBytes)
    done: Callable[[], object] = lambda: None

    @property
    def moves(self) -> dict[str, Rates]:
        """As a :class:`~iotrial.hosts.fake.machine.FakeTask` has them."""
        if self.disk is None or self.seconds <= 0:
            return {}
        each = [amount / self.seconds for amount in (self.moved.read, self.moved.written)]
        read, written = each
        of = self.moved.block
        return {self.disk.name: (read / of, read / SECTOR, written / of, written / SECTOR)}


@dataclass(frozen=True, slots=True)
class FakeSpeed:
    """``factor`` is of this load alone: the scheduler's effect, and noise."""

    factor: float
    disk: FakeBlockDevice | None

    def stream(self, block: int) -> float:
        """Bytes per second, one block after another."""
        return self.factor * block / (_EACH + block / STREAM)

    def rate(self, ideal: float) -> float:
        return self.factor * ideal


def pace(machine: FakeMachine, path: str, luck: random.Random) -> FakeSpeed:
    """How fast a load on ``path`` is."""
    disk = block_below(machine, path)
    scheduler = disk.queue.scheduler if disk else "none"
    return FakeSpeed(EFFECT.get(scheduler, 1.0) * noise(luck), disk)


def noise(luck: random.Random) -> float:
    return math.exp(luck.gauss(0.0, NOISE))


def failed(words: str, status: int = 1) -> FakeLoad:
    """A load that ends at once, complaining."""
    return FakeLoad(0.0, {"stderr": f"{words}\n"}, status)


# -- bonnie++ 2.00a --------------------------------------------------------------------------------
#
# The line of CSV that it writes (bon_time.cpp).  What took less than half a second is +++++ there,
# as it is of the real one.

BONNIE_SAYS = "bonnie++: invalid option -- '-'\nbonnie++ version 2.00a\n"
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
_FILES_A_SECOND = (14_000.0, 90_000.0, 18_000.0, 13_000.0, 90_000.0, 12_000.0)
"""Of create, stat and delete, in sequence and at random."""
_CHARACTERS = 5e6  # bytes that are moved one by one, whatever the size


def _bonnie(machine: FakeMachine, words: Sequence[str], luck: random.Random) -> FakeLoad:
    said = _bonnie_options(words)
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
    moved = LoadBytes(2.0 * size * 2**20, 2.0 * size * 2**20 + files * _UNIT * 512.0, 8192)
    return FakeLoad(seconds, {"stdout": ",".join(fields) + "\n"}, disk=speed.disk, moved=moved)


def _bonnie_options(words: Sequence[str]) -> dict[str, str]:
    """Option → value; '' for a switch."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("-"):
            value = words[at + 1] if at + 1 < len(words) else ""
            found[word[1:]] = "" if value.startswith("-") else value
    return found


def _large(
    size: float, speed: FakeSpeed, luck: random.Random, *, by_bytes: bool
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


def _small(count: float, speed: FakeSpeed, luck: random.Random) -> Iterator[tuple[str, float]]:
    for ideal in _FILES_A_SECOND:
        rate = speed.rate(ideal * noise(luck))
        yield from _cells(f"{rate:.0f}", count / rate)


def _cells(rate: str, taken: float) -> Iterator[tuple[str, float]]:
    told = taken >= _LEAST
    yield (rate if told else "+++++", taken)
    yield ("42" if told else "+++", 0.0)


def _latencies(*which: bool) -> list[str]:
    return [f"{1000 + 37 * at}us" if asked else "" for asked in which for at in range(6)]


# -- dd of coreutils 9.1 ---------------------------------------------------------------------------
#
# Copies from and to devices, files, /dev/zero and /dev/null.

DD_VERSION = "dd (coreutils) 9.1\n"
_ENDLESS = ("/dev/zero", "/dev/urandom", "/dev/random")
_UNITS = {1000: ("kB", "MB", "GB", "TB"), 1024: ("KiB", "MiB", "GiB", "TiB")}


def _dd(machine: FakeMachine, words: Sequence[str], luck: random.Random) -> FakeLoad:
    """Reads and writes at a rate that follows from the block and the disk."""
    given = dict(word.split("=", 1) for word in words if "=" in word)
    source, target = given.get("if", "/dev/stdin"), given.get("of", "/dev/stdout")
    reads, writes = source not in _ENDLESS, target != "/dev/null"
    if problem := dd_refused(machine, given):
        return failed(problem)
    block = parse_bytes(given.get("bs", "512"))
    size = dd_amount(machine, given)
    speed = pace(machine, source if reads else target, luck)
    both = 2.0 if reads and writes else 1.0
    seconds = max(size / speed.stream(block) * both, 1e-4)
    return FakeLoad(
        seconds,
        {"stderr": dd_report(size, block, seconds)},
        disk=speed.disk,
        moved=LoadBytes(size if reads else 0.0, size if writes else 0.0, block),
        done=lambda: dd_leave(machine, given),
    )


def dd_refused(machine: FakeMachine, given: Mapping[str, str]) -> str:
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
    if not device and dd_amount(machine, given) > machine.room():
        return f"dd: error writing '{target}': No space left on device"
    return ""


def dd_amount(machine: FakeMachine, given: Mapping[str, str]) -> int:
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


def dd_leave(machine: FakeMachine, given: Mapping[str, str]) -> None:
    """The file that was written, if it is one."""
    path = machine.real(given.get("of", "/dev/stdout"))
    there = machine.files.get(path)
    if machine.kind(path) and there is None:
        return
    how = given.get("conv", "").split(",")
    begin = parse_bytes(given.get("bs", "512")) * int(given.get("seek", "0"))
    kept = there.length if there and "notrunc" in how else 0
    size = max(begin + dd_amount(machine, given), kept)
    file = machine.put(path, b"", mode=0o644, size=size)
    file.inode = there.inode if there else file.inode
    file.durable = "fsync" in how


def dd_report(size: int, block: int, seconds: float) -> str:
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


# -- IOzone 3.489 ----------------------------------------------------------------------------------
#
# In throughput mode (-t): writing, reading and random access.  Its layout is that of
# throughput_test and dump_throughput in iozone.c.

IOZONE_SAYS = "\tUsage: For usage information type iozone -h \n"
_TESTS = {
    "0": (
        ("{:2d} initial writers \t", "  Initial write ", 0.8),
        ("{:2d} rewriters \t", "        Rewrite ", 0.9),
    ),
    "1": (
        ("{:2d} readers \t\t", "           Read ", 1.0),
        ("{} re-readers \t", "        Re-read ", 1.1),
    ),
    "2": (
        ("{} random readers \t", "    Random read ", 0.6),
        ("{} random writers \t", "   Random write ", 0.5),
    ),
}
"""By the number of -i: what a phase is called, in its block and in the report, and its speed."""
_HEAD = """\
\tIozone: Performance Test of File I/O
\t        Version $Revision: 3.489 $
\t\tCompiled for 64 bit mode.
\t\tBuild: linux-AMD64{blank}

\tRun began: Thu Jan  1 00:00:00 1970

"""
_SPREAD = 0.02  # by which the slowest and the fastest process lie apart from the mean


def _iozone(machine: FakeMachine, words: Sequence[str], luck: random.Random) -> FakeLoad:
    said = _iozone_options(words)
    if "-t" not in said or not set(said["-i"]) <= set(_TESTS):
        return failed("iozone: the pretended one has throughput mode (-t), and -i 0, 1 and 2")
    count, size, record = (int(said[key][0].rstrip("k")) for key in ("-t", "-s", "-r"))
    files = said["-F"]
    folder = str(PurePosixPath(files[0]).parent)
    if machine.kind(folder) != "directory":
        return failed(f"Can not open temp file: {files[0]}\nopen: No such file or directory")
    speed = pace(machine, folder, luck)
    text, sheet, seconds, read = [*_opening(words, said, count, size, record)], [], 0.0, 0.0
    for test in said["-i"]:
        for name, title, share in _TESTS[test]:
            alone = speed.stream(record * 1024) * share * noise(luck) / 1024
            rate = round(alone * count / (1 + 0.15 * (count - 1)), 2)
            text += _iozone_block(name.format(count), rate, count, size)
            sheet += [f'"{title}" {rate:10.2f} ', ""]
            seconds += size * count / rate
            read += 0.0 if "writ" in name else size * count * 1024.0
    phases = sum(len(_TESTS[test]) for test in said["-i"])
    if "-R" in said:
        text += ["", "", '"Throughput report Y-axis is type of test X-axis is number of processes"']
        text += [f'"Record size = {record} kBytes "', '"Output is in kBytes/sec"', "", *sheet]
    text += ["", "iozone test complete.", ""]
    moved = LoadBytes(read, phases * size * count * 1024.0 - read, record * 1024)
    return FakeLoad(seconds, {"stdout": "\n".join(text)}, disk=speed.disk, moved=moved)


def _iozone_options(words: Sequence[str]) -> dict[str, list[str]]:
    """Option → the words after it; -i is there several times."""
    found: dict[str, list[str]] = {}
    option = ""
    for word in words:
        if word.startswith("-"):
            option = word
            found.setdefault(option, [])
        else:
            found[option].append(word)
    return found


def _opening(
    words: Sequence[str], said: dict[str, list[str]], count: int, size: int, record: int
) -> list[str]:
    lines = _HEAD.format(blank=" ").splitlines()
    lines += ["\tO_DIRECT feature enabled"] if "-I" in said else []
    lines += ["\tInclude fsync in write timing"] if "-e" in said else []
    lines += ["\tInclude close in write timing"] if "-c" in said else []
    lines += [f"\tFile size set to {size} kB", f"\tRecord Size {record} kB"]
    lines += ["\tExcel chart generation enabled"] if "-R" in said else []
    return [
        *lines,
        f"\tCommand line used: iozone {' '.join(words)}",
        "\tOutput is in kBytes/sec",
        "\tTime Resolution = 0.000001 seconds.",
        "\tProcessor cache size set to 1024 kBytes.",
        "\tProcessor cache line size set to 32 bytes.",
        "\tFile stride size set to 17 * record size.",
        f"\tThroughput test with {count} process{'es' if count > 1 else ''}",
        f"\tEach process writes a {size} kByte file in {record} kByte records",
        "",
    ]


def _iozone_block(name: str, rate: float, count: int, size: int) -> list[str]:
    mean = rate / count
    slow, fast = (mean * (1 - _SPREAD), mean * (1 + _SPREAD)) if count > 1 else (mean, mean)
    parent = rate * 0.98
    return [
        f"\tChildren see throughput for {name}= {rate:10.2f} kB/sec",
        f"\tParent sees throughput for {name}= {parent:10.2f} kB/sec",
        f"\tMin throughput per process \t\t\t= {slow:10.2f} kB/sec ",
        f"\tMax throughput per process \t\t\t= {fast:10.2f} kB/sec",
        f"\tAvg throughput per process \t\t\t= {mean:10.2f} kB/sec",
        f"\tMin xfer \t\t\t\t\t= {size * (1 - _SPREAD):10.2f} kB",
        "",
    ]


# -- iperf3 3.12 -----------------------------------------------------------------------------------
#
# Before a server at the other end of a 10 Gbit/s link: its JSON.

IPERF3_VERSION = "iperf 3.12 (cJSON 1.7.15)\n"
_LINK = 1.17e9  # bytes per second, of TCP over 10 Gbit/s
_STREAM_BLOCK = 131072


def _iperf3(_machine: FakeMachine, words: Sequence[str], luck: random.Random) -> FakeLoad:
    """One stream of TCP, either way."""
    said = dict(zip(words, (*words[1:], ""), strict=True))
    if {"--udp", "--bidir", "--parallel"} & said.keys():
        return failed("iperf3: the pretended one has one stream of TCP")
    seconds, back = int(said.get("--time", "10")), "--reverse" in said
    moved = int(_LINK * noise(luck) * seconds)
    told = {"start": 0, "end": seconds, "seconds": seconds, "bytes": moved}
    here: dict[str, Any] = {**told, "bits_per_second": moved * 8 / seconds, "sender": not back}
    sender = {**here, "retransmits": 3}
    document = {
        "start": {
            "version": "iperf 3.12",
            "timestamp": {"time": "Thu, 01 Jan 1970 00:00:01 GMT", "timesecs": 1},
            "connecting_to": {"host": said.get("--client", ""), "port": 5201},
            "test_start": {
                "protocol": "TCP",
                "num_streams": 1,
                "blksize": _STREAM_BLOCK,
                "omit": 0,
                "duration": seconds,
                "bytes": 0,
                "blocks": 0,
                "reverse": int(back),
                "tos": 0,
                "target_bitrate": 0,
            },
        },
        "intervals": [],
        "end": {
            "streams": [{"sender": {"socket": 5, **sender}, "receiver": {"socket": 5, **here}}],
            "sum_sent": sender,
            "sum_received": here,
            "cpu_utilization_percent": {
                "host_total": 30.0,
                "host_user": 1.0,
                "host_system": 29.0,
                "remote_total": 25.0,
                "remote_user": 1.0,
                "remote_system": 24.0,
            },
        },
    }
    return FakeLoad(float(seconds), {"stdout": json.dumps(document, indent=1) + "\n"})


# -- listing.sh ------------------------------------------------------------------------------------
#
# iotrial's own load (tools/listing.sh).

_ENTRIES_A_SECOND = 40_000.0  # entries made or removed a second
_SEEN = {"ls": 60_000.0, "find": 55_000.0, "ls-l": 20_000.0, "stat": 25_000.0}
_WARM = 8.0  # times as fast where the names are in memory
_KEPT = 9_000  # names that the kernel holds on to
_OTHERS = 20_000  # names of all else
_INODE = 256


def _listing(machine: FakeMachine, words: Sequence[str], luck: random.Random) -> FakeLoad:
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

    step("create", _ENTRIES_A_SECOND)
    for _ in range(int(passes)):
        lines += [f"drop {entries + _OTHERS} {_KEPT}"] if cold else []
        step("pass", _SEEN[what] * (1.0 if cold else _WARM))
    step("delete", _ENTRIES_A_SECOND)
    said = "".join(f"{line}\n" for line in (*lines, "end"))
    size = float(entries * _INODE)
    moved = LoadBytes(size * int(passes) if cold else 0.0, size, 4096)
    return FakeLoad(total, {"stdout": said}, disk=speed.disk, moved=moved)


# -- all of them -----------------------------------------------------------------------------------

_Imitation = Callable[[FakeMachine, Sequence[str], random.Random], FakeLoad]

IMITATED: Mapping[str, _Imitation] = {
    "bonnie++": _bonnie,
    "dd": _dd,
    "iozone": _iozone,
    "iperf3": _iperf3,
    "listing.sh": _listing,
}


def imitate(machine: FakeMachine, argv: Sequence[str], luck: random.Random) -> FakeLoad | None:
    """What a load does; None for a program that is not imitated."""
    words = argv[1:] if argv[0] == "sh" and argv[1:2] == ("listing.sh",) else argv
    made = IMITATED.get(words[0].rpartition("/")[2])
    return made(machine, words[1:], luck) if made else None
