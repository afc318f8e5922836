"""A store in a PostgreSQL database, in a schema of its own, ``iotrial``.

A trial's numbers are an array beside the names that it shares with others: a row for each of forty
would be ten times as large.  Trials are sent as binary COPY, put together by NumPy: writing numbers
as text and reading them again would take longer than everything else.

Each push is a transaction.  Who pushes the same results at the same time waits.  Passwords are
libpq's matter (``~/.pgpass``, ``PGPASSWORD``, ``PGSERVICEFILE``), and stand in no address.

Source of the binary format: PostgreSQL's manual, COPY; array_send in its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import sql as quoting

from iotrial.errors import UsageError
from iotrial_store import schema
from iotrial_store.content import STATES, Floats, StoreContent, StoreMeasurements
from iotrial_store.errors import (
    StoreError,
    none_there,
    not_asked,
    other_version,
    several_statements,
    to_migrate,
)
from iotrial_store.migrations import added_since
from iotrial_store.model import PushCounts, StoreAnswer

IN_TRANSACTION = 200_000
"""Trials of a push of many results after which it is committed."""
_MANY = 10_000
"""Trials after which the planner is told at once, and not when the server comes to it: until then
it reads all trials for those of a study."""
_PLANNED = "iotrial.trials_of, iotrial.cells, iotrial.keys, iotrial.numbers, iotrial.results"
_EPOCH = 946_684_800_000_000
"""Microseconds from 1970 to 2000, from which PostgreSQL counts."""
_FLOAT8 = 701
"""The type of the elements of an array of numbers."""
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_LOCK = 0x696F7472
"""Ours among the database's advisory locks: whoever makes or migrates the schema has it alone,
pushes share it."""
_SQL = {
    "text": "text", "integer": "bigint", "number": "double precision", "flag": "boolean",
    "time": "timestamptz", "bytes": "bytea",
}  # fmt: skip
_READING = ("select", "with", "values", "table", "explain")


def _made() -> Iterator[str]:
    """What makes the schema."""
    yield "CREATE SCHEMA iotrial"
    yield "CREATE TABLE iotrial.version (version integer NOT NULL)"
    yield f"INSERT INTO iotrial.version VALUES ({schema.VERSION})"
    yield "CREATE TABLE iotrial.numbers (number serial PRIMARY KEY, result text UNIQUE NOT NULL)"
    for view in schema.PLAIN.values():
        columns = ", ".join(f"{each.name} {_SQL[each.kind]}" for each in view.columns)
        yield f"CREATE TABLE iotrial.{view.name} ({columns})"
        yield f"CREATE INDEX ON iotrial.{view.name} (result)"
    yield "CREATE INDEX ON iotrial.points (study, metric)"
    yield """CREATE TABLE iotrial.cells (number integer NOT NULL, cell integer NOT NULL,
        stage integer, workload text, treatment text, target text, host text, tool text,
        PRIMARY KEY (number, cell))"""
    yield """CREATE TABLE iotrial.keys (number integer NOT NULL, keys integer NOT NULL,
        metrics text[], jobs text[], units text[], censored text[], raws text[],
        PRIMARY KEY (number, keys))"""
    yield """CREATE TABLE iotrial.settings_of (number integer NOT NULL, settings integer NOT NULL,
        devices text[], tunables text[], values text[], PRIMARY KEY (number, settings))"""
    yield """CREATE TABLE iotrial.trials_of (number integer NOT NULL, trial integer, cell integer,
        block integer, attempt integer, state integer, doubted boolean, started timestamptz,
        seconds double precision, settings integer, keys integer, id text, raw text, error text,
        values double precision[])"""
    yield "CREATE INDEX ON iotrial.trials_of (number)"
    states = " ".join(f"WHEN {at} THEN '{name}'" for at, name in enumerate(STATES))
    yield f"""CREATE VIEW iotrial.trials AS
        SELECT n.result, r.study, t.trial, lpad(t.trial::text, greatest(4, length(t.trial::text)),
            '0') || '-' || t.id AS folder,
            t.block, c.stage, t.attempt, c.workload, c.treatment, c.target, c.host, c.tool,
            CASE t.state {states} END AS state, t.doubted,
            nullif(t.started, '-infinity') AS started,
            t.seconds, t.raw, t.error, t.settings
        FROM iotrial.trials_of t JOIN iotrial.numbers n USING (number)
        JOIN iotrial.results r USING (result) JOIN iotrial.cells c USING (number, cell)"""
    yield f"""CREATE VIEW iotrial.measurements AS
        SELECT n.result, r.study, t.trial, c.workload, c.treatment,
            CASE t.state {states} END AS state, m.metric, m.job, m.value, m.unit, m.censored, m.raw
        FROM iotrial.trials_of t JOIN iotrial.numbers n USING (number)
        JOIN iotrial.results r USING (result) JOIN iotrial.cells c USING (number, cell)
        JOIN iotrial.keys k USING (number, keys)
        CROSS JOIN LATERAL unnest(k.metrics, k.jobs, t.values, k.units, k.censored, k.raws)
            AS m (metric, job, value, unit, censored, raw)"""
    yield """CREATE VIEW iotrial.settings AS
        SELECT n.result, o.settings, s.device, s.tunable, s.value
        FROM iotrial.settings_of o JOIN iotrial.numbers n USING (number)
        CROSS JOIN LATERAL unnest(o.devices, o.tunables, o.values) AS s (device, tunable, value)"""
    for name, column, _, about in schema.told():
        kind = "TABLE" if name in schema.PLAIN else "VIEW"
        yield _comment(
            f"COLUMN iotrial.{name}.{column}" if column else f"{kind} iotrial.{name}", about
        )


def _migrated(version: int) -> Iterator[str]:
    """What makes the schema of a store of this version the present one.  A default is no rewriting
    of the table; and a push that an earlier iotrial had begun gives its rows the same."""
    for view, column, constant in added_since(version):
        what = f"iotrial.{view.name}"
        yield f"ALTER TABLE {what} ADD COLUMN {column.name} {_SQL[column.kind]} DEFAULT {constant}"
        yield _comment(f"COLUMN {what}.{column.name}", column.about)
    yield f"UPDATE iotrial.version SET version = {schema.VERSION}"


def _comment(what: str, about: str) -> str:
    return f"COMMENT ON {what} IS '{about.replace(chr(39), chr(39) * 2)}'"


_OWNER = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'iotrial.results'::regclass"
_NUMBERED = ("trials_of", "cells", "keys", "settings_of")


class PostgresStore:
    """Open; the schema is made by the first push."""

    def __init__(self, url: str) -> None:
        if urlsplit(url).password is not None:
            raise UsageError(
                "an address of a store has no password in it",
                advice="Write it into ~/.pgpass, or give it as PGPASSWORD.",
            )
        self.url = url
        self._connection: psycopg.Connection[Any] | None = None

    # -- pushing -----------------------------------------------------------------------------------

    def push(self, contents: Iterable[StoreContent]) -> PushCounts:
        counts = PushCounts()
        with self._told():
            connection = self._opened()
            self._make(connection)
            trials = 0
            for batch in _batches(contents):
                trials += sum(len(each.trials) for each in batch)
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", (_LOCK,))
                    self._check(connection)
                    done = _push(connection, batch)
                counts = PushCounts(
                    counts.added + done.added, counts.replaced + done.replaced,
                    counts.same + done.same,
                )  # fmt: skip
            if trials >= _MANY:
                connection.execute(f"ANALYZE {_PLANNED}")
        return counts

    def _make(self, connection: psycopg.Connection[Any]) -> None:
        if not _there(connection):
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                if not _there(connection):
                    for statement in _made():
                        connection.execute(statement)
        self._check(connection)

    def _check(self, connection: psycopg.Connection[Any]) -> None:
        version = self._version(connection)
        if version != schema.VERSION:
            raise other_version(self.url, version)

    def _version(self, connection: psycopg.Connection[Any]) -> int:
        """This one, or an earlier."""
        if not _there(connection):
            raise none_there(self.url, "it has no schema iotrial")
        found = connection.execute("SELECT version FROM iotrial.version").fetchone()
        version = found[0] if found else 0
        if not 0 < version <= schema.VERSION:
            raise other_version(self.url, version)
        return int(version)

    # -- migrating ---------------------------------------------------------------------------------

    def migrate(self) -> int:
        with self._told():
            connection = self._opened()
            found = self._version(connection)
            if found == schema.VERSION:
                return found
            try:
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                    found = self._version(connection)
                    if found < schema.VERSION:
                        for statement in _migrated(found):
                            connection.execute(statement)
            except psycopg.errors.InsufficientPrivilege as error:
                owner = connection.execute(_OWNER).fetchone()
                raise StoreError(
                    f"{self.url} cannot be migrated: {_said(error)}",
                    advice=f"Its owner must, the role {owner[0] if owner else ''!r}:"
                    f" {to_migrate(self.url)}",
                ) from None
        return found

    # -- asking ------------------------------------------------------------------------------------

    def query(self, sql: str, values: Sequence[object] = ()) -> StoreAnswer:
        words = sql.lstrip(" \t\n(").lower()
        if not words.startswith(_READING):
            raise UsageError("a query is one SELECT", advice="A store is changed by push alone.")
        with self._told():
            connection = self._opened()
            self._check(connection)
            text = sql.replace("%", "%%").replace("?", "%s") if values else sql
            try:
                with connection.transaction():
                    connection.execute("SET TRANSACTION READ ONLY")
                    # Prepared: several statements at once are refused by the server.
                    cursor = connection.execute(text, list(values) or None, prepare=True)
                    rows = cursor.fetchall() if cursor.description else []
                    names = [each.name for each in cursor.description or ()]
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                if "multiple commands" in str(error):
                    raise several_statements() from None
                hint = error.diag.message_hint
                meant = f"; {hint}" if hint else ""
                raise not_asked(f"the query: {_said(error)}{meant}") from None
        return StoreAnswer(tuple(names), rows)

    def _opened(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = psycopg.connect(
                    self.url,
                    autocommit=True,
                    connect_timeout=10,
                    options="-c search_path=iotrial -c timezone=UTC",
                    application_name="iotrial",
                )
            except psycopg.ProgrammingError as error:  # what it is raised for before it connects
                raise UsageError(
                    f"{self.url}: {_said(error)}",
                    advice="An address is postgresql://[USER@]HOST[:PORT]/DATABASE.",
                ) from None
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.OperationalError, psycopg.errors.InsufficientPrivilege) as error:
            self.close()
            said = _said(error)
            advice = "Is its server running, and is this where it listens?"
            if "servname" in said.lower():
                advice = "The port must be a number. An address is postgresql://[USER@]HOST[:PORT]/DATABASE."
            elif re.search("password|authentication|permission", said):
                advice = "Passwords are read from ~/.pgpass or PGPASSWORD."
            elif "does not exist" in said:
                advice = "Make the database or the role on the server: createdb, createuser."
            raise StoreError(f"{self.url}: {said}", advice=advice) from None
        except psycopg.Error as error:
            raise StoreError(f"{self.url}: {_said(error)}") from None


def _said(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


def _there(connection: psycopg.Connection[Any]) -> bool:
    # A table of the catalogue: to_regclass may answer from what this session knew before it waited.
    found = connection.execute(
        "SELECT 1 FROM pg_tables WHERE schemaname = 'iotrial' AND tablename = 'version'"
    ).fetchone()
    return found is not None


def _batches(contents: Iterable[StoreContent]) -> Iterator[list[StoreContent]]:
    batch: list[StoreContent] = []
    trials = 0
    for each in contents:
        batch.append(each)
        trials += len(each.trials)
        if trials >= IN_TRANSACTION:
            yield batch
            batch, trials = [], 0
    if batch:
        yield batch


def _push(connection: psycopg.Connection[Any], batch: Sequence[StoreContent]) -> PushCounts:
    """Within a transaction."""
    names = sorted({each.result for each in batch})
    # In one order, so that two pushes of the same results wait and do not block one another.
    connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(r, 0)) FROM unnest(%s::text[]) AS r",
        (names,),
    )
    there = dict(
        connection.execute(
            "SELECT result, content FROM iotrial.results WHERE result = ANY(%s)", (names,)
        ).fetchall()
    )
    tags: dict[str, list[str]] = {}
    for result, tag in connection.execute(
        "SELECT result, tag FROM iotrial.tags WHERE result = ANY(%s) ORDER BY tag", (names,)
    ):
        tags.setdefault(result, []).append(tag)
    fresh: dict[str, StoreContent] = {}
    same = 0
    for each in batch:
        known = fresh[each.result].content if each.result in fresh else there.get(each.result)
        own = [str(row[1]) for row in each.plain.get("tags", ())]
        if known == each.content and set(own) <= set(tags.get(each.result, ())):
            same += 1
            continue
        tags[each.result] = list(dict.fromkeys([*tags.get(each.result, ()), *own]))
        fresh[each.result] = each
    replaced = [name for name in fresh if name in there]
    _remove(connection, replaced)
    numbers = dict(
        connection.execute(
            "INSERT INTO iotrial.numbers (result) SELECT unnest(%s::text[])"
            " RETURNING result, number",
            (list(fresh),),
        ).fetchall()
    )
    for view in schema.PLAIN.values():
        rows = (row for each in fresh.values() for row in each.plain.get(view.name, ()))
        if view is schema.TAGS:
            rows = ((name, tag) for name in fresh for tag in tags[name])
        _copied(connection, view, rows)
    _copy_shared(connection, fresh.values(), numbers)
    columns = (
        "number, trial, cell, block, attempt, state, doubted, started, seconds, settings, keys,"
        " id, raw, error, values"
    )
    with connection.cursor().copy(
        f"COPY iotrial.trials_of ({columns}) FROM STDIN (FORMAT binary)"
    ) as copy:
        copy.write(_HEAD)
        for each in fresh.values():
            for part in _trial_rows(each, numbers[each.result]):
                copy.write(part)
        copy.write(_END)
    changed = sum(there[name] != fresh[name].content for name in replaced)  # else it has a new tag
    added = len(fresh) - len(replaced)
    return PushCounts(added, changed, same + len(replaced) - changed)


def _remove(connection: psycopg.Connection[Any], results: Sequence[str]) -> None:
    if not results:
        return
    for table in _NUMBERED:
        connection.execute(
            quoting.SQL(
                "DELETE FROM iotrial.{} WHERE number IN"
                " (SELECT number FROM iotrial.numbers WHERE result = ANY(%s))"
            ).format(quoting.Identifier(table)),
            (results,),
        )
    for table in (*schema.PLAIN, "numbers"):
        connection.execute(
            quoting.SQL("DELETE FROM iotrial.{} WHERE result = ANY(%s)").format(
                quoting.Identifier(table)
            ),
            (results,),
        )


def _copied(
    connection: psycopg.Connection[Any], view: schema.StoreView, rows: Iterable[Sequence[Any]]
) -> None:
    times = [at for at, column in enumerate(view.columns) if column.kind == "time"]
    names = ", ".join(column.name for column in view.columns)
    statement = f"COPY iotrial.{view.name} ({names}) FROM STDIN"
    with connection.cursor().copy(statement) as copy:
        for row in rows:
            values = list(row)
            for at in times:
                if values[at] is not None:
                    values[at] = np.datetime64(round(values[at] * 1e6), "us").astype(object)
                    values[at] = f"{values[at].isoformat()}+00"
            copy.write_row([_clean(each) for each in values])


def _clean(value: object) -> object:
    """PostgreSQL's texts have no NUL."""
    return value.replace("\0", "\\0") if isinstance(value, str) else value


