"""Results within something else: what a mail quotes, and what stands below many warnings.  Pure.

Lines stay where they are in what is read, so that an error's line is that of the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from iotrial.formats.lines import LARGEST
from iotrial.model.recording import Buffer

_QUOTED = re.compile(rb"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_QUOTE = re.compile(rb"^(?:> ?)+(?=[^\n])", re.MULTILINE)
_FEW = 3
"""Lines that begin with ``>``: fewer are prompts of a shell, or parts of something else."""

HEAD = 64 * 1024
"""Bytes that a format is recognised by."""
_FAR, _END = 8 * 2**20, 2**20
"""Bytes of the beginning and of the end of a file that are looked through."""
_AGAIN = 20
"""Lines of one shape that are kept: of a result, enough to know it."""
_SHAPED = 60
"""Bytes of a line that are its shape: warnings end in whatever they warn of."""
_MOST = 32  # pieces


def unquoted(data: Buffer) -> Buffer:
    """The text without the ``> `` that a mail puts before each line it quotes; as it is where
    there are no such lines."""
    if len(data) > LARGEST:
        return data
    content = bytes(data[:])
    if sum(1 for _ in zip(_QUOTE.finditer(content), range(_FEW), strict=False)) < _FEW:
        return data
    return _QUOTED.sub(b"", content)


def pieces(data: Buffer) -> Iterator[bytes]:
    """Parts of a file, of up to 64 KiB, that say more than its first 64 KiB: what is left of it
    without the lines that come again and again with other numbers (warnings of every rank, of
    every job), each part beginning with a line and half of it in the next one.

    Of a large file the first 8 MiB and the last one are looked through."""
    found = b"\n".join(line[:HEAD] for line in _unlike(data))
    at = 0
    for _ in range(_MOST):
        if at >= len(found):
            return
        yield found[at : at + HEAD]
        at = (found.find(b"\n", at + HEAD // 2) + 1) or len(found)


def _unlike(data: Buffer) -> Iterator[bytes]:
    parts = [data[:_FAR], data[max(_FAR, len(data) - _END) :]]
    seen: Counter[bytes] = Counter()
    for line in b"\n".join(map(bytes, parts)).split(b"\n"):
        shape = re.sub(rb"\d+", b"#", line[:_SHAPED])
        seen[shape] += 1
        if seen[shape] <= _AGAIN:
            yield line
