"""Parameters that a module does not have."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import modules, nearest
from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.rules.module_removed import removed
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, scene: Scene) -> Iterator[Said]:
    for each in sheet.of("module"):
        module, _, name = each.name.partition(".")
        asked = scene.modules.get(module)
        known = asked if asked is not None else modules().get(module)
        plain = name.replace("-", "_")
        if known is None or plain in known or removed(each.name, scene) or name == "dyndbg":
            continue
        near = nearest(plain, known)
        if near:
            line = f"options {module} {near}={each.value}"
            yield at(each, f"{module} has no parameter {name}; the nearest is {near}", line)
        else:
            yield at(each, f"{module} has no parameter {name}")


RULE = Rule(
    "module-unknown",
    "a parameter that a module does not have",
    "error",
    ("modprobe", "tuned", "cmdline"),
    "The module says `unknown parameter … ignored` once, when it is loaded.",
    "modinfo of the host; for a few modules the sources of Linux 6.1",
    "Look at `modinfo -p MODULE`.",
    _judge,
)
