"""Scaling and utilisation in words and as data: the steps of a factor that counts and what was
seen at each; what each CPU, link, adapter, device and path bore.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from iotrial.judgement.parts import WorkloadFindings
from iotrial.judgement.utilisation import ScalingLevel, TreatmentUsage, Utilisation
from iotrial.model.results import ResourceUsage
from iotrial.model.trial import Treatment, treatment_text
from iotrial.report.blocks import Block, Heading, Text, plain
from iotrial.report.evidence import among
from iotrial.report.words import visible
from iotrial.units import format_bytes, format_seconds, format_value

HEAD = ("step", "efficiency (interval)", "observed")
NOTE = "Observations are no proof: a resource that iotrial does not sample may be the limit."


def cells(step: ScalingLevel) -> tuple[str, ...]:
    """One line of the table."""
    scale = step.efficiency
    told = "baseline"
    if scale:
        told = f"{scale.efficiency:.3f}"
        if scale.low is not None and scale.high is not None:
            told += f" ({scale.low:.3f} … {scale.high:.3f})"
    if step.bends:
        told += ": knee"
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
        yield Heading("Scaling", 3)
        yield plain(HEAD, map(cells, part.scaling), f"Scaling of {part.workload}")
        yield Text(NOTE, "note")


# -- utilisation ----------------------------------------------------------------------------------

BORNE_HEAD = ("host", "what", "share (even)", "I/O rate", "latency", "busy", "in flight")
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


MOST_HOSTS = 4
"""Hosts up to which each has its own lines; of more, what is of one kind is one line."""


def borne_rows(borne: Utilisation) -> list[tuple[str, ...]]:
    """The lines of the table, at most :data:`MOST_BORNE`."""
    return _every_row(borne)[:MOST_BORNE]


def borne_more(borne: Utilisation) -> str:
    """What the table leaves out, in words; '' nothing."""
    left = len(_every_row(borne)) - MOST_BORNE
    return f"{left:,} more: `iotrial compare --json`." if left > 0 else ""


def _every_row(borne: Utilisation) -> list[tuple[str, ...]]:
    hosts = dict.fromkeys(each.host for each in borne.strains)
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, each in enumerate(borne.strains):
        own = "" if len(hosts) > MOST_HOSTS else each.host
        alike[own, _what(each, several=not own)].append(place)
    return [_borne_row(borne, what, places) for (_, what), places in alike.items()]


def _what(each: ResourceUsage, *, several: bool) -> str:
    """``device sda (disk)``; of several hosts, whose busiest CPUs differ, ``busiest CPU``."""
    own = each.of.partition("/")[2]
    bare = each.kind == "cpu" or (several and each.kind == "core")
    name = _NAMES[each.kind] + ("" if bare else f" {each.name}")
    return f"{name} ({own})" if own else name


def _borne_row(borne: Utilisation, what: str, places: Sequence[int]) -> tuple[str, ...]:
    """One line, of all strains at ``places``: a number that differs between them is a range."""
    every = {each.host for each in borne.strains}
    those = [borne.strains[place] for place in places]
    shares = [borne.shares[place] for place in places if place in borne.shares]
    evens = {part[1] for part in shares}
    share = _range([part[0] for part in shares], "{:.0%}".format)
    even = f" ({evens.pop():.0%})" if len(evens) == 1 else ""
    done = _range(
        [each.ios for each in those if each.ios], lambda value: format_value(value, "IOPS")
    )
    if those[0].kind == "nic":
        came, went = (
            _range([getattr(each, way) for each in those], lambda value: f"{format_bytes(value)}/s")
            for way in ("came", "went")
        )
        done = f"{came} in, {went} out"
    limits = {each.limit for each in those if each.depth}
    limit = f" of {most}" if len(limits) == 1 and (most := limits.pop()) else ""
    flight = _range([each.depth for each in those if each.depth], "{:.1f}".format)
    return tuple(
        visible(cell) or "–"
        for cell in (
            among(list(dict.fromkeys(each.host for each in those)), every),
            what,
            share and share + even,
            done,
            _range([each.latency for each in those if each.latency], format_seconds),
            _range([each.busy for each in those if each.busy is not None], "{:.0%}".format),
            flight and flight + limit,
        )
    )


def _range(values: Sequence[float], said: Callable[[float], str]) -> str:
    """``4.1 ms``, or ``4.1 ms to 9.0 ms``; '' of nothing."""
    return " to ".join(dict.fromkeys(said(end(values)) for end in (min, max) if values))


USAGE = "Utilisation"
_USAGE_HEAD = (
    "treatment", "busy", "in flight", "latency", "CPU", "iowait", "load", "busiest CPU",
)  # fmt: skip
USAGE_NOTE = (
    "Medians over the trials. Busy, in flight, latency: of the device, as the kernel counts its"
    " requests. Load: tasks that ran or waited for I/O."
)


def usage_rows(found: Sequence[TreatmentUsage]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and lines of one workload's table; a column that nobody knows is left out."""

    def share(value: float | None) -> str:
        return "–" if value is None else f"{value:.0%}"

    def plain_number(value: float | None) -> str:
        return "–" if value is None else f"{value:.1f}"

    rows = [
        (
            _treatment(each.treatment),
            share(each.device),
            plain_number(each.depth),
            "–" if each.latency is None else format_seconds(each.latency),
            share(each.cpu),
            share(each.iowait),
            plain_number(each.load),
            share(each.core),
        )
        for each in found
    ]
    known = [at for at in range(len(_USAGE_HEAD)) if any(row[at] != "–" for row in rows) or not at]
    head, *cut = ([row[at] for at in known] for row in (_USAGE_HEAD, *rows))
    return tuple(head), [tuple(row) for row in cut]


def _treatment(treatment: Treatment) -> str:
    """``bfq``; of several factors ``scheduler=bfq depth=8``."""
    return visible(treatment[0][1] if len(treatment) == 1 else treatment_text(treatment))


def usage_blocks(found: Sequence[TreatmentUsage]) -> Iterator[Block]:
    """The table of one workload."""
    if found:
        head, rows = usage_rows(found)
        yield Heading(USAGE, 3)
        yield plain(head, rows, f"{USAGE} of {visible(found[0].workload)}")
        yield Text(USAGE_NOTE, "note")


def usage_data(found: Sequence[TreatmentUsage]) -> list[dict[str, Any]]:
    """For the JSON document."""
    return [
        {name: value for name, value in asdict(each).items() if value is not None}
        | {"workload": visible(each.workload), "treatment": dict(each.treatment)}
        for each in found
    ]


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
        yield Heading(f"Load distribution: {load}")
        yield Text(visible(each.treatment), "note")
        yield plain(BORNE_HEAD, borne_rows(each), f"Load distribution of {load}")
        if left := borne_more(each):
            yield Text(left, "note")
