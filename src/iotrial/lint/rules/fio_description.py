"""A description that says another block size."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.lint.jobs import jobs
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_SIZE = re.compile(r"\b(\d+)\s?([kKmM])(?:i?[bB])?\b")


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for job in jobs(sheet):
        where, size = job.entry("description"), job.value("bs")
        found = _SIZE.search(where.value) if where else None
        said = f"{found[1]}{found[2]}".lower() if found else ""
        if where and said and size.isalnum() and said != size.lower().removesuffix("ib"):
            yield at(where, f"{where.value!r}, and bs={size}")


RULE = Rule(
    "fio-description",
    "a description that does not fit",
    "note",
    ("fio",),
    "What was copied and changed keeps its old description, and reports are labelled by it.",
    "fio(1): description",
    "Let the description say what the job does.",
    _judge,
)
