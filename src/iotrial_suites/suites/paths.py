"""Words for dm-multipath: a map's paths, taken away and given back, and what the kernel says.

The kernel's word is that of ``dmsetup status`` and ``dmsetup table``; multipathd's is not asked, as
its states may lag.  Sources: Documentation/admin-guide/device-mapper/ (dm-queue-length,
dm-service-time) of Linux 6.1, drivers/md/dm-mpath.c (``multipath_status``), dmsetup(8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from iotrial_suites.case import MIB, CaseContext, CaseFailed, CaseNeeds, CaseNotRun
from iotrial_suites.suites.vocabulary import Doing, read, run, undo, until, write

NEEDS = CaseNeeds(
    commands=("dmsetup", "multipathd", "fio"),
    modules=("dm_multipath",),
    devices=1,
    size=128 * MIB,
    disks=True,
)
LOSES_PATHS = (
    r"I/O error, dev sd",
    r"device-mapper: multipath: .*Failing path",
    r"rejecting I/O to offline device",
)
NOTICED = 60.0
"""Seconds in which a path that is lost or back is noticed."""
_TWO = 2
_NO_OPTIONS = "0"
_FEW = 20
"""Requests that are no chance: somebody else may look at a disk, too."""
_PATH_ARGUMENTS = {
    "round-robin": ("1000",),
    "queue-length": ("1",),
    "service-time": ("1", "1"),
}
"""What follows each path in a table: after how many requests the next is taken, and for
service-time its share."""


@dataclass(frozen=True, slots=True)
class MultipathMap:
    """A multipath map: its node, its name for dmsetup, the kernel's names of its paths."""

    node: str
    name: str
    paths: tuple[str, ...]


def mapped(scene: CaseContext) -> Doing[MultipathMap]:
    """The map that was handed over.  Raises NotHere where it is none, or has one path only."""
    node = scene.devices[0]
    folder = f"/sys/block/{node.removeprefix('/dev/')}"
    said = yield from run("cat", f"{folder}/dm/uuid", exits=None)
    if not said.stdout.startswith("mpath-"):
        raise CaseNotRun(f"{node} is not a map of dm-multipath: give one with --devices mpath-WWID")
    name = yield from read(f"{folder}/dm/name")
    listed = yield from run("ls", f"{folder}/slaves")
    there = MultipathMap(node, name, tuple(listed.stdout.split()))
    if len(there.paths) < _TWO:
        raise CaseNotRun(f"{name} has one path only")
    yield from until(
        lambda: states(there),
        lambda found: set(found.values()) == {"A"},
        f"not every path of {name} is active at the start",
        within=NOTICED,
    )
    return there


_LOOK = """\
name=$1
shift
dmsetup status "$name" || exit
for path; do
    read -r number <"/sys/block/$path/dev" && echo "$path $number"
done
"""
"""Arguments: a map, its paths.  One command, as each takes long where processors are emulated."""


def states(there: MultipathMap) -> Doing[dict[str, str]]:
    """``A`` (active) or ``F`` (failed) for each path, by its name."""
    said = yield from run("sh", "-c", _LOOK, "iotrial-states", there.name, *there.paths)
    status, _, rest = said.stdout.partition("\n")
    numbers = {line.split()[1]: line.split()[0] for line in rest.splitlines()}
    return {numbers[at]: state for at, state in parsed(status) if at in numbers}


def parsed(status: str) -> tuple[tuple[str, str], ...]:
    """Device number and state of each path of a line of ``dmsetup status``.

    >>> parsed("0 524288 multipath 2 0 1 0 1 1 A 0 2 0 8:16 A 0 8:0 F 2")
    (('8:16', 'A'), ('8:0', 'F'))
    """
    return tuple(re.findall(r"(\d+:\d+) ([AF])\b", status))


def offline(path: str, *, on: int = 0) -> Doing[None]:
    """Take a path away: the kernel refuses whatever goes to it.  It is owed back."""
    state = f"/sys/block/{path}/device/state"
    yield from undo("sh", "-c", f"echo running >{state}", on=on, at=state)
    yield from write(state, "offline\n", on=on)


