"""Which stored results a new one is compared with: of the same study on the same machines.

``last``: the sessions since its last change, the newest :data:`MOST` of them.  ``best``: the
sessions between two changes that were the fastest, over all treatments.  Anything else is a tag.
How far sessions are apart says whether the new one is out of line (:mod:`iotrial.stats.regress`);
of a single one, A/A studies on the machine say it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from iotrial.errors import UsageError
from iotrial.model.results import Results
from iotrial.store import open_results
from iotrial_store.content import machine_of
from iotrial_store.folder import made_again
from iotrial_store.history import StoreHistory, StoreSeries, histories, noise_of, series_of
from iotrial_store.model import ResultStore
from iotrial_store.opened import opened, usual

MOST = 10
"""Sessions of the stored side."""


@contextmanager
def former_results(
    url: str | None, latter: Results, which: str
) -> Iterator[tuple[tuple[Results, ...], float]]:
    """The stored results, opened, and the standard deviation between sessions that A/A studies of
    these machines had (0: none).  Raises UsageError where there are none to compare with."""
    store = opened(url or usual())
    try:
        with TemporaryDirectory(prefix="iotrial-") as folder:
            names, between = chosen(store, latter, which)
            found = []
            for name in names:
                into = Path(folder) / f"stored-{name[:8]}"
                made_again(store, name, into)
                found.append(open_results(into))
            yield tuple(found), between
    finally:
        store.close()


def chosen(store: ResultStore, latter: Results, which: str) -> tuple[tuple[str, ...], float]:
    """Of the stored results those that are meant, the newest first, and the noise between them."""
    machines = " ".join(sorted(machine_of(name, facts) for name, facts in latter.facts.items()))
    study = latter.study.name
    many = [each for each in series_of(store, study) if each.machines == machines]
    many = [_without(each, _began(latter)) for each in many]
    many = [each for each in many if each.points]
    if not many:
        raise UsageError(
            f"the store has no results of {study} on this machine to compare with",
            advice="Add some: iotrial push DIR; on another machine measure both in turn:"
            " iotrial compare OLD NEW --paired 4",
        )
    known = noise_of(store, many[0])
    between = known.sd if known else 0.0
    if which in {"last", "best"}:
        told = histories(store, many, margin=latter.study.decide.margin, error=0.05)
        return _segment(told, which), between
    rows = store.query("SELECT result FROM tags WHERE tag = ?", (which,)).rows
    tagged = {str(row[0]) for row in rows}
    names = [name for name in _newest(many) if name in tagged]
    if not names:
        raise UsageError(
            f"no results of {study} on this machine have the tag {which!r}",
            advice="Use last, best, or a tag that `iotrial find` shows.",
        )
    return tuple(names[:MOST]), between


def _began(latter: Results) -> float:
    return min((each.started for each in latter.records if each.started > 0), default=math.inf)


def _without(series: StoreSeries, began: float) -> StoreSeries:
    """What was measured before; these very results may be in the store already."""
    kept = [at for at, point in enumerate(series.points) if point.time < began]
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
    if not stretches:
        raise UsageError("all stored results of this study are doubted", advice="Run it again.")
    place = max(stretches)
    if which == "best":
        place = max(stretches, key=lambda at: _mean([_mean(speed[name]) for name in stretches[at]]))
    return tuple(sorted(stretches[place], key=lambda name: -when[name])[:MOST])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / max(len(values), 1)
