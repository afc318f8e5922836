"""What each host, link, adapter, device and path bore under the loads of a trial: from what was
sampled meanwhile, kept as ``strain.json`` in the trial's folder.  What it means is decided when it
is read (:mod:`iotrial.stats.scaling`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from iotrial.execute.load.part import TrialPart, by_host
from iotrial.formats.strain import Hung, Told, between, limits, strains
from iotrial.model.results import Strain
from iotrial.model.tool import Parsed
from iotrial.plan.placement import nics, ways
from iotrial.trial_files import STRAIN, STRAIN_FORMAT
from iotrial.validity.written import TELEMETRY


def strained(came: Sequence[tuple[TrialPart, Parsed]]) -> tuple[Strain, ...]:
    """Everything of every host that took part."""
    parsed = {id(part): told for part, told in came}
    found: list[Strain] = []
    for host, parts in by_host([part for part, _ in came]).items():
        told = [each for part in parts if (each := _told(part, parsed[id(part)]))]
        found += strains(host, told)
    return tuple(found)


def keep(folder: Path, found: Sequence[Strain]) -> None:
    """Write it down; nothing where there is nothing."""
    if found:
        rows = [each.as_dict() for each in found]
        text = json.dumps({"format": STRAIN_FORMAT, "strains": rows}, separators=(",", ":"))
        (folder / STRAIN).write_text(text + "\n", encoding="utf-8")


def _told(part: TrialPart, parsed: Parsed) -> Told | None:
    path = part.folder / TELEMETRY
    data = path.read_bytes() if path.is_file() else b""
    span = between(data, part.measured(parsed), part.ended.seconds)
    if span is None:
        return None
    known = ways(part.topology)
    return Told(
        part=part.name,
        device=part.aim.device,
        first=span[0],
        last=span[1],
        ways={way.disk: Hung(way.hub, way.speed) for way in known},
        limits=limits(data, {way.disk: way.queues for way in known}),
        nics=nics(part.topology),
    )
