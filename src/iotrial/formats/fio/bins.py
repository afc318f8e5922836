"""fio's latency bins: where values fall, percentiles read from them, those of jobs added up.

Below 128 each value has its own bin; above, each power of two is divided into 64.  fio 3 counts
nanoseconds in 29 groups of 64 bins, fio 2 microseconds in 19; what is larger than the last bin is
counted in it.  Source: ``stat.c`` and ``stat.h`` of fio, 2.0 to 3.42 (``plat_val_to_idx``,
``plat_idx_to_val``, ``FIO_IO_U_PLAT_GROUP_NR``).

Percentiles are never averaged (a mean of two p99 is the p99 of nothing).  What can be added up is
the histogram that fio's ``json+`` output carries: a map from a bin's value to the number of I/Os
in it.  The rule is fio's own, so that one job's bins give exactly the percentiles fio prints: the
value of the first bin at which the running count reaches ``p / 100 * n``.  A bin is 1/64 of a
power of two wide, hence each value is within 0.8 % of the true latency.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from iotrial.model.measurement import Measurement
from iotrial.model.recording import LatencyHistogram

Ints = NDArray[np.int64]
BINS = {1e-9: 29 * 64, 1e-6: 19 * 64}
"""Tick in seconds → number of bins."""
MOST = max(BINS.values())
_EXACT = 128
_EXPONENT = 1023 + 5  # of a double, less what makes 64 fall in bin 64


def bins_of(values: Ints) -> Ints:
    """The bin of each value (0 … 2^53)."""
    if not values.size:
        return values
    # A double's exponent and the first six bits after it are group and place in the group.
    found = values.astype(np.float64).view(np.int64)
    found >>= 46
    found -= _EXPONENT << 6
    np.minimum(found, MOST - 1, out=found)
    if values.min() < _EXACT:
        found = np.where(values < _EXACT, values, found)
    return found


def histogram(values: Ints) -> Ints:
    """How many values are in each of the :data:`MOST` bins."""
    return np.bincount(bins_of(values), minlength=MOST)


def edge(index: int) -> int:
    """The least value of a bin."""
    if index < _EXACT:
        return index
    group = (index >> 6) - 1
    return (64 + (index & 63)) << group


def middle(index: int, stride: int = 1) -> int:
    """The value that stands for a bin, as fio prints it; of ``stride`` bins that were added up,
    the middle of all."""
    if stride == 1:
        return edge(index) if index < _EXACT else (edge(index) + edge(index + 1)) // 2
    return (edge(index) + edge(index + stride)) // 2


def counted(counts: Ints, tick: float, stride: int = 1) -> dict[int, int]:
    """Value → number of I/Os, for :func:`iotrial.formats.fio.bins.percentiles`.  ``counts`` has
    one number for each ``stride`` bins; what lies beyond the last bin of ``tick`` is in it."""
    last = BINS[tick] // stride - 1
    found: dict[int, int] = {}
    for index in np.flatnonzero(counts).tolist():
        value = middle(min(index, last) * stride, stride)
        found[value] = found.get(value, 0) + int(counts[index])
    return found


PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)

# (numerator, denominator) of p/100 for the double nearest to p, as fio compares with it: 99.9 is
# a little more than 99.9, and of 1,000 I/Os it therefore asks for all 1,000, not for 999.
_SHARES = {p: (p.as_integer_ratio()[0], p.as_integer_ratio()[1] * 100) for p in PERCENTILES}


def added_up(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """One histogram of all the I/Os: value → count."""
    total: dict[int, int] = {}
    for histogram in histograms:
        for value, count in histogram.items():
            total[value] = total.get(value, 0) + count
    return total


def percentiles(bins: Mapping[int, int]) -> dict[float, int]:
    """p → value for each of :data:`PERCENTILES`, in the unit of the bins; empty for no I/Os."""
    values = sorted(bins)
    running = list(accumulate(bins[value] for value in values))
    if not running or not running[-1]:
        return {}
    count = running[-1]
    return {
        p: values[bisect_left(running, max(1, -(-count * top // bottom)))]
        for p, (top, bottom) in _SHARES.items()
    }


def measured(name: str, bins: LatencyHistogram, raw: str) -> Iterator[Measurement]:
    """The percentiles of a latency (``read.clat``); one in the last bin is a lower bound."""
    for p, value in percentiles(bins.counts).items():
        side: Literal["", "high"] = "high" if value >= bins.last else ""
        yield Measurement(f"{name}.p{p:g}", value * bins.tick, "s", "all", raw, side)


def together(found: Sequence[LatencyHistogram | None]) -> LatencyHistogram | None:
    """All of them added up; None where one is missing, or has other bins."""
    known = [each for each in found if each is not None]
    scales = {(each.tick, each.last) for each in known}
    if len(known) < len(found) or len(scales) != 1:
        return None
    ((tick, last),) = scales
    return LatencyHistogram(tick, last, added_up(each.counts for each in known))
