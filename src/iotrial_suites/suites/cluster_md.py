"""cluster-md: arrays that several hosts of a cluster have at the same time, on shared disks.

The cases are those of a published functional test of 2015 (SLES 12 SP1, three virtual machines),
with what it only asserted looked at.
"""

from __future__ import annotations

import re
from dataclasses import replace

from iotrial_suites.case import MIB, Case, CaseContext, Script, case
from iotrial_suites.suites import suite_of
from iotrial_suites.suites.arrays import (
    FAILS_A_DISK,
    checksum,
    examined,
    fail,
    remove,
    scribble,
    sysfs,
)
from iotrial_suites.suites.clustered import (
    ALONE,
    CRASH,
    LOSING,
    LOST,
    NEEDS,
    SLOTS,
    SPEED,
    SYNCED,
    alike,
    assemble,
    bitmap,
    cluster_name,
    comes_back,
    create,
    degraded,
    detail,
    everywhere,
    given_up,
    made_everywhere,
    members,
    quorate,
    same_everywhere,
    same_on_members,
    shared_files,
    shown,
    slots,
    slowed,
    stop,
    whole,
)
from iotrial_suites.suites.filesystems import beating, made, still
from iotrial_suites.suites.vocabulary import (
    Doing,
    back,
    expect,
    join,
    lose,
    note,
    pause,
    read,
    run,
    start,
    until,
    write,
)


@case(
    "create",
    "An array with a clustered bitmap is made, for this cluster, and gets in sync",
    ALONE,
    limit=900,
    source="functional test of 2015, 2.1",
)
def create_case(scene: CaseContext) -> Script:
    """An array with a clustered bitmap is made; mdadm, its members and the kernel agree that it
    is."""
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    said = yield from detail(node)
    name = yield from cluster_name()
    expect(said.get("Cluster Name") == name, f"its cluster is {said.get('Cluster Name')!r}: {name}")
    expect("Clustered" in said.get("Intent Bitmap", ""), f"its bitmap: {said.get('Intent Bitmap')}")
    for device in scene.devices[:2]:
        found = slots((yield from bitmap(device)))
        expect(found == SLOTS, f"{device} has bitmaps of {found} hosts, not of {SLOTS}")
    yield from scribble(node, on=0)


@case(
    "assemble",
    "Two hosts assemble it, and each reads what the other writes",
    NEEDS,
    limit=900,
    source="functional test of 2015, 2.2",
)
def assemble_case(scene: CaseContext) -> Script:
    """Two hosts have the array at once, and each reads what the other writes."""
    node = yield from made_everywhere(scene)
    for on in everywhere(scene):
        written = yield from scribble(node, on=on, at=8 * on)
        who = scene.nodes[on].name
        yield from same_everywhere(scene, node, written, f"after {who} wrote them", at=8 * on)
    for on in everywhere(scene):
        yield from stop(node, on=on)


ASSEMBLE_ON_THREE = Case(
    "assemble-on-three",
    "Three hosts assemble it, and each reads what the others write",
    assemble_case.steps,
    replace(NEEDS, hosts=3),
    limit=1200,
    source="functional test of 2015, 2.2",
)


@case(
    "mdstat",
    "A resync is shown by the host that does it and, as another's, by the other",
    NEEDS,
    limit=900,
    source="functional test of 2015, 2.3, which claims it and prints no resync",
)
def mdstat_case(scene: CaseContext) -> Script:
    """The first resync is shown by the host that does it, and as another's by the other; it
    ends."""
    before = yield from slowed(on=0)
    node = yield from create(scene)
    yield from assemble(scene, node, on=1)
    here = yield from shown(node, on=0)
    expect(re.search(r"resync = +[\d.]+%", here), f"the resync is not shown: {here}")
    yield from until(
        lambda: shown(node, on=1),
        lambda text: "resync=REMOTE" in text or "resync=PENDING" in text,
        f"the other host does not show that {node} is resynced elsewhere",
        within=20,
    )
    yield from write(SPEED, before)
    yield from until(
        lambda: shown(node, on=0),
        lambda text: "resync" not in text,
        f"the resync of {node} does not end",
        within=SYNCED,
    )
    for on in (0, 1):
        yield from whole(node, 2, on=on)


@case(
    "ocfs2",
    "Two hosts have ocfs2 on it mounted at once, and see each other's files",
    replace(
        NEEDS,
        commands=(*NEEDS.commands, "mkfs.ocfs2", "tunefs.ocfs2", "fsck.ocfs2"),
        modules=(*NEEDS.modules, "ocfs2"),
        size=128 * MIB,
    ),
    limit=1200,
    source="functional test of 2015, 2.4 and 2.5",
)
def ocfs2_case(scene: CaseContext) -> Script:
    """ocfs2 on the array: two hosts mount it at once, and see each other's files, and leave no
    heartbeat."""
    node = yield from made_everywhere(scene)
    heart = yield from made(scene, node)
    yield from shared_files(
        *(node, "ocfs2", "fsck.ocfs2", "-f", "-n"), mounted=lambda: beating(scene, heart)
    )
    yield from still(scene, heart)


