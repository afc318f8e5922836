"""Results: the file in which a tool said what it measured, and what several loads at the same time
measured together.

What is counted adds up: I/Os, bytes, IOPS, bandwidths.  The time is that of the longest; the CPU of
a load generator is the mean of theirs; a largest is the largest, a least the least.  Latencies are
merged by the tool itself, from its histograms (:class:`iotrial.model.tool.SupportsMerge`); where it
cannot, only means are, weighted by the I/Os, and there is no percentile: an average of percentiles
is the percentile of nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from iotrial.errors import FormatError
from iotrial.model.measurement import Measurement, of_section, sectioned, split
from iotrial.model.tool import ParsedOutput, SupportsMerge, Tool

_SUMS = frozenset(
    ("iops", "bw", "rate", "bytes", "ios", "retransmits", "bw.sent", "bw.received", "depth")
)
_LARGEST = frozenset(("seconds", "bw.max", "lat.max", "clat.max", "slat.max"))
_LEAST = frozenset(("bw.min", "bytes.min", "lat.min", "clat.min", "slat.min"))
_WEIGHTS = ("iops", "rate", "ios")

MERGED = "trial.json"
"""The raw file of a number that is made of several loads': it names them."""

Told = Sequence[tuple[str, ParsedOutput]]
"""Of each load: its name ('' where it is the only one), and what it measured."""


def merged(driver: Tool, told: Told) -> tuple[Measurement, ...]:
    """The numbers of all loads together (job ``all``), then each load's own with its name as job.
    Of one load without a name all it said; one with a name is the whole.  Nothing where one of
    them said nothing.
    """
    if len(told) == 1 and not told[0][0]:
        return told[0][1].measurements
    if not all(parsed.measurements for _, parsed in told):
        return ()
    apart = tuple(
        replace(each, job=name, raw=f"{name}/{each.raw}" if each.raw else "")
        for name, parsed in told
        for each in parsed.measurements
        if each.job == "all"
    )
    if isinstance(driver, SupportsMerge):
        return (*driver.merge([parsed for _, parsed in told]), *apart)
    if len(told) == 1:
        return (*(replace(each, job="all") for each in apart), *apart)
    return (*summed([parsed for _, parsed in told]), *apart)


def of_neighbour(name: str, parsed: ParsedOutput, folder: str) -> tuple[Measurement, ...]:
    """What the workload ``name`` measured in its ``folder`` of a trial, while another one was
    judged: numbers of that trial, with the workload's name in brackets."""
    return tuple(
        replace(
            each,
            metric=of_section(each.metric, name),
            raw=f"{folder}/{each.raw}" if each.raw else "",
        )
        for each in parsed.measurements
        if each.job == "all" and not sectioned(each.metric)[1]
    )


def summed(several: Sequence[ParsedOutput]) -> Iterator[Measurement]:
    """What can be said of all of them from their own numbers, of metrics that each has."""
    values = [{m.metric: m for m in each.measurements if m.job == "all"} for each in several]
    for name in values[0]:
        found = [each[name] for each in values if name in each]
        if len(found) == len(values) and (value := _one(name, found, values)) is not None:
            bounds = [each for each in found if each.censored] or found
            yield replace(bounds[0], value=value, raw=MERGED)


def _one(
    name: str, found: Sequence[Measurement], values: Sequence[dict[str, Measurement]]
) -> float | None:
    operation, quantity = split(name) if "." in name else ("", name)
    numbers = [each.value for each in found]
    if operation == "cpu":
        return sum(numbers) / len(numbers)
    if quantity in _SUMS:
        return sum(numbers)
    if quantity in _LARGEST:
        return max(numbers)
    if quantity in _LEAST:
        return min(numbers)
    if quantity.endswith(".mean"):
        return _weighted(operation, numbers, values)
    return None


def _weighted(
    operation: str, numbers: Sequence[float], values: Sequence[dict[str, Measurement]]
) -> float | None:
    for weight in _WEIGHTS:
        said = [each.get(f"{operation}.{weight}") for each in values]
        known = [each.value for each in said if each is not None]
        if len(known) == len(numbers) and any(known):
            pairs = zip(numbers, known, strict=True)
            return math.fsum(number * by for number, by in pairs) / math.fsum(known)
    return None


def result(folder: Path, file: str, tool: str, *, what: str = "result") -> bytes:
    """The bytes of the file ``file`` of one execution of ``tool``.

    Raises FormatError where it is not there: the tool ended before it could write it.
    """
    path = folder / file
    try:
        return path.read_bytes()
    except FileNotFoundError:
        advice = f"check stderr beside it: {tool} ended before its {what}"
        raise FormatError(f"{path}: {tool} wrote no {what}", advice=advice) from None
