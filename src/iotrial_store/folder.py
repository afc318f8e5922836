"""Results of a store as a results folder again."""

from __future__ import annotations

import zlib
from pathlib import Path, PurePosixPath

from iotrial import files
from iotrial.errors import FormatError
from iotrial_store.model import ResultStore

_SMALL, _DENSE = 64 << 20, 100
"""Bytes that any file may have, and how often those that it has in the store; JSON of numbers comes
to some twenty times."""


def made_again(store: ResultStore, result: str, into: Path) -> None:
    """``into`` as it was pushed, but for raw files: of each trial the folder is there, empty.

    Raises FormatError for a path that leads out of it, and for a file that is damaged or would fill
    the memory: others write to a store, too."""
    rows = store.query("SELECT path, data FROM files WHERE result = ?", (result,)).rows
    trials = store.query("SELECT folder FROM trials WHERE result = ?", (result,)).rows
    into.mkdir(parents=True, exist_ok=True)
    for name, data in sorted(rows, key=lambda row: row[0] == "plan.jsonl"):
        path = into / _inside(str(name))
        files.make_folder(path.parent, into)
        files.write_bytes(path, _content(str(name), bytes(data)), into)  # type: ignore[call-overload]
    for (folder,) in trials:
        files.make_folder(into / "trials" / _inside(str(folder)), into)


def _content(name: str, data: bytes) -> bytes:
    most = max(_SMALL, _DENSE * len(data))
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(data, most)
    except zlib.error as error:
        raise FormatError(f"the store's file {name!r} is damaged: {error}") from None
    if not unpacking.eof:
        what = f"more than {most >> 20} MiB" if len(content) == most else "cut off"
        raise FormatError(f"the store's file {name!r} of {len(data)} bytes is {what}")
    return content


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise FormatError(f"the store has a file {name!r}, which leads out of a results folder")
    return path
