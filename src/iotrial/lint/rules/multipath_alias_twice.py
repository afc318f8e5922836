"""Two maps with the same alias."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        if entry.section == ("multipaths", "multipath") and entry.key == "alias":
            same = [
                other
                for other in sheet.entries
                if other.key == "alias" and other.value == entry.value and other.line < entry.line
            ]
            if same:
                yield at(entry, f"the map of line {same[0].group} is called {entry.value!r} too")


RULE = Rule(
    "multipath-alias-twice",
    "two maps of one name",
    "error",
    ("multipath",),
    "The second map gets another name, and which of them is second is decided anew at each boot.",
    "multipath.conf(5): alias",
    "Give each map a name of its own.",
    _judge,
)
