"""Options that cancel each other."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_SETS = (
    ("atime", "noatime", "relatime", "strictatime"),
    ("sync", "async"),
    ("rw", "ro"),
    ("hard", "soft"),
    ("discard", "nodiscard"),
    ("delalloc", "nodelalloc"),
    ("auto", "noauto"),
    ("diratime", "nodiratime"),
    ("tcp", "udp"),
    ("barrier", "nobarrier"),
    ("acl", "noacl"),
    ("ac", "noac"),
)


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for group in sheet.groups():
        for options in _SETS:
            given = [entry for entry in group if entry.key in options]
            if len({entry.key for entry in given}) > 1:
                last = given[-1]
                yield at(given[0], f"{last.key} stands behind it, and wins")


RULE = Rule(
    "mount-both-ways",
    "mount options that cancel each other",
    "warning",
    ("fstab",),
    "The last one counts.  noatime makes relatime moot, whichever is last is what is mounted.",
    "mount(8), nfs(5)",
    "Keep one of them.",
    _judge,
)
