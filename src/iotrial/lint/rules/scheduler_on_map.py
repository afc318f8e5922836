"""A scheduler for a multipath map."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Disk, Rule, Said, Scene, at, since
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("queue"):
        if each.name == "scheduler" and each.on == "dm" and since(scene, 5, 0):
            what = "a map of device-mapper gets it, and not its paths"
            yield at(each, what, 'for the paths: KERNEL=="sd*", ATTR{queue/scheduler}="…"')


def _host(scene: Scene) -> Iterator[Said]:
    disks = {disk.name: disk for disk in scene.disks}
    for disk in scene.disks:
        above = _chosen(disk)
        below = [_chosen(disks[name]) for name in disk.slaves if name in disks]
        if disk.name.startswith("dm-") and above not in ("", "none") and any(below):
            paths = ", ".join(dict.fromkeys(filter(None, below)))
            what = f"{above} orders I/O above the paths, which have {paths}"
            yield Said(0, f"{disk.name} queue/scheduler", what, file="(in force)")


def _chosen(disk: Disk) -> str:
    words = disk.queue.get("scheduler", "").split()
    return next((word.strip("[]") for word in words if word.startswith("[")), "")


RULE = Rule(
    "scheduler-on-map",
    "an I/O scheduler on a map instead of its paths",
    "warning",
    ("udev",),
    "A map that takes whole bios (LVM, or multipath with queue_mode bio) has no scheduler at all."
    " One that takes requests can have one, but merging and ordering for a disk happen in its"
    " paths; two of them order twice.",
    "drivers/md/dm-rq.c; block/elevator.c; Documentation/admin-guide/device-mapper",
    "Set it on the paths, and none on the map.",
    _judge,
    _host,
)
