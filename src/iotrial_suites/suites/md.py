"""md: software RAID made, broken, mended and taken apart, on small devices."""

from __future__ import annotations

import re
from dataclasses import replace

from iotrial_suites.case import CaseContext, CaseHost, Script, case
from iotrial_suites.suites import suite_of
from iotrial_suites.suites.arrays import (
    FAILS_A_DISK,
    MDADM,
    SYNCED,
    THREE,
    TWO,
    agrees,
    assemble,
    checksum,
    create,
    examined,
    fail,
    hurried,
    lacking,
    mdstat,
    remove,
    scribble,
    section,
    slowed,
    state_of,
    still,
    stop,
    sysfs,
    whole,
    writable,
)
from iotrial_suites.suites.vocabulary import (
    Doing,
    expect,
    mount,
    pause,
    read,
    run,
    undo,
    until,
    write,
)


@case(
    "create",
    "A mirror is made, gets in sync and keeps what is written",
    MDADM,
)
def create_case(scene: CaseContext) -> Script:
    """A mirror is made; mdadm and the kernel agree on what it is, and it keeps what is written."""
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    yield from still(node, written, "after it was in sync")


@case(
    "assemble",
    "A stopped array is assembled from its members, unchanged",
    MDADM,
)
def assemble_case(scene: CaseContext) -> Script:
    """A stopped array is put together again from its members, the same as before."""
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    before = yield from agrees(node)
    yield from stop(node)
    yield from assemble(node, *scene.devices)
    yield from whole(node, TWO)
    after = yield from agrees(node)
    expect(after.get("UUID") == before.get("UUID"), "it has another UUID than before")
    yield from still(node, written, "after it was assembled")


TIMES_REASSEMBLE_BY_UUID = 3


@case(
    "reassemble-by-uuid",
    "A stopped array is found by its UUID, again and again",
    MDADM,
)
def reassemble_by_uuid_case(scene: CaseContext) -> Script:
    """An array is found by its UUID among all devices, and put together again, several times."""
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    uuid = (yield from agrees(node))["UUID"]
    for _ in range(TIMES_REASSEMBLE_BY_UUID):
        yield from stop(node)
        yield from run("mdadm", "--assemble", node, "--config=partitions", f"--uuid={uuid}")
        yield from writable(node)
        yield from whole(node, TWO)
        yield from still(node, written, "after it was found by its UUID")


_KIB_MDSTAT = 2000
_SHARE = re.compile(r"resync = *([0-9.]+)%")


@case(
    "mdstat",
    "/proc/mdstat shows a resync as it goes on, and its end",
    MDADM,
)
def mdstat_case(scene: CaseContext) -> Script:
    """/proc/mdstat tells of a resync while it goes on, and of its end."""
    node = yield from create(scene)
    yield from whole(node, TWO)
    # A repair is a resync that somebody asked for.  Slowly enough to be seen.
    yield from slowed(node, _KIB_MDSTAT)
    yield from write(sysfs(node, "sync_action"), "repair")

    def share() -> Doing[float]:
        text = section((yield from mdstat()), node)
        found = _SHARE.search(text)
        return float(found[1]) if found else -1.0

    first = yield from until(share, lambda seen: seen >= 0, "no resync is told of", within=10)
    action = yield from read(sysfs(node, "sync_action"))
    expect(action != "idle", "/proc/mdstat tells of a resync, and sync_action is idle")
    yield from until(share, lambda seen: seen > first, "it does not go on", within=30)
    yield from hurried(node)
    yield from whole(node, TWO)


@case(
    "examine",
    "Each member's superblock says which array it belongs to",
    MDADM,
)
def examine_case(scene: CaseContext) -> Script:
    """Each member says itself which array it belongs to."""
    node = yield from create(scene)
    yield from whole(node, TWO)
    told = yield from agrees(node)
    roles = set()
    for device in scene.devices:
        own = yield from examined(device)
        expect(own.get("Magic") == "a92b4efc", f"{device} has no superblock of md: {own}")
        expect(
            own.get("Array UUID") == told.get("UUID"),
            f"{device} belongs to {own.get('Array UUID')}, and {node} is {told.get('UUID')}",
        )
        expect(own.get("Raid Devices") == "2", f"{device} knows of {own.get('Raid Devices')}")
        expect(own.get("State") in ("clean", "active"), f"{device} is {own.get('State')}")
        roles.add(own.get("Device Role"))
    expect(len(roles) == TWO, f"both members have one role: {roles}")
    scan = yield from run("mdadm", "--examine", "--brief", *scene.devices)
    expect(str(told.get("UUID")) in scan.stdout, "--examine --brief does not know its UUID")


