"""Where the load of a study went: what CPUs, links, adapters, devices and paths bore, what each of
several hosts contributed, and what stood at its limit at each step of a factor that counts.

Counted things (IOPS, bandwidths) of a host are the sum over its parts, and have a share of the
whole; of anything else (a latency) a host's is that of its worst part, and there is no share.  What
was seen at a limit or uneven is no proof of a cause (:mod:`iotrial.stats.scaling`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iotrial.errors import FormatError
from iotrial.model.finding import Finding
from iotrial.model.measurement import Metrics, split
from iotrial.model.results import ResourceUsage, Results
from iotrial.model.trial import Treatment, TrialRecord, treatment_text
from iotrial.stats.responses import counted, in_order
from iotrial.stats.scaling import Scaling, ScalingObservation, counting, scaling, typical, why

_TRIALS = 9
"""Of a level, at most: a median of so many is enough, and each may have thousands of parts."""


@dataclass(frozen=True, slots=True)
class ScalingLevel:
    """One level of a factor that counts.  ``efficiency`` is that against the baseline (None: it
    is the baseline); ``bends``: the first level that has lost more than the margin."""

    workload: str
    factor: str
    level: str
    efficiency: Scaling | None
    seen: tuple[ScalingObservation, ...]
    bends: bool = False


def steps(results: Results, findings: Sequence[Finding]) -> tuple[ScalingLevel, ...]:
    """The baseline and every level of each factor that counts, by what the factor counts."""
    found: list[ScalingLevel] = []
    counts = counting(results.study)
    counted = [
        (each, scale)
        for each in findings
        if (scale := scaling(each, results.study.metrics, counts))
    ]
    for factor in dict.fromkeys(each.factor for each, _ in counted):
        mine = [(each, scale) for each, scale in counted if each.factor == factor]
        mine.sort(key=lambda pair: float(pair[0].level))
        workload, baseline = mine[0][0].workload, mine[0][0].baseline
        before = _of(results, workload, factor, baseline)
        rows = [ScalingLevel(workload, factor, baseline, None, why(before))]
        bent = False
        for each, scale in mine:
            loses = _loses(scale, each, results.study.decide.margin)
            now = _of(results, workload, factor, each.level)
            seen = why(now, before)
            rows.append(ScalingLevel(workload, factor, each.level, scale, seen, loses and not bent))
            bent = bent or loses
        found += rows
    return tuple(found)


def _loses(scale: Scaling, finding: Finding, margin: float) -> bool:
    """Whether more than the margin is surely lost; of fewer things nothing can be."""
    end = scale.efficiency if scale.high is None else scale.high
    return float(finding.level) > float(finding.baseline) and end < 1 - margin


def _of(results: Results, workload: str, factor: str, level: str) -> tuple[ResourceUsage, ...]:
    records = [
        record
        for record in results.valid
        if record.trial.workload == workload and (factor, level) in record.trial.treatment
    ]
    return borne(results, records)


def borne(results: Results, records: Sequence[TrialRecord]) -> tuple[ResourceUsage, ...]:
    """What everything bore in most of these trials; what cannot be read is left out."""
    apart = max(1, -(-len(records) // _TRIALS))
    return typical(_strains(results, record) for record in records[::apart])


def _strains(results: Results, record: TrialRecord) -> tuple[ResourceUsage, ...]:
    try:
        return results.traces.strains(record)
    except FormatError:
        return ()


# -- what everything bore -------------------------------------------------------------------------

_ORDER = ("cpu", "core", "nic", "adapter", "device", "path")
_UNSHARED = ("cpu", "core")


@dataclass(frozen=True, slots=True)
class Utilisation:
    """What everything bore under one workload at one treatment; ``shares`` maps a place in
    ``strains`` to its share of its peers' I/O and what an even one would be."""

    workload: str
    treatment: str
    strains: tuple[ResourceUsage, ...]
    shares: Mapping[int, tuple[float, float]]


MOST_TREATMENTS = 40
"""Treatments of a workload up to which each is read: more are no table that anybody looks at."""


