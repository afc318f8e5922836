"""What a load left on the far side, read from the file that it came to: a piece at a time, so that
a large file takes no memory here."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO

from iotrial.hosts.agent import exit_of, text_of

_LINE = 1 << 20
"""Bytes of a line that is no content, and of a name or the words about the end of a load."""
_PIECE = 1 << 18
"""Bytes of base64 at once: whole groups of four."""


class _Kept:
    """Answers out of a file.  Raises EOFError where they end too early, ValueError."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def line(self) -> bytes:
        found = self._file.readline(_LINE)
        if not found.endswith(b"\n"):
            raise ValueError("a line does not end") if len(found) == _LINE else EOFError
        return found[:-1]

    def exactly(self, count: int) -> bytes:
        if not 0 <= count <= _LINE:
            raise ValueError(f"{count} bytes are to follow")
        found = self._file.read(count)
        if len(found) < count:
            raise EOFError
        return found

    def until(self, mark: bytes) -> bytes:
        raise NotImplementedError(mark)  # nothing that a load leaves ends so

    def pieces(self) -> Iterator[bytes]:
        """What a line of base64 says."""
        short = False
        while True:
            found = self._file.readline(_PIECE)
            ends = found.endswith(b"\n")
            if not ends and len(found) < _PIECE:
                raise EOFError
            data = base64.b64decode(found.removesuffix(b"\n"), validate=True)
            if short and data:
                raise ValueError("base64 goes on behind its end")
            short = len(data) < _PIECE // 4 * 3
            if data:
                yield data
            if ends:
                return


def results(file: IO[bytes]) -> tuple[int, Iterator[tuple[str, Iterator[bytes]]]]:
    """The status of a load that ended, and every file that it left, by its relative path, in
    pieces.

    Raises EOFError where it is not whole, ValueError for what is none, and for a path that leads
    out of its folder.
    """
    file.seek(0)
    kept = _Kept(file)
    status, _ = text_of(kept)
    return exit_of(status), _files(kept)


def _files(kept: _Kept) -> Iterator[tuple[str, Iterator[bytes]]]:
    while (line := kept.line()) != b"end":
        path = os.fsdecode(kept.exactly(int(line.removeprefix(b"file "))))
        kept.line()
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
            raise ValueError(f"{path[:200]!r} is no file of the load's folder")
        content = kept.pieces()
        yield path, content
        for _ in content:  # what nobody wanted
            pass
