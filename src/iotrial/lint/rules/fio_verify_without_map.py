"""Verifying random writes without a map."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import jobs
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for job in jobs(sheet):
        where = job.entry("norandommap")
        checks = job.value("verify", "0") not in ("0", "") or job.on("do_verify")
        if where and job.on("norandommap") and checks and job.value("random_generator") != "lfsr":
            yield at(where, f"[{job.name}] verifies what it wrote")


RULE = Rule(
    "fio-verify-without-map",
    "norandommap with verify",
    "warning",
    ("fio",),
    "Without a map of what was written a block may be written twice: with more than one I/O in"
    " flight the order is not known, and fio reports errors that are none, or checks less.",
    "fio(1): norandommap, verify",
    "Take norandommap out, or random_generator=lfsr",
    _judge,
)
