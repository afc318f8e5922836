"""time_based without a runtime."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import alike, by_entry, jobs
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    found = [job for job in jobs(sheet) if job.on("time_based")]
    endless = [job for job in found if job.value("runtime", "0") in ("0", "0s")]
    for line, group in by_entry((job.entry("time_based"), job) for job in endless):
        yield Said(line, f"{alike(group)} time_based", "there is no runtime")


RULE = Rule(
    "fio-time-without-runtime",
    "time_based without runtime",
    "error",
    ("fio",),
    "fio says that time_based requires a runtime, and runs once over the size instead.",
    "fio init.c: fixup_options(); fio(1): time_based",
    "runtime=60s",
    _judge,
)
