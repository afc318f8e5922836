"""A store that is a folder of Parquet files, which DuckDB reads.

::

    store.json         the parts that count, and the schema's version: replaced as a whole
    lock               held while it is replaced
    parts/NAME/        a file a table; of one push, or of many put together; its name has the
                       version of the schema that changed the table last (none: 1)

A push writes its part beside the others, where nobody sees it, and then a new ``store.json`` under
the lock: until that has its name nothing is there, afterwards all is.  What a reader opened stays:
what is replaced is removed an hour later.  Measurements lie by metric, so that a question about one
of forty reads a fortieth.

A migration writes each table that changes anew, beside what it replaces, and then ``store.json``.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow import parquet as columns

from iotrial import files
from iotrial.errors import FormatError, UsageError
from iotrial_store import schema
from iotrial_store.content import STATES, Integers, StoreContent, StoreMeasurements
from iotrial_store.errors import (
    StoreError,
    none_there,
    not_asked,
    other_version,
    several_statements,
    to_migrate,
)
from iotrial_store.migrations import added_since, changed
from iotrial_store.model import PushCounts, StoreAnswer

INDEX = "store.json"
IN_PART = 200_000
"""Trials after which a push of many results begins another part."""
SMALL, MANY = 50_000, 48
"""Parts of fewer trials are put together when there are so many of them."""
KEPT = 3600.0
"""Seconds for which a part or a file that was replaced, and a day for which a part that nobody
finished, stay: somebody may read, or write, it."""
_DAY = 86_400.0
_GROUP = 100_000
_MEMORY = "500MB"
_TYPES = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "bytes": pa.binary(),
}
_TABLES = schema.VIEWS
_NOT_OURS = ("plan.jsonl", "measurements.jsonl", "*/plan.jsonl")
_NAME = re.compile(r"[0-9a-f]+-[0-9a-f]+(/[a-z]+(\.\d+)?\.parquet)?")
"""Of a part or, among those that are old, of a file in one: nothing that leads out of the store."""


class ParquetStore:
    """Open; ``folder`` is made by the first push."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"file:{folder}"
        self._connection: duckdb.DuckDBPyConnection | None = None

    # -- pushing -----------------------------------------------------------------------------------

    def push(self, contents: Iterable[StoreContent]) -> PushCounts:
        with _told(self.folder):
            self._is_ours()
            (self.folder / "parts").mkdir(parents=True, exist_ok=True)
            added = replaced = same = 0
            for batch in _batches(contents):
                counts = self._push(batch)
                added += counts.added
                replaced += counts.replaced
                same += counts.same
            return PushCounts(added, replaced, same)

    def _is_ours(self) -> None:
        """Raises StoreError for a file, and for a folder that has results, and no store."""
        if self.folder.exists() and not self.folder.is_dir():
            raise self._none()
        if not (self.folder / "parts").is_dir() and self._results():
            raise self._none()

    def _results(self) -> str:
        """A file of results in the folder, or in one of its folders; empty: there is none."""
        found = (path for name in _NOT_OURS for path in self.folder.glob(name))
        return next((path.relative_to(self.folder).as_posix() for path in found), "")

    def _push(self, batch: Sequence[StoreContent]) -> PushCounts:
        known = self._index()
        there = _live(known)
        # What is written is decided before the lock, and once more below it.
        fresh = [each for each in batch if self._differs(each, there)]
        if not fresh:
            return PushCounts(same=len(batch))
        fresh = [self._with_tags(each, there) for each in fresh]
        name = _new_name()
        _write_part(self.folder / "parts" / name, name, fresh)
        present = replaced = 0
        with self._locked():
            index = self._index()
            there = _live(index)
            for each in fresh:
                if each.result in there:
                    index["gone"].append([there[each.result][0], each.result])
                    present += 1
                    replaced += there[each.result][1] != each.content  # else it has a new tag
            index["parts"][name] = {
                "trials": sum(len(each.trials) for each in fresh),
                "results": {each.result: each.content for each in fresh},
            }
            self._put_together(index)
            self._write(index)
        self._forget()
        added = len(fresh) - present
        return PushCounts(added, replaced, len(batch) - added - replaced)

    def _differs(self, content: StoreContent, there: dict[str, tuple[str, str]]) -> bool:
        """Whether a push would change anything: its content, or a tag."""
        if content.result not in there or there[content.result][1] != content.content:
            return True
        tags = {row[1] for row in content.plain.get("tags", ())}
        return bool(tags - set(self._tags(content.result))) if tags else False

    def _with_tags(self, content: StoreContent, there: dict[str, tuple[str, str]]) -> StoreContent:
        """With the tags that these results have already."""
        if content.result not in there:
            return content
        own = [str(row[1]) for row in content.plain.get("tags", ())]
        every = dict.fromkeys([*self._tags(content.result), *own])
        rows = [(content.result, tag) for tag in every]
        return replace(content, plain={**content.plain, "tags": rows})

    def _tags(self, result: str) -> list[str]:
        found = self.query("SELECT tag FROM tags WHERE result = ? ORDER BY tag", (result,))
        return [str(row[0]) for row in found.rows]

    def _index(self) -> dict[str, Any]:
        index = self._any_index()
        if index["schema"] != schema.VERSION:
            raise other_version(self.url, index["schema"])
        return index

    def _any_index(self) -> dict[str, Any]:
        """Of this version of the schema, or an earlier one."""
        path = self.folder / INDEX
        if not path.exists():
            return {"schema": schema.VERSION, "parts": {}, "gone": [], "old": {}}
        index = files.read_object(path)
        version = index.get("schema")
        if not isinstance(version, int) or not 0 < version <= schema.VERSION:
            raise other_version(self.url, version)
        if not all(isinstance(index.get(key), kind) for key, kind in _SHAPE):
            raise FormatError(f"{path} is not the index of a store: parts, gone, old")
        if wrong := [each for key in _NAMED for each in index[key] if not _NAME.fullmatch(each)]:
            raise FormatError(f"{path} names a part {wrong[0]!r}, which iotrial never does")
        return index

    def _write(self, index: dict[str, Any]) -> None:
        for name in list(index["parts"]):
            if not index["parts"][name]["results"]:
                del index["parts"][name]
        now = time.time()
        for name, since in list(index["old"].items()):
            if now - since > KEPT:
                _remove(self.folder / "parts" / name)
                del index["old"][name]
        data = json.dumps(index).encode()
        with files.replaced(self.folder / INDEX) as handle:
            with os.fdopen(handle, "wb", closefd=False) as file:
                file.write(data)
            os.fsync(handle)
        files.sync(self.folder)
        for path in (self.folder / "parts").iterdir():
            unknown = path.name not in index["parts"] and path.name not in index["old"]
            if unknown and now - path.stat().st_mtime > _DAY:
                shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _put_together(self, index: dict[str, Any]) -> None:
        """Many small parts as one."""
        small = [name for name, part in index["parts"].items() if part["trials"] < SMALL]
        if len(small) < MANY:
            return
        name = _new_name()
        into = self.folder / "parts" / name
        into.mkdir()
        chosen = {each: index["parts"][each] for each in small}
        gone = [pair for pair in index["gone"] if pair[0] in chosen]
        with _connected() as connection:
            for table in _TABLES:
                rows = _rows_of(self.folder, table, chosen, gone)
                query = f"SELECT '{name}' AS part, * FROM ({rows})"
                _copy(connection, query, table, into / _file(table))
        files.sync_all(into)
        dead = {(part, result) for part, result in gone}
        index["parts"][name] = {
            "trials": sum(part["trials"] for part in chosen.values()),
            "results": {
                result: content
                for part in chosen
                for result, content in chosen[part]["results"].items()
                if (part, result) not in dead
            },
        }
        now = time.time()
        for each in chosen:
            del index["parts"][each]
            index["old"][each] = now
        index["gone"] = [pair for pair in index["gone"] if pair[0] not in chosen]

    # -- migrating ---------------------------------------------------------------------------------

    def migrate(self) -> int:
        with self._told_of_migrating():
            if not (self.folder / INDEX).exists():
                raise self._none()
            if self._any_index()["schema"] == schema.VERSION:
                return schema.VERSION
            with self._locked():
                index = self._any_index()
                found = int(index["schema"])
                if found < schema.VERSION:
                    self._migrate(index)
        self._forget()
        return found

    def _migrate(self, index: dict[str, Any]) -> None:
        """Under the lock.  Until the index is there nobody reads what is written: what a former
        attempt left is replaced."""
        parts = self.folder / "parts"
        aside = parts / _new_name()
        aside.mkdir()
        now = time.time()
        added = list(added_since(index["schema"]))
        written = []
        try:
            with _connected() as connection:
                for table in dict.fromkeys(view for view, _, _ in added):
                    constants = ", ".join(
                        f"CAST({constant} AS {_SQL[column.kind]}) AS {column.name}"
                        for view, column, constant in added
                        if view is table
                    )
                    old = _file(table, index["schema"])
                    for part in index["parts"]:
                        rows = f"read_parquet('{_quoted(parts / part / old)}')"
                        beside = aside / f"{part}.{table.name}"
                        _copy(connection, f"SELECT *, {constants} FROM {rows}", table, beside)
                        written.append((beside, parts / part / _file(table)))
                        index["old"][f"{part}/{old}"] = now
            files.sync_all(aside)
            for beside, path in written:
                beside.replace(path)
            for part in index["parts"]:
                files.sync(parts / part)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self._write(index | {"schema": schema.VERSION})

    @contextmanager
    def _told_of_migrating(self) -> Iterator[None]:
        try:
            yield
        except (OSError, duckdb.Error) as error:
            said, advice = _said(error), "Nothing was changed. Remove the cause and call it again."
            if isinstance(error, OSError):
                said = f"{error.strerror or error} ({error.filename or self.folder})"
                if error.errno in _NO_RIGHT:
                    owner = _owner(self.folder / INDEX)
                    advice = f"Who may write there must, such as {owner}: {to_migrate(self.url)}"
            raise StoreError(f"{self.url} cannot be migrated: {said}", advice=advice) from error

    # -- asking ------------------------------------------------------------------------------------

    def query(self, sql: str, values: Sequence[object] = ()) -> StoreAnswer:
        connection = self._opened()
        try:
            statements = connection.extract_statements(sql)
        except duckdb.Error as error:
            raise not_asked(f"the query is not understood: {_said(error)}") from None
        if len(statements) > 1:
            raise several_statements()
        if not statements or statements[0].type not in _READING:
            raise UsageError("a query is one SELECT", advice="A store is changed by push alone.")
        try:
            found = connection.execute(sql, list(values))
            return StoreAnswer(tuple(each[0] for each in found.description or ()), found.fetchall())
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            if isinstance(error, duckdb.IOException):
                raise StoreError(f"{self.url}: {_said(error)}") from None
            raise not_asked(f"the query: {_said(error)}") from None
        except duckdb.Error as error:
            raise not_asked(f"the query: {_said(error)}") from None

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            with _told(self.folder):
                index = self._index()
            if not index["parts"] and not (self.folder / INDEX).exists():
                raise self._none()
            self._connection = _connected()
            for table in _TABLES:
                rows = _rows_of(self.folder, table, index["parts"], index["gone"])
                self._connection.execute(f"CREATE VIEW {table.name} AS {rows}")
            for name, column, _, about in schema.told():
                what = f"COLUMN {name}.{column}" if column else f"VIEW {name}"
                self._connection.execute(
                    f"COMMENT ON {what} IS '{about.replace(chr(39), chr(39) * 2)}'"
                )
        return self._connection

    def _none(self) -> StoreError:
        if self.folder.exists() and not self.folder.is_dir():
            said = f"{self.url} is no store: it is a file"
            return StoreError(said, advice="Name a folder with --store.")
        if here := self._results():
            return StoreError(
                f"{self.url} is no store, and a folder of results: it has {here}",
                advice="Name another folder with --store.",
            )
        why = f"it has no {INDEX}" if self.folder.exists() else "no such folder is there"
        return none_there(self.url, why)

    def _forget(self) -> None:
        """What was opened is of the parts before."""
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_SHAPE = (("parts", dict), ("gone", list), ("old", dict))
_NAMED = ("parts", "old")
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)


