"""Asking where something is to be set, and setting where something is to be asked."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at, named
from iotrial.lint.sheet import Sheet

_ASKED = frozenset({
    "ACTION", "DEVPATH", "KERNEL", "KERNELS", "SUBSYSTEM", "SUBSYSTEMS", "DRIVER", "DRIVERS",
    "ATTRS", "TAGS", "TEST", "RESULT", "CONST",
})  # fmt: skip
_SET = frozenset({"RUN", "OWNER", "GROUP", "MODE", "SECLABEL", "OPTIONS", "LABEL", "GOTO"})
_MATCH = ("==", "!=")


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        if entry.key in _ASKED and entry.sign not in _MATCH:
            what = f"{entry.key} can only be asked: {entry.sign} is no comparison"
            yield at(entry, what, f'{named(entry)}=="{entry.value}"')
        elif entry.key in _SET and entry.sign in _MATCH:
            right = "+=" if entry.key == "RUN" else "="
            what = f"{entry.key} can only be set: {entry.sign} is no assignment"
            yield at(entry, what, f'{named(entry)}{right}"{entry.value}"')


RULE = Rule(
    "udev-operator",
    "= where == is meant, or the other way round",
    "error",
    ("udev",),
    "udev leaves the whole rule out (invalid operator).",
    "udev(7), operators; systemd src/udev/udev-rules.c",
    "Compare with ==, set with = or +=.",
    _judge,
)
