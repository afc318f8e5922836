"""What the charts of one workload show, as numbers: every trial over time, and latencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from iotrial.model.measurement import sectioned
from iotrial.model.results import DevicePoint, Results
from iotrial.model.study import Study
from iotrial.model.trial import Treatment, TrialRecord, treatment_text
from iotrial.report import words
from iotrial.report.words import visible

DRAWN = 2000
"""Points on one chart beyond which more ink says nothing more."""
_GROUPS = 8
"""Colours and shapes that a reader can tell apart."""
ALL_SHOWN = 20
"""Trials beyond which a spread is the middle 90 % and no longer the whole range."""
_BOUNDARIES = 40
"""Blocks beyond which their boundaries would be a grey wall."""


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """One trial: ``seconds`` since the study's first, ``value`` in the metric's base unit."""

    seconds: float
    value: float
    group: str
    number: int
    valid: bool


@dataclass(frozen=True, slots=True)
class PercentileSpread:
    """A latency percentile of one group over its valid trials, in seconds."""

    group: str
    operation: str
    percentile: str
    middle: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class OfferedSpread:
    """The bounded percentile of the response time of one group at one offered ``rate`` (1/s), over
    its valid trials, in seconds."""

    group: str
    rate: float
    middle: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class TrialSeries:
    """One trial over time.  ``group`` is what it is coloured as; ``samples`` of its device."""

    group: str
    trial: int
    samples: tuple[DevicePoint, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Everything the charts of ``workload`` draw.

    ``groups`` are the colours, the baseline first.  ``points`` are at most about
    :data:`DRAWN` of the ``measured`` trials that have a value.  ``blocks`` are the seconds at
    which a block began, over all workloads (empty when there are too many to draw).  ``one`` is
    what a point is called.
    """

    workload: str
    groups: tuple[str, ...]
    grouped_by: str
    points: tuple[SeriesPoint, ...]
    measured: int
    blocks: tuple[float, ...]
    spreads: tuple[PercentileSpread, ...]
    one: str = words.TRIALS.one
    offered: tuple[OfferedSpread, ...] = ()


Numbers = Mapping[str, float]
"""A trial's own numbers by metric (job ``all``)."""


def numbers(record: TrialRecord) -> dict[str, float]:
    """The trial's own numbers by metric, base units; bounds (censored) are none."""
    return {m.metric: m.value for m in record.measurements if m.job == "all" and not m.censored}


def series(results: Results, workload: str, metric: str) -> Series:
    """The series of one workload whose response is ``metric``."""
    records = [record for record in results.records if record.trial.workload == workload]
    treatments = ordered(results, {record.trial.treatment for record in records})
    groups, grouped_by = _groups(treatments)
    start = min((record.started for record in results.records), default=0.0)
    rows = [(record, numbers(record), groups[record.trial.treatment]) for record in records]
    points = [
        SeriesPoint(r.started - start, n[metric], group, r.trial.number, r.state == "valid")
        for r, n, group in rows
        if metric in n
    ]
    valid = [(n, group) for r, n, group in rows if r.state == "valid"]
    recorded = results.study.design.kind == "recorded"
    if recorded and not any(r.started for r in records):
        points = []  # nobody knows when, or in which order
    return Series(
        workload=visible(workload),
        groups=tuple(dict.fromkeys(groups[treatment] for treatment in treatments)),
        grouped_by=grouped_by,
        points=thinned(points, DRAWN),
        measured=len(points),
        blocks=() if recorded else _block_starts(results.records, start),
        spreads=_spreads(valid, sectioned(metric)[1]),
        one=(words.RUNS if recorded else words.TRIALS).one,
        offered=tuple(_offered(results, workload, valid)),
    )


MOST_CURVES = 6
"""Trials drawn over time: more lines cannot be told apart."""
_CURVE = 120  # points of one


