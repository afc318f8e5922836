"""A first root filesystem as the kernel unpacks it: a cpio archive of the format newc.

Source: Documentation/driver-api/early-userspace/buffer-format.rst of Linux 6.1; several archives,
each compressed or not, may follow each other.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_ALIGNED = 4
_END = "TRAILER!!!"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or a symbolic link (then ``data`` is where it leads).  ``mode`` are its
    permissions."""

    data: bytes
    mode: int = 0o644
    link: bool = False


def archive(entries: Mapping[str, Entry]) -> bytes:
    """The archive of these files by their paths, without a leading ``/``; their folders are made,
    0755, and root's."""
    parts = [_member(folder, b"", stat.S_IFDIR | 0o755) for folder in _folders(entries)]
    for path, entry in sorted(entries.items()):
        kind = stat.S_IFLNK | 0o777 if entry.link else stat.S_IFREG | entry.mode
        parts.append(_member(path, entry.data, kind))
    return b"".join([*parts, _member(_END, b"", 0)])


def _folders(paths: Iterable[str]) -> list[str]:
    """All folders above, each before what is in it."""
    found = {
        "/".join(parts[:n]) for parts in (p.split("/") for p in paths) for n in range(len(parts))
    }
    return sorted(found - {""})


def _member(name: str, data: bytes, mode: int) -> bytes:
    """One member: 13 numbers of 8 hexadecimal digits, the name, the data, each padded to 4."""
    path = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    numbers = (0, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + path
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNED)
