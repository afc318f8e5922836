"""Rows of whole numbers, as fio's logs have them: read in blocks, on all cores, in flat memory.

A line is ``1, 2, 0, 4096, 0``: numbers of fio's (the priority may be ``0x0004``), a comma and
spaces between them, ended by ``\\n`` or ``\\r\\n``.  Whatever else a line holds is an error that
names it.  A last line without an end was cut off where fio was killed, or is still to be written:
it is left out, and :attr:`_Rows.torn` says so.

A block is copied from the file, read by pyarrow (where that is not installed, by NumPy), and
digested while others are; the results come in the order of the file.  A table may have a swifter
way for blocks of regular lines, such as :mod:`~iotrial_import.formats.fio_log_ios`, which does not
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

import numpy as np

from iotrial.errors import FormatError
from iotrial.extras import missing
from iotrial.formats.fio.bins import Ints
from iotrial.model.recording import Buffer

LARGEST = 2**53
"""No number of a log is larger: nanoseconds of a hundred days, bytes of 8 PiB."""
HEXADECIMAL = r"0x[0-9a-f]{1,8}"
_NUMBER = r"[0-9]{1,18}"


class _IrregularRow(Exception):
    """A line in a block is no row; which one is found by looking at each."""


def pattern(width: int, hexadecimal: int = -1) -> re.Pattern[bytes]:
    """What a line of ``width`` numbers looks like, without its end."""
    words = [HEXADECIMAL if at == hexadecimal else _NUMBER for at in range(width)]
    return re.compile(",".join(rf"[ \t]*{word}[ \t]*" for word in words).encode() + rb"\r?")


def columns_by_numpy(block: bytes, width: int, hexadecimal: int) -> list[Ints]:
    """The numbers of each column but the hexadecimal one.  Raises Irregular."""
    line = pattern(width, hexadecimal)
    lines = block.split(b"\n")[:-1]
    if not all(map(line.fullmatch, lines)):
        raise _IrregularRow("a line that is not a row of numbers")
    numbers = re.sub(HEXADECIMAL.encode(), b"0", block) if hexadecimal >= 0 else block
    flat = numbers.translate(None, b" \t\r").rstrip(b"\n").replace(b"\n", b",")
    table = np.array(flat.split(b","), "S18").astype(np.int64).reshape(len(lines), width)
    if int(table.max()) > LARGEST:
        raise _IrregularRow("a number that is too large")
    return [table[:, at] for at in range(width) if at != hexadecimal]


_FREE = 2  # time and value differ from line to line; the others seldom
_PRIORITY = re.compile(HEXADECIMAL.encode())


def columns_by_arrow(block: bytes, width: int, hexadecimal: int) -> list[Ints]:
    """The numbers of each column but the hexadecimal one.  Raises Irregular."""
    import pyarrow as pa  # noqa: PLC0415  an extra, and slow to import

    try:
        return _columns(block, width, hexadecimal)
    except pa.ArrowException as error:
        raise _IrregularRow(str(error)) from None


def _columns(block: bytes, width: int, hexadecimal: int) -> list[Ints]:
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    lines = int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
    names = [str(number) for number in range(width)]
    same = _same(block, lines, width, hexadecimal)
    kinds = {name: pa.int64() for name in names}
    if hexadecimal >= 0:
        kinds[names[hexadecimal]] = pa.dictionary(pa.int32(), pa.binary())
    read = csv.read_csv(
        pa.BufferReader(block),
        read_options=csv.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=names
        ),
        parse_options=csv.ParseOptions(
            quote_char=False, escape_char=False, newlines_in_values=False, ignore_empty_lines=False
        ),
        convert_options=csv.ConvertOptions(
            column_types=kinds,
            null_values=[],
            check_utf8=False,
            include_columns=names[: width - len(same)],
        ),
    )
    if read.num_rows != lines:
        raise _IrregularRow(f"{read.num_rows} rows on {lines} lines")
    # Arrow takes 0x10 for 16 wherever it stands.  Looking for one x is faster than counting all.
    if hexadecimal >= 0:
        plain = block.count(b"x") == lines and b"X" not in block
    else:
        plain = b"x" not in block and b"X" not in block
    if not plain:
        raise _IrregularRow("a hexadecimal number")
    found = []
    for number, column in enumerate(read.columns):
        whole = column.chunk(0)  # the block is one
        if number == hexadecimal:
            words = [word.strip() for word in whole.dictionary.to_pylist()]
            if not all(map(_PRIORITY.fullmatch, words)):
                raise _IrregularRow("no hexadecimal number")
            continue
        numbers: Ints = whole.to_numpy(zero_copy_only=False)
        if int(numbers.min()) < 0 or int(numbers.max()) > LARGEST:
            raise _IrregularRow("a number that is too large")
        found.append(numbers)
    return found + [np.full(lines, number, np.int64) for number in same]


def _same(block: bytes, lines: int, width: int, hexadecimal: int) -> list[int]:
    """The numbers from the third on, where all lines have the same: they need not be converted."""
    first = block[: block.find(b"\n")]
    if hexadecimal >= 0 or not pattern(width).fullmatch(first):
        return []
    words = first.split(b",")[_FREE:]
    same = [int(word) for word in words]
    whole = b"," + b",".join(words) + b"\n"
    return same if max(same, default=0) <= LARGEST and block.count(whole) == lines else []


T = TypeVar("T")
AGAIN = "fio was killed, the disk was full, or the file was changed: give it as fio wrote it."
_BLOCK = 4 * 2**20
_HEXADECIMAL = re.compile(HEXADECIMAL.encode())


@dataclass(frozen=True, slots=True)
class LogTable(Generic[T]):
    """What is expected of each line: ``width`` numbers, of which the one at ``hexadecimal`` is
    written ``0x0004`` (-1: none), and what is made of a block of them.  ``digest`` may refuse a
    row by raising :class:`RowError`.  ``swift`` reads the lines of a file between two bytes and
    gives back their number and what ``digest`` would; None where it cannot."""

    width: int
    digest: Callable[[list[Ints]], T]
    hexadecimal: int = -1
    swift: Callable[[Buffer, int, int], tuple[int, T] | None] | None = None


class RowError(Exception):
    """A row that a digest does not take: its place in the block (from 0), and why."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row
        self.why = why


