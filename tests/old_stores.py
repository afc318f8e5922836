"""Stores of an earlier version of the schema: made again from their recording, and what they
answered then."""

from __future__ import annotations

import hashlib
import json
import lzma
import subprocess
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path

import postgres
from iotrial_store import schema
from iotrial_store.model import ResultStore
from old_results import DATA


def columns_of() -> dict[str, list[str]]:
    """The columns of each view of this version."""
    return {view.name: [column.name for column in view.columns] for view in schema.VIEWS}


def rows(store: ResultStore, view: str, names: list[str]) -> list[str]:
    """All rows of a view, in an order and as text that are the same for both kinds of store."""
    found = store.query(f"SELECT {', '.join(names)} FROM {view}")  # noqa: S608 (our own names)
    assert list(found.columns) == names
    return sorted(repr([_comparable(value) for value in row]) for row in found.rows)


def _comparable(value: object) -> str:
    if isinstance(value, bytes | memoryview):
        return hashlib.sha256(value).hexdigest()
    return str(value)


def answers(
    store: ResultStore, columns: Mapping[str, list[str]] | None = None
) -> dict[str, dict[str, object]]:
    """Of each view its columns, how many rows it has, and a digest of them all."""
    told: dict[str, dict[str, object]] = {}
    for view, names in (columns or columns_of()).items():
        found = rows(store, view, names)
        digest = hashlib.sha256("\n".join(found).encode()).hexdigest()
        told[view] = {"columns": names, "rows": len(found), "digest": digest}
    return told


def answered(version: int) -> dict[str, dict[str, object]]:
    """What a recorded store answered then."""
    told: dict[str, dict[str, object]] = json.loads(
        (DATA / f"store-{version}/answers.json").read_text()
    )
    return told


def old_folder(version: int, into: Path) -> str:
    """The address of a recorded folder of Parquet files, made again: parts that were put together
    when it was recorded were so now, or the next push would remove them."""
    with tarfile.open(DATA / f"store-{version}/parquet.tar.xz") as archive:
        archive.extractall(into, filter="data")
    path = into / "store/store.json"
    index = json.loads(path.read_text())
    index["old"] = dict.fromkeys(index["old"], time.time())
    path.write_text(json.dumps(index))
    return f"file:{into}/store"


def old_database(version: int, server: str) -> str:
    """The address of a database with what a recorded one had."""
    url, programs = postgres.database(server), postgres.programs()
    assert programs
    script = lzma.decompress((DATA / f"store-{version}/postgresql.sql.xz").read_bytes())
    words = [programs / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url]
    subprocess.run(words, input=script, check=True, capture_output=True)
    return url
