"""``live.json`` in the results folder: the document of now, for another process to read.

It is written over itself, in one write of the same length: replacing it by a rename would make
the file system allocate and flush once a second, on a disk that may be the one under test (ext4
does so on purpose, ``auto_da_alloc`` in ext4(5)).  A reader may see the beginning of one document
and the end of another; ``seq`` comes first and ``end`` last, and only where they agree is it one.
Not durable: after a power cut it says nothing that is not said better elsewhere.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iotrial import files
from iotrial.errors import FormatError

NAME = "live.json"
PAGE = 4096
MOST = 2**26
"""Bytes of a document."""
TRIES = 20
"""Readings before a document counts as broken, 10 ms apart: a write takes far less."""


class LiveFile:
    """Writes the document; nothing of what goes wrong gets out of :meth:`write`."""

    def __init__(self) -> None:
        self._handle = -1
        self._seq = 0
        self._size = PAGE

    def write(self, folder: Path, document: Mapping[str, Any]) -> bool:
        """Whether it could be written: a full or read-only disk is no reason to stop a run."""
        self._seq += 1
        text = json.dumps({"seq": self._seq, **document, "end": self._seq}, separators=(",", ":"))
        data = text.encode("ascii")
        self._size = max(self._size, (len(data) // PAGE + 1) * PAGE)
        data = data.ljust(self._size - 1) + b"\n"
        try:
            if self._handle < 0:
                self._handle = _new(folder / NAME)
            return os.pwrite(self._handle, data, 0) == len(data)
        except (OSError, FormatError):
            return False

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _new(path: Path) -> int:
    """A new file of this name, open for writing.  Raises OSError, and leaves nothing open."""
    kept = -1
    try:
        with files.replaced(path) as handle:
            kept = os.dup(handle)
    except BaseException:
        if kept >= 0:
            os.close(kept)
        raise
    return kept


def read(folder: Path) -> dict[str, Any] | None:
    """The document of now; None where there is none.  Raises FormatError for what is no such
    document, however often it is read."""
    path = folder / NAME
    for _ in range(TRIES):
        try:
            if not path.exists():
                return None
            found = json.loads(files.read_bytes(path, most=MOST))
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and found.get("seq") == found.get("end", 0):
            return found
        time.sleep(0.01)
    raise FormatError(
        f"{path}: is not a live status of this version",
        advice="`iotrial status` without --follow shows the progress of the folder.",
    )
