"""LVM: mirrors, RAID1 and snapshots, made, broken and mended."""

from __future__ import annotations

from dataclasses import replace

from iotrial_suites.case import Scene, Script, case
from iotrial_suites.suites import suite_of
from iotrial_suites.suites.vocabulary import Doing, expect, run, until
from iotrial_suites.suites.volumes import (
    LVM,
    SYNCED,
    THREE,
    group,
    healthy,
    in_sync,
    kept,
    lvm,
    node,
    report,
    status,
    written,
)


@case(
    "mirror",
    "A mirror (dm-mirror) gets in sync, becomes linear and a mirror again",
    replace(LVM, modules=("dm_mod", "dm_mirror")),
)
def mirror_case(scene: Scene) -> Script:
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
def raid1_case(scene: Scene) -> Script:
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
def raid1_legs_case(scene: Scene) -> Script:
    """A leg of a RAID1 volume is moved to another device: split off by number, and made anew."""
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
def snapshot_case(scene: Scene) -> Script:
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