@case(
    "gfs2",
    "Two hosts have gfs2 on it mounted at once, and see each other's files",
    replace(
        NEEDS,
        commands=(*NEEDS.commands, "mkfs.gfs2", "fsck.gfs2"),
        modules=(*NEEDS.modules, "gfs2"),
        size=128 * MIB,
    ),
    limit=1200,
    source="functional test of 2015, 2.4 and 2.5, by the other file system of clusters",
)
def gfs2_case(scene: CaseContext) -> Script:
    """gfs2 on the array: two hosts mount it at once, and see each other's files."""
    name = yield from cluster_name()
    node = yield from made_everywhere(scene)
    yield from run(
        "mkfs.gfs2", "-q", "-O", "-j", "2", "-J", "8", "-p", "lock_dlm",
        "-t", f"{name}:{scene.token}", node,
    )  # fmt: skip
    yield from shared_files(node, "gfs2", "fsck.gfs2", "-n")


_MORE = SLOTS + 2


@case(
    "update-nodes",
    "It is assembled for more hosts, and has a bitmap for each",
    ALONE,
    limit=900,
    source="functional test of 2015, 2.6",
)
def update_nodes_case(scene: CaseContext) -> Script:
    """The number of hosts that an array has bitmaps for is changed when it is assembled."""
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    yield from scribble(node, on=0)
    yield from stop(node, on=0)
    yield from assemble(scene, node, "--update=nodes", f"--nodes={_MORE}", on=0, again=True)
    for device in scene.devices[:2]:
        found = slots((yield from bitmap(device)))
        expect(found == _MORE, f"{device} has bitmaps of {found} hosts, not of {_MORE}")
    yield from whole(node, 2, on=0)


@case(
    "home-cluster",
    "It is given to another cluster, where this one cannot start it, and back",
    ALONE,
    announces=(r"md\d+: Could not setup cluster service", r"Cluster name mismatch"),
    limit=900,
    source="functional test of 2015, 2.7, where the name was not changed",
)
def home_cluster_case(scene: CaseContext) -> Script:
    """An array is moved to another cluster: this one can no longer start it; it is moved back."""
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    written = yield from scribble(node, on=0)
    home = yield from cluster_name()
    other = f"other{scene.token}"
    yield from stop(node, on=0)
    words = ("--update=home-cluster", f"--home-cluster={other}")
    yield from run("mdadm", "--assemble", node, *words, *scene.devices[:2], exits=None)
    for device in scene.devices[:2]:
        said = (yield from examined(device)).get("Cluster Name", "")
        expect(said == other, f"{device} is of cluster {said!r}, not of {other}")
    state = yield from run(
        "cat", f"/sys/block/{node.removeprefix('/dev/')}/md/array_state", exits=None
    )
    running = state.exit == 0 and state.stdout.strip() not in ("inactive", "clear")
    expect(not running, f"{node} is of another cluster, and runs here")
    yield from run("mdadm", "--stop", node, exits=None)
    yield from assemble(
        scene, node, "--update=home-cluster", f"--home-cluster={home}", on=0, again=True
    )
    said = (yield from examined(scene.devices[0])).get("Cluster Name", "")
    expect(said == home, f"it is of cluster {said!r} again, not of {home}")
    expect((yield from checksum(node, on=0)) == written, "it holds other bytes")


_BITMAP, _CLUSTERED = 0x1, 0x100
"""MD_FEATURE_BITMAP_OFFSET, MD_FEATURE_CLUSTERED: include/uapi/linux/raid/md_p.h."""


@case(
    "examine",
    "Each member's superblock says to every host that it is clustered, and of which cluster",
    NEEDS,
    limit=900,
    source="functional test of 2015, 2.8",
)
def examine_case(scene: CaseContext) -> Script:
    """The superblock of each member says, to every host, that it is clustered, and of which
    cluster."""
    yield from made_everywhere(scene)
    name = yield from cluster_name()
    for on in everywhere(scene):
        for device in scene.nodes[on].devices[:2]:
            said = yield from examined(device, on=on)
            where = f"{device} of {scene.nodes[on].name}"
            features = int(said.get("Feature Map", "0"), 16)
            wanted = _BITMAP | _CLUSTERED
            expect(features & wanted == wanted, f"{where}: features {features:#x}")
            expect(
                said.get("Cluster Name") == name, f"{where}: {said.get('Cluster Name')!r}: {name}"
            )
            expect("correct" in said.get("Checksum", ""), f"{where}: {said.get('Checksum')}")


