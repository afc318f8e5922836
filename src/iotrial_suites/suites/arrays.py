"""Words for md arrays: make one, look at it twice (what mdadm says, what the kernel says), wait.

mdadm's word alone is never believed: what it says is held against ``/sys/block/mdN/md``, which the
kernel writes.  Sources: md(4), mdadm(8), Documentation/admin-guide/md.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iotrial_suites.case import CaseContext, CaseNeeds
from iotrial_suites.suites.vocabulary import Doing, expect, read, run, undo, until, write

MDADM = CaseNeeds(commands=("mdadm",), modules=("raid1",), devices=2)
TWO, THREE = 2, 3
SYNCED = 120.0
"""Seconds in which a small array is in sync, also where processors are emulated."""
_FIRST = 100
MIB_WRITTEN = 4
"""Few: where processors are emulated, a checksum takes seconds."""
FAILS_A_DISK = (r"md/raid\d+:md\d+: Disk failure", r"md/raid\d+:\S+: Operation continuing")


def sysfs(node: str, name: str = "") -> str:
    """``/dev/md100`` → the array's folder in /sys, or a file in it."""
    return f"/sys/block/{node.removeprefix('/dev/')}/md" + (f"/{name}" if name else "")


def member(device: str) -> str:
    """``/dev/loop7`` → ``dev-loop7``, as its folder below ``md`` is called."""
    return f"dev-{device.removeprefix('/dev/').replace('/', '!')}"


def free_node(hosts: Iterable[int] = (0,)) -> Doing[str]:
    """An array's node that none of these hosts has."""
    taken: set[str] = set()
    for on in hosts:
        taken |= set((yield from run("ls", "/sys/block", on=on)).stdout.split())
    return next(f"/dev/md{n}" for n in range(_FIRST, 512) if f"md{n}" not in taken)


def create(
    scene: CaseContext,
    *options: str,
    devices: int = TWO,
    level: str = "1",
    members: tuple[str, ...] = (),
) -> Doing[str]:
    """An array of so many devices: the first ones, or ``members`` (with words of mdadm's between
    them).  It is written to at once (Debian starts arrays read-only until then: start_ro).  Gives
    back its node."""
    node = yield from free_node()
    yield from undo("mdadm", "--stop", node, at=f"/sys/block/{node.removeprefix('/dev/')}")
    words = members or scene.devices[:devices]
    yield from run(
        "mdadm", "--create", node, "--run", f"--level={level}", f"--raid-devices={devices}",
        "--metadata=1.2", *options, *words,
    )  # fmt: skip
    yield from writable(node)
    return node


def writable(node: str, *, on: int = 0) -> Doing[None]:
    """Have an array be written to, as its first write would."""
    state = yield from read(sysfs(node, "array_state"), on=on)
    if "read" in state:  # read-auto, readonly
        yield from run("mdadm", "--readwrite", node, on=on)


def assemble(node: str, *members: str, options: tuple[str, ...] = ()) -> Doing[None]:
    yield from run("mdadm", "--assemble", node, *options, *members)
    yield from writable(node)


def stop(node: str) -> Doing[None]:
    """Stop it, and see that the kernel has it no more."""
    yield from run("mdadm", "--stop", node)
    yield from until(
        mdstat,
        lambda text: not section(text, node),
        f"{node} was stopped, and /proc/mdstat still has it",
        within=5,
    )


def mdstat() -> Doing[str]:
    return (yield from read("/proc/mdstat"))


def section(text: str, node: str) -> str:
    """The lines of /proc/mdstat about one array."""
    name = re.escape(node.removeprefix("/dev/"))
    found = re.search(rf"^{name} : .*(?:\n[ \t]+\S.*)*", text, re.MULTILINE)
    return found[0] if found else ""


_LOOK = """\
cd "$1" && for file in sync_action degraded raid_disks level array_state; do
    value=
    read -r value 2>/dev/null <"$file"
    echo "$file=$value"
done
echo
cat /proc/mdstat
"""
"""Argument: the folder of an array in /sys.  One command: where processors are emulated, each takes
long."""


@dataclass(frozen=True, slots=True)
class ArrayState:
    """What the kernel says of an array: files of its folder by name, and its part of mdstat."""

    files: Mapping[str, str]
    text: str


def look(node: str) -> Doing[ArrayState]:
    said = yield from run("sh", "-c", _LOOK, "iotrial-look", sysfs(node))
    head, _, rest = said.stdout.partition("\n\n")
    files = dict(line.partition("=")[::2] for line in head.splitlines())
    return ArrayState(files, section(rest, node))


def synced(node: str, *, within: float = SYNCED) -> Doing[ArrayState]:
    """Wait until nothing is rebuilt."""
    return (
        yield from until(
            lambda: look(node),
            lambda seen: seen.files.get("sync_action") == "idle",
            f"{node} is not in sync",
            within=within,
        )
    )


