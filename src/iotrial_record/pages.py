"""Pages of the kernel's trace buffer, as ``trace_pipe_raw`` gives them: which events are in them,
and when they were.  Pure.

A page is its header (the time of its first event, how many bytes follow, whether events before it
were lost) and events, each with a header of 32 bits: five of them its length or its kind, the rest
the nanoseconds since the event before.  A second of a fast disk has a million events.  So all
pages are walked at once: the n-th event of every page in one step of NumPy.

Sources: the kernel's include/linux/ring_buffer.h (``ring_buffer_event``) and
kernel/trace/ring_buffer.c (``rb_event_length``, ``ring_buffer_read_page``), and the files
``events/header_page`` and ``events/header_event`` of tracefs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

HEADER = 16
"""Bytes of a page before its first event, on 64-bit kernels."""
_PADDING, _EXTEND, _STAMP = 29, 30, 31
_LONG = 0
"""A length that stands in the word behind the header."""
_WORD = 4
_LENGTH_BITS = 5
_DELTA_BITS = 27
_STAMP_BITS = 59
_COMMIT = (1 << 20) - 1
_MISSED = 1 << 31
_FIELD = re.compile(
    r"field:[^;]*?(?P<name>\w+)(?:\[\d*\])?;\s*offset:(?P<at>\d+);\s*size:(?P<size>\d+);"
)
_ID = re.compile(r"^ID: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EventFormat:
    """An event as its file ``format`` says: its ``number``, and (offset, size) in bytes of each
    field of it."""

    number: int
    fields: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PageEvents:
    """The events of some pages.  ``at``: time of each, ns; ``start``: where its data begins in
    ``data``, which is all pages' bytes, with some to spare; ``number``: which event it is.
    ``gaps`` counts the pages before which events were lost."""

    data: npt.NDArray[np.uint8]
    at: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    number: npt.NDArray[np.uint16]
    gaps: int

    def column(self, which: npt.NDArray[np.bool_], field: tuple[int, int]) -> npt.NDArray[np.uint8]:
        """The bytes of one field of these events, a row each."""
        at, size = field
        places = (self.start[which] + at)[:, None] + np.arange(size)
        return np.asarray(self.data[places], np.uint8)


def event_format(text: str) -> EventFormat:
    """The event that a file ``format`` describes.  Raises ValueError for another file.

    >>> text = "ID: 7\\n\\tfield:dev_t dev;\\toffset:8;\\tsize:4;\\tsigned:0;\\n"
    >>> event_format(text).fields["dev"]
    (8, 4)
    """
    number = _ID.search(text)
    if number is None:
        raise ValueError("no ID in the format of an event")
    found = {m["name"]: (int(m["at"]), int(m["size"])) for m in _FIELD.finditer(text)}
    return EventFormat(int(number[1]), found)


def events_of(pages: bytes, size: int) -> PageEvents:
    """What is in ``pages`` of ``size`` bytes each.

    Raises ValueError where they are no whole pages, or no pages of a trace buffer.
    """
    count, rest = divmod(len(pages), size)
    if rest:
        raise ValueError(f"{rest} bytes are no page of {size}")
    data = np.frombuffer(pages + bytes(4 * _WORD + 256), np.uint8)
    words = data[: len(data) // _WORD * _WORD].view("<u4")
    heads = np.arange(count, dtype=np.int64) * size
    longs = data[: count * size].view("<u8").reshape(count, size // 8)
    now = longs[:, 0].astype(np.int64)
    commit = longs[:, 1].astype(np.int64)
    here = heads + HEADER
    end = here + (commit & _COMMIT)
    if np.any(end > heads + size):
        raise ValueError("a page says that it is longer than it is")
    found: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    live = np.flatnonzero(here < end)
    while live.size:
        head = words[here[live] // _WORD].astype(np.int64)
        more = words[here[live] // _WORD + 1].astype(np.int64)
        kind, delta = head & ((1 << _LENGTH_BITS) - 1), head >> _LENGTH_BITS
        wide = (more << _DELTA_BITS) + delta
        high = (now[live] >> _STAMP_BITS) << _STAMP_BITS
        now[live] = np.where(
            kind == _STAMP, high | wide, now[live] + np.where(kind == _EXTEND, wide, delta)
        )
        counted = (kind == _LONG) | (kind == _PADDING)
        length = np.where(counted, more + _WORD, (kind + 1) * _WORD)
        length[(kind == _EXTEND) | (kind == _STAMP)] = 2 * _WORD
        ends = (kind == _PADDING) & (delta == 0)  # nothing follows on this page
        real = kind < _PADDING
        if np.any(length[~ends] < _WORD):
            raise ValueError("an event has no length")
        found.append(
            (
                live[real],
                now[live[real]],
                here[live[real]] + np.where(kind[real] == _LONG, 2 * _WORD, _WORD),
            )
        )
        here[live] += length
        live = live[~ends & (here[live] < end[live])]
    page, at, start = (
        np.concatenate([each[n] for each in found]) if found else np.empty(0, np.int64)
        for n in range(3)
    )
    order = np.argsort(page, kind="stable")  # as they lie
    start = start[order]
    number = data[start[:, None] + np.arange(2)].view("<u2")[:, 0]
    return PageEvents(data, at[order], start, number, int(np.count_nonzero(commit & _MISSED)))
