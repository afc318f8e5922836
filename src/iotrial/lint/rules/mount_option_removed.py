"""Mount options that a filesystem refuses now."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, Version, at, spelled
from iotrial.lint.sheet import Sheet

_REMOVED: dict[tuple[str, str], Version] = {
    **{
        ("xfs", name): (4, 0)
        for name in ("delaylog", "nodelaylog", "ihashsize", "irixsgid", "osyncisdsync")
    },
    ("xfs", "osyncisosync"): (4, 0),
    ("xfs", "barrier"): (4, 19),
    ("xfs", "nobarrier"): (4, 19),
}


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        found = _REMOVED.get((entry.section[2], entry.key))
        if found and scene.kernel >= found:
            kind = entry.section[2]
            yield at(entry, f"{kind} refuses it from {spelled(found)} on: the mount fails")


RULE = Rule(
    "mount-option-removed",
    "a mount option that was removed",
    "error",
    ("fstab",),
    "The mount fails, and a machine whose fstab has it may not boot.",
    "Documentation/admin-guide/xfs.rst: removed mount options",
    "Take the option out.",
    _judge,
)
