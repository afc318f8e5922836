"""Columns of a block of fio's rows, by NumPy alone: the way where pyarrow is not installed.

Some times slower than :mod:`~iotrial.formats.fio.log_arrow`, and it says the same of every block.
"""

from __future__ import annotations

import re

import numpy as np

from iotrial.formats.fio.bins import Ints

LARGEST = 2**53
"""No number of a log is larger: nanoseconds of a hundred days, bytes of 8 PiB."""
HEXADECIMAL = r"0x[0-9a-f]{1,8}"
_NUMBER = r"[0-9]{1,18}"


class Irregular(Exception):
    """A line in a block is no row; which one is found by looking at each."""


def pattern(width: int, hexadecimal: int = -1) -> re.Pattern[bytes]:
    """What a line of ``width`` numbers looks like, without its end."""
    words = [HEXADECIMAL if at == hexadecimal else _NUMBER for at in range(width)]
    return re.compile(",".join(rf"[ \t]*{word}[ \t]*" for word in words).encode() + rb"\r?")


def columns(block: bytes, width: int, hexadecimal: int) -> list[Ints]:
    """The numbers of each column but the hexadecimal one.  Raises Irregular."""
    line = pattern(width, hexadecimal)
    lines = block.split(b"\n")[:-1]
    if not all(map(line.fullmatch, lines)):
        raise Irregular("a line that is no row of numbers")
    numbers = re.sub(HEXADECIMAL.encode(), b"0", block) if hexadecimal >= 0 else block
    flat = numbers.translate(None, b" \t\r").rstrip(b"\n").replace(b"\n", b",")
    table = np.array(flat.split(b","), "S18").astype(np.int64).reshape(len(lines), width)
    if int(table.max()) > LARGEST:
        raise Irregular("a number that is too large")
    return [table[:, at] for at in range(width) if at != hexadecimal]
