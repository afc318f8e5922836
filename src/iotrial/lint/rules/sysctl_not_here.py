"""A kernel parameter that exists, but not on this host."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import is_sysctl
from iotrial.lint.known.gone import gone
from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.rules.sysctl_too_early import module_of


def _host(scene: Scene) -> Iterator[Said]:
    for sheet in scene.sheets:
        for each in sheet.of("sysctl") if sheet.kind == "sysctl" else ():
            known = is_sysctl(each.name) and not gone(each.name) and not module_of(each.name)
            if known and each.name in scene.absent and each.entry.sign != "-=":
                yield Said(each.line, each.name, "this kernel does not have it", file=sheet.file)


RULE = Rule(
    "sysctl-not-here",
    "a kernel parameter that this kernel does not have",
    "warning",
    (),
    "The kernel was built without it, is older, or the module that brings it is not loaded:"
    " nothing is set.",
    "/proc/sys of the host",
    "Take the line out, or put - before it: then it may be missing.",
    host=_host,
)
