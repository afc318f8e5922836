"""A snapshot keeps what was there while the volume changes, and gives it back when it is merged."""

from dataclasses import replace

from iotrial.checks.vocabulary import Doing, expect, run, until
from iotrial.checks.volumes import LVM, group, kept, lvm, node, report, written
from iotrial.model.check import Case, Scene, Script

ORDER = 30


def steps(scene: Scene) -> Script:
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


CASE = Case(
    "snapshot",
    "A snapshot keeps what was, and gives it back when merged",
    steps,
    replace(LVM, modules=("dm_mod", "dm_snapshot"), commands=("lvm", "dmsetup", "blockdev")),
)
