"""GOTO without its LABEL."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    labels = {entry.value: entry.line for entry in sheet.entries if entry.key == "LABEL"}
    for entry in sheet.entries:
        if entry.key == "GOTO" and labels.get(entry.value, 0) <= entry.line:
            where = "stands before it" if entry.value in labels else "is not in this file"
            yield at(entry, f"its LABEL {entry.value!r} {where}")


RULE = Rule(
    "udev-goto",
    "a GOTO that leads nowhere",
    "error",
    ("udev",),
    "udev goes forward only and within one file; a GOTO without a LABEL is left out, and the rules"
    " it should skip are applied.",
    "udev(7): LABEL, GOTO",
    "Put the LABEL behind the rules that are to be skipped.",
    _judge,
)
