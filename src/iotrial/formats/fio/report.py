"""What one fio report says, as values: jobs, their directions, and the latencies of each.

Units are base units here already.  What differs between versions is settled here:

* fio 3 counts latencies in nanoseconds (``clat_ns``), fio 2 in microseconds (``clat``);
* ``io_bytes`` is bytes since fio 3 (which added ``io_kbytes``) and KiB before it;
* ``bw`` is KiB/s everywhere; ``bw_bytes`` (fio 3) is used where it is there;
* fio 2.1 has neither ``total_ios`` nor a fractional ``iops``, and no version before 2.2 says how
  many I/Os a latency stands for (``N``).

Sources: HOWTO of fio ("JSON+ output"), and outputs of the versions named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iotrial.errors import FormatError
from iotrial.formats.histogram import PERCENTILES, percentiles

OPERATIONS = ("read", "write", "trim", "mixed")
STAGES = ("slat", "clat", "lat")
_LARGEST = 2.0**64  # fio's counters have 64 bits: more is not a number fio wrote

# The last bin of fio's histogram.  A latency beyond it is counted in it, so a percentile there
# only says "at least this": 29 groups of 64 bins in ns (fio 3), 19 groups in µs (fio 2).
LAST_BIN = {1e-9: 17_112_760_320, 1e-6: 16_711_680}


def censored(value: int, tick: float) -> bool:
    """Whether a percentile of ``value`` ticks only says "at least this"."""
    if tick == 1e-9:  # noqa: PLR2004
        return value >= LAST_BIN[tick]
    # The terse output of fio 3 is in µs too; its bins are those of fio 3.
    return value == LAST_BIN[1e-6] or value >= LAST_BIN[1e-9] // 1000


@dataclass(frozen=True, slots=True)
class Latency:
    """One stage (slat, clat, lat) of one direction.  ``tick`` is the unit of ``bins`` and
    ``listed`` in seconds; ``listed`` are the percentiles fio printed itself.  ``most`` and ``sd``
    (the standard deviation) are in seconds, None where this output does not say them."""

    count: int
    mean: float
    tick: float
    bins: Mapping[int, int]
    listed: Mapping[float, int]
    most: float | None = None
    sd: float | None = None

    def percentiles(self) -> Mapping[float, int]:
        return percentiles(self.bins) if self.bins else self.listed


@dataclass(frozen=True, slots=True)
class Direction:
    """Reads, writes or trims of one job.  ``seconds`` is how long fio says they took."""

    operation: str
    ios: int
    bytes: float
    seconds: float
    iops: float
    bw: float
    incomplete: int
    latencies: Mapping[str, Latency]


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a report.  ``label`` is its name and ordinal; ``group`` the number of the set of
    jobs it ran with; ``usr`` and ``sys`` shares of one core; ``attained`` None where no steady
    state was asked for."""

    label: str
    group: int
    error: int
    seconds: float
    usr: float
    sys: float
    attained: bool | None
    directions: tuple[Direction, ...]
    sync: Latency | None = None

    @property
    def ios(self) -> int:
        """I/Os of every kind, each counted once (``mixed`` repeats the others)."""
        apart = [each.ios for each in self.directions if each.operation != "mixed"]
        return sum(apart) if apart else sum(each.ios for each in self.directions)

    @property
    def measured(self) -> float:
        """The longest time any of its directions was measured, in seconds."""
        return max((each.seconds for each in self.directions), default=0.0)


def mapping(value: object, where: str) -> Mapping[str, Any]:
    """``value`` if it is a JSON object.  Raises :class:`FormatError`."""
    if not isinstance(value, dict):
        raise FormatError(f"{where} is not a JSON object")
    return value


def _number(record: Mapping[str, Any], key: str, where: str) -> float | None:
    """A finite number ≥ 0; None where there is none, or where fio divided by zero (nan)."""
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"{where}.{key} is a {type(value).__name__}, not a number")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not 0 <= value <= _LARGEST:
        raise FormatError(f"{where}.{key} is {str(value)[:40]}: outside what fio can count")
    return float(value)


def _count(record: Mapping[str, Any], key: str, where: str) -> int | None:
    value = _number(record, key, where)
    return None if value is None else int(value)


def _histogram(raw: object, where: str) -> dict[int, int]:
    """Bin value → count.  Other names among the bins, or other sizes than known: the histogram
    is left out rather than guessed at."""
    bins: dict[int, int] = {}
    indexed = "FIO_IO_U_PLAT_BITS" in mapping(raw, where)
    for key, count in mapping(raw, where).items():
        if indexed and key in _OF_INDEXED:
            if count != _OF_INDEXED[key]:
                return {}
            continue
        if not (key.isascii() and key.isdigit()):
            return {}
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _LARGEST:
            raise FormatError(f"{where}.{key[:40]} is not a number of I/Os")
        if len(key) > 20:  # noqa: PLR2004 (digits of 2^64)
            raise FormatError(f"{where}.{key[:40]} is outside what fio can count")
        if count or not indexed:
            bins[_middle(int(key)) if indexed else int(key)] = count
    return bins


