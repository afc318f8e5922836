"""Read-ahead for loads that go past the page cache."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import jobs
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    loads = [job for other in scene.sheets if other.kind == "fio" for job in jobs(other)]
    if not loads or not all(job.direct for job in loads):
        return
    for each in sheet.of("queue"):
        if each.name == "read_ahead_kb":
            yield at(each, "all jobs that are judged with it have direct=1, and read nothing ahead")


RULE = Rule(
    "read-ahead-direct",
    "read-ahead beside jobs with direct=1",
    "note",
    ("udev", "tuned"),
    "Direct I/O has no page cache to read ahead into: whatever the value, such jobs do not see it.",
    "mm/readahead.c; open(2): O_DIRECT",
    "Leave it out, or measure with buffered reads.",
    _judge,
)
