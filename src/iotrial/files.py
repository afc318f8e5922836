"""Files of a results folder: JSON and JSONL, read with errors that name file and line, and written
so that they survive a power cut.  What lies in them is :mod:`iotrial.store`'s business.

A results folder may be somebody else's, and the reader root.  So nothing in one is read or written
through a link, only regular files are read, and no more of one than fits into memory; what is
written replaces the name, whatever stood there, and not what a link leads to.  The folder itself
(``top``) may be reached through links: the command line names it.

Sources: fsync(2); a rename is durable once its folder is; open(2): O_NOFOLLOW, O_EXCL;
path_resolution(7).
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from iotrial.errors import FormatError

MOST = 2**30
"""Bytes of a file that are read."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEVER = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LINK = "Replace the link by the file or folder itself, or delete it."
_OTHER = "Delete it: a results folder contains files and folders only."
_LARGEST = 2**63
_LONE = re.compile(rb"\\u[dD][89a-fA-F]")


# -- names -----------------------------------------------------------------------------------


@contextmanager
def within(path: Path, top: Path | None = None, *, make: bool = False) -> Iterator[int]:
    """The folder that holds ``path``, opened; below ``top`` (itself) no link is followed.
    ``make`` makes those of them that are not there.  Raises FormatError for a link, OSError."""
    top = top or path.parent
    handle = os.open(top, _FOLDER)
    here = top
    try:
        for part in path.parent.relative_to(top).parts:
            here /= part
            handle = _below(handle, part, here, make=make)
        yield handle
    finally:
        os.close(handle)


def _below(handle: int, part: str, here: Path, *, make: bool) -> int:
    """The folder ``part`` of an open one, which is closed where that succeeds."""
    with _told(here):
        if make:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=handle)
        try:
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                _own(part, here, handle)
            raise
    os.close(handle)
    return below


def _own(name: str, path: Path, handle: int) -> os.stat_result:
    """What ``name`` is in an open folder.  Raises FormatError for a link, a device or a pipe."""
    found = os.stat(name, dir_fd=handle, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        raise FormatError(f"{path}: is a link, which iotrial does not follow", advice=_LINK)
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise FormatError(f"{path}: is not a regular file", advice=_OTHER)
    return found


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """An error of write(2) does not say in which file; one of openat(2) names only its end."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _opened(path: Path, flags: int, handle: int) -> int:
    """A regular file in an open folder, or a new one where ``flags`` say so.  Raises FormatError
    for anything else, OSError."""
    with _told(path):
        if not flags & os.O_EXCL:
            try:
                _own(path.name, path, handle)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
        opened = os.open(path.name, flags | _NEVER, 0o666, dir_fd=handle)
        if stat.S_ISREG(os.fstat(opened).st_mode):
            return opened
        os.close(opened)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


def make_folder(path: Path, top: Path) -> None:
    """The folder ``path`` and those between it and ``top``, where they are not there yet.  Raises
    FormatError where one of them is a link."""
    with within(path / "x", top, make=True):
        pass


def names(handle: int) -> list[str]:
    """What an open folder holds."""
    return sorted(os.listdir(handle))


def only_files(folder: Path, top: Path) -> None:
    """That a folder and those in it hold regular files alone, before others read there.  Raises
    FormatError for the first that is none, or is larger than what is read."""
    with within(folder / "x", top) as handle:
        for name in names(handle):
            found = _own(name, folder / name, handle)
            if stat.S_ISDIR(found.st_mode):
                only_files(folder / name, top)
            elif found.st_size > MOST:
                raise FormatError(f"{folder / name}: is larger than the limit of {MOST} bytes")


# -- reading ---------------------------------------------------------------------------------


def read_bytes(path: Path, top: Path | None = None, *, most: int = MOST) -> bytes:
    """All of a regular file of up to ``most`` bytes.  Raises FormatError, naming it."""
    try:
        with within(path, top) as folder:
            handle = _opened(path, os.O_RDONLY, folder)
        with os.fdopen(handle, "rb") as file:
            size = os.fstat(handle).st_size
            data = b"" if size > most else file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FormatError(f"{path}: {_why(error)}") from error
    if max(size, len(data)) > most:
        raise FormatError(f"{path}: is larger than the limit of {most} bytes")
    return data


def read_given(path: Path, most: int) -> bytes:
    """All of a file that somebody names, through links too.  Nobody can wait for the other end of
    a pipe, or read a device without an end.

    Raises OSError, whose strerror says what it is instead of a regular file of ``most`` bytes.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its name contains a NUL byte")
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", closefd=True) as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most} bytes")
    return data


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def read_text(path: Path, top: Path | None = None) -> str:
    """All of a file.  Raises FormatError, naming it."""
    data = read_bytes(path, top)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{path}:{line}: is not UTF-8") from error


