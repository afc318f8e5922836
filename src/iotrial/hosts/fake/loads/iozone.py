"""A pretended IOzone 3.489 in throughput mode (``-t``): writing, reading and random access.

Its layout is that of ``throughput_test`` and ``dump_throughput`` in iozone.c.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import PurePosixPath

from iotrial.hosts.fake.loads.pace import Acted, Moved, failed, noise, pace
from iotrial.hosts.fake.machine import Machine

SAYS = "\tUsage: For usage information type iozone -h \n"
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


def imitate(machine: Machine, words: Sequence[str], luck: random.Random) -> Acted:
    said = _said(words)
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
            text += _block(name.format(count), rate, count, size)
            sheet += [f'"{title}" {rate:10.2f} ', ""]
            seconds += size * count / rate
            read += 0.0 if "writ" in name else size * count * 1024.0
    phases = sum(len(_TESTS[test]) for test in said["-i"])
    if "-R" in said:
        text += ["", "", '"Throughput report Y-axis is type of test X-axis is number of processes"']
        text += [f'"Record size = {record} kBytes "', '"Output is in kBytes/sec"', "", *sheet]
    text += ["", "iozone test complete.", ""]
    moved = Moved(read, phases * size * count * 1024.0 - read, record * 1024)
    return Acted(seconds, {"stdout": "\n".join(text)}, disk=speed.disk, moved=moved)


def _said(words: Sequence[str]) -> dict[str, list[str]]:
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


def _block(name: str, rate: float, count: int, size: int) -> list[str]:
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
