"""clustermd: a clustered RAID1 against a local one, over a gigabit link."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from typing import Any

from pictures import Dot, Picture, dots, picture
from source import DATA, Study

from iotrial.model.finding import Finding
from iotrial.stats.pairs import ALL
from iotrial.units import format_seconds

OPERATIONS = {
    "read": "sequential read",
    "write": "sequential write",
    "randread": "random read",
    "randwrite": "random write",
}
DD = {"read": "read", "write": "write", "rdwr": "read, and written to another disk"}
TAILS = ("p50", "p99", "p99.5", "p99.9", "p99.95", "p99.99")
LINK = 0.95e9 / 8
"""What a gigabit Ethernet carries beside its headers, in bytes/s."""


def clustermd(fio: Study, dd: Study) -> Iterator[tuple[str, Any]]:
    rows = [f for f in fio.findings if f.primary and f.workload in OPERATIONS]
    yield "fio", [(OPERATIONS[f.workload], *_both(fio, f), f) for f in rows]
    copies = [f for f in dd.findings if f.primary and f.level == "cluster-md" and f.workload in DD]
    yield "dd", [(DD[f.workload], *_both(dd, f), f) for f in copies]
    yield "together", fio.find(workload=ALL, factor="array")
    yield "link", LINK
    yield "at_ceiling", [doubt["what"].partition(":")[0] for doubt in fio.doubts("link")]
    yield "names", TAILS
    yield "tails", list(_tails(fio))
    censored = [m for m in fio.document["measurements"] if m["censored"]]
    yield "censored", censored
    yield "confounded", dd.doubts("confounded")
    with (DATA / "cluster-md-cases.csv").open(encoding="utf-8", newline="") as stream:
        yield "cases", list(csv.DictReader(stream))
    yield "pictures", {"link": _link(fio, dd)}


def _both(study: Study, finding: Finding) -> tuple[float, float]:
    """Bandwidth of the baseline and of the level, in bytes/s."""
    operation = finding.metric.rpartition(".")[0]
    values = {
        dict(record.trial.treatment)["array"]: record.value(f"{operation}.bw")
        for record in study.results.valid
        if record.trial.workload == finding.workload
    }
    return values[finding.baseline] or math.nan, values[finding.level] or math.nan


def _tails(fio: Study) -> Iterator[tuple[str, str, list[str]]]:
    order = list(OPERATIONS)
    for record in sorted(fio.results.valid, key=lambda r: order.index(r.trial.workload)):
        operation = record.trial.workload.removeprefix("rand")
        by_name = {m.metric: m for m in record.measurements if m.job == "all"}
        said = []
        for tail in TAILS:
            value = by_name[f"{operation}.clat.{tail}"]
            said.append("> " * bool(value.censored) + format_seconds(value.value))
        array = dict(record.trial.treatment)["array"]
        yield OPERATIONS[record.trial.workload], array, said


def _link(fio: Study, dd: Study) -> Picture:
    table, limits = [], []
    names = {"local-raid1": "local RAID1", "cluster-md": "clustered"}
    for tool, study in (("fio", fio), ("dd", dd)):
        for record in study.results.valid:
            array = names.get(dict(record.trial.treatment)["array"])
            title = OPERATIONS.get(record.trial.workload)
            operation = record.trial.workload.removeprefix("rand")
            bandwidth = record.value(f"{operation}.bw")
            if array and title and bandwidth:
                table.append(Dot(f"{tool}: {title}", array, bandwidth / 1e6))
                share = LINK if operation == "read" else LINK / 2
                limits.append((f"{tool}: {title}", share / 1e6))
    return picture(
        "clustermd-link",
        "Bandwidth, and what the link allows",
        "MB/s of the two arrays by load; orange marks: a gigabit link, once for reads and half of "
        "it for writes, which go to both members. Sequential and random reads and sequential "
        "writes of fio end there for both arrays",
        dots(table, "MB/s", limits=list(dict.fromkeys(limits)), zero=True),
    )
