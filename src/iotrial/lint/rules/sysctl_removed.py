"""Kernel parameters that kernels had once."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known.gone import gone
from iotrial.lint.rule import Rule, Said, Scene, at, spelled
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        found = gone(each.name)
        optional = each.entry.sign == "-="  # whoever wrote it knows that it may not be there
        if found and not optional and scene.kernel >= found.since and each.name not in scene.there:
            what = f"kernels have it no more, from {spelled(found.since)} on"
            yield at(each, f"{what}: {found.why}" if found.why else what, found.instead)


RULE = Rule(
    "sysctl-removed",
    "a kernel parameter that was removed",
    "error",
    ("sysctl", "udev", "tuned", "cmdline"),
    "The line comes from a report about another kernel.  Here it sets nothing.",
    "the kernel's history; Documentation/admin-guide/sysctl, networking/ip-sysctl.rst",
    "Take the line out.",
    _judge,
)
