"""How a treatment's metrics went over time, and where they changed; what else changed there.

A series is of one study, workload, treatment, target and metric *on the same machines*: on others
it is another one.  A point is one results folder: its valid trials without a doubt (the view
``points``), so that nothing INVALID is mixed in.  Points of which more than half of the trials are
doubted are left out by :mod:`iotrial.stats.changes`, which finds the changes.
"""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iotrial.model.finding import Difference
from iotrial.stats.changes import HistoryChange, HistoryPoint, Rule, SeriesHistory, among
from iotrial.stats.noise import StandardDeviation
from iotrial.stats.regress import differences
from iotrial.store import open_results
from iotrial_store.folder import made_again
from iotrial_store.model import ResultStore

_LEAST_AA = 3
"""A/A results from which the noise from night to night is taken."""


@dataclass(frozen=True, slots=True)
class StoreSeries:
    """``points`` in the order of time, ``results`` whose they are; ``machines`` as digests with
    their names."""

    study: str
    workload: str
    treatment: str
    target: str
    metric: str
    unit: str
    higher: bool | None
    machines: str
    hosts: str
    points: tuple[HistoryPoint, ...]
    results: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreChange:
    """A change, the results before and after it, and what differs between these two besides their
    numbers; ``worse`` is None where the metric has no direction."""

    at: HistoryChange
    before: str
    after: str
    worse: bool | None
    beside: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class StoreHistory:
    series: StoreSeries
    history: SeriesHistory
    changes: tuple[StoreChange, ...]


def series_of(
    store: ResultStore, study: str = "", metric: str = "", treatment: str = ""
) -> tuple[StoreSeries, ...]:
    """The series of a study ('': of all), of one metric ('': of those that its findings are
    of, and where it has none, of all that have a direction), of one treatment ('': of all)."""
    conditions: list[str] = ["p.began IS NOT NULL"]
    values: list[object] = []
    for column, value in (("study", study), ("metric", metric), ("treatment", treatment)):
        if value:
            conditions.append(f"p.{column} = ?")
            values.append(value)
    if not metric:
        conditions.append(
            "(EXISTS (SELECT 1 FROM findings f WHERE f.result = p.result AND f.family = 'primary'"
            " AND f.workload = p.workload AND f.metric = p.metric) OR (p.higher IS NOT NULL AND"
            " NOT EXISTS (SELECT 1 FROM findings f WHERE f.result = p.result)))"
        )
    rows = store.query(
        f"""SELECT p.study, p.workload, p.treatment, p.target, p.metric, p.unit, p.higher,
            m.machines, m.hosts, p.began, p.n, p.doubted, p.mean, p.sd, p.result
        FROM points p
        LEFT JOIN (SELECT result, string_agg(machine, ' ' ORDER BY machine) AS machines,
            string_agg(host, ', ' ORDER BY host) AS hosts FROM machines GROUP BY result) m
            ON m.result = p.result
        WHERE {" AND ".join(conditions)}
        ORDER BY p.began, p.result""",
        values,
    ).rows
    found: dict[tuple[str, ...], list[tuple[HistoryPoint, str, str, object]]] = {}
    for row in rows:
        *names, higher, machines, hosts, began, n, doubted, mean, sd, result = row
        key = (*map(str, names), str(machines or ""))
        point = HistoryPoint(
            _seconds(began), int(str(n)) + int(str(doubted)), math.log(float(str(mean))),
            math.nan if sd is None else float(str(sd)), int(str(doubted)),
        )  # fmt: skip
        found.setdefault(key, []).append((point, str(result), str(hosts or ""), higher))
    return tuple(_series(key, part) for key, part in sorted(found.items()))


def _series(
    key: tuple[str, ...], part: Sequence[tuple[HistoryPoint, str, str, object]]
) -> StoreSeries:
    study, workload, treatment, target, metric, unit, machines = key
    points, results, hosts, higher = zip(*part, strict=True)
    return StoreSeries(
        study, workload, treatment, target, metric, unit,
        None if higher[-1] is None else bool(higher[-1]),
        machines, hosts[-1], points, results,
    )  # fmt: skip


def _seconds(value: object) -> float:
    return value.timestamp() if isinstance(value, dt.datetime) else math.nan


def histories(
    store: ResultStore,
    many: Sequence[StoreSeries],
    *,
    margin: float,
    error: float,
    rule: Rule = "share",
) -> tuple[StoreHistory, ...]:
    """What changed in each of them.  The noise from night to night of A/A studies on the same
    machines is known beforehand."""
    known = [noise_of(store, each) for each in many]
    points = [each.points for each in many]
    told = among(points, margin=margin, error=error, known=known, rule=rule)
    beside: dict[tuple[str, str], tuple[Difference, ...]] = {}
    found = []
    for series, history in zip(many, told, strict=True):
        changed = []
        for at in history.changes:
            place = next(n for n, each in enumerate(series.points) if each.time >= at.first)
            pair = series.results[max(place - 1, 0)], series.results[place]
            if pair not in beside:
                beside[pair] = beside_of(store, *pair)
            worse = None if series.higher is None else (at.ratio < 1) == series.higher
            changed.append(StoreChange(at, *pair, worse, beside[pair]))
        found.append(StoreHistory(series, history, tuple(changed)))
    return tuple(found)


def noise_of(store: ResultStore, series: StoreSeries) -> StandardDeviation | None:
    """Of A/A studies on the same machines: how far the means of the same metric are apart from
    night to night; None where there are too few."""
    others = store.query(
        """SELECT DISTINCT p.study FROM points p JOIN results r ON r.result = p.result
        WHERE r.design = 'aa' AND p.metric = ? AND p.study <> ?""",
        (series.metric, series.study),
    ).rows
    logs: list[float] = []
    df = 0
    for (study,) in others:
        for each in series_of(store, str(study), series.metric):
            if each.machines == series.machines and len(each.points) >= _LEAST_AA:
                means = [point.mean for point in each.points if point.counts]
                middle = math.fsum(means) / max(len(means), 1)
                logs += [mean - middle for mean in means]
                df += max(len(means) - 1, 0)
    if df < _LEAST_AA - 1:
        return None
    sd = math.sqrt(math.fsum(each**2 for each in logs) / df)
    from scipy.special import chdtri  # noqa: PLC0415  slow to import

    low, high = (sd * math.sqrt(df / float(chdtri(df, tail))) for tail in (0.025, 0.975))
    return StandardDeviation(sd, low, high, df)


def beside_of(store: ResultStore, before: str, after: str) -> tuple[Difference, ...]:
    """Kernel, machine, versions of tools, settings in force and study: what differs between two
    results of the store."""
    with tempfile.TemporaryDirectory(prefix="iotrial-") as folder:
        both = []
        for name, result in (("before", before), ("after", after)):
            made_again(store, result, Path(folder) / name)
            both.append(open_results(Path(folder) / name))
        return differences(both[0], both[1])
