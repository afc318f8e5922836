"""Jobs that go through the page cache."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import Job, alike, by_entry, jobs
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    found = [job for job in jobs(sheet) if _cached(job)]
    for line, group in by_entry(
        (job.entry("direct") or job.entry("buffered"), job) for job in found
    ):
        yield Said(line, alike(group), "there is no direct=1: the page cache is measured")


def _cached(job: Job) -> bool:
    kept = any(map(job.on, ("sync", "fsync", "fdatasync", "end_fsync", "atomic")))
    # Of mmap that is the point; of libaio there is a rule of its own.
    return job.does_files and job.engine not in ("mmap", "libaio") and not job.direct and not kept


RULE = Rule(
    "fio-not-direct",
    "no direct=1",
    "warning",
    ("fio",),
    "Without direct=1 reads come from the page cache and writes go into it: what is measured is"
    " memory, and when the kernel writes back.",
    "fio(1): direct, which is 0 by default; open(2): O_DIRECT",
    "direct=1",
    _judge,
)
