"""A comment behind a value: in a sysctl file it is part of the value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Sheet

_TEXTS = ("kernel.core_pattern", "kernel.hostname", "kernel.domainname", "kernel.modprobe")


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for each in sheet.of("sysctl"):
        found = re.search(r"\s[#;].*", each.value)
        if found and each.name not in _TEXTS:
            value = each.value[: found.start()].strip()
            what = f"{found[0].strip()[:40]!r} is part of the value: only whole lines are comments"
            yield at(each, what, f"{each.name} = {value}")


RULE = Rule(
    "sysctl-comment-behind",
    "a comment behind a value",
    "error",
    ("sysctl",),
    "The kernel gets the comment with the value, and refuses both (Invalid argument).",
    "sysctl.d(5), sysctl.conf(5): a comment is a line that begins with # or ;",
    "Give the comment a line of its own.",
    _judge,
)
