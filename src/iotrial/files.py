"""Files of a results folder: JSON and JSONL, read with errors that name file and line, and written
so that they survive a power cut.  What lies in them is :mod:`iotrial.store`'s business.

Source for what has to be synced: fsync(2); a rename is durable once its folder is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iotrial.errors import FormatError


def truncate(path: Path, size: int) -> None:
    """Cut a file off behind ``size`` bytes; one that may not be written stays as it is."""
    if os.access(path, os.W_OK):
        with path.open("r+b") as file:
            file.truncate(size)


def parse_line(path: Path, number: int, text: str) -> dict[str, Any]:
    """The JSON object of one line of a file.  Raises FormatError, naming file and line."""
    try:
        row = json.loads(text)
    except ValueError as error:
        raise FormatError(f"{path}:{number}: {error}") from error
    if not isinstance(row, dict):
        raise FormatError(f"{path}:{number}: not a JSON object")
    return row


def read_text(path: Path) -> str:
    """All of a file.  Raises FormatError, naming it."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: {error}") from error


def read_json(path: Path) -> Any:  # noqa: ANN401 (whatever the file holds)
    """What a JSON file holds.  Raises FormatError, naming it."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: {error}") from error


_LINE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def line(row: Mapping[str, Any]) -> str:
    """A row as one line of a JSONL file."""
    return _LINE.encode(row) + "\n"


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401
    """A JSON file for people to read as well; not yet durable: see :func:`sync`."""
    with _named(path), path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def append(path: Path, text: str) -> None:
    """Add to a file's end, durably."""
    with _named(path), path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """A file of text, where what is no character stands as ``\\udcXX``; not yet durable."""
    with _named(path), path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """An error of write(2) does not say in which file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def sync_all(folder: Path) -> None:
    """Everything a trial left, raw output too: a committed trial survives a power cut."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
