"""Hosts: what each host of several contributed to the trials that it took part in.

Counted things (IOPS, bandwidths) of a host are the sum over its parts, and have a share of the
whole; of anything else (a latency) a host's is that of its worst part, and there is no share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iotrial.model.measurement import higher_is_better, split
from iotrial.model.results import Results
from iotrial.model.trial import TrialRecord
from iotrial.report.visible import visible
from iotrial.units import format_value

HEAD = (
    "workload",
    "host",
    "parts",
    "of each trial",
    "share (even)",
    "worst part (of the mean)",
    "late by",
    "n",
)
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
        found += [row for host, own in by_host.items() if (row := _row(host, own, name))]
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


def _row(host: str, mine: Sequence[tuple[TrialRecord, Values]], name: str) -> HostRow | None:
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
    least = min if higher_is_better(name) is not False else max
    worst = least(behind, key=behind.__getitem__)
    return HostRow(
        workload=visible(mine[0][0].trial.workload),
        metric=visible(name),
        unit=next(m.unit for m in mine[0][0].measurements if m.metric == name),
        host=visible(host),
        parts=len(behind),
        value=math.exp(math.fsum(logs) / len(logs)),
        share=sum(shares) / len(shares) if adds else None,
        even=sum(evens) / len(evens),
        worst=visible(worst),
        behind=behind[worst],
        late=max(late),
        n=len(logs),
    )


MOST = 16
"""Hosts of a workload with a line each; of more, those with the least and the most, the latest,
and one line for all others."""
_ENDS = 4


def lines(found: Sequence[HostRow]) -> list[tuple[str, ...]]:
    """The lines of the table."""
    told: list[tuple[str, ...]] = []
    for name in dict.fromkeys(row.workload for row in found):
        own = [row for row in found if row.workload == name]
        if len(own) <= MOST:
            told += [cells(row) for row in own]
            continue
        ranked = sorted(own, key=lambda row: row.value / row.parts)
        late = sorted(own, key=lambda row: -row.late)[:_ENDS]
        chosen = {row.host for row in (*ranked[:_ENDS], *ranked[-_ENDS:], *late)}
        told += [cells(row) for row in own if row.host in chosen]
        told.append(_others(name, [row for row in own if row.host not in chosen]))
    return told


def _others(workload: str, rest: Sequence[HostRow]) -> tuple[str, ...]:
    low, high = min(row.value for row in rest), max(row.value for row in rest)
    between = f"{format_value(low, rest[0].unit)} to {format_value(high, rest[0].unit)}"
    parts = sum(row.parts for row in rest)
    late = max(row.late for row in rest)
    n = max(row.n for row in rest)
    return (
        workload, f"{len(rest)} others", f"{parts} in all", between, "–", "–",
        f"{late * 1000:.0f} ms at most", f"≤ {n}",
    )  # fmt: skip


def cells(row: HostRow) -> tuple[str, ...]:
    """One line of the table."""
    share = "–" if row.share is None else f"{row.share * 100:.1f} % ({row.even * 100:.1f} %)"
    worst = row.worst.partition("/")[2]
    return (
        row.workload,
        row.host,
        str(row.parts),
        format_value(row.value, row.unit),
        share,
        f"{worst} ({row.behind * 100:.0f} %)" if row.parts > 1 else "–",
        f"{row.late * 1000:.0f} ms",
        str(row.n),
    )


def as_data(found: Sequence[HostRow]) -> dict[str, Any]:
    """For the JSON document; nothing for a study on one host and target."""
    if not found:
        return {}
    return {
        "hosts": [
            {
                "workload": row.workload,
                "host": row.host,
                "parts": row.parts,
                "value": row.value,
                "unit": row.unit,
                "share": row.share,
                "even": row.even,
                "worst": {"part": row.worst, "of_the_mean": row.behind},
                "late": row.late,
                "n": row.n,
            }
            for row in found
        ]
    }
