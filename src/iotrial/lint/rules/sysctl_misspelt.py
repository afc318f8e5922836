"""Kernel parameters that do not exist, and are one or two letters from one that does."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import is_sysctl, nearest_sysctl
from iotrial.lint.known.gone import gone
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Setting, Sheet


def unknown(setting: Setting, scene: Scene) -> bool:
    """Whether no kernel has it: not the list's, not this host's."""
    return not (setting.name in scene.there or gone(setting.name) or is_sysctl(setting.name))


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        if unknown(each, scene) and (near := nearest_sysctl(each.name)):
            yield at(
                each, f"there is no such parameter; the nearest is {near}", f"{near} = {each.value}"
            )


RULE = Rule(
    "sysctl-misspelt",
    "a kernel parameter that is misspelt",
    "error",
    ("sysctl", "udev", "tuned", "cmdline"),
    "sysctl(8) complains and goes on, at boot into a log that nobody reads: nothing is set.",
    "tables of Linux 6.1, /proc/sys of Linux 6.18, and of the host where one is asked",
    "Take the real name.",
    _judge,
)
