"""Grids: what a workload came to, as IOzone lays it out: record sizes by threads, a sheet a metric.

A sheet has two factors, one down and one across; every combination of the other factors is a
block of it.  Which two: record (or block) size down and threads, jobs or depth across; else file
size down and record size across, as IOzone's own spreadsheet has them; else the first two factors
of the study that vary.  A cell is the geometric mean of the trials that count.

Source: W. D. Norcott and D. Capps, *Iozone Filesystem Benchmark* (its spreadsheet output).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Literal

from iotrial.model.measurement import Measurement, Metric, metric, split
from iotrial.model.results import Results
from iotrial.model.trial import Treatment, TrialRecord
from iotrial.stats.critical import single
from iotrial.stats.grid import PARALLEL
from iotrial.stats.responses import counted
from iotrial.units import amount

_RECORD = ("record", "rec", "reclen", "bs", "blocksize", "block")
_SIZE = ("size", "filesize")
_SHOWN = ("bw", "iops", "rate", "seconds", "value", "lat.mean", "clat.mean", "clat.p99")
"""Quantities that have a sheet, besides those that the study decides by, in this order."""
_SHOWN_OF = {"iozone": ("bw",)}
"""IOzone's numbers are bandwidths; its operations per second are the same by the record size."""
TARGET = "target"

Bound = Literal["", "high", "low", "both"]
Mean = Literal["geometric", "arithmetic"]
Told = dict[str, list[tuple[Mapping[str, str], Measurement]]]


@dataclass(frozen=True, slots=True)
class HeatmapCell:
    """``mean`` of ``n`` trials in the metric's unit.  ``bound`` says on which side of the mean
    the truth lies, where a value was censored (``both``: nobody knows).  ``low`` and ``high`` are
    the ends of Student's interval of this mean by itself (None: one trial, a bound, or recorded
    runs)."""

    mean: float
    n: int
    bound: Bound = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class HeatmapBlock:
    """One grid: the labels down and across, and the cells there are.  ``fixed`` are the levels
    of the other factors."""

    fixed: Treatment
    down: tuple[str, ...]
    across: tuple[str, ...]
    cells: Mapping[tuple[str, str], HeatmapCell]


@dataclass(frozen=True, slots=True)
class HeatmapSheet:
    """Every block of one workload and metric.  ``down`` and ``across`` name the two factors
    (empty: there is none); ``constant`` are the factors with one level in this workload.
    ``mean`` is geometric unless a value is not positive."""

    workload: str
    metric: Metric
    down: str
    across: str
    constant: Treatment
    mean: Mean
    blocks: tuple[HeatmapBlock, ...]


@dataclass(frozen=True, slots=True)
class _Axes:
    down: str
    across: str
    others: tuple[str, ...]
    constant: Treatment
    labels: Mapping[str, tuple[str, ...]]


def sheets(results: Results) -> tuple[HeatmapSheet, ...]:
    """Every sheet, in the study's order of workloads, what decides first."""
    found: list[HeatmapSheet] = []
    for workload, records in counted(results).items():
        if records:
            treatments = _treatments(results, records)
            axes = _axes(results, treatments)
            told = _told(records, treatments)
            names = _metrics(results, workload, told)
            # Of recorded runs the session is the unit, and trials of one say nothing of another.
            recorded = results.study.design.kind == "recorded"
            confidence = 0.0 if recorded else results.study.decide.confidence
            found += [_sheet(workload, name, axes, told[name], confidence) for name in names]
    return tuple(found)


def _told(records: Sequence[TrialRecord], treatments: Sequence[Mapping[str, str]]) -> Told:
    """Metric → every finite number of a whole trial, with the trial's treatment."""
    told: Told = defaultdict(list)
    for record, treatment in zip(records, treatments, strict=True):
        for measured in record.measurements:
            if measured.job == "all" and math.isfinite(measured.value):
                told[measured.metric].append((treatment, measured))
    return told


def _treatments(results: Results, records: Sequence[TrialRecord]) -> list[dict[str, str]]:
    """Of each record; where several targets are loaded and none is varied, the target counts as
    a factor: numbers of two disks are not averaged."""
    found = [dict(record.trial.treatment) for record in records]
    varied = any(factor.kind == "target" for factor in results.study.factors)
    if len({record.trial.target for record in records}) > 1 and not varied:
        for each, record in zip(found, records, strict=True):
            each[TARGET] = record.trial.target
    return found


def _metrics(results: Results, workload: str, there: Iterable[str]) -> list[str]:
    names, decide = list(there), results.study.decide
    tools = {each.name: each.tool for each in results.study.workloads}
    shown = _SHOWN_OF.get(tools.get(workload, ""), _SHOWN)
    wanted = [name for of, name in decide.primary if of == workload]
    wanted += [name for name, _ in decide.guardrails]
    wanted += [name for quantity in shown for name in names if (split(name)[1] or name) == quantity]
    return [name for name in dict.fromkeys(wanted) if name in names] or names