def read_json(path: Path, top: Path | None = None) -> Any:  # noqa: ANN401 (whatever the file holds)
    """What a JSON file holds.  Raises FormatError, naming it."""
    return parse(read_bytes(path, top), str(path))


def read_object(path: Path, top: Path | None = None) -> dict[str, Any]:
    """The JSON object that a file holds.  Raises FormatError, naming it."""
    found = read_json(path, top)
    if not isinstance(found, dict):
        raise FormatError(f"{path}: not a JSON object")
    return found


def parse_line(path: Path, number: int, text: str | bytes) -> dict[str, Any]:
    """The JSON object of one line of a file.  Raises FormatError, naming file and line."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    row = parse(data, f"{path}:{number}")
    if not isinstance(row, dict):
        raise FormatError(f"{path}:{number}: not a JSON object")
    return row


def parse(data: bytes, place: str) -> Any:  # noqa: ANN401 (whatever it holds)
    """What JSON says, all of whose numbers are finite and whose text is Unicode.  ``place`` is
    where it stands, for the FormatError that anything else raises."""
    try:
        found = json.loads(data, parse_int=_whole, parse_float=_finite, parse_constant=_finite)
        if _LONE.search(data):
            json.dumps(found, ensure_ascii=False).encode()  # half a character is none
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise FormatError(f"{place}: not JSON: {why}") from error
    return found


def _whole(text: str) -> int:
    found = int(text)
    if abs(found) > _LARGEST:
        raise ValueError(f"number {text[:20]}… is too large")
    return found


def _finite(text: str) -> float:
    found = float(text)
    if abs(found) < float("inf"):
        return found
    raise ValueError(f"{text[:20]} is not a finite number")


# -- writing ---------------------------------------------------------------------------------

_LINE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def line(row: Mapping[str, Any]) -> str:
    """A row as one line of a JSONL file."""
    return _LINE.encode(row) + "\n"


@contextmanager
def replaced(path: Path, top: Path | None = None) -> Iterator[int]:
    """A new file, open for writing, which gets the name ``path`` when it is whole.  A link that
    has the name is replaced and not followed; nothing is written through any."""
    beside = path.with_name(f".iotrial-{secrets.token_hex(8)}.new")
    with within(path, top) as folder, _told(path):
        handle = _opened(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder)
        try:
            try:
                yield handle
            finally:
                os.close(handle)
            os.rename(beside.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(beside.name, dir_fd=folder)
            raise


def write_bytes(
    path: Path, data: bytes, top: Path | None = None, *, mode: int | None = None
) -> None:
    """A file with this content, in place of whatever has the name; not yet durable: see
    :func:`sync`.  ``mode`` is its permissions, whatever umask says."""
    with replaced(path, top) as handle, os.fdopen(handle, "wb", closefd=False) as file:
        if mode is not None:
            os.fchmod(handle, mode)
        file.write(data)


def write_text(path: Path, text: str, top: Path | None = None) -> None:
    """A file of text, where what is no character stands as ``\\udcXX``; not yet durable."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"), top)


def write_json(path: Path, value: Any, top: Path | None = None) -> None:  # noqa: ANN401
    """A JSON file for people to read as well; not yet durable."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n", top)


def append(path: Path, text: str, top: Path | None = None) -> None:
    """Add to a file's end, durably.  Raises FormatError where it is a link, a device or a pipe."""
    with within(path, top) as folder:
        handle = _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, folder)
    with _told(path), os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)


def truncate(path: Path, size: int, top: Path | None = None) -> None:
    """Cut a file off behind ``size`` bytes; one that may not be written stays as it is."""
    try:
        with within(path, top) as folder:
            handle = _opened(path, os.O_WRONLY, folder)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return
        raise
    try:
        os.ftruncate(handle, size)
    finally:
        os.close(handle)


def sync_all(folder: Path) -> None:
    """Everything a trial left, raw output too: a committed trial survives a power cut."""
    for path in folder.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, durable."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
