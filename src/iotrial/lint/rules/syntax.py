"""Lines that the program which reads the file cannot read."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import KINDS, Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for each in sheet.complaints:
        yield Said(each.line, "", each.what)


RULE = Rule(
    "syntax",
    "a line that cannot be read",
    "error",
    KINDS,
    "What cannot be read is skipped, mostly without a word, and sometimes all that follows too.",
    "sysctl.d(5), udev(7), multipath.conf(5), modprobe.d(5), fstab(5), tuned.conf(5), fio(1)",
    "Write the line as the manual page of the file has it.",
    _judge,
)
