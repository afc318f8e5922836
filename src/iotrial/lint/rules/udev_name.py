"""NAME on what is no network interface."""

from __future__ import annotations

from collections.abc import Iterator

from iotrial.lint.rule import Rule, Said, Scene, at
from iotrial.lint.sheet import Entry, Sheet


def _judge(sheet: Sheet, _scene: Scene) -> Iterator[Said]:
    for group in sheet.groups():
        for entry in group:
            if entry.key != "NAME" or entry.sign not in ("=", ":=", "+="):
                continue
            if entry.value in ("%k", "$kernel"):
                yield at(entry, "it says nothing: a device has its kernel name", "Take NAME out.")
            elif _of_block(group):
                what = "the name of a block device cannot be changed: it is ignored"
                yield at(entry, what, f'SYMLINK+="{entry.value}"')


def _of_block(group: tuple[Entry, ...]) -> bool:
    return any(
        entry.sign == "=="
        and (
            (entry.key in ("SUBSYSTEM", "SUBSYSTEMS", "BUS") and entry.value in ("block", "scsi"))
            or (entry.key == "KERNEL" and entry.value.startswith(("sd", "dm-", "nvme", "hd")))
        )
        for entry in group
    )


RULE = Rule(
    "udev-name",
    "NAME for a block device",
    "warning",
    ("udev",),
    "Device nodes are made by the kernel.  Since udev 174 NAME counts for network interfaces only.",
    "udev(7): NAME",
    'Give it a link: SYMLINK+="…"',
    _judge,
)
