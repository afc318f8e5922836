"""Which stored results a new one is compared with: of the same study, on the same machines if there
are any.

``last``: the sessions since its last change, the newest :data:`MOST` of them.  ``best``: the
sessions between two changes that were the fastest, over all treatments.  Anything else is a tag.
How far sessions are apart says whether the new one is out of line (:mod:`iotrial.stats.regress`);
of a single one, A/A studies on the machine say it.  Of other machines only the newest is given: no
number of theirs is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.model.study import Study
from iotrial.stats.regress import unlike_loads
from iotrial.store import open_results
from iotrial_store.asked import day
from iotrial_store.content import machine_of
from iotrial_store.folder import made_again
from iotrial_store.history import (
    StoreHistory,
    StoreSeries,
    histories,
    noise_of,
    series_of,
)
from iotrial_store.model import ResultStore

PARTS = ("last", "best")
TAG_ADVICE = "Use last, best, or a tag that `iotrial find` shows."
MOST = 10
"""Sessions of the stored side."""


@dataclass(frozen=True, slots=True)
class StoreResults:
    """The ``results`` that are compared with, newest first, where there are any only those of the
    same loads; the standard deviation ``between`` sessions that A/A studies of these machines had
    (0: none); whether they are of the same machines (``here``)."""

    results: tuple[Results, ...]
    between: float
    here: bool


def machines_of(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """The digests of machines by their facts, as a series has them."""
    return " ".join(sorted(machine_of(name, each) for name, each in facts.items()))


@contextmanager
def stored_results(
    store: ResultStore, study: Study, machines: str, which: str, began: float = math.inf
) -> Iterator[StoreResults | None]:
    """Those measured before ``began``, opened, each in a folder called by its day and digits; None
    where the store has none of the study, measured or pretended as it is, whose trials are without
    doubts.  Raises UsageError for a tag that none of them has."""
    found = chosen(store, study, machines, which, began)
    with TemporaryDirectory(prefix="iotrial-") as folder:
        if found is None:
            yield None
            return
        names, between, here = found
        results = []
        for name in names:
            ((when,),) = store.query("SELECT began FROM results WHERE result = ?", (name,)).rows
            into = Path(folder) / "-".join(filter(None, (day(when), name[:8])))
            made_again(store, name, into)
            results.append(open_results(into))
        same = [each for each in results if not unlike_loads(each.study, study)]
        yield StoreResults(tuple(same or results), between, here)


def chosen(
    store: ResultStore, study: Study, machines: str, which: str, began: float
) -> tuple[tuple[str, ...], float, bool] | None:
    """Of the stored results those that are meant, the newest first, the noise between them, and
    whether they are of these machines; None: there are none."""
    rows = store.query(
        "SELECT result FROM results WHERE study = ? AND pretended = ?",
        (study.name, study.pretended),
    ).rows
    alike = {str(row[0]) for row in rows}
    every = [_of(each, alike, began) for each in series_of(store, study.name)]
    every = [each for each in every if each.points]
    many = [each for each in every if each.machines == machines]
    many = many if _newest(many) else []
    if not _newest(every):
        return None
    known = noise_of(store, many[0]) if many else None
    between = known.sd if known else 0.0
    if which in PARTS:
        if not many:
            return tuple(_newest(every)[:1]), 0.0, False
        told = histories(store, many, margin=study.decide.margin, error=0.05)
        return _segment(told, which), between, True
    rows = store.query("SELECT result FROM tags WHERE tag = ?", (which,)).rows
    tagged = {str(row[0]) for row in rows}
    names = [name for name in _newest(many) if name in tagged]
    if names:
        return tuple(names[:MOST]), between, True
    elsewhere = [name for name in _newest(every) if name in tagged]
    if not elsewhere:
        raise UsageError(
            f"no results of {study.name} have the tag {which!r}",
            advice=TAG_ADVICE,
        )
    return tuple(elsewhere[:1]), 0.0, False


def _of(series: StoreSeries, alike: AbstractSet[str], began: float) -> StoreSeries:
    """What was measured before, of these results; the new ones may be in the store already."""
    kept = [
        at
        for at, (point, result) in enumerate(zip(series.points, series.results, strict=True))
        if point.time < began and result in alike
    ]
    return replace(
        series,
        points=tuple(series.points[at] for at in kept),
        results=tuple(series.results[at] for at in kept),
    )


def _newest(many: Sequence[StoreSeries]) -> list[str]:
    """Every results folder of the series whose trials count, the newest first."""
    when: dict[str, float] = {}
    for each in many:
        for point, result in zip(each.points, each.results, strict=True):
            if point.counts:
                when[result] = point.time
    return sorted(when, key=lambda name: -when[name])


def _segment(told: Sequence[StoreHistory], which: str) -> tuple[str, ...]:
    """The sessions of one stretch without a change, as far as any series shows one."""
    cuts = sorted(
        change.at.first
        for each in told
        for change in each.changes
        if change.at.state == "confirmed"
    )
    when: dict[str, float] = {}
    speed: dict[str, list[float]] = {}
    for each in told:
        sign = -1.0 if each.series.higher is False else 1.0
        middle = _mean([point.mean for point in each.series.points if point.counts])
        for point, result in zip(each.series.points, each.series.results, strict=True):
            if point.counts:
                when[result] = point.time
                speed.setdefault(result, []).append(sign * (point.mean - middle))
    stretches: dict[int, list[str]] = {}
    for result, time in when.items():
        stretches.setdefault(sum(cut <= time for cut in cuts), []).append(result)
    place = max(stretches)
    if which == "best":
        place = max(stretches, key=lambda at: _mean([_mean(speed[name]) for name in stretches[at]]))
    return tuple(sorted(stretches[place], key=lambda name: -when[name])[:MOST])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / max(len(values), 1)
