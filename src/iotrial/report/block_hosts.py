"""Which blocks ran on which host, and what the hosts differ by: where blocks are spread over
hosts (:mod:`iotrial.stats.host_effects`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.model.hostlist import folded
from iotrial.model.trial import treatment_text
from iotrial.report.blocks import Block, Heading, plain
from iotrial.report.visible import visible
from iotrial.stats.host_effects import HostEffect
from iotrial.units import format_change

TITLE = "Blocks on hosts"
HEAD = ("workload", "host", "blocks", "against the mean of the hosts", "best there")
MOST = 16
"""Hosts of a workload with a line each; of more, those with the lowest and the highest mean, those
whose blocks are not whole, and those where something is best that is best on few."""
_ENDS = 4


def cells(effects: Sequence[HostEffect]) -> list[tuple[str, ...]]:
    """The lines of the table."""
    found: list[tuple[str, ...]] = []
    for name in dict.fromkeys(each.workload for each in effects):
        own = [each for each in effects if each.workload == name]
        shown = own if len(own) <= MOST else _telling(own)
        found += [_row(each) for each in shown]
        if len(shown) < len(own):
            found.append(_others(name, [each for each in own if each not in shown]))
    return found


def _telling(own: list[HostEffect]) -> list[HostEffect]:
    ranked = sorted((e for e in own if math.isfinite(e.ratio)), key=lambda each: each.ratio)
    bests = [each.best for each in own]
    usual = max(set(bests), key=bests.count)
    odd = [each for each in own if each.broken or each.best != usual]
    chosen = [*ranked[:_ENDS], *ranked[-_ENDS:], *odd[: MOST - 2 * _ENDS]]
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
    return ", ".join(filter(None, [whole, f"not whole: {broken}" if broken else ""]))


def _best(each: HostEffect) -> str:
    if each.best is None:
        return "–"
    return f"{visible(treatment_text(each.best))} ({format_change(each.lead)} ahead)"


def _others(workload: str, rest: Sequence[HostEffect]) -> tuple[str, ...]:
    ratios = [each.ratio for each in rest if math.isfinite(each.ratio)]
    between = f"{format_change(min(ratios))} to {format_change(max(ratios))}" if ratios else ""
    blocks = sum(len(each.blocks) + len(each.broken) for each in rest)
    bests = dict.fromkeys(treatment_text(each.best) for each in rest if each.best)
    best = visible(", ".join(bests)) if len(bests) <= _ENDS else f"{len(bests)} treatments"
    return visible(workload), f"{len(rest)} others", f"{blocks} in all", between, best


def as_data(effects: Sequence[HostEffect]) -> dict[str, Any]:
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


def blocks(effects: Sequence[HostEffect]) -> Iterator[Block]:
    """Where each block ran."""
    if effects:
        yield Heading(TITLE, id="block-hosts")
        yield plain(HEAD, cells(effects), TITLE)
