"""fio's histogram logs (``write_hist_log``, ``log_hist_msec``) → percentiles of all I/Os.

A line is time (ms), direction, block size, and how many I/Os fell in each bin since the line
before: ``x_clat_hist.1.log``.  ``log_hist_coarseness=N`` adds up 2^N bins to one.  The number of
columns says both: 1856 bins of nanoseconds in fio 3, 1216 of microseconds in fio 2 (since 2.14),
or those numbers halved up to six times.  fio does not write what came after the last interval.

A percentile is the value of its bin as in fio's own output; ``fiologparser_hist`` interpolates
between bins, and is at most two (coarse) bins away.  Source: ``iolog.c``, ``flush_hist_samples``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from iotrial.errors import FormatError
from iotrial.formats.fio.bins import BINS, Ints, counted, measured
from iotrial.formats.fio.log import OPERATIONS
from iotrial.formats.fio.log_rows import AGAIN, LogTable, RowError, extent, rows, wrong
from iotrial.formats.fio.report import LAST_BIN
from iotrial.model.measurement import Measurement
from iotrial.model.recording import Buffer, LatencyHistogram, Recording
from iotrial_import.formats.fio_log import EPOCH, torn_doubts

_FIXED = 3
_COARSEST = 6
_SHAPES = {bins >> n: (tick, 1 << n) for tick, bins in BINS.items() for n in range(_COARSEST + 1)}


@dataclass(frozen=True, slots=True)
class _Histograms:
    """Direction → bin → I/Os; ``tick`` is the bins' unit in seconds, ``stride`` how many of fio's
    bins are in one.  ``first`` and ``last`` are times in ms."""

    counts: dict[int, Ints]
    tick: float
    stride: int
    first: int
    last: int

    def bins(self, direction: int) -> LatencyHistogram:
        """To be merged with those of other files."""
        last = LAST_BIN[self.tick]
        if self.stride > 1:
            top = np.zeros(BINS[self.tick] // self.stride, np.int64)
            top[-1] = 1
            last = max(counted(top, self.tick, self.stride))
        return LatencyHistogram(
            self.tick, last, counted(self.counts[direction], self.tick, self.stride)
        )


class FioHistLog:
    """The format ``fio-hist-log``."""

    name = "fio-hist-log"
    title = "fio, log of latency histograms"

    def recognises(self, head: bytes, name: str) -> int:
        line, _, rest = head.partition(b"\n")
        if not rest and len(line) > 2 * max(_SHAPES):
            width = line.count(b",") + 1  # a head of 64 KiB may be less than a line
            return int(width >= min(_SHAPES))
        width = line.count(b",") + 1 - _FIXED
        if width not in _SHAPES or wrong(line, width + _FIXED):
            return 0
        return 3 if "hist" in name.rsplit("/", 1)[-1] else 1

    def read(self, data: Buffer, raw: str) -> tuple[Recording, ...]:
        found = histograms(data, raw)
        bins = {OPERATIONS[d]: found.bins(d) for d in sorted(found.counts)}
        numbers = [each for name, one in bins.items() for each in _latencies(name, one, raw)]
        return (
            Recording(
                tool="fio",
                workload="+".join(OPERATIONS[each] for each in sorted(found.counts)),
                measurements=tuple(numbers),
                name=raw.rsplit("/", 1)[-1].partition("_clat_hist")[0].partition("_hist")[0],
                line=1,
                doubts=tuple(torn_doubts(raw, torn=extent(data, raw)[1])),
                started=found.first / 1000 if found.first > EPOCH else 0.0,
                seconds=(found.last - (found.first if found.first > EPOCH else 0)) / 1000,
                bins={f"{name}.clat": each for name, each in bins.items()},
            ),
        )


FORMAT = FioHistLog()


def histograms(data: Buffer, raw: str) -> _Histograms:
    """All intervals of a log added up.  Raises FormatError with the line."""
    end, _ = extent(data, raw)
    width = data[: data.find(b"\n", 0, end)].count(b",") + 1
    if width - _FIXED not in _SHAPES:
        if why := wrong(bytes(data[: data.find(b"\n", 0, end)]), width):
            raise FormatError(f"{raw}: line 1: {why}", advice=AGAIN)
        message = f"{raw}: line 1: {width} fields; 3 and the bins of no fio (1856 or 1216, halved)"
        raise FormatError(message, advice=AGAIN)
    tick, stride = _SHAPES[width - _FIXED]
    counts: dict[int, Ints] = {}
    times: list[tuple[int, int]] = []
    for block in rows(data, raw, LogTable(width, _digest)):
        for direction, more in block.digested[0].items():
            counts[direction] = counts.get(direction, 0) + more
        times.append(block.digested[1])
    first, last = min(each[0] for each in times), max(each[1] for each in times)
    return _Histograms(counts, tick, stride, first, last)


def _digest(columns: list[Ints]) -> tuple[dict[int, Ints], tuple[int, int]]:
    times, directions = columns[:2]
    if int(directions.max()) > 2:  # noqa: PLR2004 (trim)
        at = int(np.flatnonzero(directions > 2)[0])  # noqa: PLR2004
        raise RowError(at, f"direction {directions[at]}: fio writes 0 to 2 there")
    bins = np.stack(columns[_FIXED:])
    if float(bins.max()) * bins.size > 2**62:
        at = int(np.unravel_index(bins.argmax(), bins.shape)[1])
        raise RowError(at, f"{bins.max()} I/Os of one latency: the counter ran over")
    add = partial(np.sum, axis=1)
    found = {int(d): add(bins[:, directions == d]) for d in np.unique(directions)}
    return found, (int(times.min()), int(times.max()))


def _latencies(operation: str, bins: LatencyHistogram, raw: str) -> Iterator[Measurement]:
    total = sum(bins.counts.values())
    yield Measurement(f"{operation}.ios", float(total), "", raw=raw)
    yield from measured(f"{operation}.clat", bins, raw)
