"""Writing: where a verb may put its files, and what is said where it may not."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iotrial import files
from iotrial.errors import UsageError

_OWNER = "Look at the owner and mode of {folder}, or name another place with {option}."
_ADVICE = {
    errno.ENOENT: "There is no folder {folder}: make it, or name another place with {option}.",
    errno.EACCES: _OWNER,
    errno.EPERM: _OWNER,
}
_ELSE = "Name another place with {option}."
_PLACES = (*_ADVICE, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP)


@contextmanager
def writing(path: Path, option: str = "--out") -> Iterator[None]:
    """Around what writes ``path``, which the ``option`` names.

    Raises UsageError where nothing can be written at such a place; other errors (a full disk) go
    on as they are.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _PLACES:
            raise
        folder = _missing(path)
        odd = error.errno == errno.ENOENT and folder.exists()  # /proc says so
        said = _ELSE if odd else _ADVICE.get(error.errno, _ELSE)
        advice = said.format(folder=folder, option=option)
        raise UsageError(
            f"{path} cannot be written: {os.strerror(error.errno)}", advice=advice
        ) from error


def write(path: Path, content: bytes, *, option: str = "--out", top: Path | None = None) -> None:
    """Write a file of ours, in place of whatever has its name: a link is replaced, not followed.
    ``top`` is the results folder it belongs to, below which no folder may be a link.

    A pipe or a terminal that the ``option`` names is written to itself; so is what /dev and /proc
    lend the name of one (``/dev/stdout``).  Raises UsageError where nothing can be written.
    """
    with writing(path, option):
        if top is None and _is_stream(path):
            path.write_bytes(content)
            return
        files.write_bytes(path, content, top)


def _is_stream(path: Path) -> bool:
    """Whether what has this name is no file.  Raises UsageError for a disk."""
    lent = path.absolute().parts[1:2] in (("dev",), ("proc",))
    try:
        mode = path.stat().st_mode if lent else path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISBLK(mode):
        raise UsageError(f"{path} is a disk, and no place for a report", advice="Name a file.")
    return lent or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _missing(path: Path) -> Path:
    """The folder that is not there, or the one that would hold ``path``."""
    every = [*reversed(path.parents)]
    return next((each for each in every if not each.exists()), path.parent)