# What the json+ of fio 2.6 … 2.16 says of bins that it names by number, not by value.
_OF_INDEXED = {"FIO_IO_U_PLAT_BITS": 6, "FIO_IO_U_PLAT_VAL": 64, "FIO_IO_U_PLAT_NR": 1216}


def _middle(index: int) -> int:
    """The value of bin ``index`` as fio computes it (stat.c, plat_idx_to_val): 64 bins to a
    power of two, each named by its middle."""
    bits, values = _OF_INDEXED["FIO_IO_U_PLAT_BITS"], _OF_INDEXED["FIO_IO_U_PLAT_VAL"]
    if index < 2 * values or index >= _OF_INDEXED["FIO_IO_U_PLAT_NR"]:
        return index
    shift = (index >> bits) - 1
    return (1 << (shift + bits)) + int((index % values + 0.5) * (1 << shift))


def _listed(raw: object, where: str) -> dict[float, int]:
    record = mapping(raw, where)
    found: dict[float, int] = {}
    for p in PERCENTILES:
        value = _count(record, f"{p:.6f}", where)
        if value is None:  # fio 2.0
            value = _count(record, f"{p:.2f}", where)
        if value is not None:
            found[p] = value
    return found


def _latency(record: Mapping[str, Any], stage: str, ios: int, where: str) -> Latency | None:
    """The stage, or None where fio took no such times (``gtod_reduce``, synchronous engines)."""
    key, tick = (f"{stage}_ns", 1e-9) if f"{stage}_ns" in record else (stage, 1e-6)
    if key not in record:
        return None
    at = f"{where}.{key}"
    raw = mapping(record[key], at)
    mean = _number(raw, "mean", at)
    count = _count(raw, "N", at)
    if count is None:  # fio 2: every I/O had its times taken, or none had
        count = ios if mean else 0
    if mean is None or not count:
        return None
    least, most = _number(raw, "min", at), _number(raw, "max", at)
    if least is not None and most is not None and not least - 1 <= mean <= most + 1:
        raise FormatError(f"{at}: mean {mean:g} does not lie between {least:g} and {most:g}")
    bins = _histogram(raw.get("bins", {}), f"{at}.bins")
    listed = _listed(raw.get("percentile", {}), f"{at}.percentile")
    spread = _number(raw, "stddev", at)
    return Latency(
        count, mean * tick, tick, bins, listed,
        most=None if most is None else most * tick,
        sd=None if spread is None else spread * tick,
    )  # fmt: skip


def direction(record: Mapping[str, Any], operation: str, where: str) -> Direction | None:
    """One direction of a job; None where it moved nothing.  Raises :class:`FormatError`."""
    runtime = (_number(record, "runtime", where) or 0.0) / 1000
    iops = _number(record, "iops", where) or 0.0
    ios = _count(record, "total_ios", where)
    if ios is None:
        ios = round(iops * runtime)
    if not ios:
        return None
    scale = 1 if "io_kbytes" in record else 1024
    bw = _number(record, "bw_bytes", where)
    if bw is None:
        bw = (_number(record, "bw", where) or 0.0) * 1024
    found = {stage: _latency(record, stage, ios, where) for stage in STAGES}
    short = (_count(record, "short_ios", where) or 0) + (_count(record, "drop_ios", where) or 0)
    return Direction(
        operation=operation,
        ios=ios,
        bytes=(_number(record, "io_bytes", where) or 0.0) * scale,
        seconds=runtime,
        iops=iops,
        bw=bw,
        incomplete=short,
        latencies={stage: each for stage, each in found.items() if each},
    )


def job(record: Mapping[str, Any], label: str, where: str) -> Job:
    """One entry of ``jobs`` or ``client_stats``.  Raises :class:`FormatError`."""
    found = [
        direction(mapping(record[operation], f"{where}.{operation}"), operation,
                  f"{where}.{operation}")
        for operation in OPERATIONS
        if operation in record
    ]  # fmt: skip
    directions = tuple(each for each in found if each)
    longest = max((each.seconds for each in directions), default=0.0)
    seconds = _number(record, "job_runtime", where)
    return Job(
        label=label,
        group=_count(record, "groupid", where) or 0,
        error=_count(record, "error", where) or 0,
        seconds=longest if seconds is None else seconds / 1000,
        usr=(_number(record, "usr_cpu", where) or 0.0) / 100,
        sys=(_number(record, "sys_cpu", where) or 0.0) / 100,
        attained=_attained(record, where),
        directions=directions,
        sync=_sync(record, where),
    )


def _sync(record: Mapping[str, Any], where: str) -> Latency | None:
    """fio 3 (3.3 and later) has ``sync.lat_ns`` and ``sync.total_ios`` beside read and write."""
    said = record.get("sync")
    if not isinstance(said, dict):
        return None
    at = f"{where}.sync"
    count = _count(said, "total_ios", at) or 0
    return _latency(said, "lat", count, at) if count else None


def _attained(record: Mapping[str, Any], where: str) -> bool | None:
    if "steadystate" not in record:
        return None
    state = mapping(record["steadystate"], f"{where}.steadystate")
    return bool(_count(state, "attained", f"{where}.steadystate"))
