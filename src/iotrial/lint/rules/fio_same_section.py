"""Two jobs of one name."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    seen: dict[str, int] = {}
    for line, name in sheet.sections:
        if name in seen:
            yield Said(line, f"[{name}]", f"line {seen[name]} has a job of this name already")
        seen.setdefault(name, line)


RULE = Rule(
    "fio-same-section",
    "two jobs of one name",
    "warning",
    ("fio",),
    "fio runs both.  Its output, and what reads it, cannot tell one from the other.",
    "fio(1), job file format; fio 3.33, tried out",
    "Give each job a name of its own.",
    _judge,
)