def _copy_shared(
    connection: psycopg.Connection[Any], contents: Iterable[StoreContent], numbers: dict[str, int]
) -> None:
    """What trials share."""
    cells, keys, settings = [], [], []
    for each in contents:
        number = numbers[each.result]
        cells += [
            (number, at, c.stage, c.workload, c.treatment, c.target, c.host, c.tool)
            for at, c in enumerate(each.cells)
        ]
        keys += [
            (number, at, *map(list, zip(*group.keys, strict=True)))
            for at, group in enumerate(each.measurements)
        ]
        settings += [
            (
                number,
                at,
                *(list(column) for column in (zip(*rows, strict=True) if rows else ((),) * 3)),
            )
            for at, rows in enumerate(each.settings)
        ]
    for table, columns, rows in (
        ("cells", "number, cell, stage, workload, treatment, target, host, tool", cells),
        ("keys", "number, keys, metrics, jobs, units, censored, raws", keys),
        ("settings_of", "number, settings, devices, tunables, values", settings),
    ):
        with connection.cursor().copy(f"COPY iotrial.{table} ({columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


# -- trials as binary rows -------------------------------------------------------------------------


def _trial_rows(content: StoreContent, number: int) -> Iterator[bytes]:
    """Rows of trials that measured the same and whose texts are equally long: such a row has its
    fields at the same places."""
    measured = np.full(len(content.trials), -1, dtype=np.int32)
    for at, group in enumerate(content.measurements):
        measured[group.rows] = at
        yield from _rows(content, number, at, group)
    without = np.flatnonzero(measured < 0).astype(np.int32)
    if len(without):
        none = StoreMeasurements((), without, np.empty((len(without), 0)))
        yield from _rows(content, number, -1, none)


def _rows(
    content: StoreContent, number: int, keys: int, group: StoreMeasurements
) -> Iterator[bytes]:
    trials = content.trials
    texts = [
        [_utf8(of[at]) for at in group.rows.tolist()]
        for of in (trials.ids, trials.raw, trials.errors)
    ]
    lengths: dict[tuple[int, ...], list[int]] = {}
    for at, each in enumerate(zip(*texts, strict=True)):
        lengths.setdefault(tuple(map(len, each)), []).append(at)
    for sizes, places in lengths.items():
        chosen = np.array(places)
        rows = group.rows[chosen]
        made = np.zeros(len(rows), dtype=_row_type(sizes, len(group.keys)))
        made["fields"] = 15
        whole = (
            ("number", number), ("trial", trials.number[rows]), ("cell", trials.cell[rows]),
            ("block", trials.block[rows]), ("attempt", trials.attempt[rows]),
            ("state", trials.state[rows]), ("settings", trials.settings[rows]), ("keys", keys),
        )  # fmt: skip
        for name, values in whole:
            made[name]["size"], made[name]["value"] = 4, values
        made["doubted"]["size"], made["doubted"]["value"] = 1, trials.doubted[rows]
        made["started"]["size"], made["started"]["value"] = 8, _times(trials.started[rows])
        made["seconds"]["size"], made["seconds"]["value"] = 8, trials.seconds[rows]
        for name, text, size in zip(("id", "raw", "error"), texts, sizes, strict=True):
            made[name]["size"] = size
            if size:
                made[name]["value"] = [text[at] for at in places]
        array = made["values"]
        count = len(group.keys)
        array["size"] = 12 + (8 + 12 * count if count else 0)
        array["type"] = _FLOAT8
        if count:
            array["dimensions"], array["length"], array["first"] = 1, count, 1
            array["elements"]["size"] = 8
            array["elements"]["value"] = group.values[chosen]
        yield made.tobytes()


def _times(seconds: Floats) -> npt.NDArray[np.int64]:
    """Microseconds since the year 2000; where nothing is known that of minus infinity."""
    unknown = np.isnan(seconds)
    found = np.round(np.nan_to_num(seconds) * 1e6).astype(np.int64) - _EPOCH
    return np.where(unknown, np.iinfo(np.int64).min, found)


def _utf8(text: str) -> bytes:
    return text.replace("\0", "\\0").encode(errors="backslashreplace")


def _row_type(sizes: Sequence[int], count: int) -> np.dtype[np.void]:
    def field(kind: str) -> list[tuple[str, str]]:
        return [("size", ">i4"), ("value", kind)]

    def text(size: int) -> list[tuple[str, str]]:
        return field(f"S{size}") if size else [("size", ">i4")]

    array: list[Any] = [("size", ">i4"), ("dimensions", ">i4"), ("nulls", ">i4"), ("type", ">i4")]
    if count:
        array += [("length", ">i4"), ("first", ">i4"), ("elements", field(">f8"), (count,))]
    whole = ("number", "trial", "cell", "block", "attempt", "state")
    return np.dtype([
        ("fields", ">i2"),
        *((name, field(">i4")) for name in whole),
        ("doubted", field("u1")),
        ("started", field(">i8")),
        ("seconds", field(">f8")),
        ("settings", field(">i4")),
        ("keys", field(">i4")),
        ("id", text(sizes[0])),
        ("raw", text(sizes[1])),
        ("error", text(sizes[2])),
        ("values", array),
    ])  # fmt: skip
