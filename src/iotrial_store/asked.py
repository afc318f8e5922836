"""What is often asked of a store, as SELECTs that DuckDB and PostgreSQL both understand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from iotrial.errors import UsageError
from iotrial.report.words import some
from iotrial_store.model import ResultStore
from iotrial_store.rendered import plain

_FEW = 6
"""Names in one line."""


@dataclass(frozen=True, slots=True)
class ResultCondition:
    """What results have to meet, all of it; None, and no words: anything does."""

    words: Sequence[str] = ()
    study: str | None = None
    machine: str | None = None
    kernel: str | None = None
    setting: str | None = None
    metric: str | None = None
    tag: str | None = None
    since: str | None = None
    until: str | None = None


def studies(store: ResultStore) -> list[dict[str, object]]:
    """Each study, the one that was executed last first."""
    found = store.query(
        """SELECT r.study AS study, count(*) AS results,
            sum(CASE WHEN r.pretended THEN 1 ELSE 0 END) AS pretended, sum(r.trials) AS trials,
            min(r.began) AS first, max(r.began) AS last,
            (SELECT string_agg(DISTINCT m.host, ', ' ORDER BY m.host)
                FROM machines m JOIN results o ON o.result = m.result
                WHERE o.study = r.study) AS machines
        FROM results r GROUP BY r.study ORDER BY max(r.began) DESC NULLS LAST, r.study"""
    )
    return [_plain(row) for row in found.dicts()]


_OF_MACHINE = "EXISTS (SELECT 1 FROM machines m WHERE m.result = r.result AND"


def results(store: ResultStore, asked: ResultCondition) -> list[dict[str, object]]:
    """The results that meet the conditions, newest first.  Raises UsageError for no day."""
    conditions = [*_conditions(asked)]
    where = " AND ".join(str(text) for text, *_ in conditions) or "true"
    found = store.query(
        f"""SELECT r.result, r.study, r.began, r.trials, r.valid, r.pretended, r.answer, r.place,
            (SELECT string_agg(m.host, ', ' ORDER BY m.host) FROM machines m
                WHERE m.result = r.result) AS machines,
            (SELECT string_agg(t.tag, ', ' ORDER BY t.tag) FROM tags t
                WHERE t.result = r.result) AS tags
        FROM results r WHERE {where}
        ORDER BY r.began DESC NULLS LAST, r.result""",
        [value for _, *values in conditions for value in values],
    )
    return [_plain(row) for row in found.dicts()]


def _conditions(asked: ResultCondition) -> Iterator[tuple[object, ...]]:
    """Each condition, and what stands for its question marks."""
    text = "lower(r.study || ' ' || r.question || ' ' || r.answer || ' ' || r.file)"
    for word in asked.words:
        yield f"{text} LIKE ? ESCAPE '!'", f"%{_escaped(word.lower())}%"
    if asked.study:
        yield "r.study LIKE ? ESCAPE '!'", _pattern(asked.study)
    if asked.machine:
        yield f"{_OF_MACHINE} (m.host = ? OR m.machine = ?))", asked.machine, asked.machine
    if asked.kernel:
        yield f"{_OF_MACHINE} m.kernel LIKE ? ESCAPE '!')", _pattern(asked.kernel)
    if asked.setting:
        name, sign, value = asked.setting.partition("=")
        same = " AND s.value = ?" if sign else ""
        yield (
            f"r.result IN (SELECT s.result FROM settings s WHERE s.tunable = ?{same})",
            name,
            *([value] if sign else []),
        )
    if asked.metric:
        yield "r.result IN (SELECT p.result FROM points p WHERE p.metric = ?)", asked.metric
    if asked.tag:
        yield "r.result IN (SELECT t.result FROM tags t WHERE t.tag = ?)", asked.tag
    if asked.since:
        yield "r.began >= ?", _day(asked.since, "--since")
    if asked.until:
        yield "r.began < ?", _day(asked.until, "--until")


_NAMES = {
    "study": "SELECT DISTINCT study FROM results",
    "machine": "SELECT host FROM machines UNION SELECT machine FROM machines",
    "kernel": "SELECT DISTINCT kernel FROM machines",
    "setting": "SELECT DISTINCT tunable FROM settings",
    "metric": "SELECT DISTINCT metric FROM points",
    "tag": "SELECT DISTINCT tag FROM tags",
    "treatment": "SELECT DISTINCT treatment FROM points",
}
"""What a store has of each kind of name."""


def unknown(store: ResultStore, names: Mapping[str, str | None]) -> list[str]:
    """Of each name, by its kind in :data:`_NAMES`, that the store does not have: so, and what it
    has that is nearest."""
    found = []
    for kind, name in names.items():
        if not name or "*" in name:
            continue
        known = sorted(str(row[0]) for row in store.query(_NAMES[kind]).rows if row[0])
        if name not in known:
            near = [each for each in known if each.endswith(f".{name}")]
            near = near or nearest(name, known)
            meant = f"; did you mean {near[0]}?" if near else f"; it has {some(known, _FEW)}"
            found.append(f"the store has no {kind} {name}{meant if known else ''}")
    return found


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """The one of these that is most like it, if any is."""
    return get_close_matches(name, known, n=1, cutoff=0.5)


def never(store: ResultStore, setting: str) -> list[str]:
    """Of ``TUNABLE=VALUE`` whose tunable the store has, but not with this value: so, and its
    values."""
    name, _, value = setting.partition("=")
    rows = store.query("SELECT DISTINCT value FROM settings WHERE tunable = ?", (name,)).rows
    known = sorted(str(row[0]) for row in rows)
    if not value or not known or value in known:
        return []
    return [f"{name} was never {value}; it was {some(known, _FEW)}"]


def one_result(store: ResultStore, name: str) -> dict[str, object]:
    """The results that have this tag, or begin with these digits.  Raises UsageError for none, and
    for several."""
    found = store.query(
        """SELECT result, study, place, trials, began FROM results
        WHERE result LIKE ? ESCAPE '!' OR result IN (SELECT t.result FROM tags t WHERE t.tag = ?)
        ORDER BY began DESC""",
        (f"{_escaped(name)}%", name),
    ).dicts()
    if not found:
        said, advice = f"the store has no results {name!r}", "See what it has: iotrial find"
        if store.query("SELECT 1 FROM results WHERE study = ? LIMIT 1", (name,)).rows:
            advice = f"It is a study. Name one of its results: iotrial find --study {name}"
        elif near := [each for each in unknown(store, {"tag": name}) if "did you mean" in each]:
            said = f"{said}; {near[0]}"
        raise UsageError(said, advice=advice)
    if len(found) > 1:
        some = ", ".join(str(row["result"]) for row in found[:4])
        raise UsageError(f"{len(found)} results are meant by {name!r}: {some}", advice="Name one.")
    return _plain(found[0])


def _plain(row: dict[str, object]) -> dict[str, object]:
    return {name: plain(value) for name, value in row.items()}


def _escaped(text: str) -> str:
    for sign in "!%_":
        text = text.replace(sign, f"!{sign}")
    return text


def _pattern(text: str) -> str:
    return _escaped(text).replace("*", "%")


def _day(text: str, option: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is no day", advice="For example 2026-11-20") from None


def day(value: object) -> str:
    """The day of a time, for people."""
    return str(value)[:10] if value else ""
