"""fio's logs of averages as one rate over time, all jobs together.

Each line of a log (``log_avg_msec``) stands for the window that ends at its time; a window in which
nothing was done has no line.  The helper thread that writes them is a few milliseconds early or
late, and jobs differ in it: the lines are added up over time and read off at even steps.

Source: ``add_bw_samples`` and ``add_iops_samples`` of fio's ``stat.c``; seen in 3.33.  Samples are
taken only when the ramp time is over, and the times count from there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iotrial.formats.fio import log_windows
from iotrial.formats.fio.bins import Ints
from iotrial.formats.fio.log_layout import layout_of
from iotrial.formats.fio.log_rows import Table, rows
from iotrial.formats.fio.log_windows import Windows
from iotrial.model.tool import Course

Floats = NDArray[np.float64]
OPERATIONS = ("read", "write", "trim")
_KIB = 1024.0
_LATE = 1.5
_FEWEST = 2


def course(logs: Mapping[str, bytes], kind: str, operation: str) -> Course | None:
    """The rate of ``operation`` ('' : all) by the logs of one ``kind`` (``bw`` or ``iops``), one
    file a job, by name; in bytes/s or 1/s.

    None where no log has two lines of it.  Raises FormatError for a file that is no such log.
    """
    found = [_windows(data, name) for name, data in logs.items() if data]
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
    return Course(step / 1000, tuple(rates.tolist()), f"fio's {kind} log")


def _windows(data: bytes, name: str) -> Windows:
    layout = layout_of(data.split(b"\n")[:-1][:100])
    if layout is None or layout.at("size") < 0:
        none = np.zeros(0, np.int64)
        return Windows(none, none, none, None)
    known = layout

    def take(columns: list[Ints]) -> Windows:
        return log_windows.digest(known, columns, older=False)

    table = Table(len(layout.names), take, layout.hexadecimal)
    return log_windows.joined([block.digested for block in rows(data, name, table)])


def _amount(times: Ints, values: Ints, step: float, grid: Floats) -> Floats:
    """What was done until each time of the grid."""
    lasted = np.diff(times, prepend=times[0] - step)
    late = lasted > _LATE * step
    whole = np.where(late, step, lasted)
    done = np.cumsum(whole * values)
    starts, before = times - whole, done - whole * values
    knots = np.stack([starts, times], axis=1).ravel()
    return np.asarray(np.interp(grid, knots, np.stack([before, done], axis=1).ravel()))
