"""Strains: where the load of a study on several parts, or over several paths, went: the share of
each CPU, link, adapter, device and path, at the treatment that loaded most parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iotrial.model.results import Results
from iotrial.model.strain import Strain
from iotrial.model.trial import Treatment, TrialRecord, treatment_text
from iotrial.report.scaling import borne
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
_ORDER = tuple(_NAMES)
_UNSHARED = ("cpu", "core")


@dataclass(frozen=True, slots=True)
class Borne:
    """What everything bore under one workload at one treatment; ``shares`` maps a place in
    ``strains`` to its share of its peers' I/O and what an even one would be."""

    workload: str
    treatment: str
    strains: tuple[Strain, ...]
    shares: Mapping[int, tuple[float, float]]


def where(results: Results) -> tuple[Borne, ...]:
    """One a workload; none where there is one part and nothing below it has several."""
    found = []
    for workload in results.study.workloads:
        mine = [r for r in results.valid if r.trial.workload == workload.name]
        groups: dict[Treatment, list[TrialRecord]] = {}
        for record in mine:
            groups.setdefault(record.trial.treatment, []).append(record)
        if not groups:
            continue
        widest = max(groups, key=lambda each: len(groups[each][0].parts))
        strains = borne(results, groups[widest])
        if len({each.of for each in strains if each.kind == "device"}) < 2 and not any(  # noqa: PLR2004
            each.kind in ("path", "nic") for each in strains
        ):
            continue
        ordered = tuple(sorted(strains, key=lambda each: _ORDER.index(each.kind)))
        hosts = list(dict.fromkeys(each.host for each in strains))
        ordered = tuple(sorted(ordered, key=lambda each: hosts.index(each.host)))
        found.append(
            Borne(
                visible(workload.name),
                visible(treatment_text(widest)),
                ordered,
                shares(ordered),
            )
        )
    return tuple(found)


def shares(strains: Sequence[Strain]) -> dict[int, tuple[float, float]]:
    """Of devices among all devices of all hosts, of paths among those of their device, of adapters
    and interfaces among those of their host."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, each in enumerate(strains):
        if each.kind in _UNSHARED:
            continue
        host = "" if each.kind == "device" else each.host
        groups.setdefault((each.kind, host, each.of if each.kind == "path" else ""), []).append(
            place
        )
    found = {}
    for places in groups.values():
        total = sum(map(_load, (strains[place] for place in places)))
        if len(places) > 1 and total > 0:
            for place in places:
                found[place] = _load(strains[place]) / total, 1 / len(places)
    return found


def _load(each: Strain) -> float:
    return each.came + each.went if each.kind == "nic" else each.ios


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
            "workload": borne.workload,
            "treatment": borne.treatment,
            "strains": [
                each.as_dict()
                | dict(zip(("share", "even"), borne.shares.get(place, ()), strict=False))
                for place, each in enumerate(borne.strains)
            ],
        }
        for borne in found
    ]
