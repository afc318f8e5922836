"""nr_requests below what the device takes at once."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, whole
from iotrial.lint.sheet import Setting, Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    groups: dict[tuple[object, ...], dict[str, Setting]] = {}
    for each in sheet.of("queue"):
        if whole(each.value) is not None:
            groups.setdefault((each.entry.group, each.entry.section), {})[each.name] = each
    for group in groups.values():
        requests, depth = group.get("nr_requests"), group.get("device/queue_depth")
        if requests and depth and (whole(requests.value) or 0) < (whole(depth.value) or 0):
            yield at(requests, f"{requests.value} is below device/queue_depth = {depth.value}")


def _host(scene: Scene) -> Iterator[Said]:
    for disk in scene.disks:
        requests = whole(disk.queue.get("nr_requests", ""))
        if requests is not None and requests < disk.depth:
            what = f"{requests} is below device/queue_depth = {disk.depth}"
            fix = f"echo {2 * disk.depth} > /sys/block/{disk.name}/queue/nr_requests"
            yield Said(0, f"{disk.name} queue/nr_requests", what, fix, "(in force)")


RULE = Rule(
    "requests-below-depth",
    "nr_requests below the device's depth",
    "warning",
    ("udev",),
    "The queue above hands out fewer requests than the device could hold: its depth is never"
    " reached.",
    "Documentation/ABI/stable/sysfs-block: nr_requests; drivers/scsi/scsi_sysfs.c: queue_depth",
    "Take at least the depth; twice of it is what the kernel does by itself.",
    _judge,
    _host,
)
