"""Utilisation in words and as data: what each CPU, link, adapter, device and path bore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.judgement.utilisation import Borne
from iotrial.model.results import Strain
from iotrial.report.blocks import Block, Heading, Text, plain
from iotrial.report.visible import visible
from iotrial.units import format_bytes, format_seconds, format_value

HEAD = ("host", "what", "share (even)", "I/O a second", "an I/O took", "busy", "in flight")
MOST = 40
"""Lines of the table; all of them are in the JSON document."""
_NAMES = {
    "cpu": "CPU",
    "core": "busiest CPU",
    "nic": "interface",
    "adapter": "adapter",
    "device": "device",
    "path": "path",
}


def rows(borne: Borne) -> list[tuple[str, ...]]:
    """The lines of the table, at most :data:`MOST`."""
    return [_cells(borne, place, each) for place, each in enumerate(borne.strains[:MOST])]


def more(borne: Borne) -> str:
    """What the table leaves out, in words; '' nothing."""
    left = len(borne.strains) - MOST
    return f"{left:,} more: `iotrial compare --json`." if left > 0 else ""


def _cells(borne: Borne, place: int, each: Strain) -> tuple[str, ...]:
    part = borne.shares.get(place)
    own = each.of.partition("/")[2]
    name = _NAMES[each.kind] + ("" if each.kind == "cpu" else f" {each.name}")
    done = format_value(each.ios, "1/s") if each.ios else ""
    if each.kind == "nic":
        done = f"{format_bytes(each.came)}/s in, {format_bytes(each.went)}/s out"
    flight = f"{each.depth:.1f}" + (f" of {each.limit}" if each.limit else "") if each.depth else ""
    return tuple(
        visible(cell) or "–"
        for cell in (
            each.host,
            f"{name} ({own})" if own else name,
            f"{part[0]:.0%} ({part[1]:.0%})" if part else "",
            done,
            format_seconds(each.latency) if each.latency else "",
            "" if each.busy is None else f"{each.busy:.0%}",
            flight,
        )
    )


def as_data(found: Sequence[Borne]) -> list[dict[str, Any]]:
    """For the JSON document, every line of it."""
    return [
        {
            "workload": visible(borne.workload),
            "treatment": visible(borne.treatment),
            "strains": [
                each.as_dict()
                | dict(zip(("share", "even"), borne.shares.get(place, ()), strict=False))
                for place, each in enumerate(borne.strains)
            ],
        }
        for borne in found
    ]


def blocks(every: Sequence[Borne]) -> Iterator[Block]:
    """A table for each workload."""
    for each in every:
        load = visible(each.workload)
        yield Heading(f"Where the load went: {load}")
        yield Text(visible(each.treatment), "note")
        yield plain(HEAD, rows(each), f"Where the load of {load} went")
        if left := more(each):
            yield Text(left, "note")