def whole(node: str, members: int) -> Doing[None]:
    """Wait until it is in sync, and see that it has so many members and lacks none: in sysfs, in
    /proc/mdstat and in what mdadm says."""
    seen = yield from synced(node)
    degraded = seen.files.get("degraded")
    expect(degraded == "0", f"{node} lacks {degraded} members")
    signs = f"[{members}/{members}] [{'U' * members}]"
    expect(signs in seen.text, f"/proc/mdstat is to show {signs} for {node}, and says: {seen.text}")
    yield from agrees(node, seen)


def lacking(node: str, members: int, missing: int) -> Doing[None]:
    """See that so many of its members are missing."""
    seen = yield from look(node)
    degraded, there = seen.files.get("degraded"), members - missing
    expect(degraded == str(missing), f"{node} lacks {degraded} members instead of {missing}")
    signs = f"[{members}/{there}]"
    expect(signs in seen.text, f"/proc/mdstat is to show {signs}: {seen.text}")


def agrees(node: str, seen: ArrayState | None = None) -> Doing[dict[str, str]]:
    """What ``mdadm --detail`` says, which must be what the kernel says."""
    said = yield from run("mdadm", "--detail", node)
    told = pairs(said.stdout)
    real = (seen or (yield from look(node))).files
    for name, file in (("Raid Level", "level"), ("Raid Devices", "raid_disks")):
        expect(
            told.get(name) == real.get(file),
            f"mdadm says {name} {told.get(name)}, the kernel {real.get(file)}",
        )
    clean = "degraded" not in told.get("State", "")
    missing = real.get("degraded")
    expect(
        clean == (missing == "0"),
        f"mdadm says its state is {told.get('State')!r}, and to the kernel {missing} are missing",
    )
    return told


def pairs(text: str) -> dict[str, str]:
    """``Key : value`` lines, as mdadm prints them."""
    found = (line.partition(" : ") for line in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in found if colon}


def examined(device: str, *, on: int = 0) -> Doing[Mapping[str, str]]:
    """What a member's own superblock says."""
    return pairs((yield from run("mdadm", "--examine", device, on=on)).stdout)


def state_of(node: str, device: str, *, on: int = 0) -> Doing[str]:
    """``in_sync``, ``faulty``, ``spare`` … of a member."""
    return (yield from read(sysfs(node, f"{member(device)}/state"), on=on))


def fail(node: str, device: str, *, on: int = 0) -> Doing[None]:
    """Fail a member, and see it failed."""
    yield from run("mdadm", node, "--fail", device, on=on)
    yield from until(
        lambda: state_of(node, device, on=on),
        lambda state: "faulty" in state,
        f"{device} was failed, and is not faulty",
        within=10,
    )


def remove(node: str, device: str, *, on: int = 0) -> Doing[None]:
    """Remove a failed member, when what was on its way to it is done."""
    yield from until(
        lambda: run("mdadm", node, "--remove", device, on=on, exits=None),
        lambda said: said.exit == 0,
        f"{device} cannot be removed from {node}",
    )


def slowed(node: str, kib: int) -> Doing[None]:
    """Limit how fast it is rebuilt, in KiB/s."""
    yield from write(sysfs(node, "sync_speed_min"), str(min(kib, 1000)))
    yield from write(sysfs(node, "sync_speed_max"), str(kib))


def hurried(node: str) -> Doing[None]:
    """As fast as it may be."""
    yield from write(sysfs(node, "sync_speed_max"), "system")
    yield from write(sysfs(node, "sync_speed_min"), "system")


def scribble(node: str, mib: int = MIB_WRITTEN, *, on: int = 0, at: int = 0) -> Doing[str]:
    """Write random bytes ``at`` MiB of a device; gives back their checksum, read again."""
    yield from run(
        "dd", "if=/dev/urandom", f"of={node}", "bs=1M", f"count={mib}", f"seek={at}",
        "oflag=direct", "conv=fsync,notrunc", "status=none", on=on,
    )  # fmt: skip
    return (yield from checksum(node, mib, on=on, at=at))


# The end of a pipe says nothing of what could not be read at its beginning: so the shell is ended.
_SUM = """\
{ dd if="$1" bs=1M count="$2" skip="$3" iflag=direct status=none || kill "$$"; } | md5sum
"""


def checksum(node: str, mib: int = MIB_WRITTEN, *, on: int = 0, at: int = 0) -> Doing[str]:
    """Of a part of a device, read past the cache."""
    argv = ("sh", "-c", _SUM, "iotrial-sum", node, str(mib), str(at))
    return (yield from run(*argv, on=on)).stdout.split()[0]


def still(node: str, sum_: str, when: str, mib: int = MIB_WRITTEN) -> Doing[None]:
    """See that a device holds what was written."""
    now = yield from checksum(node, mib)
    expect(now == sum_, f"{node} holds other bytes {when}")
