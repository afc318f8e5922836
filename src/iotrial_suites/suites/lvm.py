"""LVM: mirrors, RAID1 and snapshots, made, broken and mended.

Commands see only the scratch devices (``--devices``), so nothing else is touched, and what
/etc/lvm says of filters does not matter.  Sources: lvm(8), lvmraid(7), lvcreate(8), vgreduce(8);
Documentation/admin-guide/device-mapper/dm-raid.rst (the status line).
"""

from __future__ import annotations

import re
from dataclasses import replace

from iotrial_suites.case import MIB, CaseContext, CaseNeeds, Script, case
from iotrial_suites.suites import suite_of
from iotrial_suites.suites.arrays import SYNCED, THREE, TWO, checksum, scribble
from iotrial_suites.suites.vocabulary import Doing, expect, run, undo, until

LVM = CaseNeeds(
    commands=("lvm", "dmsetup"), modules=("dm_mod", "dm_raid"), devices=TWO, size=64 * MIB
)


def config(scene: CaseContext) -> str:
    """LVM sees our devices, and none else."""
    ours = ",".join(f'"a|^{device}$|"' for device in scene.devices)
    return f'--config=devices{{ use_devicesfile=0 global_filter=[{ours},"r|.*|"] scan_lvs=0 }}'


def lvm(scene: CaseContext, *words: str, exits: tuple[int, ...] | None = (0,)) -> Doing[str]:
    """Run one of LVM's commands on our devices; gives back what it printed."""
    verb, *rest = words
    said = yield from run("lvm", verb, config(scene), *rest, exits=exits)
    return said.stdout


def group(scene: CaseContext) -> Doing[str]:
    """A volume group of all scratch devices; gives back its name."""
    name = scene.name("vg")
    for device in scene.devices:
        yield from undo("lvm", "pvremove", config(scene), "-ff", "-y", "-q", device, at=device)
    yield from undo("lvm", "vgremove", config(scene), "-f", "-y", "-q", name, at=f"/dev/{name}")
    yield from lvm(scene, "pvcreate", "-y", "-q", *scene.devices)
    yield from lvm(scene, "vgcreate", "-q", "-s", "1m", name, *scene.devices)
    return name


def node(vg: str, lv: str) -> str:
    return f"/dev/{vg}/{lv}"


def mapped(vg: str, lv: str) -> str:
    """As device-mapper calls it: every dash of a name is doubled."""
    return f"{vg.replace('-', '--')}-{lv.replace('-', '--')}"


def report(scene: CaseContext, vg: str, lv: str, field: str) -> Doing[str]:
    """One field of a volume."""
    said = yield from lvm(scene, "lvs", "-a", "--noheadings", "-o", field, f"{vg}/{lv}")
    return said.strip()


def status(vg: str, lv: str) -> Doing[str]:
    """What the kernel says of a volume."""
    return (yield from run("dmsetup", "status", mapped(vg, lv))).stdout.strip()


def in_sync(scene: CaseContext, vg: str, lv: str) -> Doing[None]:
    """Wait until all of a mirror is in sync: to the kernel, and to LVM."""
    yield from until(
        lambda: status(vg, lv),
        all_synced,
        f"{vg}/{lv} is not in sync",
        within=SYNCED,
    )
    share = yield from report(scene, vg, lv, "copy_percent")
    expect(share == "100.00", f"to the kernel {vg}/{lv} is in sync, and LVM says {share} %")


def all_synced(line: str) -> bool:
    """Whether a status line of dm-raid or dm-mirror says that all is in sync.

    >>> all_synced("0 8192 raid raid1 2 AA 8192/8192 idle 0 0 -")
    True
    >>> all_synced("0 8192 mirror 2 254:1 254:2 3/8 1 AA 3 disk 254:0 A")
    False
    """
    found = re.search(r" (\d+)/(\d+) ", line)
    if found is None or found[1] != found[2]:
        return False
    return " raid " not in line or " idle " in line


def healthy(line: str) -> str:
    """The letters of the legs: A alive, D or F dead, a alive and not in sync."""
    found = re.search(r" ([AaDFSRU]{2,}) ", line)
    return found[1] if found else ""


def written(vg: str, lv: str) -> Doing[str]:
    """Write random bytes to a volume; their checksum."""
    return (yield from scribble(node(vg, lv)))


def kept(vg: str, lv: str, sum_: str, when: str) -> Doing[None]:
    now = yield from checksum(node(vg, lv))
    expect(now == sum_, f"{vg}/{lv} holds other bytes {when}")


