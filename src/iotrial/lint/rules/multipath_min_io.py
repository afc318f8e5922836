"""rr_min_io on maps of requests."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    if not since(scene, 2, 6, 31):
        return
    for group in sheet.groups():
        by_bios = any("queue_mode bio" in each.value for each in group if each.key == "features")
        both = any(each.key == "rr_min_io_rq" for each in group)
        for entry in group:
            if entry.key == "rr_min_io" and not by_bios and not both:
                what = "maps take requests from 2.6.31 on, and read rr_min_io_rq"
                yield at(entry, what, f"rr_min_io_rq {entry.value}")


RULE = Rule(
    "multipath-min-io",
    "rr_min_io where rr_min_io_rq counts",
    "warning",
    ("multipath",),
    "rr_min_io is for maps that take bios (features `queue_mode bio`).  The others, which is the"
    " default, read rr_min_io_rq; and both count for the round-robin selector only.",
    "multipath.conf(5): rr_min_io, rr_min_io_rq",
    "rr_min_io_rq",
    _judge,
)
