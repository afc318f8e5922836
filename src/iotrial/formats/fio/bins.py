"""fio's latency bins: which one a value falls in, and the value each stands for, for whole arrays.

Below 128 each value has its own bin; above, each power of two is divided into 64.  fio 3 counts
nanoseconds in 29 groups of 64 bins, fio 2 microseconds in 19; what is larger than the last bin is
counted in it.  Source: ``stat.c`` and ``stat.h`` of fio, 2.0 to 3.42 (``plat_val_to_idx``,
``plat_idx_to_val``, ``FIO_IO_U_PLAT_GROUP_NR``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
    """Value → number of I/Os, for :func:`iotrial.formats.histogram.percentiles`.  ``counts`` has
    one number for each ``stride`` bins; what lies beyond the last bin of ``tick`` is in it."""
    last = BINS[tick] // stride - 1
    found: dict[int, int] = {}
    for index in np.flatnonzero(counts).tolist():
        value = middle(min(index, last) * stride, stride)
        found[value] = found.get(value, 0) + int(counts[index])
    return found
