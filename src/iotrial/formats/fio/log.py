"""fio's logs: what their columns are, what the name of a file says, and the rate over time.

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
are 0.

``write_lat_log=x`` writes ``x_lat.1.log``, ``x_clat.1.log`` and ``x_slat.1.log``; without a name
fio takes the job's.  The number counts the threads of the fio process (``per_job_logs=0``: none),
and a client adds the host: ``x_clat.1.log.box7``.

A rate over time is that of all jobs together, by logs of averages.  Each line of one stands for the
window that ends at its time; a window in which nothing was done has no line.  The helper thread
that writes them is a few milliseconds early or late, and jobs differ in it: the lines are added up
over time and read off at even steps.

Samples are taken only when the ramp time is over, and the times count from there.

Sources: ``log_name`` of fio's ``backend.c`` and ``client.c``, ``add_bw_samples`` and
``add_iops_samples`` of its ``stat.c``; seen in 3.33.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iotrial.formats.fio.bins import Ints
from iotrial.formats.fio.log_rows import LogTable, RowError, rows
from iotrial.model.tool import RateSeries

HIST = "clat_hist"
_NAME = re.compile(
    rf"(?P<name>.+)_(?P<kind>{HIST}|bw|iops|clat|slat|lat)(?:\.(?P<job>\d+))?\.log(?:\.(?P<host>.+))?"
)
_PACKED = re.compile(r"\.(?:gz|bz2|xz)$")


@dataclass(frozen=True, slots=True)
class LogName:
    """``folder`` is '' or ends with ``/``; ``job`` and ``host`` '' where the name has none."""

    folder: str
    name: str
    kind: str
    job: str
    host: str

    @property
    def run(self) -> tuple[str, str, bool, bool]:
        """The same for the logs of one run."""
        return self.folder, self.name, bool(self.job), bool(self.host)


def log_name(file: str) -> LogName | None:
    """The parts of a log's name; None where fio does not name logs so."""
    folder, slash, base = file.rpartition("/")
    found = _NAME.fullmatch(_PACKED.sub("", base))
    if not found:
        return None
    name, kind, job, host = (found[each] or "" for each in ("name", "kind", "job", "host"))
    return LogName(folder + slash, name, kind, job, host)


KINDS = ("bw", "iops", "clat", "slat", "lat")
_KIND = re.compile(r"(?<![a-zA-Z])(bw|iops|clat|slat|lat)(?![a-zA-Z])")
_PRIORITY = re.compile(rb"[01]|0x[0-9a-f]{1,8}")
_DIRECTIONS = {b"0", b"1", b"2"}
_SHORTEST, _LONGEST = 3, 8


@dataclass(frozen=True, slots=True)
class LogLayout:
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


def layout_of(lines: Sequence[bytes]) -> LogLayout | None:
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
            found = LogLayout(names, at if at >= 0 and table[0][at][:2] == b"0x" else -1)
            if not _mistaken(found, table):
                return found
    return None


def _fits(name: str, words: set[bytes]) -> bool:
    if name == "priority":
        return all(map(_PRIORITY.fullmatch, words))
    return all(map(bytes.isdigit, words)) and (name != "direction" or words <= _DIRECTIONS)


def _mistaken(layout: LogLayout, table: Sequence[Sequence[bytes]]) -> bool:
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


def check(layout: LogLayout, columns: list[Ints]) -> None:
    """Directions and priorities are what fio writes.  Raises Refused."""
    limits = {"direction": 2}
    if layout.hexadecimal < 0 and layout.recent:
        limits["priority"] = 1
    for name, limit in limits.items():
        column = columns[layout.at(name)]
        if int(column.max()) > limit:
            at = int(np.flatnonzero(column > limit)[0])
            raise RowError(at, f"{name} {column[at]}: fio writes 0 to {limit} there")


Floats = NDArray[np.float64]
OPERATIONS = ("read", "write", "trim")
_KIB = 1024.0
_LATE = 1.5
_FEWEST = 2


def course(logs: Mapping[str, bytes], kind: str, operation: str) -> RateSeries | None:
    """The rate of ``operation`` ('' : all) by the logs of one ``kind`` (``bw`` or ``iops``), one
    file a job, by name; in bytes/s or 1/s.

    None where no log has two lines of it.  Raises FormatError for a file that is no such log.
    """
    found = [_windows_in(data, name) for name, data in logs.items() if data]
    wanted = range(3) if not operation else (OPERATIONS.index(operation),)
    parts = [
        (log.times[chosen], log.values[chosen])
        for log in found
        for direction in wanted
        if (chosen := log.directions == direction).sum() >= _FEWEST
    ]
    if not parts:
        return None
    step = float(np.median(np.concatenate([np.diff(times) for times, _ in parts]))) or 1.0
    begin = max(float(times[0]) for times, _ in parts) - step
    end = min(float(times[-1]) for times, _ in parts)
    if end - begin < _FEWEST * step:
        return None
    grid: Floats = begin + step * np.arange(int((end - begin) / step) + 1, dtype=np.float64)
    done = np.zeros(len(grid))
    for times, values in parts:
        done += _amount(times, values, step, grid)
    rates = np.diff(done) / step * (_KIB if kind == "bw" else 1.0)
    return RateSeries(step / 1000, tuple(rates.tolist()), f"fio's {kind} log")


def _windows_in(data: bytes, name: str) -> LogWindows:
    layout = layout_of(data.split(b"\n")[:-1][:100])
    if layout is None or layout.at("size") < 0:
        none = np.zeros(0, np.int64)
        return LogWindows(none, none, none, None)
    known = layout

    def take(columns: list[Ints]) -> LogWindows:
        return windows_of(known, columns, older=False)

    table = LogTable(len(layout.names), take, layout.hexadecimal)
    return joined([block.digested for block in rows(data, name, table)])


def _amount(times: Ints, values: Ints, step: float, grid: Floats) -> Floats:
    """What was done until each time of the grid."""
    lasted = np.diff(times, prepend=times[0] - step)
    late = lasted > _LATE * step
    whole = np.where(late, step, lasted)
    done = np.cumsum(whole * values)
    starts, before = times - whole, done - whole * values
    knots = np.stack([starts, times], axis=1).ravel()
    return np.asarray(np.interp(grid, knots, np.stack([before, done], axis=1).ravel()))


@dataclass(frozen=True, slots=True)
class LogWindows:
    """The lines of a log, in its order; ``top`` the second values, where there are some."""

    times: Ints
    directions: Ints
    values: Ints
    top: Ints | None


def windows_of(layout: LogLayout, columns: list[Ints], *, older: bool) -> LogWindows:
    """A block's lines.  Raises Refused for a line that no fio writes."""
    check(layout, columns)
    if layout.at("size") >= 0 and not older:
        sizes = columns[layout.at("size")]
        if sizes.any():
            at = int(np.flatnonzero(sizes)[0])
            raise RowError(at, f"block size {sizes[at]}; the lines before are averages and have 0")
    top = columns[layout.at("top")] if layout.at("top") >= 0 else None
    times, directions, values = (columns[layout.at(n)] for n in ("time", "direction", "value"))
    return LogWindows(times, directions, values, top)


def joined(parts: list[LogWindows]) -> LogWindows:
    """All blocks as one."""
    times, directions, values = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("times", "directions", "values")
    )
    top = (
        None
        if parts[0].top is None
        else np.concatenate([p.top for p in parts if p.top is not None])
    )
    return LogWindows(times, directions, values, top)
