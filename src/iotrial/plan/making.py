"""What a study says of making a target: which keys go together, and what they may hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from iotrial.model.target import FILESYSTEMS
from iotrial.plan.locate import KeyPath
from iotrial.plan.problem import Problem, choices
from iotrial.plan.target_table import MountTable, TargetTable

_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECRET = re.compile(r"(?:^|,)(?:pass|passwd|password|secret)=")


def making(path: KeyPath, table: TargetTable) -> Iterator[Problem]:
    """Every problem with what is made for one target."""
    if table.filesystem:
        yield from _filesystem((*path, "filesystem"), table)
    if table.mount is not None:
        yield from _mount((*path, "mount"), table, table.mount)
    yield from _commands(path, table)


def _filesystem(path: KeyPath, table: TargetTable) -> Iterator[Problem]:
    if not (table.device or table.loop):
        yield Problem(path, "a file system is made on a device or a loop device", "Leave it out.")
    if table.filesystem not in FILESYSTEMS:
        message = f"{table.filesystem!r} is not a file system that iotrial makes"
        yield Problem(path, message, choices(table.filesystem, FILESYSTEMS, "it makes"))


def _mount(path: KeyPath, table: TargetTable, mount: MountTable) -> Iterator[Problem]:
    if not table.directory:
        advice = "Give the `directory` to mount at; on a device say `filesystem`."
        yield Problem(path, "only a directory is mounted at", advice)
    if table.create:
        yield Problem(path, "create and mount do not go together", "Mount in `create`.")
    if not mount.source or mount.source.startswith("-") or not mount.source.isprintable():
        yield Problem((*path, "source"), f"{mount.source!r} is nothing to mount")
    if re.match(r"(LABEL|UUID|PARTLABEL|PARTUUID|ID)=", mount.source):
        message = f"{mount.source!r} is looked up by mount itself"
        yield Problem((*path, "source"), message, "Write its path in /dev/disk/.")
    if not _TYPE.fullmatch(mount.type):
        yield Problem((*path, "type"), f"{mount.type!r} is not a type of file system")
    if re.search(r"[\s\x00-\x1f]", mount.options):
        advice = 'Separate options by commas alone: options = "noatime,rsize=65536"'
        yield Problem((*path, "options"), f"{mount.options!r} has blanks in it", advice)
    if _SECRET.search(mount.options):
        advice = "A study is kept with its results: name a file, credentials=/root/secret."
        yield Problem((*path, "options"), "a password does not belong in a study", advice)


def _commands(path: KeyPath, table: TargetTable) -> Iterator[Problem]:
    if table.create and not table.remove:
        message = "create goes with remove: what is made is removed again"
        yield Problem((*path, "create"), message, 'For example remove = ["mdadm", "--stop", …]')
    if table.remove and not table.create:
        yield Problem((*path, "remove"), "remove goes with create", "Leave it out.")
    if table.create and not (table.device.startswith("/") or table.directory):
        advice = "Give the path of the `device` or the `directory` that it makes."
        yield Problem((*path, "create"), "create makes a device or a directory", advice)
    for key in ("create", "remove"):
        given = getattr(table, key)
        several = [given] if given and isinstance(given[0], str) else given
        if any(not argv or not argv[0] for argv in several):
            yield Problem((*path, key), "a command without a program")