@dataclass(frozen=True, slots=True)
class _Rows(Generic[T]):
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


def rows(data: Buffer, raw: str, table: LogTable[T]) -> Iterator[_Rows[T]]:
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
            except (_IrregularRow, RowError) as error:
                for _, later in waiting:
                    later.cancel()
                raise _explained(data[block], error, table, (raw, line)) from None
            yield _Rows(line, count, digested)
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


def _block(data: Buffer, place: slice, table: LogTable[T]) -> tuple[int, T]:
    found = table.swift and table.swift(data, place.start, place.stop)
    copied = b"" if found else data[place]
    # Pages that nobody can have changed are read again when they are wanted again.
    if isinstance(data, mmap.mmap) and memoryview(data).readonly:
        start = place.start - place.start % mmap.PAGESIZE
        data.madvise(mmap.MADV_DONTNEED, start, place.stop - start)
    return found or _digested(copied, table)


def _digested(block: bytes, table: LogTable[T]) -> tuple[int, T]:
    columns = _reader()(block, table.width, table.hexadecimal)
    return len(columns[0]), table.digest(columns)


@functools.cache
def _reader() -> Callable[[bytes, int, int], list[Ints]]:
    return columns_by_numpy if missing("parquet") else columns_by_arrow


def _explained(
    block: bytes, error: Exception, table: LogTable[T], place: tuple[str, int]
) -> FormatError:
    """The first wrong line of a block, and what is wrong with it."""
    raw, first = place
    for number, line in enumerate(block.split(b"\n")[:-1]):
        if why := wrong(line, table.width, table.hexadecimal):
            return FormatError(f"{raw}: line {first + number}: {why}", advice=AGAIN)
    if isinstance(error, RowError):
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
                return f"{shown!r} is not a priority such as 0x0004"
        elif not word.isdigit():
            return f"{shown!r} is not a whole number"
        elif len(word) > len(str(LARGEST)) + 4 or int(word) > LARGEST:
            return f"{shown} is larger than anything fio counts"
    return ""
