"""Jobs of one file that run for different times."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import jobs, seconds
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_FEW = 3


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    timed = [(job, where) for job in jobs(sheet) if (where := job.entry("runtime"))]
    lengths = [seconds(where.value) for _, where in timed]
    if len(timed) < _FEW or len(set(lengths)) != 2:  # noqa: PLR2004 (one, and the others)
        return
    for (job, where), length in zip(timed, lengths, strict=True):
        if lengths.count(length) == 1:
            others = next(other.value for _, other in timed if other.value != where.value)
            yield at(where, f"[{job.name}] runs for {where.value}, all others for {others}")


RULE = Rule(
    "fio-runtimes",
    "jobs that run for different times",
    "note",
    ("fio",),
    "Jobs that are compared should have run alike: a shorter one has more of its beginning in its"
    " average.  One that differs from all others is often a slip of the pen.",
    "fio(1): runtime",
    "Let them run for the same time.",
    _judge,
)
