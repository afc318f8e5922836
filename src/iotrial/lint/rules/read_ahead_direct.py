"""Read-ahead for loads that go past the page cache."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import jobs
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    ahead = [each for each in sheet.of("queue") if each.name == "read_ahead_kb"]
    # Loads are looked at only where it matters: each rule sees each of a thousand files.
    if ahead and _all_direct(scene):
        for each in ahead:
            yield at(each, "all jobs that are judged with it have direct=1, and read nothing ahead")


def _all_direct(scene: Scene) -> bool:
    """Whether there are jobs, and none of them goes through the page cache."""
    loads = [other for other in scene.sheets if other.kind == "fio" and other.sections]
    return bool(loads) and all(job.direct for other in loads for job in jobs(other))


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