@case(
    "detail",
    "mdadm --detail, --export and --scan tell what the kernel has",
    MDADM,
)
def detail_case(scene: CaseContext) -> Script:
    """What mdadm tells of an array, in all its forms, is what the kernel has."""
    node = yield from create(scene)
    yield from whole(node, TWO)
    told = yield from agrees(node)
    size = yield from read(f"/sys/block/{node.removeprefix('/dev/')}/size")
    words = str(told.get("Array Size")).split()
    expect(
        words[0].isdigit() and int(words[0]) * 2 == int(size),
        f"mdadm says {words[0]} KiB, the kernel {int(size) // 2}",
    )
    export = yield from run("mdadm", "--detail", "--export", node)
    said = dict(line.partition("=")[::2] for line in export.stdout.splitlines())
    expect(said.get("MD_UUID") == told.get("UUID"), f"--export says UUID {said.get('MD_UUID')}")
    expect(said.get("MD_DEVICES") == "2", f"--export says {said.get('MD_DEVICES')} devices")
    members = yield from run("ls", sysfs(node).removesuffix("md") + "slaves")
    for name in members.stdout.split():
        expect(f"/dev/{name}" in export.stdout, f"--export does not name the member {name}")
    scan = yield from run("mdadm", "--detail", "--scan")
    expect(str(told.get("UUID")) in scan.stdout, "--detail --scan does not know it")


_SUMS = 'cd "$1" && find . -type f -exec sha256sum {} + | sort'
_FILL = """\
for number in 1 2 3 4 5 6 7 8; do
    dd if=/dev/urandom of="$1/file-$number" bs=256k count="$number" conv=fsync status=none || exit
done
"""


@case(
    "filesystem",
    "A file system on it is made, written, mounted again and sound",
    replace(MDADM, commands=("mdadm", "mkfs.ext4", "e2fsck", "find")),
)
def filesystem_case(scene: CaseContext) -> Script:
    """A file system on an array: made, written, unmounted, mounted again, and nothing is lost."""
    node = yield from create(scene)
    yield from run("mkfs.ext4", "-q", "-F", node)
    point = yield from mount(node, "ext4")
    yield from run("sh", "-c", _FILL, "iotrial-fill", point)
    before = yield from run("sh", "-c", _SUMS, "iotrial-sums", point)
    expect(before.stdout.count("file-") == 8, "not all files are there")  # noqa: PLR2004 (as filled)
    yield from run("umount", point)
    yield from run("mount", "-o", "ro", node, point)
    after = yield from run("sh", "-c", _SUMS, "iotrial-sums", point)
    expect(after.stdout == before.stdout, "files have other bytes after it was mounted again")
    yield from run("mount", "-o", "remount,rw", point)
    yield from run("sh", "-c", _FILL, "iotrial-fill", point)
    yield from run("umount", point)
    yield from run("e2fsck", "-f", "-n", node)
    yield from whole(node, TWO)


@case(
    "grow-devices",
    "A mirror grows from two members to three, and shrinks again",
    replace(MDADM, devices=THREE),
    announces=FAILS_A_DISK,
)
def grow_devices_case(scene: CaseContext) -> Script:
    """A mirror of two grows to three, and shrinks to two again, with all it holds."""
    third = scene.devices[2]
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    yield from run("mdadm", node, "--add", third)
    yield from run("mdadm", "--grow", node, "--raid-devices=3")
    yield from whole(node, THREE)
    yield from still(node, written, "with three members")
    yield from fail(node, third)
    yield from remove(node, third)
    yield from run("mdadm", "--grow", node, "--raid-devices=2")
    yield from whole(node, TWO)
    yield from still(node, written, "with two members again")