def curves(results: Results, workload: str, metric: str) -> tuple[TrialSeries, ...]:
    """Of each treatment the valid trial whose response is the middle one; none where there are
    too many treatments, or no trial was sampled twice."""
    groups: dict[Treatment, list[tuple[float, TrialRecord]]] = defaultdict(list)
    for record in results.valid:
        if record.trial.workload == workload and (value := record.value(metric)) is not None:
            groups[record.trial.treatment].append((value, record))
    if len(groups) > MOST_CURVES:
        return ()
    names, _ = _groups(ordered(results, set(groups)))
    found = []
    for cell in ordered(results, set(groups)):
        own = sorted(groups[cell], key=lambda pair: pair[0])
        record = own[(len(own) - 1) // 2][1]
        samples = results.traces.samples(record)
        if len(samples) > 1:
            found.append(TrialSeries(names[cell], record.trial.number, coarser(samples, _CURVE)))
    return tuple(found)


def coarser(samples: Sequence[DevicePoint], limit: int) -> tuple[DevicePoint, ...]:
    """Means over neighbours, at most ``limit`` of them."""
    size = -(-len(samples) // limit)
    return tuple(_mean(samples[at : at + size]) for at in range(0, len(samples), size))


def _mean(samples: Sequence[DevicePoint]) -> DevicePoint:
    waited = [(each.ios, each.latency) for each in samples if each.latency is not None]
    done = sum(ios for ios, _ in waited)
    return DevicePoint(
        fmean(each.t for each in samples),
        fmean(each.ios for each in samples),
        sum(ios * latency for ios, latency in waited) / done if done else None,
        fmean(each.depth for each in samples),
    )


def ordered(results: Results, treatments: set[Treatment]) -> list[Treatment]:
    """Treatments in the study's order of levels, the baseline's first."""
    return sorted(treatments, key=lambda treatment: _rank(results, treatment))


def _rank(results: Results, treatment: Treatment) -> list[tuple[int, str]]:
    return [
        (
            -1
            if results.baselines.get(factor) == label
            else _labels(results.study, factor).get(label, 0),
            label,
        )
        for factor, label in treatment
    ]


def _labels(study: Study, name: str) -> dict[str, int]:
    for factor in study.factors:
        if factor.name == name:
            return {level.label: place for place, level in enumerate(factor.levels)}
    return {}


def _groups(treatments: Sequence[Treatment]) -> tuple[dict[Treatment, str], str]:
    """What each treatment is coloured as, and what the colours are: a level where one factor
    varies, a treatment while there are colours for all of them, else the first factor's level."""
    factors = list(dict.fromkeys(factor for treatment in treatments for factor, _ in treatment))
    if len(factors) > 1 and len(treatments) <= _GROUPS:
        return {t: visible(treatment_text(t)) for t in treatments}, "treatment"
    first = factors[0] if factors else ""
    return {t: visible(dict(t).get(first, "-")) for t in treatments}, visible(first)


def _block_starts(records: Sequence[TrialRecord], start: float) -> tuple[float, ...]:
    starts: dict[int, float] = {}
    for record in records:
        if record.trial.attempt == 1:
            seconds = record.started - start
            starts[record.trial.block] = min(seconds, starts.get(record.trial.block, seconds))
    return tuple(sorted(starts.values())) if len(starts) <= _BOUNDARIES else ()


def thinned(points: Sequence[SeriesPoint], limit: int) -> tuple[SeriesPoint, ...]:
    """At most about ``limit`` points, evenly over time.

    The highest and the lowest of each group stay whatever happens, and up to a quarter of the
    room goes to trials that do not count: those are the ones a reader looks for.
    """
    if len(points) <= limit:
        return tuple(points)
    rest = [point for point in points if not point.valid]
    kept = _every([point for point in points if point.valid], limit - min(len(rest), limit // 4))
    kept |= _every(rest, limit // 4) | _extremes(points)
    return tuple(point for point in points if point in kept)


def _every(points: Sequence[SeriesPoint], limit: int) -> set[SeriesPoint]:
    step = -(-len(points) // limit) if points else 1
    return set(points[::step])


def _extremes(points: Sequence[SeriesPoint]) -> set[SeriesPoint]:
    groups: dict[str, list[SeriesPoint]] = defaultdict(list)
    for point in points:
        groups[point.group].append(point)
    ends = [(min, max)] * len(groups)
    return {
        end(group, key=lambda point: point.value)
        for group, pair in zip(groups.values(), ends, strict=True)
        for end in pair
    }


def _spreads(rows: Sequence[tuple[Numbers, str]], section: str) -> tuple[PercentileSpread, ...]:
    """``section`` of the load whose latencies they are ('': of all of it)."""
    found: dict[tuple[str, float, str, str], list[float]] = defaultdict(list)
    for row, group in rows:
        for metric, value in row.items():
            name, own = sectioned(metric)
            operation, dot, percentile = name.partition(".clat.p")
            if dot and own == section and value > 0:
                found[operation, float(percentile), percentile, group].append(value)
    return tuple(
        _spread(group, operation, f"p{percentile}", sorted(values))
        for (operation, _, percentile, group), values in sorted(found.items())
    )


def _offered(
    results: Results, workload: str, rows: Sequence[tuple[Numbers, str]]
) -> Iterator[OfferedSpread]:
    """Group by group, from the lowest rate; nothing of a load without offered rates."""
    offered = next((e.offered for e in results.study.workloads if e.name == workload), None)
    if offered is None:
        return
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row, group in rows:
        for metric, value in row.items():
            name, section = sectioned(metric)
            if section and name.partition(".")[2] == offered.latency:
                found[group, section].append(value)
    for group in dict.fromkeys(group for group, _ in found):
        for rate in offered.rates:
            if values := sorted(found[group, str(rate)]):
                yield OfferedSpread(
                    group, float(rate), median(values), values[0], values[-1], len(values)
                )


def _spread(
    group: str, operation: str, percentile: str, values: Sequence[float]
) -> PercentileSpread:
    cut = 0 if len(values) <= ALL_SHOWN else len(values) // 20
    return PercentileSpread(
        group, visible(operation), percentile, median(values), values[cut], values[-1 - cut],
        len(values),
    )  # fmt: skip
