"""Latency histograms: percentiles read from bins, and bins of several jobs merged.

Percentiles are never averaged (a mean of two p99 is the p99 of nothing).  What can be added up is
the histogram that fio's ``json+`` output carries: a map from a bin's value to the number of I/Os
in it.  The rule is fio's own, so that one job's bins give exactly the percentiles fio prints: the
value of the first bin at which the running count reaches ``p / 100 * n``.  A bin is 1/64 of a
power of two wide, hence each value is within 0.8 % of the true latency.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)

# (numerator, denominator) of p/100 for the double nearest to p, as fio compares with it: 99.9 is
# a little more than 99.9, and of 1,000 I/Os it therefore asks for all 1,000, not for 999.
_SHARES = {p: (p.as_integer_ratio()[0], p.as_integer_ratio()[1] * 100) for p in PERCENTILES}


def merged(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
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
