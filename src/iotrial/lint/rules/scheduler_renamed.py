"""deadline is mq-deadline now."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("queue"):
        if each.name == "scheduler" and each.value == "deadline" and since(scene, 5, 0):
            fix = 'ATTR{queue/scheduler}="mq-deadline"'
            if each.entry.key == "elevator":
                fix = "elevator=mq-deadline"
            yield at(each, "it becomes mq-deadline, which is another scheduler", fix)


RULE = Rule(
    "scheduler-renamed",
    "an I/O scheduler under its old name",
    "warning",
    ("udev", "tuned"),
    "From 5.0 on `deadline` is an alias of mq-deadline.  What was measured of the one says nothing"
    " of the other.",
    "block/mq-deadline.c: elevator_alias",
    "Write mq-deadline.",
    _judge,
)
