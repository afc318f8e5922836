"""Words for clustered md: an array that several hosts have assembled from the same disks.

What mdadm says is held against what each kernel says.  Sources: md-cluster.rst of the kernel's
driver-api documentation, mdadm(8), md(4).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from iotrial_suites.case import CaseContext, CaseNeeds
from iotrial_suites.suites.arrays import (
    checksum,
    examined,
    free_node,
    pairs,
    section,
    sysfs,
    writable,
)
from iotrial_suites.suites.vocabulary import (
    Doing,
    back,
    expect,
    mount,
    read,
    run,
    undo,
    until,
    write,
)

NEEDS = CaseNeeds(
    commands=("mdadm", "corosync-quorumtool", "dlm_tool"),
    modules=("raid1", "md_cluster"),
    devices=2,
    hosts=2,
    shared=True,
)
ALONE = replace(NEEDS, hosts=1)
"""One host of a cluster is enough."""
LOSING = replace(NEEDS, loses=True)
CRASH = ("sh", "-c", "echo b >/proc/sysrq-trigger")
"""A host boots anew at once, and nothing that it had in memory gets anywhere."""
SLOTS = 4
"""Bitmaps that an array is made with, one for each host that has it."""
SPEED = "/proc/sys/dev/raid/speed_limit_max"
"""KiB/s."""
SYNCED = 240.0
"""Seconds in which a small array is in sync, also where processors are emulated."""
LOST = 120.0
"""Seconds in which a host that died is given up by the cluster."""


def everywhere(scene: CaseContext) -> range:
    """The numbers of all hosts."""
    return range(len(scene.nodes))


def quorate(scene: CaseContext) -> Doing[None]:
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
    scene: CaseContext,
    *options: str,
    devices: int = 2,
    members: tuple[str, ...] = (),
    on: int = 0,
) -> Doing[str]:
    """An array with a clustered bitmap, of the first so many devices, on one host alone.
    Gives back its node, which is free on all hosts."""
    yield from quorate(scene)
    node = yield from free_node(everywhere(scene))
    yield from owe(node, on=on)
    words = members or scene.nodes[on].devices[:devices]
    yield from run(
        "mdadm", "--create", node, "--run", "--level=1", f"--raid-devices={devices}",
        "--metadata=1.2", "--bitmap=clustered", f"--nodes={SLOTS}", *options, *words, on=on,
    )  # fmt: skip
    yield from writable(node, on=on)
    return node


def owe(node: str, *, on: int) -> Doing[None]:
    """Have it stopped on a host when the case is over."""
    yield from undo("mdadm", "--stop", node, on=on, at=sysfs(node))


def slowed(*, on: int) -> Doing[str]:
    """Have a host resync slowly: minutes for the smallest array.  To be called before the array is
    made: it would be in sync before it could be slowed.  Gives back what the limit was."""
    before = yield from read(SPEED, on=on)
    yield from undo("sh", "-c", f"echo {before} >{SPEED}", on=on)
    yield from write(SPEED, "1000", on=on)
    return before


def assemble(
    scene: CaseContext, node: str, *options: str, on: int, devices: int = 2, again: bool = False
) -> Doing[None]:
    """Assemble it on a host; ``again`` where that has been done in this case."""
    if not again:
        yield from owe(node, on=on)
    members = scene.nodes[on].devices[:devices]
    yield from run("mdadm", "--assemble", node, *options, *members, on=on)
    yield from writable(node, on=on)


def found_again(scene: CaseContext, node: str, *, on: int) -> Doing[None]:
    """Assemble it on a host that was booted meanwhile, where disks may have other names: by the
    UUID on the members.  (``mdadm --detail`` of mdadm 4.2 says none for an array that has just
    lost a host.)"""
    uuid = (yield from examined(scene.devices[0])).get("Array UUID", "")
    yield from owe(node, on=on)
    yield from run("mdadm", "--assemble", node, f"--uuid={uuid}", on=on)
    yield from writable(node, on=on)


def comes_back(scene: CaseContext, node: str, sum_: str) -> Doing[None]:
    """Wait for the second host, which was lost; have it find the array again, whole and with what
    was written meanwhile."""
    yield from back(1, within=600)
    yield from quorate(scene)
    yield from found_again(scene, node, on=1)
    yield from whole(node, 2, on=1)
    yield from same_everywhere(scene, node, sum_, "after a host died and came back")


def members() -> Doing[int]:
    """How many hosts dlm has; there may be more of them than take part."""
    return joined((yield from run("dlm_tool", "status")).stdout)


def given_up(before: int) -> Doing[None]:
    """Wait until dlm, which had so many hosts, has given up one that died."""
    yield from until(
        lambda: run("dlm_tool", "status"),
        lambda said: joined(said.stdout) < before,
        "dlm does not give up the host that died",
        within=LOST,
        every=1.0,
    )


def made_everywhere(scene: CaseContext, *options: str, devices: int = 2) -> Doing[str]:
    """A new array that every host has, in sync."""
    node = yield from create(scene, *options, devices=devices)
    for on in everywhere(scene)[1:]:
        yield from assemble(scene, node, on=on, devices=devices)
    for on in everywhere(scene):
        yield from whole(node, devices, on=on)
    return node


def stop(node: str, *, on: int) -> Doing[None]:
    yield from run("mdadm", "--stop", node, on=on)


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
        within=LOST,
        every=1.0,
    )


def detail(node: str, *, on: int = 0) -> Doing[dict[str, str]]:
    return pairs((yield from run("mdadm", "--detail", node, on=on)).stdout)


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


def same_everywhere(
    scene: CaseContext, node: str, sum_: str, when: str, *, at: int = 0
) -> Doing[None]:
    """See that every host reads what was written."""
    for on in everywhere(scene):
        now = yield from checksum(node, on=on, at=at)
        expect(now == sum_, f"{scene.nodes[on].name} reads other bytes of {node} {when}")


def same_on_members(scene: CaseContext, sum_: str, node: str, *, devices: int = 2) -> Doing[None]:
    """See that each member alone holds the beginning of the array: its data, where it lies."""
    for device in scene.devices[:devices]:
        offset = (yield from examined(device)).get("Data Offset", "").split()
        expect(offset, f"mdadm says no data offset of {device}")
        at = int(offset[0]) // 2048
        now = yield from checksum(device, on=0, at=at)
        expect(now == sum_, f"{device} does not hold what {node} holds")


def alike(node: str) -> Doing[None]:
    """Have the first host compare the members, all of them; see that they do not differ."""
    yield from write(sysfs(node, "sync_action"), "check")
    yield from until(
        lambda: read(sysfs(node, "sync_action")),
        lambda action: action == "idle",
        f"the check of {node} does not end",
        within=SYNCED,
        every=1.0,
    )
    count = yield from read(sysfs(node, "mismatch_cnt"))
    expect(count == "0", f"members differ in {count} sectors")


def nothing() -> Doing[None]:
    """Not a step."""
    yield from ()


_FILL = 'dd if=/dev/urandom of="$1" bs=256k count=8 conv=fsync status=none && sha256sum <"$1"'


def shared_files(
    node: str,
    type: str,  # noqa: A002 (as mount -t)
    *fsck: str,
    mounted: Callable[[], Doing[None]] = nothing,
) -> Doing[None]:
    """Mount the file system on the array on two hosts at once; see that each sees what the other
    writes and removes, that ``fsck`` finds nothing, and that it is all there afterwards.  While it
    is ``mounted`` on both, more is looked at; at the end it is on none."""
    first = yield from mount(node, type, on=0)
    points = (first, (yield from mount(node, type, on=1)))
    yield from mounted()
    for on, other in ((0, 1), (1, 0)):
        argv = ("sh", "-c", _FILL, "iotrial-fill", f"{points[on]}/of-{on}")
        wrote = yield from run(*argv, on=on)
        argv = ("sh", "-c", 'sha256sum <"$1"', "iotrial-sum", f"{points[other]}/of-{on}")
        seen = yield from run(*argv, on=other)
        expect(
            seen.stdout == wrote.stdout, f"host {other} reads other bytes of a file of host {on}"
        )
    yield from run("rm", f"{points[1]}/of-0", on=1)
    there = yield from run("ls", points[0])
    expect("of-0" not in there.stdout, "a file that host 1 removed is still there for host 0")
    for on in (1, 0):
        yield from run("umount", points[on], on=on)
    yield from run(*fsck, node)
    yield from run("mount", "-t", type, node, points[0])
    there = yield from run("ls", points[0])
    expect("of-1" in there.stdout, "a file is lost after it was mounted again")
    yield from run("umount", points[0])
