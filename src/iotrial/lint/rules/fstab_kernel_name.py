"""Disks by names that may be another's tomorrow."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene
from iotrial.lint.sheet import Sheet

_KERNEL_NAME = re.compile(r"/dev/(?:[shv]d[a-z]+\d*|xvd[a-z]+\d*|nvme\d+n\d+(?:p\d+)?|dm-\d+)")


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for group in sheet.groups():
        source = group[0].section[0]
        if _KERNEL_NAME.fullmatch(source):
            yield Said(group[0].line, source, "the kernel may give this name to another disk")


RULE = Rule(
    "fstab-kernel-name",
    "a disk by its kernel name",
    "note",
    ("fstab",),
    "sda is the disk that was found first.  Another order of discovery, and another disk is"
    " mounted there, or none.",
    "fstab(5): fs_spec; udev's /dev/disk/by-*",
    "UUID=…, LABEL=… or /dev/disk/by-id/…: `lsblk -f` shows them.",
    _judge,
)
