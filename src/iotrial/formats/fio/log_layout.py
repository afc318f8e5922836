"""What the columns of a fio log are, and what the name of its file says.

No log says which fio wrote it.  What each version prints, from its sources (``log.c``, later
``iolog.c``: ``flush_samples``):

========  ===========================================================================
1.10      time (ms), value, direction (0 read, 1 write)
1.30      … and the block size (bytes)
2.0.11    … direction 2 is trim
2.1.11    … and the offset (bytes), with ``log_offset``
3.18      … and at the end whether the priority class is real time: 0 or 1
3.28      … or the whole priority as ``0x0004``, with ``log_prio``
3.37      … a second value, the maximum, after the first, with ``log_window_value=both``
3.38      … and at the end when the I/O was issued (ns), with ``log_issue_time``
========  ===========================================================================

With ``log_avg_msec`` a line stands for a window of time: its block size, offset and issue time
are 0.  ``write_lat_log=x`` writes ``x_lat.1.log``, ``x_clat.1.log`` and ``x_slat.1.log``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iotrial.formats.fio.log_name import HIST, log_name

KINDS = ("bw", "iops", "clat", "slat", "lat")
_KIND = re.compile(r"(?<![a-zA-Z])(bw|iops|clat|slat|lat)(?![a-zA-Z])")
_PRIORITY = re.compile(rb"[01]|0x[0-9a-f]{1,8}")
_DIRECTIONS = {b"0", b"1", b"2"}
_SHORTEST, _LONGEST = 3, 8


@dataclass(frozen=True, slots=True)
class Layout:
    """Which column is what, from 0; -1 where the log has none.  ``names`` in order."""

    names: tuple[str, ...]
    hexadecimal: int = -1

    def at(self, name: str) -> int:
        return self.names.index(name) if name in self.names else -1

    @property
    def recent(self) -> bool:
        """Whether fio 3.18 or a later one wrote it: latencies are nanoseconds."""
        return "priority" in self.names


_ENDS = (
    (),
    ("priority",),
    ("offset",),
    ("offset", "priority"),
    ("priority", "issued"),
    ("offset", "priority", "issued"),
)
_LAYOUTS = (
    ("time", "value", "direction"),
    *(("time", "value", "direction", "size", *end) for end in _ENDS),
    *(("time", "value", "top", "direction", "size", *e) for e in _ENDS if "priority" in e),
)


def layout_of(lines: Sequence[bytes]) -> Layout | None:
    """The layout that all these lines have; None where there is none.  Where two would do, the
    one without an offset (which is a multiple of 512) and without a second value."""
    table = [[word.strip() for word in line.split(b",")] for line in lines]
    width = len(table[0]) if table else 0
    if not _SHORTEST <= width <= _LONGEST or any(len(row) != width for row in table):
        return None
    columns = [set(column) for column in zip(*table, strict=True)]
    for names in _LAYOUTS:
        if len(names) == width and all(map(_fits, names, columns)):
            at = names.index("priority") if "priority" in names else -1
            if at >= 0 and len({word[:2] == b"0x" for word in columns[at]}) > 1:
                continue
            found = Layout(names, at if at >= 0 and table[0][at][:2] == b"0x" else -1)
            if not _mistaken(found, table):
                return found
    return None


def _fits(name: str, words: set[bytes]) -> bool:
    if name == "priority":
        return all(map(_PRIORITY.fullmatch, words))
    return all(map(bytes.isdigit, words)) and (name != "direction" or words <= _DIRECTIONS)


def _mistaken(layout: Layout, table: Sequence[Sequence[bytes]]) -> bool:
    """A second value of 0 (each I/O logged, both values asked for) looks like a direction, and
    the direction then like a block size."""
    at, offset = layout.at("size"), layout.at("offset")
    if offset < 0 or layout.at("top") >= 0 or not layout.recent:
        return False
    return all(int(row[at]) <= 2 for row in table) and any(int(row[offset]) for row in table)  # noqa: PLR2004


def kind_of(name: str) -> str:
    """``clat`` of ``x_clat.1.log``; '' where the name says none, or that it is something else."""
    if (known := log_name(name)) is not None:
        return "" if known.kind == HIST else known.kind
    base = name.rsplit("/", 1)[-1]
    if re.search(r"(?<![a-zA-Z])hist(?![a-zA-Z])", base):
        return ""
    found = _KIND.findall(base.lower())
    return found[-1] if found else ""


def job_of(name: str) -> str:
    """What stands before the kind in a file's name: ``x`` of ``x_clat.1.log``."""
    if (known := log_name(name)) is not None:
        return known.name
    base = name.rsplit("/", 1)[-1]
    found = list(_KIND.finditer(base.lower()))
    return base[: found[-1].start()].rstrip("_-. ") if found else ""
