"""libaio without direct I/O."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import alike, by_entry, jobs
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    found = [job for job in jobs(sheet) if job.engine == "libaio" and not job.direct]
    for line, group in by_entry((job.entry("ioengine"), job) for job in found):
        yield Said(line, alike(group), "buffered I/O waits for each I/O, whatever iodepth says")


RULE = Rule(
    "fio-libaio-buffered",
    "libaio without direct=1",
    "warning",
    ("fio",),
    "Buffered I/O by libaio is not asynchronous: io_submit waits for each, and iodepth is 1 in"
    " truth, whatever it says.",
    "fio(1): ioengine libaio; io_submit(2)",
    "direct=1, or ioengine=io_uring",
    _judge,
)
