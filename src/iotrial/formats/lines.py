"""A text file's lines, for the formats that read it whole."""

from __future__ import annotations

from iotrial.errors import FormatError
from iotrial.model.recording import Buffer

LARGEST = 256 * 2**20
"""A summary of runs is a few KiB.  What is larger is a log of every I/O, or something else."""


def text_of(data: Buffer, raw: str) -> str:
    """The file as text: UTF-8, or Latin-1 where it is none (old results have µ as one byte),
    without a byte order mark, line ends as ``\\n``.

    Raises FormatError for what is too large, empty, or no text (a NUL byte), with its place.
    """
    if len(data) > LARGEST:
        raise FormatError(
            f"{raw}: {len(data)} bytes; a file of this format has at most {LARGEST}",
            advice="Give the part of it that one run wrote.",
        )
    content = bytes(data[:])
    if not content.strip():
        raise FormatError(f"{raw}: the file is empty")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):  # what PowerShell's > writes
        text = content.decode("utf-16", "replace")
    else:
        if (at := content.find(b"\0")) >= 0:
            line = content.count(b"\n", 0, at) + 1
            raise FormatError(f"{raw}: line {line}: byte {at} is NUL: this is no text")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")
