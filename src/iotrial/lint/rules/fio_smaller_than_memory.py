"""Buffered jobs whose files fit into memory."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import Job, alike, by_entry, jobs
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet
from iotrial.units import format_bytes


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    found = [(job.entry("size"), job) for job in jobs(sheet) if 0 < _size(job) < scene.memory]
    for line, group in by_entry(found):
        size, memory = format_bytes(_size(group[0])), format_bytes(scene.memory)
        yield Said(line, alike(group), f"{size} fit into {memory} of memory")


def _size(job: Job) -> int:
    """Bytes that it may keep in the page cache; 0 where it does not, or nobody knows."""
    if job.direct or not job.does_files:
        return 0
    return job.size("size") * max(1, job.number("numjobs", 1))


RULE = Rule(
    "fio-smaller-than-memory",
    "a buffered file that fits into memory",
    "warning",
    ("fio",),
    "Files that fit into memory are read once, and from memory ever after.",
    "fio(1): size, direct, invalidate",
    "Take twice the memory, or direct=1.",
    _judge,
)
