"""Hosts: what each host of several contributed to the trials that it took part in.

Counted things (IOPS, bandwidths) of a host are the sum over its parts, and have a share of the
whole; of anything else (a latency) a host's is that of its worst part, and there is no share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iotrial.model.measurement import Metrics, split
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord

_SUMS = frozenset(("iops", "bw", "rate", "bytes", "ios"))


@dataclass(frozen=True, slots=True)
class HostRow:
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


def rows(results: Results, responses: Mapping[str, str]) -> tuple[HostRow, ...]:
    """One row a workload and host, in the study's order; none where no trial has parts.
    ``responses`` maps a workload to the metric that answers for it."""
    found = []
    for workload, name in responses.items():
        mine = [
            record
            for record in results.records
            if record.trial.workload == workload and record.state == "valid" and record.parts
        ]
        by_host: dict[str, list[tuple[TrialRecord, Values]]] = {}
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
class Values:
    """What the parts of one trial measured: each host's by part, and of all parts the ``total``
    and the ``count``; when loads ``began``, the ``first`` of them too."""

    by_host: Mapping[str, Mapping[str, float]]
    total: float
    count: int
    began: Mapping[str, float]
    first: float


def _values(record: TrialRecord, name: str) -> Values:
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
    return Values(by_host, sum(numbers), len(numbers), began, first)


def _row(
    host: str, mine: Sequence[tuple[TrialRecord, Values]], name: str, metrics: Metrics
) -> HostRow | None:
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
    return HostRow(
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
