"""Kernel parameters that neither the list nor this host has."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import nearest_sysctl
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.rules.sysctl_misspelt import unknown
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        optional = each.entry.sign == "-="  # whoever wrote it knows that it may not be there
        if not optional and unknown(each, scene) and not nearest_sysctl(each.name):
            yield at(each, "no kernel that lint knows has such a parameter, and none is near")


RULE = Rule(
    "sysctl-unknown",
    "a kernel parameter that nobody knows",
    "warning",
    ("sysctl", "udev", "tuned", "cmdline"),
    "A module from elsewhere or a distribution's own kernel may bring it; else nothing is set.",
    "tables of Linux 6.1, /proc/sys of Linux 6.18, and of the host where one is asked",
    "Look whether `sysctl NAME` knows it there; else take the line out.",
    _judge,
)