@case(
    "bitmap",
    "Its bitmap is changed from clustered to none, internal, none and back",
    ALONE,
    limit=900,
    source="functional test of 2015, 2.9",
)
def bitmap_case(scene: CaseContext) -> Script:
    """The bitmap of an array is changed: clustered, none, internal, none, and clustered again."""
    node, written = yield from to_none_again(scene)
    yield from run("mdadm", "--grow", node, "--bitmap=clustered")
    yield from clustered_again(scene, node, written)


def to_none_again(scene: CaseContext) -> Doing[tuple[str, str]]:
    """From clustered to none, internal and none; the array, and the checksum of what it holds."""
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    written = yield from scribble(node, on=0)
    for kind in ("none", "internal", "none"):
        yield from run("mdadm", "--grow", node, f"--bitmap={kind}")
        said = yield from detail(node)
        expect("Cluster Name" not in said, f"it has a cluster with bitmap {kind}")
        has = "Intent Bitmap" in said
        expect(has is (kind == "internal"), f"with bitmap {kind}: {said.get('Intent Bitmap')}")
    return node, written


def clustered_again(scene: CaseContext, node: str, written: str) -> Doing[None]:
    """See that it is, whole, and lost nothing."""
    said = yield from detail(node)
    expect("Clustered" in said.get("Intent Bitmap", ""), f"its bitmap: {said.get('Intent Bitmap')}")
    for device in scene.devices[:2]:
        expect(slots((yield from bitmap(device))), f"{device} has no bitmap of a cluster")
    yield from whole(node, 2, on=0)
    expect((yield from checksum(node, on=0)) == written, "it holds other bytes")


@case(
    "bitmap-by-write-mostly",
    "From no bitmap to a clustered one: where mdadm refuses it, with members write-mostly",
    ALONE,
    limit=900,
    source="the way round what cluster-md/bitmap fails with under mdadm 4.2",
)
def bitmap_by_write_mostly_case(scene: CaseContext) -> Script:
    """The way round what mdadm 4.2 refuses: members are write-mostly while it gets clustered."""
    node, written = yield from to_none_again(scene)
    grow = ("mdadm", "--grow", node, "--bitmap=clustered", f"--nodes={SLOTS}")
    said = yield from run(*grow, exits=None)
    if said.exit:
        expect("write-mostly" in said.stderr, f"it is refused for another reason: {said.complaint}")
        yield from note("refused without write-mostly; now with it")
        states = [
            sysfs(node, f"dev-{each.removeprefix('/dev/')}/state") for each in scene.devices[:2]
        ]
        for state in states:
            yield from write(state, "writemostly")
        yield from run(*grow)
        for state in states:
            yield from write(state, "-writemostly")
            now = yield from read(state)
            expect("write_mostly" not in now, f"{state} is {now} still")
    yield from clustered_again(scene, node, written)


TIMES_RE_ADD_EVERYWHERE = 3


@case(
    "re-add-everywhere",
    "Members fail and come back, repeatedly, while both hosts have it",
    NEEDS,
    announces=FAILS_A_DISK,
    limit=1800,
    source="functional test of 2015, 2.10, which failed here",
)
def re_add_everywhere_case(scene: CaseContext) -> Script:
    """Members fail, are removed and come back, time and again, while both hosts have the array.

    It is what failed in 2015: `add new device failed … Invalid argument`, `--re-add … not
    possible`.
    """
    node = yield from made_everywhere(scene)
    for number in range(TIMES_RE_ADD_EVERYWHERE):
        on = number % len(scene.nodes)
        written = yield from one_round(scene, node, scene.nodes[on].devices[number % 2], on=on)
        yield from same_everywhere(scene, node, written, f"in round {number + 1}")
    device = scene.devices[1]
    yield from fail(node, device, on=0)
    yield from remove(node, device, on=0)
    yield from run("mdadm", "--zero-superblock", device)
    written = yield from scribble(node, on=0)
    yield from run("mdadm", node, "--add", device)
    for on in everywhere(scene):
        yield from whole(node, 2, on=on)
    yield from same_on_members(scene, written, node)


def one_round(scene: CaseContext, node: str, device: str, *, on: int) -> Doing[str]:
    """A member fails on one host, all show it; what it lacks is written; it is back everywhere.
    Gives back the checksum of what was written."""
    yield from fail(node, device, on=on)
    for each in everywhere(scene):
        yield from degraded(node, 2, on=each)
    yield from remove(node, device, on=on)
    written = yield from scribble(node, on=on)
    yield from run("mdadm", node, "--re-add", device, on=on)
    for each in everywhere(scene):
        yield from whole(node, 2, on=each)
    yield from same_on_members(scene, written, node)
    return written