def _axes(results: Results, treatments: Sequence[Mapping[str, str]]) -> _Axes:
    known = {factor.name: factor for factor in results.study.factors}
    names = dict.fromkeys(known)
    for each in treatments:
        names |= dict.fromkeys(each)  # the target, or a factor that was taken out of the study
    labels: dict[str, tuple[str, ...]] = {}
    constant: list[tuple[str, str]] = []
    for name in names:
        present = {each.get(name, "") for each in treatments}
        if len(present) > 1:
            order = [level.label for level in known[name].levels] if name in known else []
            labels[name] = _in_order(present, order)
        elif present != {""}:
            constant.append((name, present.pop()))
    subjects = {name: known[name].subject if name in known else "" for name in labels}
    down, across = _pair(subjects)
    others = tuple(name for name in labels if name not in (down, across))
    return _Axes(down, across, others, tuple(constant), labels)


def _pair(subjects: Mapping[str, str]) -> tuple[str, str]:
    """The factors down and across, of those that vary (name → the tunable or option it is)."""
    kinds: dict[str, str] = {}
    for words in (_RECORD, _SIZE, *((word,) for word in PARALLEL)):
        kind = "record" if words is _RECORD else "size" if words is _SIZE else "parallel"
        for name, subject in subjects.items():
            said = re.findall(r"[a-z]+", f"{name} {subject}".lower())
            if not kinds.keys() & {kind} and name not in kinds.values() and {*words} & {*said}:
                kinds[kind] = name
    for down, across in (("record", "parallel"), ("size", "record")):
        if down in kinds and across in kinds:
            return kinds[down], kinds[across]
    names = list(subjects)
    first = next(iter(kinds.values()), names[0] if names else "")
    rest = [name for name in names if name != first]
    return first, rest[0] if rest else ""


def _in_order(labels: set[str], known: Sequence[str]) -> tuple[str, ...]:
    """Numbers and sizes ascend, what is neither (``unknown``) after them; other labels stand in
    the study's order."""
    amounts = {label: amount(label) for label in labels}
    place = {label: number for number, label in enumerate(known)}
    if sum(value is not None for value in amounts.values()) >= max(2, len(labels) - 1):
        return tuple(
            sorted(
                labels, key=lambda label: (math.inf if (v := amounts[label]) is None else v, label)
            )
        )
    return tuple(sorted(labels, key=lambda label: (place.get(label, len(place)), label)))


def _sheet(
    workload: str,
    name: str,
    axes: _Axes,
    told: Sequence[tuple[Mapping[str, str], Measurement]],
    confidence: float,
) -> HeatmapSheet:
    parts: dict[Treatment, dict[tuple[str, str], list[Measurement]]]
    parts = defaultdict(lambda: defaultdict(list))
    for treatment, measured in told:
        fixed = tuple((other, treatment.get(other, "")) for other in axes.others)
        cell = treatment.get(axes.down, ""), treatment.get(axes.across, "")
        parts[fixed][cell].append(measured)
    mean: Mean = "geometric" if all(m.value > 0 for _, m in told) else "arithmetic"
    place = {
        (other, label): number
        for other in axes.others
        for number, label in enumerate(axes.labels[other])
    }
    order = sorted(parts, key=lambda fixed: [place[part] for part in fixed])
    blocks = tuple(_block(fixed, axes, parts[fixed], mean, confidence) for fixed in order)
    known = _metric(name, told[0][1].unit)
    return HeatmapSheet(workload, known, axes.down, axes.across, axes.constant, mean, blocks)


def _metric(name: str, unit: str) -> Metric:
    """The metric; its unit is the measurements' own where a table said another."""
    try:
        known = metric(name)
    except KeyError:
        return Metric(name, unit, None, name)
    return Metric(known.name, unit or known.unit, known.higher, known.title)


def _block(
    fixed: Treatment,
    axes: _Axes,
    told: Mapping[tuple[str, str], Sequence[Measurement]],
    mean: Mean,
    confidence: float,
) -> HeatmapBlock:
    cells = {key: _cell(each, mean, confidence) for key, each in told.items()}
    down, across = ({key[side] for key in cells} for side in (0, 1))
    return HeatmapBlock(
        fixed,
        tuple(label for label in axes.labels.get(axes.down, ("",)) if label in down) or ("",),
        tuple(label for label in axes.labels.get(axes.across, ("",)) if label in across) or ("",),
        cells,
    )


def _cell(told: Sequence[Measurement], mean: Mean, confidence: float) -> HeatmapCell:
    values = [each.value for each in told]
    sides = {each.censored for each in told} - {""}
    bound: Bound = (
        "both" if len(sides) > 1 else "high" if "high" in sides else "low" if sides else ""
    )
    n = len(values)
    if len(set(values)) == 1:
        return HeatmapCell(values[0], n, bound)  # exactly: no logarithm and back
    logs = mean == "geometric"
    scaled = [math.log(value) for value in values] if logs else values
    middle = math.fsum(scaled) / n
    whole = math.exp(middle) if logs else middle
    if bound or not confidence:
        return HeatmapCell(whole, n, bound)
    half = single(n - 1, confidence) * stdev(scaled) / math.sqrt(n)
    if logs and middle + half > _LARGEST:
        return HeatmapCell(whole, n, bound)
    ends = (middle - half, middle + half)
    return HeatmapCell(whole, n, bound, *(map(math.exp, ends) if logs else ends))


_LARGEST = 700.0  # the logarithm of what a number can hold
