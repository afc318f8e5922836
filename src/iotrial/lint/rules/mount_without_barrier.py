"""Barriers switched off."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_TAKES = ("ext3", "ext4", "btrfs", "reiserfs", "jfs", "gfs2", "nilfs2")


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        off = entry.key == "nobarrier" or (entry.key == "barrier" and entry.value == "0")
        if off and entry.section[2] in _TAKES:
            yield at(entry, "after a power cut the filesystem may be broken")


RULE = Rule(
    "mount-without-barrier",
    "barriers switched off",
    "warning",
    ("fstab",),
    "Flushes cost nothing where a cache is not volatile: the disk says so (queue/write_cache is"
    " `write through`), and the kernel sends none.  Elsewhere they keep the journal true.",
    "Documentation/admin-guide/ext4.rst: barrier; Documentation/block/writeback_cache_control.rst",
    "Take the option out.",
    _judge,
)
