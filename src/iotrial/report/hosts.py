"""Several hosts in words and as data: what each contributed; and where blocks are spread over
them, which ran where and what the hosts differ by (:mod:`iotrial.stats.host_effects`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.judgement.utilisation import HostUtilisation
from iotrial.model.hostlist import folded
from iotrial.model.measurement import display_unit
from iotrial.model.trial import treatment_text
from iotrial.report.blocks import Block, Heading, plain
from iotrial.report.words import visible
from iotrial.stats.host_effects import HostEffect
from iotrial.units import format_change, format_value

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
"""Hosts of a workload with a line each.  Of more, those with the least and the most, and the
latest; of blocks those with the lowest and the highest mean, those whose blocks are not whole, and
those where something is best that is best on few.  One line is for all others."""
_ENDS = 4


def lines(found: Sequence[HostUtilisation]) -> list[tuple[str, ...]]:
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


def _others(workload: str, rest: Sequence[HostUtilisation]) -> tuple[str, ...]:
    low, high = min(row.value for row in rest), max(row.value for row in rest)
    unit = display_unit(rest[0].metric, rest[0].unit)
    between = f"{format_value(low, unit)} to {format_value(high, unit)}"
    parts = sum(row.parts for row in rest)
    late = max(row.late for row in rest)
    n = max(row.n for row in rest)
    return (
        visible(workload), f"{len(rest)} others", f"{parts} in all", between, "–", "–",
        f"{late * 1000:.0f} ms at most", f"≤ {n}",
    )  # fmt: skip


def cells(row: HostUtilisation) -> tuple[str, ...]:
    """One line of the table."""
    share = "–" if row.share is None else f"{row.share * 100:.1f} % ({row.even * 100:.1f} %)"
    worst = visible(row.worst.partition("/")[2])
    return (
        visible(row.workload),
        visible(row.host),
        str(row.parts),
        format_value(row.value, display_unit(row.metric, row.unit)),
        share,
        f"{worst} ({row.behind * 100:.0f} %)" if row.parts > 1 else "–",
        f"{row.late * 1000:.0f} ms",
        str(row.n),
    )


def as_data(found: Sequence[HostUtilisation]) -> dict[str, Any]:
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


def blocks(found: Sequence[HostUtilisation]) -> Iterator[Block]:
    """What each host contributed."""
    if found:
        yield Heading("Hosts")
        yield plain(HEAD, lines(found), "Hosts")


# -- blocks on hosts ------------------------------------------------------------------------------

BLOCK_TITLE = "Blocks on hosts"
BLOCK_HEAD = ("workload", "host", "blocks", "against the mean of the hosts", "best treatment")


def block_rows(effects: Sequence[HostEffect]) -> list[tuple[str, ...]]:
    """The lines of the table."""
    found: list[tuple[str, ...]] = []
    for name in dict.fromkeys(each.workload for each in effects):
        own = [each for each in effects if each.workload == name]
        shown = own if len(own) <= MOST else _telling(own)
        found += [_row(each) for each in shown]
        if len(shown) < len(own):
            found.append(_other_blocks(name, [each for each in own if each not in shown]))
    return found


def _telling(own: list[HostEffect]) -> list[HostEffect]:
    ranked = sorted((e for e in own if math.isfinite(e.ratio)), key=lambda each: each.ratio)
    bests = [each.best for each in own]
    usual = max(set(bests), key=bests.count)
    odd = [each for each in own if each.broken or each.best != usual]
    chosen = [
        *ranked[:_ENDS],
        *ranked[-_ENDS:],
        *odd[: MOST - 2 * _ENDS],
    ]
    return [each for each in own if each in chosen]


def _row(each: HostEffect) -> tuple[str, ...]:
    return (
        visible(each.workload),
        visible(each.host),
        _blocks(each),
        format_change(each.ratio) if math.isfinite(each.ratio) else "–",
        _best(each),
    )


def _blocks(each: HostEffect) -> str:
    whole = folded([str(number) for number in each.blocks]).strip("[]")
    broken = folded([str(number) for number in each.broken]).strip("[]")
    return ", ".join(filter(None, [whole, f"incomplete: {broken}" if broken else ""]))


def _best(each: HostEffect) -> str:
    if each.best is None:
        return "–"
    return f"{visible(treatment_text(each.best))} ({format_change(each.lead)} ahead)"


def _other_blocks(workload: str, rest: Sequence[HostEffect]) -> tuple[str, ...]:
    ratios = [each.ratio for each in rest if math.isfinite(each.ratio)]
    between = f"{format_change(min(ratios))} to {format_change(max(ratios))}" if ratios else ""
    many = sum(len(each.blocks) + len(each.broken) for each in rest)
    bests = dict.fromkeys(treatment_text(each.best) for each in rest if each.best)
    best = visible(", ".join(bests)) if len(bests) <= _ENDS else f"{len(bests)} treatments"
    return visible(workload), f"{len(rest)} others", f"{many} in all", between, best


def block_data(effects: Sequence[HostEffect]) -> dict[str, Any]:
    """For the JSON document: all of them; nothing where blocks are not spread over hosts."""
    if not effects:
        return {}
    return {
        "block_hosts": [
            {
                "workload": each.workload,
                "metric": each.metric,
                "host": each.host,
                "blocks": list(each.blocks),
                "not_whole": list(each.broken),
                "ratio": each.ratio if math.isfinite(each.ratio) else None,
                "best": dict(each.best) if each.best is not None else None,
            }
            for each in effects
        ]
    }


def of_blocks(effects: Sequence[HostEffect]) -> Iterator[Block]:
    """Where each block ran."""
    if effects:
        yield Heading(BLOCK_TITLE, id="block-hosts")
        yield plain(BLOCK_HEAD, block_rows(effects), BLOCK_TITLE)
