"""What fio's text output says that its jobs were told: workload and treatment."""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.formats.fio.text_blocks import Head
from iotrial.formats.fio.text_jobs import sizes_of
from iotrial.model.trial import Treatment

_MOVES = {"read": ("read",), "write": ("write",), "trim": ("trim",)}
_BOTH = ("read", "write")


def workload(heads: Sequence[Head]) -> str:
    """rw of the jobs that ran together; of several: ``randread+write``."""
    return "+".join(sorted({head.setup["rw"] for head in heads}))


def treatment(heads: Sequence[Head], members: int) -> Treatment:
    """bs, ioengine, iodepth and numjobs by fio's names; several values are joined by ``+``."""
    said = {
        "bs": [_bs(head) for head in heads],
        "ioengine": [head.setup["ioengine"] for head in heads],
        "iodepth": [head.setup["iodepth"] for head in heads],
    }
    found = [(name, "+".join(dict.fromkeys(values))) for name, values in said.items() if values]
    return (*found, ("numjobs", str(members)))


def _bs(head: Head) -> str:
    """As fio reads it: ``4k``, ``4k-64k``, and where reads and writes differ ``4k,64k``."""
    rw, spans = head.setup["rw"], sizes_of(head.setup).spans
    if not spans:
        return head.setup["bs"].partition("=")[2]
    plain = rw.removeprefix("rand")
    moves = ("write", "trim") if plain == "trimwrite" else _MOVES.get(plain, _BOTH)
    texts = [_range(*spans[move]) for move in moves if move in spans]
    return ",".join(dict.fromkeys(texts))


def _range(low: float, high: float) -> str:
    return _short(low) if low == high else f"{_short(low)}-{_short(high)}"


def _short(size: float) -> str:
    for letter, factor in (("g", 2**30), ("m", 2**20), ("k", 2**10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor:.0f}{letter}"
    return f"{size:.0f}"
