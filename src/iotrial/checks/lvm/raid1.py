"""A RAID1 volume (dm-raid): made, in sync, scrubbed, a leg refreshed."""

from iotrial.checks.vocabulary import expect, until
from iotrial.checks.volumes import (
    LVM,
    SYNCED,
    group,
    healthy,
    in_sync,
    kept,
    lvm,
    report,
    status,
    written,
)
from iotrial.model.check import Case, Scene, Script

ORDER = 20


def steps(scene: Scene) -> Script:
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


CASE = Case("raid1", "A RAID1 volume gets in sync, and a check finds no difference", steps, LVM)
