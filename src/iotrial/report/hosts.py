"""Hosts in words and as data: what each host of several contributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.judgement.utilisation import HostRow
from iotrial.report.blocks import Block, Heading, plain
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
        visible(workload), f"{len(rest)} others", f"{parts} in all", between, "–", "–",
        f"{late * 1000:.0f} ms at most", f"≤ {n}",
    )  # fmt: skip


def cells(row: HostRow) -> tuple[str, ...]:
    """One line of the table."""
    share = "–" if row.share is None else f"{row.share * 100:.1f} % ({row.even * 100:.1f} %)"
    worst = visible(row.worst.partition("/")[2])
    return (
        visible(row.workload),
        visible(row.host),
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
                "workload": visible(row.workload),
                "host": visible(row.host),
                "parts": row.parts,
                "value": row.value,
                "unit": row.unit,
                "share": row.share,
                "even": row.even,
                "worst": {"part": visible(row.worst), "of_the_mean": row.behind},
                "late": row.late,
                "n": row.n,
            }
            for row in found
        ]
    }


def blocks(found: Sequence[HostRow]) -> Iterator[Block]:
    """What each host contributed."""
    if found:
        yield Heading("Hosts", id="hosts")
        yield plain(HEAD, lines(found), "Hosts")