@case(
    "grow-bitmap",
    "The bitmap goes and comes back (none, internal) in use",
    MDADM,
)
def grow_bitmap_case(scene: CaseContext) -> Script:
    """The bitmap of an array is taken away and restored while it is in use."""
    node = yield from create(scene, "--bitmap=internal")
    written = yield from scribble(node)
    yield from whole(node, TWO)
    for bitmap in ("none", "internal", "none", "internal"):
        yield from run("mdadm", "--grow", node, f"--bitmap={bitmap}")
        place = yield from read(sysfs(node, "bitmap/location"))
        there = place != "none"
        expect(there == (bitmap == "internal"), f"--bitmap={bitmap}, and it lies at {place!r}")
        told = yield from agrees(node)
        said = "Intent Bitmap" in told
        expect(said == there, f"mdadm says it has {'a' if said else 'no'} bitmap; kernel: {place}")
    bits = yield from run("mdadm", "--examine-bitmap", scene.devices[0])
    expect("bitmap is" in bits.stdout.lower() or "Bitmap :" in bits.stdout, "no bitmap is told of")
    yield from still(node, written, "after its bitmap came and went")


TIMES_FAIL_AND_RE_ADD = 3


@case(
    "fail-and-re-add",
    "A member fails, is removed and comes back, by its bitmap and from nothing",
    MDADM,
    announces=FAILS_A_DISK,
)
def fail_and_re_add_case(scene: CaseContext) -> Script:
    """A member fails, is removed, and comes back: by its bitmap, and from nothing."""
    first, second = scene.devices[:2]
    node = yield from create(scene, "--bitmap=internal")
    yield from scribble(node)
    yield from whole(node, TWO)
    for number in range(TIMES_FAIL_AND_RE_ADD):
        device = (second, first)[number % 2]
        yield from fail(node, device)
        yield from lacking(node, TWO, 1)
        written = yield from scribble(node)  # what the returning member lacks
        yield from remove(node, device)
        yield from run("mdadm", node, "--re-add", device)
        yield from whole(node, TWO)
        yield from still(node, written, "after a member came back")
    yield from fail(node, second)
    yield from remove(node, second)
    yield from run("mdadm", "--zero-superblock", second)
    written = yield from scribble(node)
    yield from run("mdadm", node, "--add", second)
    yield from whole(node, TWO)
    # The member that was rebuilt from nothing must hold all of it alone.
    yield from fail(node, first)
    yield from still(node, written, "on the member that was rebuilt")


@case(
    "spare",
    "A spare takes over from a member that fails",
    replace(MDADM, devices=THREE),
    announces=FAILS_A_DISK,
)
def spare_case(scene: CaseContext) -> Script:
    """A spare takes the place of a member that fails, by itself."""
    first, second, spare = scene.devices[:3]
    node = yield from create(scene, "--spare-devices=1", members=scene.devices)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    state = yield from state_of(node, spare)
    expect("spare" in state, f"{spare} is to be a spare, and is {state}")
    yield from fail(node, first)
    yield from whole(node, TWO)
    state = yield from state_of(node, spare)
    expect("in_sync" in state, f"the spare {spare} did not take over: it is {state}")
    yield from fail(node, second)
    yield from still(node, written, "on the spare alone")


@case(
    "replace",
    "A member is replaced by another without loss of redundancy",
    replace(MDADM, devices=THREE),
    announces=FAILS_A_DISK,
)
def replace_case(scene: CaseContext) -> Script:
    """A member is replaced by another while it is still there: redundancy is never lost."""
    old, other, new = scene.devices[:3]
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    yield from run("mdadm", node, "--add", new)
    yield from run("mdadm", node, "--replace", old, "--with", new)
    degraded = yield from read(sysfs(node, "degraded"))
    expect(degraded == "0", "redundancy was lost while a member was replaced")
    yield from until(
        lambda: state_of(node, new),
        lambda state: "in_sync" in state,
        f"{new} does not take the place of {old}",
        within=60,
    )
    yield from until(
        lambda: state_of(node, old),
        lambda state: "faulty" in state,
        f"{old} is not let go",
        within=30,
    )
    yield from remove(node, old)
    yield from whole(node, TWO)
    yield from fail(node, other)
    yield from still(node, written, "on the new member alone")


@case(
    "degraded-start",
    "An array starts without a member, and takes it back",
    MDADM,
)
def degraded_start_case(scene: CaseContext) -> Script:
    """An array is started without one of its members, works, and takes the member back."""
    first, second = scene.devices[:2]
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    yield from stop(node)
    yield from run("mdadm", "--assemble", "--run", node, first)
    yield from writable(node)
    yield from lacking(node, TWO, 1)
    yield from still(node, written, "without one of its members")
    written = yield from scribble(node)
    yield from run("mdadm", node, "--add", second)
    yield from whole(node, TWO)
    yield from still(node, written, "after the member came back")