def _new_name() -> str:
    """Of a part."""
    return f"{time.time_ns():x}-{secrets.token_hex(4)}"


def _file(table: schema.StoreView, version: int = schema.VERSION) -> str:
    """The name of a table's file in the parts of a store of this version."""
    since = changed(table.name, version)
    return f"{table.name}.parquet" if since == 1 else f"{table.name}.{since}.parquet"


def _remove(path: Path) -> None:
    """A part, or a file of one.  What cannot be removed stays."""
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _owner(path: Path) -> str:
    """Whose a file is."""
    try:
        return path.owner()
    except KeyError:
        return f"the user with the number {path.stat().st_uid}"


def _batches(contents: Iterable[StoreContent]) -> Iterator[list[StoreContent]]:
    batch: dict[str, StoreContent] = {}
    trials = 0
    for each in contents:
        if each.result in batch or trials >= IN_PART:
            yield list(batch.values())
            batch, trials = {}, 0
        batch[each.result] = each
        trials += len(each.trials)
    if batch:
        yield list(batch.values())


def _live(index: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Of each result that counts its part and content."""
    gone = {tuple(pair) for pair in index["gone"]}
    return {
        result: (name, content)
        for name, part in index["parts"].items()
        for result, content in part["results"].items()
        if (name, result) not in gone
    }


def _connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    connection.execute(f"SET memory_limit = '{_MEMORY}'")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _copy(
    connection: duckdb.DuckDBPyConnection, query: str, table: schema.StoreView, into: Path
) -> None:
    """Write what a SELECT gives as the file of a table: part, and its columns."""
    names = ", ".join(column.name for column in table.columns)
    order = "ORDER BY metric, result, trial" if table is schema.MEASUREMENTS else ""
    connection.execute(
        f"COPY (SELECT part, {names} FROM ({query}) {order}) TO '{_quoted(into)}'"
        f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_GROUP})"
    )


def _rows_of(
    folder: Path, table: schema.StoreView, parts: dict[str, Any], gone: Sequence[Sequence[str]]
) -> str:
    """A SELECT of all rows that count."""
    names = ", ".join(column.name for column in table.columns)
    mixed = {part for part, _ in gone}
    queries = []
    for some, condition in (
        ([name for name in parts if name not in mixed], ""),
        ([name for name in parts if name in mixed], _without(gone)),
    ):
        if some:
            paths = ", ".join(f"'{_quoted(folder / 'parts' / n / _file(table))}'" for n in some)
            queries.append(f"SELECT {names} FROM read_parquet([{paths}]){condition}")
    if queries:
        return " UNION ALL ".join(queries)
    empty = ", ".join(f"CAST(NULL AS {_SQL[each.kind]}) AS {each.name}" for each in table.columns)
    return f"SELECT {empty} WHERE false"


_SQL = {
    "text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "flag": "BOOLEAN",
    "time": "TIMESTAMPTZ", "bytes": "BLOB",
}  # fmt: skip


def _without(gone: Sequence[Sequence[str]]) -> str:
    pairs = ", ".join(f"('{part}', '{result}')" for part, result in gone if _plain(part + result))
    return f" WHERE (part, result) NOT IN ({pairs})"


def _plain(text: str) -> bool:
    return all(each in "0123456789abcdef-" for each in text)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def _said(error: Exception) -> str:
    """What is wrong, without the kind of error, and what DuckDB thinks was meant."""
    first, *others = str(error).split("\n")
    meant = [line.strip() for line in others if line.startswith(("Did you mean", "Candidate "))]
    kind, colon, rest = first.partition(" Error: ")
    return "; ".join([rest if colon and kind in _KINDS else first, *meant])


_KINDS = ("Binder", "Catalog", "Parser")


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = f"the store {folder} cannot be used: {error.strerror or error}"
        if error.filename:
            said += f" ({error.filename})"
        advice = "Name another with --store."
        if error.errno in _NO_RIGHT and (folder / INDEX).exists():
            advice = f"It is of {_owner(folder / INDEX)}: ask for the right to write. {advice}"
        raise StoreError(said, advice=advice) from error
    except duckdb.Error as error:
        raise StoreError(f"the store {folder} cannot be used: {_said(error)}") from error


# -- a part ----------------------------------------------------------------------------------------


def _write_part(into: Path, name: str, contents: Sequence[StoreContent]) -> None:
    into.mkdir()
    for table in schema.PLAIN.values():
        rows = [row for each in contents for row in each.plain.get(table.name, ())]
        _write(into, name, table, _arrays(table, list(zip(*rows, strict=True))))
    _write(into, name, schema.TRIALS, _trials(contents))
    sets = [
        (each.result, number, *row)
        for each in contents
        for number, rows in enumerate(each.settings)
        for row in rows
    ]
    _write(into, name, schema.SETTINGS, _arrays(schema.SETTINGS, list(zip(*sets, strict=True))))
    _write_measurements(into, name, contents)
    files.sync_all(into)


def _arrays(table: schema.StoreView, values: Sequence[Sequence[Any]]) -> list[pa.Array]:
    found = []
    for at, column in enumerate(table.columns):
        given = values[at] if values else ()
        if column.kind == "time":
            given = [None if each is None else round(each * 1e6) for each in given]
        found.append(pa.array(given, type=_TYPES[column.kind]))
    return found


def _write(into: Path, part: str, table: schema.StoreView, arrays: Sequence[pa.Array]) -> None:
    made = _table(part, table, arrays)
    columns.write_table(made, into / _file(table), compression="zstd", row_group_size=_GROUP)


def _table(part: str, table: schema.StoreView, arrays: Sequence[pa.Array]) -> pa.Table:
    fields = [pa.field("part", pa.string())]
    fields += [pa.field(column.name, _TYPES[column.kind]) for column in table.columns]
    constant = pa.repeat(pa.scalar(part, pa.string()), len(arrays[0]))
    return pa.table([constant, *arrays], schema=pa.schema(fields))


def _trials(contents: Sequence[StoreContent]) -> list[pa.Array]:
    """The columns of the table of trials."""
    parts = [_trials_of(each) for each in contents]
    joined = [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]
    types = [_TYPES[column.kind] for column in schema.TRIALS.columns]
    return [each.cast(type_) for each, type_ in zip(joined, types, strict=True)]


def _trials_of(content: StoreContent) -> list[pa.Array]:
    trials = content.trials
    cells = content.cells
    folders = [
        f"{number:04d}-{id_}"
        for number, id_ in zip(trials.number.tolist(), trials.ids, strict=True)
    ]
    unknown = np.isnan(trials.started)
    started = np.where(unknown, 0, np.round(np.nan_to_num(trials.started) * 1e6)).astype(np.int64)
    return [
        _constant(content.result, len(trials)),
        _constant(content.study, len(trials)),
        pa.array(trials.number, type=pa.int64()),
        pa.array(folders, type=pa.string()),
        pa.array(trials.block, type=pa.int64()),
        _of_cells([cell.stage for cell in cells], trials.cell, pa.int64()),
        pa.array(trials.attempt, type=pa.int64()),
        _of_cells([cell.workload for cell in cells], trials.cell),
        _of_cells([cell.treatment for cell in cells], trials.cell),
        _of_cells([cell.target for cell in cells], trials.cell),
        _of_cells([cell.host for cell in cells], trials.cell),
        _of_cells([cell.tool for cell in cells], trials.cell),
        _of_cells(STATES, trials.state),
        pa.array(trials.doubted),
        pa.array(started, type=_TYPES["time"], mask=unknown),
        pa.array(trials.seconds),
        pa.array(list(trials.raw), type=pa.string()),
        pa.array(list(trials.errors), type=pa.string()),
        pa.array(trials.settings, type=pa.int64()),
    ]


def _constant(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _of_cells(
    values: Sequence[object], places: Integers, kind: pa.DataType | None = None
) -> pa.Array:
    return pa.array(list(values), type=kind or pa.string()).take(pa.array(places))


def _write_measurements(into: Path, part: str, contents: Sequence[StoreContent]) -> None:
    """By metric: of many trials each has a row group of its own, at least.  Rows are written while
    the next are made: both take about as long, and Arrow writes beside Python."""
    table = schema.MEASUREMENTS
    shape = _table(part, table, _arrays(table, [])).schema
    path = into / _file(table)
    with (
        columns.ParquetWriter(path, shape, compression="zstd") as writer,
        ThreadPoolExecutor(1) as beside,
    ):
        begun: list[Future[None]] = []
        for rows in _measurements(part, contents):
            for each in begun:
                each.result()
            begun = [beside.submit(writer.write_table, rows, row_group_size=_GROUP)]
        for each in begun:
            each.result()


def _measurements(part: str, contents: Sequence[StoreContent]) -> Iterator[pa.Table]:
    by_metric: dict[str, list[tuple[int, int, int]]] = {}
    for number, each in enumerate(contents):
        for at, group in enumerate(each.measurements):
            for column, key in enumerate(group.keys):
                by_metric.setdefault(key[0], []).append((number, at, column))
    of_trials = [[_of_trials(each, group.rows) for group in each.measurements] for each in contents]
    waiting: list[pa.Table] = []
    for metric in sorted(by_metric):
        waiting += [
            _table(
                part,
                schema.MEASUREMENTS,
                [*of_trials[number][at], *_measured(contents[number].measurements[at], column)],
            )
            for number, at, column in by_metric[metric]
        ]
        if sum(len(each) for each in waiting) >= _GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _of_trials(content: StoreContent, rows: Integers) -> list[pa.Array]:
    """What every measurement of these trials has: the first columns."""
    trials, cells = content.trials, content.cells
    of = trials.cell[rows]
    return [
        _constant(content.result, len(rows)),
        _constant(content.study, len(rows)),
        pa.array(trials.number[rows], type=pa.int64()),
        _of_cells([cell.workload for cell in cells], of),
        _of_cells([cell.treatment for cell in cells], of),
        _of_cells(STATES, trials.state[rows]),
    ]


def _measured(group: StoreMeasurements, column: int) -> list[pa.Array]:
    metric, job, unit, censored, raw = group.keys[column]
    count = len(group.rows)
    return [
        _constant(metric, count),
        _constant(job, count),
        pa.array(np.ascontiguousarray(group.values[:, column])),
        _constant(unit, count),
        _constant(censored, count),
        _constant(raw, count),
    ]