@case(
    "mirror",
    "A mirror (dm-mirror) gets in sync, becomes linear and a mirror again",
    replace(LVM, modules=("dm_mod", "dm_mirror")),
)
def mirror_case(scene: CaseContext) -> Script:
    """An old-style mirror (dm-mirror): made with its log in memory, in sync, and turned into one
    leg.

    Its log on disk would need a third device on which nothing else lies.
    """
    vg = yield from group(scene)
    yield from lvm(
        scene, "lvcreate", "-y", "-q", "--type", "mirror", "-m1", "--mirrorlog", "core",
        "-L", "16m", "-n", "mirror", vg,
    )  # fmt: skip
    sum_ = yield from written(vg, "mirror")
    yield from in_sync(scene, vg, "mirror")
    line = yield from status(vg, "mirror")
    expect(healthy(line) == "AA", f"both legs are to be alive: {line}")
    yield from kept(vg, "mirror", sum_, "in sync")
    yield from lvm(scene, "lvconvert", "-y", "-q", "-m0", f"{vg}/mirror")
    kind = yield from report(scene, vg, "mirror", "segtype")
    expect(kind == "linear", f"with -m0 it is to be linear, and is {kind}")
    yield from kept(vg, "mirror", sum_, "on one leg")
    yield from lvm(
        scene, "lvconvert", "-y", "-q", "--type", "mirror", "-m1", "--mirrorlog", "core",
        f"{vg}/mirror",
    )  # fmt: skip
    yield from in_sync(scene, vg, "mirror")
    yield from kept(vg, "mirror", sum_, "as a mirror again")


@case(
    "raid1",
    "A RAID1 volume gets in sync, and a check finds no difference",
    LVM,
)
def raid1_case(scene: CaseContext) -> Script:
    """A RAID1 volume (dm-raid): made, in sync, scrubbed, a leg refreshed."""
    vg = yield from group(scene)
    yield from lvm(
        scene, "lvcreate", "-y", "-q", "--type", "raid1", "-m1", "-L", "16m", "-n", "raid", vg
    )
    sum_ = yield from written(vg, "raid")
    yield from in_sync(scene, vg, "raid")
    line = yield from status(vg, "raid")
    expect(healthy(line) == "AA", f"both legs are to be alive: {line}")
    yield from lvm(scene, "lvchange", "-y", "-q", "--syncaction", "check", f"{vg}/raid")
    yield from until(
        lambda: status(vg, "raid"),
        lambda now: " idle " in now,
        "the check does not end",
        within=SYNCED,
    )
    differ = yield from report(scene, vg, "raid", "raid_mismatch_count")
    expect(differ == "0", f"legs in sync differ in {differ} places")
    yield from kept(vg, "raid", sum_, "after a check")


@case(
    "raid1-legs",
    "A RAID1 volume takes a third leg and gives up its first",
    replace(LVM, devices=THREE),
)
def raid1_legs_case(scene: CaseContext) -> Script:
    """A leg of a RAID1 volume is moved to another device: split off by number, and recreated."""
    first, second, third = scene.devices[:3]
    vg = yield from group(scene)
    yield from lvm(
        scene, "lvcreate", "-y", "-q", "--type", "raid1", "-m1", "-L", "16m", "-n", "raid", vg,
        first, second,
    )  # fmt: skip
    sum_ = yield from written(vg, "raid")
    yield from in_sync(scene, vg, "raid")
    yield from lvm(scene, "lvconvert", "-y", "-q", "-m2", f"{vg}/raid", third)
    yield from in_sync(scene, vg, "raid")
    legs = yield from report(scene, vg, "raid", "stripes")
    expect(legs == "3", f"it is to have three legs, and has {legs}")
    yield from lvm(scene, "lvconvert", "-y", "-q", "-m1", f"{vg}/raid", first)
    yield from in_sync(scene, vg, "raid")
    yield from kept(vg, "raid", sum_, "without the leg that it was made on")


@case(
    "snapshot",
    "A snapshot keeps what was, and gives it back when merged",
    replace(LVM, modules=("dm_mod", "dm_snapshot"), commands=("lvm", "dmsetup", "blockdev")),
)
def snapshot_case(scene: CaseContext) -> Script:
    """A snapshot keeps what was there while the volume changes, and gives it back when it is
    merged."""
    vg = yield from group(scene)
    yield from lvm(scene, "lvcreate", "-y", "-q", "-L", "16m", "-n", "origin", vg)
    before = yield from written(vg, "origin")
    yield from lvm(scene, "lvcreate", "-y", "-q", "-s", "-L", "24m", "-n", "snap", f"{vg}/origin")
    after = yield from written(vg, "origin")
    expect(before != after, "random bytes came twice")
    yield from kept(vg, "snap", before, "in the snapshot, while the origin was written")
    yield from kept(vg, "origin", after, "in the origin")
    used = yield from report(scene, vg, "snap", "data_percent")
    expect(float(used or 0) > 0, f"the origin was written, and the snapshot is used to {used} %")
    yield from lvm(scene, "lvconvert", "-y", "-q", "--merge", f"{vg}/snap")

    def snapshots() -> Doing[str]:
        return (yield from lvm(scene, "lvs", "--noheadings", "-o", "lv_name", vg))

    # Without lvmpolld a merge goes on when it is asked about.
    yield from until(
        snapshots, lambda names: "snap" not in names.split(), "the merge does not end", within=60
    )
    yield from run("blockdev", "--flushbufs", node(vg, "origin"))
    yield from kept(vg, "origin", before, "after the snapshot was merged into it")


SUITE = suite_of(
    __name__, "LVM: mirrors, RAID1 and snapshots are made, broken and mended", ("lvm",)
)
