"""Many jobs that write one file."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import jobs
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for job in jobs(sheet):
        apart = any(map(job.entry, ("offset_increment", "filename_format", "zonemode")))
        many = job.number("numjobs", 1) > 1 and job.paths() and job.entry("filename")
        if many and job.rw in ("write", "rw", "readwrite", "trimwrite") and not apart:
            what = f"{job.number('numjobs', 1)} jobs write the same places of one file"
            yield Said(job.line, f"[{job.name}]", what)


RULE = Rule(
    "fio-shared-file",
    "many jobs that write one file from its start",
    "warning",
    ("fio",),
    "Jobs of one section with one filename begin at the same offset: sequential writers overwrite"
    " each other, and what they overwrite is in a cache.",
    "fio(1): numjobs, filename, offset_increment",
    "offset_increment=, or a filename for each job",
    _judge,
)
