"""What no run can have measured: numbers of one run that exclude each other.  Pure.

Of each job and of all, for each latency:

- its percentiles never fall, and lie with its mean between its minimum and maximum, but for the
  width of a bin of fio's histogram;
- nothing takes no time: its mean is above 0 where I/Os were done or any percentile is;
- ``lat`` is ``slat`` and ``clat`` together, and no less than either;
- no percentile lies beyond the last bin of fio's histogram.

And no rate or time is beyond what any machine can do (10^10 I/Os or 10^15 bytes a second, 10^18
bytes, 10 years): a counter that ran over, or a unit that was mistaken.

Sources: ``stat.c`` and ``stat.h`` of fio (``plat_val_to_idx``, ``FIO_IO_U_PLAT_GROUP_NR``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from iotrial.formats.fio.report import LAST_BIN
from iotrial.model.measurement import Measurement
from iotrial.model.trial import Doubt
from iotrial.units import format_value
from iotrial_import.run import Run

_LATENCY = re.compile(r"(?P<of>.+\.)?(?P<stage>[sc]?lat)\.(?P<what>min|max|mean|p[\d.]+)")
_BIN = 0.02  # a bin of fio's is 1/64 wide, and its middle is said
_ROUNDED = 0.02  # three numbers of three digits
_LEAST = 2e-6  # s: of whole microseconds each may be one off
_MOST = {"1/s": 1e10, "bytes/s": 1e15, "bytes": 1e18, "s": 10 * 365.25 * 86400}
_LAST = max(tick * last for tick, last in LAST_BIN.items())
_ADVICE = "One of the numbers is not of this run: see the file, and take it from the tool again."

Values = Mapping[str, Measurement]


def impossible(run: Run) -> Iterator[Doubt]:
    """A doubt for each job of a run whose numbers exclude each other; it does not count."""
    of_job: dict[str, dict[str, Measurement]] = defaultdict(dict)
    for each in run.recording.measurements:
        of_job[each.job].setdefault(each.metric, each)
    for job, values in of_job.items():
        found = [*_beyond(values), *_latencies(values)]
        if found:
            whose = "" if job == "all" else f"job {job}: "
            more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
            yield Doubt("impossible", f"{whose}{found[0]}{more}", _ADVICE, invalid=True)


def _beyond(values: Values) -> Iterator[str]:
    for name, each in values.items():
        if not 0 <= each.value <= _MOST.get(each.unit, float("inf")):
            yield f"{name} is {each.value:.3g} {each.unit}"


def _latencies(values: Values) -> Iterator[str]:
    stages: dict[tuple[str, str], dict[str, Measurement]] = defaultdict(dict)
    for name, each in values.items():
        if said := _LATENCY.fullmatch(name):
            stages[said["of"] or "", said["stage"]][said["what"]] = each
    for (of, stage), found in stages.items():
        yield from _vanished(f"{of}{stage}", found, values.get(f"{of}iops"))
        yield from _ordered(f"{of}{stage}", found)
    for of in dict.fromkeys(of for of, _ in stages):
        yield from _sum(
            of, {s: stages[of, s] for s in ("lat", "clat", "slat") if (of, s) in stages}
        )


def _ordered(name: str, found: Values) -> Iterator[str]:
    """Percentiles that fall, or values outside of minimum and maximum.  Bounds are no values."""
    exact = {what: each for what, each in found.items() if not each.censored}
    ranks = sorted((each for each in exact if each[0] == "p"), key=lambda p: float(p[1:]))
    for one, two in pairwise(ranks):
        if exact[two].value < exact[one].value:
            yield f"{name}.{two} {_said(exact[two])} is below {name}.{one} {_said(exact[one])}"
    least, most = exact.get("min"), exact.get("max")
    for what in (*ranks, "mean") if "mean" in exact else ranks:
        slack = _BIN if what != "mean" else 1e-3
        value = exact[what].value
        if least and value < least.value * (1 - slack) - 1e-9:
            yield f"{name}.{what} {_said(exact[what])} is below its minimum {_said(least)}"
        if most and value > most.value * (1 + slack) + 1e-9:
            yield f"{name}.{what} {_said(exact[what])} is above its maximum {_said(most)}"
    for what, each in found.items():
        if what[0] == "p" and each.value > _LAST * (1 + _BIN):
            yield f"{name}.{what} {_said(each)} is beyond the last bin of any fio"
            return


def _vanished(name: str, found: Values, rate: Measurement | None) -> Iterator[str]:
    """A mean of 0 though there were I/Os that took time.  ``slat`` may be too short to be seen."""
    mean = found.get("mean")
    if mean is None or mean.value > 0 or name.endswith("slat"):
        return
    others = [each for what, each in found.items() if what != "mean" and each.value > _LEAST]
    if others or (rate and rate.value > 0):
        why = f"{others[0].metric} is {_said(others[0])}" if others else "there were I/Os"
        yield f"{name}.mean is 0, though {why}"


def _sum(of: str, stages: Mapping[str, Values]) -> Iterator[str]:
    means = {stage: each["mean"].value for stage, each in stages.items() if "mean" in each}
    if "lat" not in means:
        return
    whole = means.pop("lat")
    slack = _ROUNDED * whole + _LEAST
    for stage, value in means.items():
        if value > whole + slack:
            said = format_value(value, "s"), format_value(whole, "s")
            yield f"{of}{stage}.mean {said[0]} is above {of}lat.mean {said[1]}"
            return
    if len(means) == 2 and abs(sum(means.values()) - whole) > slack:  # noqa: PLR2004 (both)
        parts = " and ".join(f"{stage} {format_value(v, 's')}" for stage, v in means.items())
        yield f"{of}lat.mean {format_value(whole, 's')} is not {parts} together"


def _said(each: Measurement) -> str:
    return format_value(each.value, each.unit)
