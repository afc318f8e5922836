"""Results within something else: what a mail quotes, and what stands below many warnings.  Pure.

Lines stay where they are in what is read, so that an error's line is that of the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from iotrial.model.recording import Buffer

_QUOTED = re.compile(rb"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
_QUOTE = re.compile(rb"^>(?![=\d])", re.MULTILINE)  # ">16712" is a number that was cut off
_FEW = 3
"""Lines that begin with ``>``: fewer are prompts of a shell, or parts of something else."""

HEAD = 64 * 1024
"""Bytes that a format is recognised by."""
FAR, END = 8 * 2**20, 2**20
"""Bytes of the beginning and of the end of a file that are looked through."""
_AGAIN = 20
"""Lines of one shape that are kept: of a result, enough to know it."""
_SHAPED = 60
"""Bytes of a line that are its shape: warnings end in whatever they warn of."""
_NUMBERED = re.compile(rb"\S*\d\S*")  # node012, 0x7f3a1c, 10:00:01
_MOST = 32  # pieces


def unquoted(data: Buffer) -> Buffer:
    """The text without the ``> `` that a mail puts before each line it quotes; as it is where
    there are no such lines."""
    if len(data) > FAR:
        return data  # no mail
    content = bytes(data[:])
    if b"\0" in content[:HEAD]:
        return data  # no text
    if sum(1 for _ in zip(_QUOTE.finditer(content), range(_FEW), strict=False)) < _FEW:
        return data
    return _QUOTED.sub(b"", content)


def pieces(data: Buffer) -> Iterator[bytes]:
    """Parts of a file, of up to 64 KiB, that say more than its first 64 KiB: what is left of it
    without the lines that come again and again with other numbers (warnings of every rank, of
    every job), each part beginning with a line and half of it in the next one.

    Of a large file the first 8 MiB and the last one are looked through."""
    found = b"\n".join(line[:HEAD] for line in _unlike(data))
    starts = [0]
    while (next_line := found.find(b"\n", starts[-1] + HEAD // 2) + 1) > 0:
        starts.append(next_line)
    if len(starts) > _MOST:
        starts = starts[: _MOST // 2] + starts[-_MOST // 2 :]
    yield from (found[at : at + HEAD] for at in starts)


def _unlike(data: Buffer) -> Iterator[bytes]:
    parts = [data[:FAR], data[max(FAR, len(data) - END) :]]
    seen: Counter[bytes] = Counter()
    for line in b"\n".join(map(bytes, parts)).split(b"\n"):
        shape = _NUMBERED.sub(b"#", line[:_SHAPED])
        seen[shape] += 1
        if seen[shape] <= _AGAIN:
            yield line
