"""A check finds where members differ, and repair makes them alike."""

from iotrial.checks.arrays import (
    MDADM,
    SYNCED,
    TWO,
    assemble,
    create,
    examined,
    scribble,
    stop,
    sysfs,
    whole,
)
from iotrial.checks.vocabulary import Doing, expect, read, run, until, write
from iotrial.model.check import Case, Scene, Script

ORDER = 70
_CHANGED = 128


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


def steps(scene: Scene) -> Script:
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


CASE = Case("mismatch", "A check finds where members differ; a repair mends it", steps, MDADM)
