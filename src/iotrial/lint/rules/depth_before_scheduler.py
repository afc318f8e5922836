"""nr_requests that is written before the scheduler, which resets it."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Setting, Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    early: dict[tuple[object, ...], Setting] = {}
    for each in sheet.of("queue"):
        place = (each.entry.group, each.entry.section, each.how)
        if each.name == "nr_requests" or each.name.startswith("iosched/"):
            early[place] = each
        elif each.name == "scheduler" and place in early:
            before = early.pop(place)
            yield at(before, "the scheduler is written after it, and resets it")


RULE = Rule(
    "depth-before-scheduler",
    "nr_requests or iosched/ before the scheduler",
    "warning",
    ("udev", "tuned"),
    "Writing queue/scheduler makes a new scheduler with its own defaults, and nr_requests anew.",
    "block/blk-mq-sched.c: blk_mq_init_sched()",
    "Write the scheduler first.",
    _judge,
)
