"""Kinds of I/O that fio does not know."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import own
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet
from iotrial.tools.fio_rules import RW, nearest_rw


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for entry in own(sheet):
        kind = entry.value.partition(":")[0]
        if entry.name == "rw" and kind not in RW and "$" not in kind:
            near = nearest_rw(kind)
            hint = f"; the nearest is {near[0]}" if near else ""
            yield Said(entry.line, entry.key, f"there is no {kind[:40]!r}{hint}")


RULE = Rule(
    "fio-pattern",
    "a kind of I/O that fio does not know",
    "error",
    ("fio",),
    "fio refuses the job file (bad option value).",
    "fio(1): rw",
    "Take one of read, write, randread, randwrite, rw, randrw, trim and the like.",
    _judge,
)
