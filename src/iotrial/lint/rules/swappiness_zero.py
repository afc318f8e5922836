"""swappiness = 0 is not "a little less"."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, since
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        if each.name == "vm.swappiness" and each.value == "0" and since(scene, 3, 5):
            what = "from 3.5 on nothing anonymous is swapped until memory is nearly gone"
            yield at(each, what, "vm.swappiness = 1")


RULE = Rule(
    "swappiness-zero",
    "swappiness = 0",
    "note",
    ("sysctl", "tuned"),
    "Old reports set 0 where 1 is meant now: before 3.5 it was the least.  Since then it is off"
    " until free and file pages fall below the high watermark, and the OOM killer is near.",
    "Documentation/admin-guide/sysctl/vm.rst: swappiness; commit fe35004fbf9e (3.5)",
    "vm.swappiness = 1",
    _judge,
)
