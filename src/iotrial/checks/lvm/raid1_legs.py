"""A leg of a RAID1 volume is moved to another device: split off by number, and made anew."""

from dataclasses import replace

from iotrial.checks.vocabulary import expect
from iotrial.checks.volumes import LVM, THREE, group, in_sync, kept, lvm, report, written
from iotrial.model.check import Case, Scene, Script

ORDER = 21


def steps(scene: Scene) -> Script:
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


CASE = Case(
    "raid1-legs",
    "A RAID1 volume takes a third leg and gives up its first",
    steps,
    replace(LVM, devices=THREE),
)