_MIB_WRITE_MOSTLY = 8
_SECTORS = 64
"""Of 512 bytes: what udev and the like may read of a device meanwhile."""


@case(
    "write-mostly",
    "A write-mostly member is written and not read",
    MDADM,
)
def write_mostly_case(scene: CaseContext) -> Script:
    """A member that is write-mostly is written, and not read."""
    fast, slow = scene.devices[:2]
    node = yield from create(scene, members=(fast, "--write-mostly", slow))
    yield from whole(node, TWO)
    state = yield from state_of(node, slow)
    expect("write_mostly" in state, f"{slow} is to be write-mostly, and is {state}")
    text = section((yield from mdstat()), node)
    expect("(W)" in text, f"/proc/mdstat does not mark it: {text}")
    _, before = yield from _counted(slow)
    yield from scribble(node, _MIB_WRITE_MOSTLY)
    read_before, after = yield from _counted(slow)
    expect(
        after - before >= _MIB_WRITE_MOSTLY * 2048,
        f"{slow} was not written: {after - before} sectors",
    )
    yield from checksum(node, _MIB_WRITE_MOSTLY)
    read_after, _ = yield from _counted(slow)
    expect(
        read_after - read_before <= _SECTORS,
        f"{slow} is write-mostly, and {read_after - read_before} sectors were read from it",
    )


def _counted(device: str) -> Doing[tuple[int, int]]:
    """Sectors read from and written to a device (Documentation/block/stat.rst)."""
    words = (yield from read(f"/sys/block/{device.removeprefix('/dev/')}/stat")).split()
    return int(words[2]), int(words[6])


_KIB_RESYNC_LIMITS = 4000
_GLOBAL = ("dev.raid.speed_limit_max", "dev.raid.speed_limit_min")


@case(
    "resync-limits",
    "A resync keeps to the limits of the array and of the machine",
    replace(MDADM, commands=("mdadm", "sysctl"), size=128 * 2**20),
)
def resync_limits_case(scene: CaseContext) -> Script:
    """A resync keeps to its limits, those of the machine and those of the array."""
    node = yield from create(scene)
    yield from whole(node, TWO)
    yield from write(sysfs(node, "sync_speed_min"), "1000")
    yield from write(sysfs(node, "sync_speed_max"), str(_KIB_RESYNC_LIMITS))
    limit = yield from read(sysfs(node, "sync_speed_max"))
    expect(limit.startswith(f"{_KIB_RESYNC_LIMITS} (local)"), f"sync_speed_max reads {limit!r}")
    yield from _kept(node)
    yield from hurried(node)
    for name in _GLOBAL:
        was = yield from read(f"/proc/sys/{name.replace('.', '/')}")
        yield from undo("sysctl", "-q", "-w", f"{name}={was}")
    yield from run("sysctl", "-q", "-w", "dev.raid.speed_limit_min=1000")
    yield from run("sysctl", "-q", "-w", f"dev.raid.speed_limit_max={_KIB_RESYNC_LIMITS}")
    limit = yield from read(sysfs(node, "sync_speed_max"))
    expect(limit.startswith(f"{_KIB_RESYNC_LIMITS} (system)"), f"sync_speed_max reads {limit!r}")
    yield from _kept(node)


def _speed(node: str) -> Doing[int]:
    """KiB/s over the last seconds; -1 while none is known."""
    text = yield from read(sysfs(node, "sync_speed"))
    return int(text) if text.isdigit() else -1


def _kept(node: str) -> Doing[None]:
    """A check of the array goes on, no faster than the limit and some."""
    yield from write(sysfs(node, "sync_action"), "check")
    yield from until(lambda: _speed(node), lambda seen: seen >= 0, "no check goes on", within=10)
    yield from pause(4)
    seen = yield from _speed(node)
    expect(
        0 <= seen <= 2 * _KIB_RESYNC_LIMITS,
        f"limited to {_KIB_RESYNC_LIMITS} KiB/s, it goes at {seen}",
    )
    yield from write(sysfs(node, "sync_action"), "idle")


_CHANGED = 128