def online(path: str) -> Doing[None]:
    yield from write(f"/sys/block/{path}/device/state", "running\n")


def noticed(there: MultipathMap, path: str, state: str) -> Doing[None]:
    """Wait until the kernel has a path as ``A`` or ``F``."""
    yield from until(
        lambda: states(there),
        lambda found: found.get(path) == state,
        f"path {path} of {there.name} is to be {'active' if state == 'A' else 'failed'}",
        within=NOTICED,
        every=1.0,
    )


_COUNT = """\
for path; do
    read -r reads _ _ _ writes _ <"/sys/block/$path/stat" && echo "$path $((reads + writes))"
done
"""


def done(*paths: str) -> Doing[dict[str, int]]:
    """Reads and writes that each path has completed: Documentation/block/stat.rst."""
    said = yield from run("sh", "-c", _COUNT, "iotrial-count", *paths)
    return {name: int(count) for name, count in map(str.split, said.stdout.splitlines())}


def spared(path: str, since: int) -> Doing[None]:
    """See that a path that is lost is left alone since it had done so many requests."""
    now = (yield from done(path))[path]
    if now - since >= _FEW:
        raise CaseFailed(f"{now - since} requests went over {path}, which was lost")


def carries(*paths: str) -> Doing[None]:
    """Wait until more and more goes over each of these paths."""
    before = yield from done(*paths)
    yield from until(
        lambda: done(*paths),
        lambda now: all(now[path] >= before[path] + _FEW for path in paths),
        f"too little goes over {' and '.join(paths)} (before: {before})",
        within=NOTICED,
        every=1.0,
    )


def features(table: str) -> tuple[str, ...]:
    """The features in a line of ``dmsetup table``.

    >>> features("0 524288 multipath 1 queue_if_no_path 1 alua 1 1 round-robin 0 1 1 8:0 1")
    ('queue_if_no_path',)
    """
    words = table.split()
    return tuple(words[4 : 4 + int(words[3])])


def selectors(table: str) -> tuple[str, ...]:
    """The selector of each group of paths in a line of ``dmsetup table``.

    >>> selectors("0 9 multipath 0 0 2 1 service-time 0 1 2 8:0 1 1 round-robin 0 1 1 8:16 1")
    ('service-time', 'round-robin')
    """
    return tuple(re.findall(r"([a-z-]+) (?:\d+ )+\d+:\d+", table))


def with_selector(table: str, selector: str) -> str:
    """The table, with this selector for each group.

    >>> with_selector("0 9 multipath 0 0 1 1 round-robin 0 2 1 8:0 1 8:16 1", "service-time")
    '0 9 multipath 0 0 1 1 service-time 0 2 2 8:0 1 1 8:16 1 1'
    """
    words = table.split()
    at = 4 + int(words[3])  # behind the features
    at += 1 + int(words[at])  # behind the hardware handler
    head, rest = words[: at + 2], words[at + 2 :]
    arguments = _PATH_ARGUMENTS[selector]
    while rest:
        rest = rest[2 + int(rest[1]) :]  # behind a selector and its options
        count, size = int(rest[0]), 1 + int(rest[1])
        body, rest = rest[2 : 2 + count * size], rest[2 + count * size :]
        head += [selector, _NO_OPTIONS, str(count), str(len(arguments))]
        for device in body[::size]:
            head += [device, *arguments]
    return " ".join(head)


def table(there: MultipathMap) -> Doing[str]:
    return (yield from run("dmsetup", "table", there.name)).stdout.strip()


_LOAD = 'dmsetup reload "$1" --table "$2" && dmsetup resume "$1"'
"""Arguments: map, table.  What is under way ends before the new table holds."""


def reload(there: MultipathMap, line: str) -> Doing[None]:
    yield from run("sh", "-c", _LOAD, "iotrial-reload", there.name, line)


def owe_table(there: MultipathMap, line: str) -> Doing[None]:
    yield from undo("sh", "-c", _LOAD, "iotrial-reload", there.name, line, at=there.node)
