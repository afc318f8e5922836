"""Words for clustered md: an array that several hosts have assembled from the same disks.

What mdadm says is held against what each kernel says.  Sources: md-cluster.rst of the kernel's
driver-api documentation, mdadm(8), md(4).
"""

from __future__ import annotations

import re
from dataclasses import replace

from iotrial.checks.vocabulary import Doing, expect, read, run, undo, until
from iotrial.model.check import Needs, Scene

NEEDS = Needs(
    commands=("mdadm", "corosync-quorumtool", "dlm_tool"),
    modules=("raid1", "md_cluster"),
    devices=2,
    hosts=2,
    shared=True,
)
ALONE = replace(NEEDS, hosts=1)
"""One host of a cluster is enough."""
SLOTS = 4
"""Bitmaps that an array is made with, one for each host that has it."""
FAILS_A_DISK = (r"md/raid1:md\d+: Disk failure",)
SYNCED = 240.0
"""Seconds in which a small array is in sync, also where processors are emulated."""
LOST = 120.0
"""Seconds in which a host that died is given up by the cluster."""
SLOW = 120.0
"""Seconds for a command that locks its way through the cluster."""
_FIRST = 100


def everywhere(scene: Scene) -> range:
    """The numbers of all hosts."""
    return range(len(scene.nodes))


def sysfs(node: str, name: str = "") -> str:
    """``/dev/md100`` → the array's folder in /sys, or a file in it."""
    return f"/sys/block/{node.removeprefix('/dev/')}/md" + (f"/{name}" if name else "")


def quorate(scene: Scene) -> Doing[None]:
    """See that dlm has met with every host: what no case here can do without."""
    for on in everywhere(scene):
        yield from until(
            lambda on=on: run("dlm_tool", "status", on=on, exits=None),  # type: ignore[misc]
            lambda said: "quorate 1" in said.stdout and joined(said.stdout) >= len(scene.nodes),
            f"dlm of {scene.nodes[on].name} has not met with all {len(scene.nodes)} hosts",
            within=LOST,
            every=1.0,
        )


def joined(status: str) -> int:
    """How many members ``dlm_tool status`` names.

    >>> joined("cluster nodeid 1 quorate 1 ring seq 9 9\\nnode 1 M add 19\\nnode 2 X add 3 rem 9")
    1
    """
    return len(re.findall(r"^node \d+ M\b", status, re.MULTILINE))


def create(
    scene: Scene, *options: str, devices: int = 2, members: tuple[str, ...] = ()
) -> Doing[str]:
    """An array with a clustered bitmap, of the first so many devices, on the first host alone.
    Gives back its node, which is free on all hosts."""
    yield from quorate(scene)
    taken: set[str] = set()
    for on in everywhere(scene):
        taken |= set((yield from run("ls", "/sys/block", on=on)).stdout.split())
    node = next(f"/dev/md{n}" for n in range(_FIRST, 512) if f"md{n}" not in taken)
    yield from owe(node, on=0)
    words = members or scene.devices[:devices]
    yield from run(
        "mdadm", "--create", node, "--run", "--level=1", f"--raid-devices={devices}",
        "--metadata=1.2", "--bitmap=clustered", f"--nodes={SLOTS}", *options, *words, within=SLOW,
    )  # fmt: skip
    yield from writable(node, on=0)
    return node


def owe(node: str, *, on: int) -> Doing[None]:
    """Have it stopped on a host when the case is over."""
    yield from undo("mdadm", "--stop", node, on=on, at=sysfs(node))


def writable(node: str, *, on: int) -> Doing[None]:
    """Have it be written to, as its first write would (Debian starts them read-only: start_ro)."""
    if "read" in (yield from read(sysfs(node, "array_state"), on=on)):
        yield from run("mdadm", "--readwrite", node, on=on, within=SLOW)


def assemble(
    scene: Scene, node: str, *options: str, on: int, devices: int = 2, again: bool = False
) -> Doing[None]:
    """Assemble it on a host; ``again`` where that has been done in this case."""
    if not again:
        yield from owe(node, on=on)
    members = scene.nodes[on].devices[:devices]
    yield from run("mdadm", "--assemble", node, *options, *members, on=on, within=SLOW)
    yield from writable(node, on=on)


def made_everywhere(scene: Scene, *options: str, devices: int = 2) -> Doing[str]:
    """A new array that every host has, in sync."""
    node = yield from create(scene, *options, devices=devices)
    for on in everywhere(scene)[1:]:
        yield from assemble(scene, node, on=on, devices=devices)
    for on in everywhere(scene):
        yield from whole(node, devices, on=on)
    return node


def stop(node: str, *, on: int) -> Doing[None]:
    yield from run("mdadm", "--stop", node, on=on, within=SLOW)


def section(text: str, node: str) -> str:
    """The lines of /proc/mdstat about one array."""
    name = re.escape(node.removeprefix("/dev/"))
    found = re.search(rf"^{name} : .*(?:\n[ \t]+\S.*)*", text, re.MULTILINE)
    return found[0] if found else ""