@case(
    "mismatch",
    "A check finds where members differ; a repair mends it",
    MDADM,
)
def mismatch_case(scene: CaseContext) -> Script:
    """A check finds where members differ, and repair makes them alike."""
    device = scene.devices[1]
    node = yield from create(scene)
    yield from scribble(node)
    yield from whole(node, TWO)
    found = yield from _mismatches(node, "check")
    expect(found == 0, f"members in sync differ in {found} sectors")
    offset = int((yield from examined(device))["Data Offset"].split()[0])
    yield from stop(node)
    # Behind the array's back: 64 KiB of one member, 4 MiB into its data.
    at = (offset + 8192) // 8
    yield from run(
        "dd", "if=/dev/urandom", f"of={device}", "bs=4k", "count=16", f"seek={at}",
        "oflag=direct", "conv=notrunc", "status=none",
    )  # fmt: skip
    yield from assemble(node, *scene.devices)
    found = yield from _mismatches(node, "check")
    expect(found >= _CHANGED, f"{_CHANGED} sectors were changed, and {found} are said to differ")
    yield from _mismatches(node, "repair")
    found = yield from _mismatches(node, "check")
    expect(found == 0, f"after the repair {found} sectors differ")
    yield from whole(node, TWO)


def _mismatches(node: str, action: str) -> Doing[int]:
    """Sectors that differ, by a check or a repair."""
    yield from write(sysfs(node, "sync_action"), action)
    yield from until(
        lambda: read(sysfs(node, "sync_action")),
        lambda now: now == "idle",
        f"the {action} does not end",
        within=SYNCED,
    )
    return int((yield from read(sysfs(node, "mismatch_cnt"))))


_INTO = 8192
"""How many sectors of an array's data lie before the part that fails."""
_COUNT = 64
_MIB_BAD_BLOCKS = 16
_ERRORS = (
    r"Buffer I/O error on dev(ice)? dm-\d+",
    r"I/O error, dev dm-\d+",
    r"md/raid1:.*(read error|redirecting|rescheduling)",
)


@case(
    "bad-blocks",
    "Bad blocks of a member are read from the other, and remembered",
    replace(MDADM, commands=("mdadm", "dmsetup"), modules=("raid1", "dm_mod")),
    announces=_ERRORS,
)
def bad_blocks_case(scene: CaseContext) -> Script:
    """What cannot be read of a member is read from the other; what cannot be written is remembered.

    Nobody above the array sees any of it.
    """
    good, weak = scene.devices[:2]
    name = scene.name("weak")
    mapped = yield from _mapped(name, weak)
    pair = replace(scene, nodes=(CaseHost("", scene.nodes[0].kernel, (good, mapped)),))
    node = yield from create(pair)
    written = yield from scribble(node, _MIB_BAD_BLOCKS)
    yield from whole(node, TWO)
    sectors = yield from read(f"/sys/block/{weak.removeprefix('/dev/')}/size")
    bad = int((yield from examined(mapped))["Data Offset"].split()[0]) + _INTO
    yield from run("dmsetup", "suspend", name)
    yield from run("dmsetup", "load", name, stdin=_table(weak, int(sectors), bad))
    yield from run("dmsetup", "resume", name)
    yield from still(node, written, "with a part of a member that fails", _MIB_BAD_BLOCKS)
    written = yield from scribble(node, _MIB_BAD_BLOCKS)
    degraded = yield from read(sysfs(node, "degraded"))
    expect(degraded == "0", "one bad block cost the whole member")
    noted = yield from read(sysfs(node, "rd1/bad_blocks"))
    expect(noted, f"what cannot be written is not remembered: {mapped} has no bad blocks")
    log = yield from run("mdadm", "--examine-badblocks", mapped)
    expect("Bad-blocks on" in log.stdout, f"mdadm knows no bad blocks of {mapped}: {log.stdout}")
    yield from still(node, written, "with bad blocks on a member", _MIB_BAD_BLOCKS)


def _table(device: str, sectors: int, bad: int = 0) -> str:
    """A device-mapper table of a whole device, part of which fails (``bad`` 0: none does)."""
    if not bad:
        return f"0 {sectors} linear {device} 0\n"
    after = bad + _COUNT
    return (
        f"0 {bad} linear {device} 0\n"
        f"{bad} {_COUNT} error\n"
        f"{after} {sectors - after} linear {device} {after}\n"
    )


def _mapped(name: str, device: str) -> Doing[str]:
    sectors = yield from read(f"/sys/block/{device.removeprefix('/dev/')}/size")
    node = f"/dev/mapper/{name}"
    yield from undo("dmsetup", "remove", "--retry", name, at=node)
    yield from run("dmsetup", "create", name, stdin=_table(device, int(sectors)))
    return node


SUITE = suite_of(__name__, "md: arrays are made, broken, mended and taken apart", ("mdadm",))
