"""bonnie: four schedulers of a file server, one run each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pictures import Dot, dots, picture
from source import Study

from iotrial.model.finding import Finding
from iotrial.model.measurement import Measurement, split
from iotrial.report import words
from iotrial.units import format_value

MEASURES = {
    "putc": "write, by character", "write": "write, by block", "rewrite": "rewrite",
    "getc": "read, by character", "read": "read, by block", "seek": "random seeks",
    "create.seq": "create, in order", "stat.seq": "stat, in order",
    "delete.seq": "delete, in order", "create.random": "create, at random",
    "stat.random": "stat, at random", "delete.random": "delete, at random",
}  # fmt: skip


def bonnie(study: Study) -> Iterator[tuple[str, Any]]:
    found = [f for f in study.findings if f.primary and f.factor == "scheduler"]
    levels = list(dict.fromkeys(f.level for f in found))
    counts = {level: Counter(_side(f) for f in found if f.level == level) for level in levels}
    yield "levels", levels
    yield "counts", counts
    by = {(f.metric.rpartition(".")[0], f.level): f for f in found}
    base = {m.metric: m for m in study.results.records[0].measurements}
    yield (
        "rows",
        [
            (title, _said(base, name), [by[name, level] for level in levels])
            for name, title in MEASURES.items()
        ],
    )
    rates = [m for m in study.document["measurements"] if not m["metric"].endswith(".cpu")]
    yield "censored", (sum(bool(m["censored"]) for m in rates), len(rates))
    signs = {"": "", "high": ">", "low": "<"}
    table = [
        Dot(title, level, (by[operation, level].ratio - 1) * 100, signs[by[operation, level].bound])
        for operation, title in MEASURES.items()
        for level in levels
        if not math.isnan(by[operation, level].ratio)
    ]
    seeks = by["seek", "anticipatory"]
    chart = picture(
        "bonnie",
        "Each scheduler against cfq, one run each",
        "Change in % of the measures of bonnie++; most points lie between −20 and +3 %, seeks "
        f"under anticipatory at {words.bare(seeks.ratio)} %; hollow points with an arrow are "
        "bounds",
        dots(table, "change against cfq in %", band=(-2, 2)),
    )
    yield "pictures", {"change": chart}


def _said(base: Mapping[str, Measurement], operation: str) -> str:
    """The measure of an operation, for people; a bound with its sign."""
    rates = ((operation, "bw"), (operation, "rate"))
    own = next(m for name, m in base.items() if split(name) in rates)
    return "> " * bool(own.censored) + format_value(own.value, own.unit)


def _side(finding: Finding) -> str:
    """What the one ratio says: win, loss, or nothing."""
    if math.isnan(finding.ratio):
        return "undecided"
    above = finding.ratio > 1
    if finding.bound and above != (finding.bound == "high"):
        return "undecided"
    return "win" if above else "loss"
