"""OPTIONS that udev reads no more."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_REMOVED = ("last_rule", "ignore_device", "ignore_remove", "all_partitions", "event_timeout")


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for entry in sheet.entries:
        if entry.key == "OPTIONS":
            for word in entry.value.replace(",", " ").split():
                if word.partition("=")[0] in _REMOVED:
                    yield at(entry, f"udev ignores {word}: it is no option any more")


RULE = Rule(
    "udev-removed-option",
    "an option that udev reads no more",
    "warning",
    ("udev",),
    "last_rule, ignore_device and the like went with udev 174 to 182: rules behind it are applied"
    " now.",
    "udev(7): OPTIONS",
    "Skip rules with GOTO and LABEL.",
    _judge,
)
