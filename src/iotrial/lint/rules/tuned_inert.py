"""Options of tuned that do nothing on kernels of today."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        if entry.section[1] == "mounts" and entry.key == "disable_barriers" and since(scene, 4, 19):
            yield at(
                entry, "XFS takes no nobarrier from 4.19 on; ext4 may be broken by a power cut"
            )
        elif entry.section[1] == "disk" and entry.key == "scheduler_quantum" and since(scene, 5, 0):
            yield at(entry, "it is a number of CFQ, which is gone from 5.0 on")


RULE = Rule(
    "tuned-inert",
    "an option of tuned that does nothing any more",
    "warning",
    ("tuned",),
    "The plugin writes a file, or remounts with an option, that today's kernels do not have.",
    "tuned/plugins/plugin_disk.py, plugin_mounts.py; Documentation/admin-guide/xfs.rst",
    "Take it out.",
    _judge,
)
