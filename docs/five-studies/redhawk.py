"""redhawk: schedulers, queue depth and kernel settings under IOzone."""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from pictures import Dot, Picture, dots, effects, picture
from source import DATA, Study, settings

from iotrial.model.finding import Finding
from iotrial.model.trial import TrialRecord
from iotrial.stats.pairs import ALL

VOLUMES = {"emc-lvm-8": "8 volumes", "emc-lvm-12": "12 volumes"}
SESSIONS = {
    "depth 30": {"queue_depth": "30"},
    "depth 256": {"queue_depth": "256", "os_tuned": "false"},
    "depth 256, tuned": {"queue_depth": "256", "os_tuned": "true"},
}
STORAGE = {**VOLUMES, "netapp920-san-12": "LUN", "nas-920": "NAS"}
OTHERS = ("deadline", "noop", "anticipatory")
CLOSE = 0.01


def redhawk(study: Study) -> Iterator[tuple[str, Any]]:
    rows = list(_redhawk_effects(study))
    yield "effects", rows
    yield "pictures", _redhawk_pictures(study, rows)
    yield "leads", [_leads(study, storage) for storage in STORAGE]
    yield "noise", list(_noise(study))
    yield "cached", [_cached(study, storage) for storage in STORAGE]
    tuned = study.only(storage="netapp920-san-12")
    calm = tuned.only(lambda treatment: treatment["scheduler"] != "anticipatory")
    wanted = {"workload": ALL, "factor": "os_tuned"}
    yield "tuned", (tuned.find(**wanted), calm.find(**wanted))
    lines_of = [_line(DATA / "redhawk.csv", m["source"]) for m in _conflict(study)]
    yield "conflict", sorted(int(row["value_kib_s"]) for row in lines_of)
    yield "settings", settings("redhawk")
    yield "sample", _sample(study)
    nas = _cells(study.only(storage="nas-920"), "os_tuned").values()
    told = [values for values in nas if len(values) > 1]
    yield "same", sum(len(set(values.values())) == 1 for values in told)


def _sample(study: Study) -> dict[str, Any]:
    """Some cells as imported, in MiB/s: by operation and record size, one column a scheduler."""
    levels = {"storage": "emc-lvm-12", **SESSIONS["depth 256"], "threads": "8"}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for (workload, treatment), values in _cells(study.only(**levels), "scheduler").items():
        said = {name: f"{value / 2**20:.1f}" for (name,), value in values.items()}
        rows[workload.replace("_", " "), dict(treatment)["record_kib"]] = said
    schedulers = ("cfq", *OTHERS)
    wanted = ("read", "random read", "write", "random write")
    shown = [row for row in rows if row[0] in wanted]
    shown.sort(key=lambda row: (wanted.index(row[0]), int(row[1])))
    return {
        "depth": levels["queue_depth"],
        "schedulers": schedulers,
        "rows": [(row, [rows[row][name] for name in schedulers]) for row in shown],
    }


def _redhawk_effects(study: Study) -> Iterator[tuple[str, Finding]]:
    for storage, called in VOLUMES.items():
        found = study.only(storage=storage).find(workload=ALL, factor="queue_depth")
        yield f"depth 256 for 30, {called}", found
    found = study.only(storage="emc-lvm-12").find(workload=ALL, factor="os_tuned")
    yield "kernel tuned, 12 volumes", found
    volumes = study.only(lambda treatment: treatment["storage"] in VOLUMES)
    for level in ("deadline", "noop"):
        yield (
            f"{level} for cfq, all volumes",
            volumes.find(workload=ALL, factor="scheduler", level=level),
        )
    for storage, called in VOLUMES.items():
        found = study.only(storage=storage).find(
            workload="random_read", factor="scheduler", level="anticipatory"
        )
        yield f"anticipatory, random reads, {called}", found
    for name, levels in SESSIONS.items():
        found = study.only(storage="netapp920-san-12", **levels).find(
            workload="read", factor="scheduler", level="anticipatory"
        )
        yield f"anticipatory, reads, LUN, {name}", found
    yield (
        "12 volumes for 8, random writes",
        study.find(workload="random_write", factor="storage", level="emc-lvm-12"),
    )


