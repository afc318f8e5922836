"""panasas: a staged sweep of mount options whose speeds are not known as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pictures import picture, ranges
from source import settings


def panasas() -> Iterator[tuple[str, Any]]:
    told = settings("panasas")
    yield "told", told
    for operation, way in (("write", "out"), ("read", "back")):
        gigabits = float(told["link"][way].removesuffix(" Gbit/s"))
        yield operation, f"{gigabits * 125:.0f}"
    stages = [s for s in told["stages"] if s["vary"].startswith("iscsi-sock")]
    rows = [_stage(stage) for stage in stages]
    now = [
        (row[0], told["parameters"][stage["vary"]]["current"] / 1024)
        for row, stage in zip(rows, stages, strict=True)
    ]
    chart = picture(
        "panasas-stages",
        "The stages of the sweep, and what was chosen",
        "Sizes of reads and writes in KiB, swept stage by stage on two machines; read sizes narrow "
        "to 88 and 56 KiB, write sizes stay at 64; the read size in force before, 16 KiB, lies "
        "outside every range",
        ranges(rows, "KiB", now),
    )
    yield "pictures", {"stages": chart}


def _stage(stage: Mapping[str, Any]) -> tuple[str, float, float, float | None]:
    low, high, chosen = (each and each / 1024 for each in (*stage["range"], stage.get("chosen")))
    called = f"{stage['machine']} {stage['name']}: {stage['vary'][-5:]}, {stage['file']} file"
    return called, low, high, chosen
