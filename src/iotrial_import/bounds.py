"""What is a bound and no value, in words: on which side the truth lies, and why.  Pure.

Sources: fio's stat.h (``FIO_IO_U_PLAT_GROUP_NR``: 19 groups of 64 bins in µs until 2.99, 29 in ns
since): what took longer than its last bin is counted there, so that 16,712 ms or 17.1 s is all
that such a fio can say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from iotrial.formats.fio.report import LAST_BIN
from iotrial.model.measurement import Measurement
from iotrial.model.trial import Doubt
from iotrial_import.run import Run

_CHECK = "censored"
_NEAR = 1e-3  # 16711.68 ms is printed as 16712
_NAMED = 4
_LAST_BIN = (
    "the last bin of fio's histogram is there, and what took longer is counted in it",
    "How much longer, this version of fio cannot say; the maximum (clat.max) may.",
)
_SAID = (
    "the file gives a bound (the end of a bin, or a value that was cut), no value",
    "It is compared as a bound; measure again with finer means if it matters.",
)
_SIDES = {"high": "at least", "low": "at most"}


def bounds(run: Run) -> Iterator[Doubt]:
    """A doubt for the bounds of each side and reason that no doubt of the file names."""
    named = " ".join(doubt.what for doubt in run.recording.doubts if doubt.check == _CHECK)
    groups: dict[tuple[str, bool], dict[str, list[str]]] = {}
    for each in run.recording.measurements:
        if each.censored and each.job == "all" and each.metric not in named:
            value = f"{each.value:,.6g} {each.unit}".rstrip()
            alike = groups.setdefault((each.censored, _is_last_bin(each)), {})
            alike.setdefault(value, []).append(each.metric)
    for (side, last), values in groups.items():
        said = [
            f"{_listed(metrics)} {'is' if len(metrics) == 1 else 'are'} {_SIDES[side]} {value}"
            for value, metrics in values.items()
        ]
        why, advice = _LAST_BIN if last else _SAID
        yield Doubt(_CHECK, f"{_listed(said)}: {why}", advice)


def _is_last_bin(each: Measurement) -> bool:
    ends = [tick * last for tick, last in LAST_BIN.items()]
    latency = "lat.p" in each.metric and each.unit == "s"
    return latency and any(math.isclose(each.value, end, rel_tol=_NEAR) for end in ends)


def _listed(metrics: Sequence[str]) -> str:
    more = f" and {len(metrics) - _NAMED} more" if len(metrics) > _NAMED else ""
    return ", ".join(metrics[:_NAMED]) + more
