"""I/O schedulers that kernels have no more."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known.queue import REMOVED
from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Setting, Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("queue"):
        value = each.value.strip()
        if each.name != "scheduler" or value not in REMOVED:
            continue
        if since(scene, 5, 0):
            what = f"there is no {value} from 5.0 on; the nearest is {REMOVED[value]}"
            yield at(each, what, _line(each, REMOVED[value]))
        elif value in ("anticipatory", "as") and since(scene, 2, 6, 33):
            yield at(each, f"there is no {value} from 2.6.33 on", _line(each, "deadline"))


def _line(setting: Setting, value: str) -> str:
    if setting.entry.key == "elevator":
        return f"elevator={value}"
    return f'ATTR{{queue/scheduler}}="{value}"'


RULE = Rule(
    "scheduler-removed",
    "an I/O scheduler that was removed",
    "error",
    ("udev", "tuned"),
    "The kernel refuses the name (Invalid argument), and the device keeps its default.",
    "block/elevator.c; commits f382fb0bcef4 (5.0, the single queue goes), 492af6350a5c (2.6.33)",
    "Take one of none, mq-deadline, kyber and bfq: they are others, so measure anew.",
    _judge,
)
