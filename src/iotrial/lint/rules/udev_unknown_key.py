"""Keys that udev never knew."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.known import nearest
from iotrial.lint.rule import Rule, Said, Scene, at, named
from iotrial.lint.rules.udev_removed_key import REMOVED
from iotrial.lint.sheet import Sheet

KEYS = frozenset({
    "ACTION", "DEVPATH", "KERNEL", "KERNELS", "NAME", "SYMLINK", "SUBSYSTEM", "SUBSYSTEMS",
    "DRIVER", "DRIVERS", "ATTR", "ATTRS", "SYSCTL", "ENV", "CONST", "TAG", "TAGS", "TEST",
    "PROGRAM", "RESULT", "OWNER", "GROUP", "MODE", "SECLABEL", "RUN", "LABEL", "GOTO", "IMPORT",
    "OPTIONS",
})  # fmt: skip
_PARTS = frozenset({"ATTR", "ATTRS", "SYSCTL", "ENV", "CONST", "SECLABEL", "IMPORT"})
_NO_PART = frozenset({
    "ACTION", "DEVPATH", "KERNEL", "KERNELS", "NAME", "SYMLINK", "SUBSYSTEM", "SUBSYSTEMS",
    "DRIVER", "DRIVERS", "TAG", "TAGS", "PROGRAM", "RESULT", "OWNER", "GROUP", "MODE", "LABEL",
    "GOTO", "OPTIONS",
})  # fmt: skip


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        if entry.key in REMOVED:
            continue
        if entry.key not in KEYS:
            near = nearest(entry.key.upper(), KEYS, 0.7)
            hint = f"; the nearest is {near}" if near else ""
            yield at(entry, f"udev has no key {entry.key}{hint}")
        elif entry.key in _PARTS and not entry.part:
            yield at(entry, f"{entry.key} needs a name in braces: {entry.key}{{name}}")
        elif entry.key in _NO_PART and entry.part:
            yield at(entry, f"{entry.key} takes nothing in braces: {named(entry)}")


RULE = Rule(
    "udev-unknown-key",
    "a key that udev does not know",
    "error",
    ("udev",),
    "A rule with a key that udev does not know is left out altogether.",
    "udev(7); systemd src/udev/udev-rules.c",
    "Take the real key.",
    _judge,
)
