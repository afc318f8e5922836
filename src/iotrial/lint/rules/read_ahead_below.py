"""Read-ahead of a map that is not that of what it is made of."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, whole


def _host(scene: Scene) -> Iterator[Said]:
    disks = {disk.name: disk for disk in scene.disks}
    for disk in scene.disks:
        own = whole(disk.queue.get("read_ahead_kb", ""))
        below = {
            disks[name].queue.get("read_ahead_kb", "") for name in disk.slaves if name in disks
        }
        if own is not None and below and max(map(_number, below)) > own:
            what = f"{own} KiB, and {max(map(_number, below))} below: only the uppermost counts"
            yield Said(0, f"{disk.name} queue/read_ahead_kb", what, file="(in force)")


def _number(text: str) -> int:
    return whole(text) or 0


RULE = Rule(
    "read-ahead-below",
    "read-ahead that is set below the device that is read",
    "note",
    (),
    "A filesystem takes the read-ahead of the device it lies on.  What is set on the paths or disks"
    " below never counts; and none counts for direct I/O.",
    "Documentation/ABI/stable/sysfs-block: read_ahead_kb; mm/readahead.c",
    "Set it on the map or array.",
    host=_host,
)
