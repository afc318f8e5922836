"""Looking at a host without touching it: the few reads that all refusals rest on.

Every function here answers "not there" with an empty value; what must not be missing (such as
the table of mounts) is read by its owner with :meth:`Reader.read`, which raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from iotrial.errors import FileRefused
from iotrial.model.host import Reader
from iotrial.model.step import Probe, Read

# One field a separator, because %F holds blanks ("block special file").
_FORMAT = "%F|%t|%T|%d|%i|%s|%a|%u"
_FIELDS = 8


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What stat(1) says of a path, links followed.  ``devno`` is ``major:minor`` of a device
    node (``0:0`` otherwise), ``filesystem`` the number of the filesystem it lies on, ``size`` in
    bytes, ``mode`` the permission bits."""

    kind: str
    devno: str
    filesystem: int
    inode: int
    size: int
    mode: int
    owner: int

    @property
    def is_block_device(self) -> bool:
        return self.kind == "block special file"

    @property
    def inode_of(self) -> str:
        """What is told apart by nothing else on a running machine: file system and inode."""
        return f"{self.filesystem}:{self.inode}"

    @property
    def is_folder(self) -> bool:
        return self.kind == "directory"

    @property
    def is_file(self) -> bool:
        return self.kind in ("regular file", "regular empty file")


def text(host: Reader, path: str) -> str:
    """The content of a small file without its surrounding blanks and NULs; '' when refused."""
    return clean(content(host, path))


def content(host: Reader, path: str) -> bytes:
    """The content of a file; empty when it cannot be read."""
    try:
        return host.read(path)
    except FileRefused:
        return b""


def contents(host: Reader, paths: Iterable[str]) -> dict[str, bytes]:
    """The contents of many files, in one round trip; empty for those that cannot be read."""
    wanted = list(dict.fromkeys(paths))
    answers = host.batch([_look(path) for path in wanted])
    return {path: answer.raw for path, answer in zip(wanted, answers, strict=True)}


@lru_cache(maxsize=8192)
def _look(path: str) -> Read:
    """A step is a frozen value: many hosts, and all trials, are asked for the same paths."""
    return Read(Probe(path))


def texts(host: Reader, paths: Iterable[str]) -> dict[str, str]:
    """As :func:`text`, of many files in one round trip."""
    return {path: clean(data) for path, data in contents(host, paths).items()}


def clean(data: bytes) -> str:
    """Vendors pad model and serial with blanks and NULs; the kernel ends with a newline."""
    return data.decode("utf-8", "replace").replace("\0", "").strip()


def names(host: Reader, folder: str) -> list[str]:
    """Sorted names in a folder; none when it cannot be listed."""
    try:
        return host.list(folder)
    except FileRefused:
        return []


def status(host: Reader, path: str) -> FileStatus | None:
    """stat(1) of a path, links followed; None when there is nothing."""
    done = host.run(["stat", "-L", "-c", _FORMAT, path])
    return parse_status(done.text) if done.exit == 0 else None


def itself(host: Reader, path: str) -> FileStatus | None:
    """stat(1) of a path, a link not followed; None when there is nothing."""
    done = host.run(["stat", "-c", _FORMAT, path])
    return parse_status(done.text) if done.exit == 0 else None


def parse_status(line: str) -> FileStatus | None:
    """One line of ``stat -c '%F|%t|%T|%d|%i|%s|%a|%u'``; None when it is something else."""
    fields = line.strip().split("|")
    if len(fields) != _FIELDS:
        return None
    kind, major, minor, filesystem, inode, size, mode, owner = fields
    return FileStatus(
        kind=kind,
        devno=f"{int(major or '0', 16)}:{int(minor or '0', 16)}",
        filesystem=int(filesystem),
        inode=int(inode),
        size=int(size),
        mode=int(mode, 8),
        owner=int(owner),
    )


def resolve(host: Reader, path: str) -> str:
    """The real path with every link followed; '' when any part of it is missing."""
    done = host.run(["readlink", "-e", path])
    return done.text.rstrip("\n") if done.exit == 0 else ""


def nearest(host: Reader, path: str) -> str:
    """The real path of the deepest existing folder at or above ``path``."""
    for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
        real = resolve(host, str(folder))
        if real:
            return real
    return "/"


def room(host: Reader, path: str) -> int:
    """Bytes left for ordinary use on the filesystem of ``path``; 0 when it cannot be said."""
    done = host.run(["stat", "-f", "-c", "%a %S %T", path])
    fields = done.text.split()
    return int(fields[0]) * int(fields[1]) if done.exit == 0 and len(fields) > 1 else 0