@dataclass(frozen=True, slots=True)
class TreatmentUsage:
    """How busy hosts and devices were under one treatment of a workload: medians over its trials,
    means over hosts and devices; shares of the time, but ``load`` (tasks that ran or waited for
    I/O) and ``depth`` (I/Os in flight, of all devices), and ``latency`` in seconds.  None: not
    known."""

    workload: str
    treatment: Treatment
    cpu: float | None
    iowait: float | None
    load: float | None
    core: float | None
    device: float | None
    depth: float | None
    latency: float | None


def usages(results: Results) -> tuple[TreatmentUsage, ...]:
    """One for each treatment with telemetry, by workload in the study's order."""
    found: list[TreatmentUsage] = []
    for workload, records in counted(results).items():
        groups: dict[Treatment, list[TrialRecord]] = {}
        for record in records:
            groups.setdefault(record.trial.treatment, []).append(record)
        cells = in_order(results.study, set(groups)) if len(groups) <= MOST_TREATMENTS else ()
        seen = ((cell, borne(results, groups[cell])) for cell in cells)
        found += [_usage(workload, cell, strains) for cell, strains in seen if strains]
    return tuple(found)


def _usage(workload: str, treatment: Treatment, strains: Sequence[ResourceUsage]) -> TreatmentUsage:
    cpus, cores, devices = (
        [each for each in strains if each.kind == kind] for kind in ("cpu", "core", "device")
    )
    done = sum(each.ios for each in devices)
    waited = sum(each.latency * each.ios for each in devices)
    return TreatmentUsage(
        workload,
        treatment,
        cpu=_mean(each.busy for each in cpus),
        iowait=_mean(each.iowait for each in cpus),
        load=_mean(each.load for each in cpus),
        core=_mean(each.busy for each in cores),
        device=_mean(each.busy for each in devices),
        depth=sum(each.depth for each in devices) if devices else None,
        latency=waited / done if done else None,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def where(results: Results) -> tuple[Utilisation, ...]:
    """One a workload; none where there is one part and nothing below it has several."""
    found = []
    for workload in results.study.judged:
        mine = [r for r in results.valid if r.trial.workload == workload.name]
        groups: dict[Treatment, list[TrialRecord]] = {}
        for record in mine:
            groups.setdefault(record.trial.treatment, []).append(record)
        if not groups:
            continue
        widest = max(groups, key=lambda each: len(groups[each][0].parts))
        strains = borne(results, groups[widest])
        if len({each.of for each in strains if each.kind == "device"}) < 2 and not any(  # noqa: PLR2004
            each.kind in ("path", "nic") for each in strains
        ):
            continue
        ordered = tuple(sorted(strains, key=lambda each: _ORDER.index(each.kind)))
        hosts = list(dict.fromkeys(each.host for each in strains))
        ordered = tuple(sorted(ordered, key=lambda each: hosts.index(each.host)))
        found.append(
            Utilisation(
                workload.name,
                treatment_text(widest),
                ordered,
                shares(ordered),
            )
        )
    return tuple(found)


def shares(strains: Sequence[ResourceUsage]) -> dict[int, tuple[float, float]]:
    """Of devices among all devices of all hosts, of paths among those of their device, of adapters
    and interfaces among those of their host."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, each in enumerate(strains):
        if each.kind in _UNSHARED:
            continue
        host = "" if each.kind == "device" else each.host
        groups.setdefault((each.kind, host, each.of if each.kind == "path" else ""), []).append(
            place
        )
    found = {}
    for places in groups.values():
        total = sum(map(_load, (strains[place] for place in places)))
        if len(places) > 1 and total > 0:
            for place in places:
                found[place] = _load(strains[place]) / total, 1 / len(places)
    return found


def _load(each: ResourceUsage) -> float:
    return each.came + each.went if each.kind == "nic" else each.ios


# -- what each host contributed -------------------------------------------------------------------

_SUMS = frozenset(("iops", "bw", "rate", "bytes", "ios"))


@dataclass(frozen=True, slots=True)
class HostUtilisation:
    """One host under one workload, over the ``n`` valid trials that it took part in.

    ``parts`` is how many targets it loaded at most; ``value`` the geometric mean over the trials,
    in ``unit``; ``share`` its mean share of the whole (None: the metric does not add up), and
    ``even`` what it would be if all parts did the same; ``worst`` the part that did the least (of
    a latency: had the most) and ``behind`` its value as a share of the mean of all parts;
    ``late`` the seconds by which its loads began after the first of the trial, at most.
    """

    workload: str
    metric: str
    unit: str
    host: str
    parts: int
    value: float
    share: float | None
    even: float
    worst: str
    behind: float
    late: float
    n: int


def rows(results: Results, responses: Mapping[str, str]) -> tuple[HostUtilisation, ...]:
    """One row a workload and host, in the study's order; none where no trial has parts.
    ``responses`` maps a workload to the metric that answers for it."""
    found = []
    for workload, name in responses.items():
        mine = [
            record
            for record in results.valid
            if record.trial.workload == workload and record.parts and not record.beside
        ]
        by_host: dict[str, list[tuple[TrialRecord, _PartValues]]] = {}
        for record in mine:
            values = _values(record, name)
            for host in dict.fromkeys(map(host_of, record.parts)):
                by_host.setdefault(host, []).append((record, values))
        found += [
            row
            for host, own in by_host.items()
            if (row := _row(host, own, name, results.study.metrics))
        ]
    return tuple(found)


def host_of(part: str) -> str:
    """``box1/disk`` → ``box1``."""
    return part.partition("/")[0]


@dataclass(frozen=True, slots=True)
class _PartValues:
    """What the parts of one trial measured: each host's by part, and of all parts the ``total``
    and the ``count``; when loads ``began``, the ``first`` of them too."""

    by_host: Mapping[str, Mapping[str, float]]
    total: float
    count: int
    began: Mapping[str, float]
    first: float


def _values(record: TrialRecord, name: str) -> _PartValues:
    """Read once a trial: a thousand hosts ask for it."""
    by_host: dict[str, dict[str, float]] = {}
    parts = set(record.parts)
    for each in record.measurements:
        told = each.metric == name and each.job in parts and not each.censored
        if told and each.value > 0:
            by_host.setdefault(host_of(each.job), {}).setdefault(each.job, each.value)
    numbers = [value for own in by_host.values() for value in own.values()]
    began = dict(record.starts)
    first = min(began.values(), default=0.0)
    return _PartValues(by_host, sum(numbers), len(numbers), began, first)


def _row(
    host: str, mine: Sequence[tuple[TrialRecord, _PartValues]], name: str, metrics: Metrics
) -> HostUtilisation | None:
    adds = split(name)[1] in _SUMS if "." in name else False
    logs, shares, late, evens = [], [], [0.0], []
    by_part: dict[str, list[float]] = {}
    for _, values in mine:
        own = values.by_host.get(host, {})
        if not own:
            continue
        whole = sum(own.values()) if adds else max(own.values())
        logs.append(math.log(whole))
        mean = values.total / values.count
        for part, value in own.items():
            by_part.setdefault(part, []).append(value / mean)
        shares.append(whole / values.total)
        evens.append(len(own) / values.count)
        late += [values.began[part] - values.first for part in own if part in values.began]
    if not logs:
        return None
    behind = {part: sum(each) / len(each) for part, each in by_part.items()}
    least = min if metrics.higher(name) is not False else max
    worst = least(behind, key=behind.__getitem__)
    return HostUtilisation(
        workload=mine[0][0].trial.workload,
        metric=name,
        unit=next(m.unit for m in mine[0][0].measurements if m.metric == name),
        host=host,
        parts=len(behind),
        value=math.exp(math.fsum(logs) / len(logs)),
        share=sum(shares) / len(shares) if adds else None,
        even=sum(evens) / len(evens),
        worst=worst,
        behind=behind[worst],
        late=max(late),
        n=len(logs),
    )
