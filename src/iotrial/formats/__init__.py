"""Bytes to measurements: what tools wrote, in every version of theirs.  Pure; needs no tool.

A module here, or in :mod:`iotrial_import.formats`, with a ``FORMAT`` is a plugin: adding a format
is adding a file, and what ``import`` recognises, its listing and the tests of mutated files follow.
Here are those of tools that iotrial runs, there those that an import alone reads.

Beside the registry: what formats of text share, a file's text, read whole, and the one run in it.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from functools import cache

from iotrial.errors import FormatError
from iotrial.model.recording import Buffer, Recording, RecordingFormat
from iotrial.model.tool import ParsedOutput
from iotrial.plugins import values

LARGEST = 256 * 2**20
"""A summary of runs is a few KiB.  What is larger is a log of every I/O, or something else."""


@cache
def formats() -> Mapping[str, RecordingFormat]:
    """Every format by its name, in alphabetical order."""
    return values("formats")


def plain(data: Buffer, raw: str) -> Buffer:
    """The same text as UTF-8 without a byte order mark; what has no mark stays as it is, mapped.
    UTF-16 is what PowerShell's ``>`` writes.  Raises FormatError for what is too large for it."""
    wide = data[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE}
    if not wide and data[:3] != codecs.BOM_UTF8:
        return data
    if len(data) > LARGEST:
        raise FormatError(
            f"{raw}: {len(data)} bytes with a byte order mark; at most {LARGEST} are read",
            advice=f"Write it as plain UTF-8: iconv -f utf-{16 if wide else 8} -t utf-8.",
        )
    if not wide:
        return data[len(codecs.BOM_UTF8) :]
    return bytes(data[:]).decode("utf-16", "replace").encode("utf-8", "replace")


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
    content = bytes(plain(data, raw)[:])
    if not content.strip():
        raise FormatError(f"{raw}: the file is empty")
    if (at := content.find(b"\0")) >= 0:
        line = content.count(b"\n", 0, at) + 1
        raise FormatError(f"{raw}: line {line}: byte {at} is NUL: this is not a text")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def the_one(found: Sequence[Recording], raw: str, what: str) -> ParsedOutput:
    """What the one of ``found`` measured.  Raises FormatError for several ``what``: nobody could
    tell which is meant."""
    if len(found) != 1:
        raise FormatError(f"{raw}: {len(found)} {what}; one is wanted")
    return ParsedOutput(found[0].measurements, found[0].doubts)
