"""Options that fio does not have."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.jobs import own
from iotrial.lint.known import fio_options
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet
from iotrial.tools.fio_rules import option_table


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    table = option_table()
    for entry in own(sheet):
        if entry.name in table.kinds or entry.key in fio_options():
            continue
        if not entry.key or any(mark in entry.key for mark in "$:"):
            continue
        near = table.nearest(entry.key)
        hint = f"; the nearest is {near}" if near else ""
        yield Said(entry.line, entry.key, f"fio has no such option{hint}")


RULE = Rule(
    "fio-unknown",
    "an option that fio does not have",
    "error",
    ("fio",),
    "fio refuses the whole job file (Bad option).",
    "fio --cmdhelp=all of fio 3.33, and options of later releases",
    "Take the real name.",
    _judge,
)
