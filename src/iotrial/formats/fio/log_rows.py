"""Rows of whole numbers, as fio's logs have them: read in blocks, on all cores, in flat memory.

A line is ``1, 2, 0, 4096, 0``: numbers of fio's (the priority may be ``0x0004``), a comma and
spaces between them, ended by ``\\n`` or ``\\r\\n``.  Whatever else a line holds is an error that
names it.  A last line without an end was cut off where fio was killed, or is still to be written:
it is left out, and :attr:`Rows.torn` says so.

A block is copied from the file, read by pyarrow (where that is not installed, by NumPy), and
digested while others are; the results come in the order of the file.  A table may have a swifter
way for blocks of regular lines, such as :mod:`~iotrial.formats.fio.log_kernel`, which does not
copy.  Memory holds a few blocks, whatever the size of the file: pages of a mapped file are given
back when they were read.
"""

from __future__ import annotations

import functools
import mmap
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from iotrial.errors import FormatError
from iotrial.extras import missing
from iotrial.formats.fio import log_arrow, log_plain
from iotrial.formats.fio.bins import Ints
from iotrial.formats.fio.log_plain import HEXADECIMAL, LARGEST, Irregular
from iotrial.model.recording import Buffer

T = TypeVar("T")
AGAIN = "fio was killed, the disk was full, or the file was changed: give it as fio wrote it."
_BLOCK = 4 * 2**20
_HEXADECIMAL = re.compile(HEXADECIMAL.encode())


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """What is expected of each line: ``width`` numbers, of which the one at ``hexadecimal`` is
    written ``0x0004`` (-1: none), and what is made of a block of them.  ``digest`` may refuse a
    row by raising :class:`Refused`.  ``swift`` reads the lines of a file between two bytes and
    gives back their number and what ``digest`` would; None where it cannot."""

    width: int
    digest: Callable[[list[Ints]], T]
    hexadecimal: int = -1
    swift: Callable[[Buffer, int, int], tuple[int, T] | None] | None = None


class Refused(Exception):
    """A row that a digest does not take: its place in the block (from 0), and why."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row
        self.why = why


@dataclass(frozen=True, slots=True)
class Rows(Generic[T]):
    """A block's rows: how many, what was made of them, and the line (from 1) of the first."""

    line: int
    count: int
    digested: T


def extent(data: Buffer, raw: str) -> tuple[int, bool]:
    """Where the last whole line ends (empty ones after it left out), and whether a torn one
    follows.  Raises FormatError where there is no line."""
    if not len(data):
        raise FormatError(f"{raw}: the file is empty", advice="fio writes its logs when it ends.")
    end = data.rfind(b"\n") + 1
    torn = bool(data[end : end + _BLOCK].strip())
    while end and data[end - 1 : end] in (b"\n", b"\r"):
        end -= 1
    if not end:
        raise FormatError(f"{raw}: line 1: no line is whole", advice=AGAIN)
    return data.find(b"\n", end) + 1, torn


def rows(data: Buffer, raw: str, table: Table[T]) -> Iterator[Rows[T]]:
    """The blocks of a file, digested, in its order.

    Raises FormatError with the line's number for the first line that is no row of ``table``.
    """
    end, _ = extent(data, raw)
    workers = min(4, len(os.sched_getaffinity(0)))
    line = 1
    waiting: deque[tuple[slice, Future[tuple[int, T]]]] = deque()
    blocks = _blocks(data, end, raw)
    with ThreadPoolExecutor(workers) as pool:
        while True:
            while len(waiting) <= workers and (block := next(blocks, None)) is not None:
                waiting.append((block, pool.submit(_block, data, block, table)))
            if not waiting:
                return
            block, future = waiting.popleft()
            try:
                count, digested = future.result()
            except (Irregular, Refused) as error:
                for _, later in waiting:
                    later.cancel()
                raise _explained(data[block], error, table, (raw, line)) from None
            yield Rows(line, count, digested)
            line += count


def _blocks(data: Buffer, end: int, raw: str) -> Iterator[slice]:
    begin = 0
    while begin < end:
        cut = end if begin + _BLOCK >= end else data.rfind(b"\n", begin, begin + _BLOCK) + 1
        if cut <= begin:
            message = f"{raw}: byte {begin}: a line of more than {_BLOCK} bytes"
            raise FormatError(message, advice=AGAIN)
        yield slice(begin, cut)
        begin = cut


def _block(data: Buffer, place: slice, table: Table[T]) -> tuple[int, T]:
    found = table.swift and table.swift(data, place.start, place.stop)
    copied = b"" if found else data[place]
    # Pages that nobody can have changed are read again when they are wanted again.
    if isinstance(data, mmap.mmap) and memoryview(data).readonly:
        start = place.start - place.start % mmap.PAGESIZE
        data.madvise(mmap.MADV_DONTNEED, start, place.stop - start)
    return found or _digested(copied, table)


def _digested(block: bytes, table: Table[T]) -> tuple[int, T]:
    columns = _reader()(block, table.width, table.hexadecimal)
    return len(columns[0]), table.digest(columns)


@functools.cache
def _reader() -> Callable[[bytes, int, int], list[Ints]]:
    return log_plain.columns if missing("parquet") else log_arrow.columns


def _explained(
    block: bytes, error: Exception, table: Table[T], place: tuple[str, int]
) -> FormatError:
    """The first wrong line of a block, and what is wrong with it."""
    raw, first = place
    for number, line in enumerate(block.split(b"\n")[:-1]):
        if why := wrong(line, table.width, table.hexadecimal):
            return FormatError(f"{raw}: line {first + number}: {why}", advice=AGAIN)
    if isinstance(error, Refused):
        return FormatError(f"{raw}: line {first + error.row}: {error.why}", advice=AGAIN)
    said = str(error).splitlines()[0][:100]
    return FormatError(f"{raw}: line {first} or one of the next: {said}", advice=AGAIN)


def wrong(line: bytes, width: int, hexadecimal: int = -1) -> str:
    """What is wrong with a line; '' nothing."""
    words = [word.strip(b" \t") for word in line.removesuffix(b"\r").split(b",")]
    if len(words) != width:
        shown = line[:40].decode("latin-1")
        return f"{len(words)} fields, not {width} as on line 1: {shown!r}"
    for number, word in enumerate(words):
        shown = word[:40].decode("latin-1")
        if number == hexadecimal:
            if not _HEXADECIMAL.fullmatch(word):
                return f"{shown!r} is no priority such as 0x0004"
        elif not word.isdigit():
            return f"{shown!r} is no whole number"
        elif len(word) > len(str(LARGEST)) + 4 or int(word) > LARGEST:
            return f"{shown} is larger than anything fio counts"
    return ""