def _redhawk_pictures(study: Study, rows: Sequence[tuple[str, Finding]]) -> dict[str, Picture]:
    small = [finding for _, finding in rows if abs(math.log(finding.ratio)) < CLOSE]
    spec = effects(rows, study.results.study.decide.margin)
    matter = picture(
        "redhawk-effects",
        "What was tuned, and what mattered",
        f"Change in throughput in %, with an interval where there are several sessions: "
        f"{len(small)} comparisons of queue depth, kernel settings and schedulers lie within 1 %; "
        "the anticipatory scheduler and the layout of the volumes change tens of percent",
        spec,
    )
    table = []
    for name, levels in SESSIONS.items():
        chosen = study.only(storage="netapp920-san-12", threads="8", **levels).results.records
        table += [
            Dot(f"{name}, {treatment['record_kib']} KiB", treatment["scheduler"], _value(r) / 2**20)
            for r in chosen
            if r.trial.workload == "read" and (treatment := dict(r.trial.treatment))
        ]
    order = {name: place for place, name in enumerate(SESSIONS)}
    table.sort(key=lambda dot: (order[dot.row.rpartition(",")[0]], len(dot.row), dot.row))
    slump = picture(
        "redhawk-lun",
        "Sequential reads of the LUN, by session and record size",
        "MiB/s of 8 processes: in the sessions at depth 30, and at depth 256 with a tuned kernel, "
        "anticipatory reads a fifth to a third of what the others do; in the session at depth 256 "
        "with a stock kernel it does not",
        dots(table, "MiB/s", zero=True),
    )
    return {"effects": matter, "lun": slump}


def _value(record: TrialRecord) -> float:
    return record.measurements[0].value


def _cells(study: Study, *apart: str) -> dict[object, dict[tuple[str, ...], float]]:
    """Cells alike but for some factors: by what they share, the values by those factors."""
    found: dict[object, dict[tuple[str, ...], float]] = defaultdict(dict)
    for record in study.results.valid:
        treatment = dict(record.trial.treatment)
        own = tuple(treatment.pop(name, "") for name in apart)
        found[record.trial.workload, tuple(treatment.items())][own] = _value(record)
    return found


def _leads(study: Study, storage: str) -> dict[str, Any]:
    """Where all four schedulers were run: by how much the best leads, and how often it is the
    best in another session too."""
    cells = _cells(study.only(storage=storage), "scheduler")
    of_four = [cell for cell in cells.items() if len(cell[1]) == len(OTHERS) + 1]
    leads = []
    winners: dict[object, dict[object, str]] = defaultdict(dict)
    for (workload, treatment), values in of_four:
        best, second = sorted(values, key=values.__getitem__, reverse=True)[:2]
        leads.append(values[best] / values[second] - 1)
        rest = dict(treatment)
        session = (rest.pop("queue_depth", ""), rest.pop("os_tuned", ""))
        winners[workload, tuple(rest.items())][session] = best[0]
    pairs = [pair for cell in winners.values() for pair in combinations(cell.values(), 2)]
    return {
        "storage": STORAGE[storage],
        "groups": len(leads),
        "lead": median(leads),
        "close": sum(lead < CLOSE for lead in leads),
        "pairs": len(pairs),
        "again": sum(one == other for one, other in pairs),
        "chance": _chance(winners),
    }


def _chance(winners: Mapping[object, Mapping[object, str]]) -> float:
    """How often two sessions would agree if each drew its winners by lot, as often as they won."""
    sessions = list(dict.fromkeys(session for cell in winners.values() for session in cell))
    expected = 0.0
    for one, other in combinations(sessions, 2):
        both = [(cell[one], cell[other]) for cell in winners.values() if {one, other} <= {*cell}]
        first, second = (Counter(side) for side in zip(*both, strict=True)) if both else ({}, {})
        expected += sum(first[name] * second[name] for name in first) / max(1, len(both))
    return expected


def _noise(study: Study) -> Iterator[tuple[str, int, float, float]]:
    """How far cells alike but for depth and kernel settings differ: more than the noise does."""
    for storage, called in STORAGE.items():
        pairs = [
            abs(math.log(one / other))
            for cell in _cells(study.only(storage=storage), "queue_depth", "os_tuned").values()
            for one, other in combinations(cell.values(), 2)
        ]
        if any(pairs):
            ordered = sorted(pairs)
            yield called, len(pairs), median(pairs), ordered[int(0.9 * len(ordered))]


def _cached(study: Study, storage: str) -> tuple[str, int, float]:
    """Random reads against sequential ones: pairs, and the median of the ratio."""
    by_workload: dict[object, dict[str, float]] = defaultdict(dict)
    for record in study.only(storage=storage).results.valid:
        by_workload[record.trial.treatment][record.trial.workload] = _value(record)
    ratios = [
        cell["random_read"] / cell["read"]
        for cell in by_workload.values()
        if {"read", "random_read"} <= cell.keys()
    ]
    return STORAGE[storage], len(ratios), median(ratios)


def _conflict(study: Study) -> list[Mapping[str, Any]]:
    (doubt,) = study.doubts("conflict")
    names = doubt["what"].partition(": ")[2].split(", ")
    return [m for m in study.document["measurements"] if Path(m["source"]).name in names]


def _line(file: Path, source: str) -> dict[str, str]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))[int(source.rpartition(":")[2]) - 2]
