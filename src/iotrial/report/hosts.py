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
        hosts = dict.fromkeys(host_of(part) for record in mine for part in record.parts)
        found += [
            row
            for host in hosts
            if (row := _row(host, [r for r in mine if _takes_part(host, r)], name))
        ]
    return tuple(found)


def host_of(part: str) -> str:
    """``box1/disk`` → ``box1``."""
    return part.partition("/")[0]


def _takes_part(host: str, record: TrialRecord) -> bool:
    return any(host_of(part) == host for part in record.parts)


def _row(host: str, records: Sequence[TrialRecord], name: str) -> HostRow | None:
    adds = split(name)[1] in _SUMS if "." in name else False
    logs, shares, late, evens = [], [], [0.0], []
    by_part: dict[str, list[float]] = {}
    for record in records:
        every = {part: record.of_part(part, name) for part in record.parts}
        values = {part: value for part, value in every.items() if value is not None and value > 0}
        own = {part: value for part, value in values.items() if host_of(part) == host}
        if not own:
            continue
        mine = sum(own.values()) if adds else max(own.values())
        logs.append(math.log(mine))
        mean = sum(values.values()) / len(values)
        for part, value in own.items():
            by_part.setdefault(part, []).append(value / mean)
        shares.append(mine / sum(values.values()))
        evens.append(len(own) / len(values))
        began = dict(record.starts)
        first = min(began.values(), default=0.0)
        late += [began[part] - first for part in own if part in began]
    if not logs:
        return None
    behind = {part: sum(each) / len(each) for part, each in by_part.items()}
    least = min if higher_is_better(name) is not False else max
    worst = least(behind, key=behind.__getitem__)
    return HostRow(
        workload=visible(records[0].trial.workload),
        metric=visible(name),
        unit=next(m.unit for m in records[0].measurements if m.metric == name),
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
