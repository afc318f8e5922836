"""A depth for an engine that keeps one I/O in flight."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import alike, by_entry, jobs
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet
from iotrial.tools.fio_rules import SYNCHRONOUS


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    found = [job for job in jobs(sheet) if job.engine in SYNCHRONOUS]
    deep = [job for job in found if job.value("iodepth") not in ("", "0", "1")]
    for line, group in by_entry((job.entry("iodepth"), job) for job in deep):
        what = f"ioengine={group[0].engine} keeps one I/O in flight"
        yield Said(line, f"{alike(group)} iodepth", what)


RULE = Rule(
    "fio-depth-ignored",
    "iodepth with a synchronous engine",
    "warning",
    ("fio",),
    "Engines that wait for each I/O keep one in flight; fio ignores iodepth without a word.",
    "fio(1): iodepth; fio 3.33, tried out",
    "ioengine=io_uring or libaio; or numjobs",
    _judge,
)
