"""Acts in a file of settings."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet
from iotrial.tunables.sysctl import REFUSED


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        if "is an act" in REFUSED.get(each.name, ""):
            yield at(each, "it is an act and no setting: it is done once, when the file is read")


RULE = Rule(
    "sysctl-act",
    "an act, not a setting",
    "warning",
    ("sysctl", "tuned", "cmdline"),
    "Dropping caches or compacting memory at boot does nothing, and costs whenever the file is"
    " read again.",
    "Documentation/admin-guide/sysctl/vm.rst: drop_caches, compact_memory",
    "Take the line out.",
    _judge,
)
