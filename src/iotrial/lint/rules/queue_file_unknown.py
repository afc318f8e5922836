"""Files of a queue that do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import nearest
from iotrial.lint.known.queue import FILES
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for each in sheet.of("queue"):
        if each.name in FILES or each.name.startswith(("iosched", "device/", "mq/")):
            continue
        near = nearest(each.name, FILES, 0.7)
        if near:
            yield at(each, f"there is no queue/{each.name}; the nearest is queue/{near}")


RULE = Rule(
    "queue-file-unknown",
    "a file of a queue that is misspelt",
    "error",
    ("udev", "tuned"),
    "udev says so in its log and goes on; an echo says it nowhere.",
    "Documentation/ABI/stable/sysfs-block",
    "Take the real name.",
    _judge,
)
