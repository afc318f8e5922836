"""Writes that are measured from the first second."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import alike, jobs
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    found = [job for job in jobs(sheet) if job.writes and job.does_files]
    timed = [job for job in found if job.on("time_based") and job.value("runtime")]
    cold = [job for job in timed if not job.value("ramp_time")]
    if cold:
        what = "writes are measured from the first I/O on"
        yield Said(cold[0].line, alike(cold), what)


RULE = Rule(
    "fio-no-ramp",
    "writes without ramp_time",
    "note",
    ("fio",),
    "The first seconds of writes go into caches of the device and into free flash: they are faster"
    " than what follows, and are averaged with it.",
    "fio(1): ramp_time; SNIA Solid State Storage Performance Test Specification (preconditioning)",
    "ramp_time=30s, or look at the first seconds apart",
    _judge,
)
