"""Utilisation: where the load of a study on several parts, or over several paths, went: the share
of each CPU, link, adapter, device and path, at the treatment that loaded most parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iotrial.judgement.scaling import borne
from iotrial.model.results import Results
from iotrial.model.strain import Strain
from iotrial.model.trial import Treatment, TrialRecord, treatment_text

_ORDER = ("cpu", "core", "nic", "adapter", "device", "path")
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
                workload.name,
                treatment_text(widest),
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
