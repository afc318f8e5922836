"""violin: one to four flash arrays under fio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pictures import Dot, Picture, dots, lines, picture
from source import Study, settings

from iotrial.stats.pairs import ALL
from iotrial.stats.scaling import scaling


def violin(study: Study) -> Iterator[tuple[str, Any]]:
    found = [f for f in study.findings if f.factor == "arrays" and f.primary]
    levels = sorted({f.level for f in found})
    table = {(f.workload, f.level): scaling(f) for f in found}
    workloads = list(dict.fromkeys(f.workload for f in found if f.workload != ALL))
    yield "workloads", workloads
    yield "levels", levels
    yield "scaling", table
    alone = {
        record.trial.workload: record.value("total.iops")
        for record in study.results.valid
        if dict(record.trial.treatment)["arrays"] == levels[-1]
    }
    yield "most", alone
    points = [Dot("1", name, 1.0) for name in workloads]
    for level in levels:
        points += [Dot(level, name, table[name, level].efficiency) for name in workloads]
    low, high = (pick(table[n, levels[-1]].efficiency for n in workloads) for pick in (min, max))
    curve = picture(
        "violin-scaling",
        "Scaling efficiency by the number of arrays",
        f"IOPS with n arrays over n times those with one, for six loads; with four arrays between "
        f"{low:.3f} and {high:.3f}, and above 1 for some",
        lines(points, ("arrays", "efficiency"), level=1.0),
    )
    yield "pictures", {"scaling": curve, "rates": _rates(study)}
    yield "doubts", _doubted(study)
    yield "settings", settings("violin")


def _doubted(study: Study) -> list[tuple[str, str, str, str]]:
    """Row of the table, load, arrays, and what cannot be, in the table's order."""
    records = {record.trial.folder: record for record in study.results.records}
    rows = []
    for doubt in study.document["doubts"]:
        if (record := records.get(doubt["trial"])) is not None:
            line = int(record.source.rpartition(":")[2]) - 1
            arrays = dict(record.trial.treatment)["arrays"]
            said = doubt["what"].replace("total: ", "")
            rows.append((line, record.trial.workload, arrays, said))
    return sorted(rows)


def _rates(study: Study) -> Picture:
    table = []
    for record in study.results.valid:
        block = float(record.trial.workload.partition("k")[0]) * 1024
        rate, bandwidth = record.value("total.iops"), record.value("total.bw")
        if rate and bandwidth:
            off = (bandwidth / (rate * block) - 1) * 100
            arrays = dict(record.trial.treatment)["arrays"]
            row = f"{record.trial.workload}, {arrays}"
            flagged = any(doubt.check == "rates" for doubt in record.doubts)
            table.append(Dot(row, "doubted" if flagged else "consistent", off))
    table.sort(key=lambda dot: dot.row)
    doubted = sum(dot.group == "doubted" for dot in table)
    return picture(
        "violin-rates",
        "Bandwidth against IOPS × block size, by load and number of arrays",
        f"Difference in %: {len(table) - doubted} rows agree within 1 %, {doubted} do not",
        dots(table, "bandwidth differs from IOPS × block size by %", band=(-1, 1)),
    )
