"""Words of the kernel's command line that do nothing any more."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known.queue import REMOVED
from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Setting, Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("cmdline"):
        if each.name == "elevator" and since(scene, 5, 0):
            yield at(each, "it has no effect from 5.0 on", _rule(each))


def _rule(setting: Setting) -> str:
    value = REMOVED.get(setting.value, setting.value)
    value = {"deadline": "mq-deadline"}.get(value, value)
    return (
        'in udev\'s rules.d: ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="sd*",'
        f' ENV{{DEVTYPE}}=="disk", ATTR{{queue/scheduler}}="{value}"'
    )


RULE = Rule(
    "cmdline-removed",
    "elevator= on the kernel's command line",
    "error",
    ("cmdline", "tuned"),
    "It chose the scheduler of the single queue, which is gone.  The kernel says that it does not"
    " have any effect anymore.",
    "block/elevator.c: elevator_setup(); commit f382fb0bcef4 (5.0)",
    "Choose the scheduler of each device by a udev rule.",
    _judge,
)
