"""Kernel parameters that are accepted and do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known.gone import INERT
from iotrial.lint.rule import Rule, Said, Scene, at, spelled
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        found = INERT.get(each.name)
        if found and scene.kernel >= found.since:
            yield at(each, f"it has no effect from {spelled(found.since)} on: {found.why}")


RULE = Rule(
    "sysctl-inert",
    "a kernel parameter without effect",
    "warning",
    ("sysctl", "udev", "tuned", "cmdline"),
    "It is kept so that old files are accepted.  Whoever relies on it relies on nothing.",
    "Documentation/networking/ip-sysctl.rst; net/ipv4/route.c",
    "Take the line out.",
    _judge,
)
