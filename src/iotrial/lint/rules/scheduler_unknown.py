"""I/O schedulers that never were."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import nearest
from iotrial.lint.known.queue import REMOVED, TODAY
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for each in sheet.of("queue"):
        value = each.value.strip()
        if each.name != "scheduler" or value in TODAY | REMOVED.keys() | {"deadline", ""}:
            continue
        if "$" in value or "%" in value:
            continue
        near = nearest(value, TODAY, 0.6)
        hint = f"; the nearest is {near}" if near else ""
        yield at(each, f"no kernel has an I/O scheduler {value!r}{hint}")


RULE = Rule(
    "scheduler-unknown",
    "an I/O scheduler that nobody knows",
    "error",
    ("udev", "tuned"),
    "The kernel refuses the name (Invalid argument), and the device keeps its default.",
    "block/elevator.c",
    "Take one of none, mq-deadline, kyber and bfq.",
    _judge,
)
