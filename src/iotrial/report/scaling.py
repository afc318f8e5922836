"""Scaling in words and as data: the steps of a factor that counts, and what was seen at each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iotrial.judgement.parts import Part
from iotrial.judgement.utilisation import Step
from iotrial.report.blocks import Block, Heading, Text, plain
from iotrial.report.visible import visible

HEAD = ("step", "efficiency (interval)", "seen then")
NOTE = "What was seen is an observation, no proof: what nobody samples may be the limit."


def cells(step: Step) -> tuple[str, ...]:
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


def as_data(found: Sequence[Step]) -> list[dict[str, Any]]:
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


def blocks(part: Part) -> Iterator[Block]:
    """Each step of a factor that counts, and what was seen then."""
    if part.scaling:
        yield Heading("How it scales", 3)
        yield plain(HEAD, map(cells, part.scaling), f"Scaling of {part.workload}")
        yield Text(NOTE, "note")
