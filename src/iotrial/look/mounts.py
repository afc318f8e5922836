"""Mounts: which filesystem a path really lies on, and which devices are mounted or swapped on.

Method: /proc/PID/mountinfo is the kernel's own table, with the number of the device and the
tree in which mounts cover each other (proc_pid_mountinfo(5)).  mtab and mount(8) know neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

# What holds data in memory only: a trial there measures the memory.
MEMORY = frozenset({"tmpfs", "ramfs", "rootfs"})
# What holds no data at all: a file there is a mistyped device (`dd of=/dev/sdz`).
KERNEL = frozenset({"devtmpfs", "devpts", "sysfs", "proc", "cgroup", "cgroup2", "securityfs"})
_ESCAPED = re.compile(r"\\([0-7]{3})")
_SWAP_FIELDS = 4
_MOUNT_FIELDS = 6
_FSTAB_FIELDS = 3


@dataclass(frozen=True, slots=True)
class MountEntry:
    """One line of mountinfo.  ``ident`` and ``parent`` span the tree; ``devno`` is
    ``major:minor`` of the superblock (major 0: no block device of its own); ``root`` which
    folder or file of it is mounted."""

    ident: int
    parent: int
    devno: str
    point: str
    fstype: str
    source: str
    options: tuple[str, ...] = ()
    root: str = "/"

    @property
    def read_only(self) -> bool:
        return "ro" in self.options

    @property
    def on_block_device(self) -> bool:
        return not self.devno.startswith("0:")

    def describe(self) -> str:
        return f"{self.fstype} from {self.source} ({self.devno}) on {self.point}"


@dataclass(frozen=True, slots=True)
class SwapEntry:
    """One line of /proc/swaps: the path, ``partition`` or ``file``, and sizes in bytes."""

    path: str
    kind: str
    size: int
    used: int


@lru_cache(maxsize=256)
def parse_mountinfo(text: str) -> tuple[MountEntry, ...]:
    """All mounts of one namespace in the kernel's order.  Lines cut short are left out.

    Remembered by the text itself: it is read anew for each trial and namespace, and mostly says
    the same."""
    return tuple(mount for line in text.splitlines() if (mount := _mount(line)))


def _mount(line: str) -> MountEntry | None:
    head, dash, tail = line.partition(" - ")
    fields, origin = head.split(" "), tail.split(" ")
    if not dash or len(fields) < _MOUNT_FIELDS or len(origin) < 2:  # noqa: PLR2004 (type, source)
        return None
    options = fields[5].split(",") + (origin[2].split(",") if len(origin) > 2 else [])  # noqa: PLR2004
    return MountEntry(
        ident=int(fields[0]),
        parent=int(fields[1]),
        devno=fields[2],
        point=unescape(fields[4]),
        fstype=origin[0],
        source=unescape(origin[1]),
        options=tuple(dict.fromkeys(options)),
        root=unescape(fields[3]),
    )


def unescape(text: str) -> str:
    r"""The kernel and fstab write blanks in paths as ``\040``."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def mount_of(path: str, mounts: Sequence[MountEntry]) -> MountEntry | None:
    """The mount that a real, absolute ``path`` is on, found as the kernel finds it.

    The longest matching mount point is *not* the answer: a mount on ``/a`` hides an earlier one
    on ``/a/b``.  So walk down from the root: among the mounts whose parent we stand on, the one
    met first along the path is entered, again and again.
    """
    here = _root(mounts)
    while here is not None:
        below = [m for m in mounts if m.parent == here.ident and m is not here]
        met = [m for m in below if under(path, m.point)]
        if not met:
            return here
        here = min(met, key=lambda m: len(m.point))
    return None


def _root(mounts: Sequence[MountEntry]) -> MountEntry | None:
    """The bottom of the tree that is mounted on ``/`` and whose parent is not in the table."""
    known = {m.ident for m in mounts}
    tops = [m for m in mounts if m.point == "/" and (m.parent not in known or m.parent == m.ident)]
    return tops[0] if tops else None


def under(path: str, folder: str) -> bool:
    """Is ``path`` the folder itself or inside it?"""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def parse_swaps(text: str) -> tuple[SwapEntry, ...]:
    """/proc/swaps: one header line, then path, type, KiB, KiB used, priority."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return tuple(
        SwapEntry(unescape(row[0]), row[1], int(row[2]) * 1024, int(row[3]) * 1024)
        for row in rows
        if len(row) >= _SWAP_FIELDS
    )


def parse_fstab(text: str) -> tuple[str, ...]:
    """The mount points /etc/fstab speaks of, ``/`` and swap left out."""
    rows = [line.split() for line in text.splitlines() if not line.lstrip().startswith("#")]
    points = [unescape(row[1]) for row in rows if len(row) >= _FSTAB_FIELDS]
    return tuple(point.rstrip("/") for point in points if point.startswith("/") and point != "/")
