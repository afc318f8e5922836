"""The same mount point twice."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    seen: dict[str, int] = {}
    for group in sheet.groups():
        point = group[0].section[1]
        if not point.startswith("/"):
            continue  # none, swap
        if point in seen:
            yield Said(group[0].line, point, f"line {seen[point]} mounts there too")
        seen.setdefault(point, group[0].line)


RULE = Rule(
    "fstab-twice",
    "the same mount point twice",
    "warning",
    ("fstab",),
    "The second is mounted over the first, or instead of it: systemd makes one unit of a mount"
    " point, and takes one of the lines.",
    "fstab(5), systemd-fstab-generator(8)",
    "Keep one of them.",
    _judge,
)