TIMES_RE_ADD_ON_ONE = 3


@case(
    "re-add-on-one",
    "Members fail and come back, repeatedly, while one host has it",
    ALONE,
    announces=FAILS_A_DISK,
    limit=1200,
    source="functional test of 2015, 2.10",
)
def re_add_on_one_case(scene: CaseContext) -> Script:
    """Members fail, are removed and come back, while one host of the cluster has the array."""
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    for number in range(TIMES_RE_ADD_ON_ONE):
        yield from one_round(scene, node, scene.devices[number % 2], on=0)


@case(
    "lost-in-resync",
    "A host dies while it resyncs it; the other ends the resync, and it comes back",
    LOSING,
    limit=1800,
)
def lost_in_resync_case(scene: CaseContext) -> Script:
    """A host dies while it resyncs the array: the other does what is left of it."""
    # The first resync, all of it still to do, by the host that is to die.
    yield from slowed(on=1)
    node = yield from create(scene, on=1)
    yield from assemble(scene, node, on=0)
    before = yield from until(
        lambda: shown(node, on=1),
        lambda text: "resync" in text,
        f"{node} is not resynced by the host that is to die",
        within=60,
    )
    expect("REMOTE" not in before, f"another host resyncs it: {before}")
    there = yield from members()
    yield from lose(*CRASH, on=1)
    written = yield from scribble(node, on=0)
    yield from given_up(there)
    yield from until(
        lambda: shown(node, on=0),
        lambda text: "REMOTE" not in text and "PENDING" not in text,
        "it still waits for the host that died",
        within=LOST + SYNCED,
        every=1.0,
    )
    yield from whole(node, 2, on=0)
    done = yield from read(sysfs(node, "resync_start"))
    expect(done == "none", f"the resync of {node} stopped at {done}; no host resumed it")
    yield from comes_back(scene, node, written)


_WRITE = """\
while :; do
    dd if=/dev/urandom of="$1" bs=64k seek=256 count=256 oflag=direct conv=notrunc
done
"""


@case(
    "lost-in-writes",
    "A host dies while it writes; members get alike, and it comes back",
    LOSING,
    limit=1800,
)
def lost_in_writes_case(scene: CaseContext) -> Script:
    """A host dies while it writes: the other makes its half-written places alike, and goes on."""
    node = yield from made_everywhere(scene)
    written = yield from scribble(node, on=0)
    yield from start("sh", "-c", _WRITE, "iotrial-write", node, on=1, within=600)
    yield from pause(5)
    before = yield from members()
    yield from lose(*CRASH, on=1)
    yield from given_up(before)
    yield from whole(node, 2, on=0)
    # All places that it had been writing to are alike on both members now.
    yield from alike(node)
    yield from same_on_members(scene, written, node)
    yield from comes_back(scene, node, written)


_ENOUGH = 30
"""Seconds for a write, once the host that was in its way has been given up."""
_LOOK = 'for pid in $(pgrep -f "$1"); do cat "/proc/$pid/stack"; done'


@case(
    "lost-in-repair",
    "A host dies while it repairs it; what the other writes there gets done",
    LOSING,
    limit=1800,
)
def lost_in_repair_case(scene: CaseContext) -> Script:
    """A host dies while it repairs the array: what the other writes meanwhile gets done."""
    node = yield from made_everywhere(scene)
    yield from write(sysfs(node, "sync_speed_max"), "1000", on=1)
    yield from write(sysfs(node, "sync_action"), "repair", on=1)
    yield from until(
        lambda: shown(node, on=0),
        lambda text: "REMOTE" in text,
        f"{node} is not shown to be repaired by another host",
        within=60,
    )
    before = yield from members()
    yield from lose(*CRASH, on=1)
    # Its place is one that the other host had asked to be left alone.
    writing = yield from start(
        *("dd", "if=/dev/urandom", f"of={node}", "bs=1M", "count=8", "oflag=direct"),
        within=600,
    )
    yield from given_up(before)
    yield from pause(_ENOUGH)
    ours = f"^dd .*of={node} "
    waits = (yield from run("pgrep", "-f", ours, exits=None)).exit == 0
    if waits:
        where = yield from run("sh", "-c", _LOOK, "iotrial-stack", ours, exits=None)
        yield from note(f"the write still waits: {where.stdout}")
        yield from run("dd", f"if={node}", "of=/dev/null", "bs=4k", "count=1", "iflag=direct")
    yield from join(writing, within=LOST)
    yield from back(1, within=600)
    yield from quorate(scene)
    expect(
        not waits,
        "a write waited for a host that had been given up, until a read of the array woke it",
    )


SUITE = suite_of(
    __name__,
    "cluster-md: arrays that several hosts have at once are made, broken and mended",
    ("mdadm",),
)