def shown(node: str, *, on: int) -> Doing[str]:
    """What a host's /proc/mdstat says of it."""
    return section((yield from read("/proc/mdstat", on=on)), node)


def whole(node: str, members: int, *, on: int) -> Doing[None]:
    """Wait until a host shows all its members and rebuilds nothing; see that nothing is missing
    to the kernel either."""
    signs = f"[{members}/{members}] [{'U' * members}]"
    yield from until(
        lambda: shown(node, on=on),
        lambda text: signs in text and not re.search("resync|recovery|reshape", text),
        f"/proc/mdstat is to show {signs} and no resync for {node}",
        within=SYNCED,
        every=1.0,
    )
    degraded = yield from read(sysfs(node, "degraded"), on=on)
    expect(degraded == "0", f"{node} lacks {degraded} members")


def degraded(node: str, members: int, *, on: int) -> Doing[None]:
    """Wait until a host shows that one of its members is missing."""
    yield from until(
        lambda: shown(node, on=on),
        lambda text: f"[{members}/{members - 1}]" in text,
        f"/proc/mdstat is to show [{members}/{members - 1}] for {node}",
        within=SLOW,
        every=1.0,
    )


def pairs(text: str) -> dict[str, str]:
    """``Key : value`` lines, as mdadm prints them."""
    found = (line.partition(" : ") for line in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in found if colon}


def detail(node: str, *, on: int = 0) -> Doing[dict[str, str]]:
    return pairs((yield from run("mdadm", "--detail", node, on=on)).stdout)


def examined(device: str, *, on: int = 0) -> Doing[dict[str, str]]:
    """What a member's own superblock says."""
    return pairs((yield from run("mdadm", "--examine", device, on=on)).stdout)


def bitmap(device: str, *, on: int = 0) -> Doing[str]:
    """What mdadm says of the bitmaps on a member, one for each slot of the cluster."""
    said = yield from run("mdadm", "--examine-bitmap", device, on=on)
    return said.stdout


def slots(text: str) -> int:
    """For how many hosts the bitmap on a member has room; 0: it is no clustered one.

    >>> slots("     Cluster nodes : 4\\n      Cluster name : labclu")
    4
    """
    found = re.search(r"Cluster nodes : (\d+)", text)
    return int(found[1]) if found else 0


def cluster_name(*, on: int = 0) -> Doing[str]:
    """As corosync has it."""
    said = yield from run("corosync-cmapctl", "-g", "totem.cluster_name", on=on)
    return said.stdout.rpartition("=")[2].strip()


def fail(node: str, device: str, *, on: int) -> Doing[None]:
    yield from run("mdadm", node, "--fail", device, on=on, within=SLOW)


def remove(node: str, device: str, *, on: int) -> Doing[None]:
    """Remove a failed member, when what was on its way to it is done."""
    yield from until(
        lambda: run("mdadm", node, "--remove", device, on=on, exits=None, within=SLOW),
        lambda said: said.exit == 0,
        f"{device} cannot be removed from {node}",
        within=30,
        every=1.0,
    )


def scribble(node: str, *, on: int, mib: int = 8, at: int = 0) -> Doing[str]:
    """Write random bytes; gives back their checksum, read again there."""
    yield from run(
        "dd", "if=/dev/urandom", f"of={node}", "bs=1M", f"count={mib}", f"seek={at}",
        "oflag=direct", "conv=fsync,notrunc", "status=none", on=on, within=SLOW,
    )  # fmt: skip
    return (yield from checksum(node, on=on, mib=mib, at=at))


_SUM = 'dd if="$1" bs=1M count="$2" skip="$3" iflag=direct status=none | sha256sum'


def checksum(node: str, *, on: int, mib: int = 8, at: int = 0) -> Doing[str]:
    """Of a part of a device, read past the cache."""
    argv = ("sh", "-c", _SUM, "iotrial-sum", node, str(mib), str(at))
    return (yield from run(*argv, on=on, within=SLOW)).stdout.split()[0]


def same_everywhere(scene: Scene, node: str, sum_: str, when: str, *, at: int = 0) -> Doing[None]:
    """See that every host reads what was written."""
    for on in everywhere(scene):
        now = yield from checksum(node, on=on, at=at)
        expect(now == sum_, f"{scene.nodes[on].name} reads other bytes of {node} {when}")


def same_on_members(scene: Scene, sum_: str, node: str, *, devices: int = 2) -> Doing[None]:
    """See that each member alone holds the beginning of the array: its data, where it lies."""
    for device in scene.devices[:devices]:
        offset = (yield from examined(device)).get("Data Offset", "").split()
        expect(offset, f"mdadm says no data offset of {device}")
        at = int(offset[0]) // 2048
        now = yield from checksum(device, on=0, at=at)
        expect(now == sum_, f"{device} does not hold what {node} holds")
