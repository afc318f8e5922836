"""What each host, link, adapter, device and path bore under the loads of a trial: from what was
sampled meanwhile, kept as ``strain.json`` in the trial's folder.  What it means is decided when it
is read (:mod:`iotrial.stats.causes`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from iotrial.execute.load.part import Post, by_host
from iotrial.formats.strain import Hung, Told, between, limits, strains
from iotrial.model.strain import Strain
from iotrial.model.tool import Parsed
from iotrial.plan.placement import nics, ways
from iotrial.trial_files import STRAIN, STRAIN_FORMAT
from iotrial.validity.written import TELEMETRY


def strained(came: Sequence[tuple[Post, Parsed]]) -> tuple[Strain, ...]:
    """Everything of every host that took part."""
    parsed = {id(post): told for post, told in came}
    found: list[Strain] = []
    for host, posts in by_host([post for post, _ in came]).items():
        told = [each for post in posts if (each := _told(post, parsed[id(post)]))]
        found += strains(host, told)
    return tuple(found)


def keep(folder: Path, found: Sequence[Strain]) -> None:
    """Write it down; nothing where there is nothing."""
    if found:
        rows = [each.as_dict() for each in found]
        text = json.dumps({"format": STRAIN_FORMAT, "strains": rows}, separators=(",", ":"))
        (folder / STRAIN).write_text(text + "\n", encoding="utf-8")


def _told(post: Post, parsed: Parsed) -> Told | None:
    path = post.folder / TELEMETRY
    data = path.read_bytes() if path.is_file() else b""
    span = between(data, post.measured(parsed), post.ended.seconds)
    if span is None:
        return None
    known = ways(post.topology)
    return Told(
        part=post.name,
        device=post.aim.device,
        first=span[0],
        last=span[1],
        ways={way.disk: Hung(way.hub, way.speed) for way in known},
        limits=limits(data, {way.disk: way.queues for way in known}),
        nics=nics(post.topology),
    )
