"""Scaling and utilisation in words and as data: the steps of a factor that counts and what was
seen at each; what each CPU, link, adapter, device and path bore.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.judgement.parts import WorkloadFindings
from iotrial.judgement.utilisation import ScalingLevel, Utilisation
from iotrial.model.results import ResourceUsage
from iotrial.report.blocks import Block, Heading, Text, plain
from iotrial.report.words import visible
from iotrial.units import format_bytes, format_seconds, format_value

HEAD = ("step", "efficiency (interval)", "seen then")
NOTE = "What was seen is an observation, no proof: what nobody samples may be the limit."


def cells(step: ScalingLevel) -> tuple[str, ...]:
    """One line of the table."""
    scale = step.efficiency
    told = "baseline"
    if scale:
        told = f"{scale.efficiency:.3f}"
        if scale.low is not None and scale.high is not None:
            told += f" ({scale.low:.3f} … {scale.high:.3f})"
    if step.bends:
        told += ": it bends here"
    seen = "; ".join(visible(each.said) for each in step.seen)
    return visible(f"{step.factor}={step.level}"), told, seen or "–"


def as_data(found: Sequence[ScalingLevel]) -> list[dict[str, Any]]:
    """For the JSON document."""
    return [
        {
            "workload": visible(step.workload),
            "factor": visible(step.factor),
            "level": visible(step.level),
            "efficiency": step.efficiency.efficiency if step.efficiency else None,
            "low": step.efficiency.low if step.efficiency else None,
            "high": step.efficiency.high if step.efficiency else None,
            "bends": step.bends,
            "seen": [each.as_dict() for each in step.seen],
        }
        for step in found
    ]


def blocks(part: WorkloadFindings) -> Iterator[Block]:
    """Each step of a factor that counts, and what was seen then."""
    if part.scaling:
        yield Heading("How it scales", 3)
        yield plain(HEAD, map(cells, part.scaling), f"Scaling of {part.workload}")
        yield Text(NOTE, "note")


# -- utilisation ----------------------------------------------------------------------------------

BORNE_HEAD = ("host", "what", "share (even)", "I/O a second", "an I/O took", "busy", "in flight")
MOST_BORNE = 40
"""Lines of the table; all of them are in the JSON document."""
_NAMES = {
    "cpu": "CPU",
    "core": "busiest CPU",
    "nic": "interface",
    "adapter": "adapter",
    "device": "device",
    "path": "path",
}


def borne_rows(borne: Utilisation) -> list[tuple[str, ...]]:
    """The lines of the table, at most :data:`MOST_BORNE`."""
    return [_borne_row(borne, place, each) for place, each in enumerate(borne.strains[:MOST_BORNE])]


def borne_more(borne: Utilisation) -> str:
    """What the table leaves out, in words; '' nothing."""
    left = len(borne.strains) - MOST_BORNE
    return f"{left:,} more: `iotrial compare --json`." if left > 0 else ""


def _borne_row(borne: Utilisation, place: int, each: ResourceUsage) -> tuple[str, ...]:
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


def borne_data(found: Sequence[Utilisation]) -> list[dict[str, Any]]:
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


def borne_tables(every: Sequence[Utilisation]) -> Iterator[Block]:
    """A table for each workload."""
    for each in every:
        load = visible(each.workload)
        yield Heading(f"Where the load went: {load}")
        yield Text(visible(each.treatment), "note")
        yield plain(BORNE_HEAD, borne_rows(each), f"Where the load of {load} went")
        if left := borne_more(each):
            yield Text(left, "note")
