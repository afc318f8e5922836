"""Columns of a block of fio's rows, by pyarrow's reader of CSV: the usual way, and a swift one."""

from __future__ import annotations

import re

import numpy as np

from iotrial.formats.fio.bins import Ints
from iotrial.formats.fio.log_plain import HEXADECIMAL, LARGEST, Irregular, pattern

_FREE = 2  # time and value differ from line to line; the others seldom
_PRIORITY = re.compile(HEXADECIMAL.encode())


def columns(block: bytes, width: int, hexadecimal: int) -> list[Ints]:
    """The numbers of each column but the hexadecimal one.  Raises Irregular."""
    import pyarrow as pa  # noqa: PLC0415  an extra, and slow to import

    try:
        return _columns(block, width, hexadecimal)
    except pa.ArrowException as error:
        raise Irregular(str(error)) from None


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
        raise Irregular(f"{read.num_rows} rows on {lines} lines")
    # Arrow takes 0x10 for 16 wherever it stands.  Looking for one x is faster than counting all.
    if hexadecimal >= 0:
        plain = block.count(b"x") == lines and b"X" not in block
    else:
        plain = b"x" not in block and b"X" not in block
    if not plain:
        raise Irregular("a hexadecimal number")
    found = []
    for number, column in enumerate(read.columns):
        whole = column.chunk(0)  # the block is one
        if number == hexadecimal:
            words = [word.strip() for word in whole.dictionary.to_pylist()]
            if not all(map(_PRIORITY.fullmatch, words)):
                raise Irregular("no hexadecimal number")
            continue
        numbers: Ints = whole.to_numpy(zero_copy_only=False)
        if int(numbers.min()) < 0 or int(numbers.max()) > LARGEST:
            raise Irregular("a number that is too large")
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
