"""A large nr_requests together with no scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, since, whole
from iotrial.lint.sheet import Setting, Sheet

_MOST = 1024  # blk-mq drivers offer at most BLK_MQ_MAX_DEPTH = 10240; disks mostly 32 to 1023


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    chosen: dict[tuple[object, ...], Setting] = {}
    for each in sheet.of("queue"):
        place = (each.entry.group, each.entry.section)
        if each.name == "scheduler":
            chosen[place] = each
        elif each.name == "nr_requests" and since(scene, 5, 0):
            scheduler = chosen.get(place)
            if (
                scheduler
                and scheduler.value in ("none", "noop")
                and (whole(each.value) or 0) >= _MOST
            ):
                what = f"without a scheduler the device's own depth is the most, and {each.value}"
                yield at(each, f"{what} is refused above it")


RULE = Rule(
    "depth-without-scheduler",
    "a large nr_requests with no scheduler",
    "warning",
    ("udev", "tuned"),
    "With `none` requests use the device's own tags: nr_requests can only be lowered below"
    " them, and a larger value is refused (Invalid argument).",
    "block/blk-mq.c: blk_mq_update_nr_requests()",
    "Leave nr_requests out, or take a scheduler.",
    _judge,
)
