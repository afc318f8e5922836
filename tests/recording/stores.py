"""Record a small store of each kind, of this version of the schema, to be migrated by all later
ones (tests/integration/test_store_migrations.py).

    cd tests/recording && ../../.venv/bin/python stores.py

Recordings go into ``tests/data/store-VERSION``, which must not be there: one is never made again.
"""

from __future__ import annotations

import json
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import postgres  # noqa: E402 (tests are no package)
from iotrial_store import parquet, schema  # noqa: E402
from iotrial_store.content import StoreContent, content_of  # noqa: E402
from iotrial_store.model import ResultStore  # noqa: E402
from iotrial_store.opened import opened  # noqa: E402
from old_results import DATA, unpacked  # noqa: E402
from old_stores import answers  # noqa: E402

OUT = DATA / f"store-{schema.VERSION}"
RESULTS = DATA / "results-0.1.0"


def main() -> None:
    programs = postgres.programs()
    assert programs, "no PostgreSQL server is here"
    OUT.mkdir()
    with tempfile.TemporaryDirectory() as top, postgres.started(programs) as server:
        pushes = list(_pushes(Path(top)))
        folder, url = Path(top, "store"), postgres.database(server)
        kinds = opened(f"file:{folder}"), opened(url)
        for store in kinds:
            _pushed(store, pushes)
        told = [answers(store) for store in kinds]
        assert told[0] == told[1], "both kinds give the same answers"
        for store in kinds:
            store.close()
        with tarfile.open(OUT / "parquet.tar.xz", "w:xz") as archive:
            archive.add(folder, "store", filter=_of_nobody)
        words = [programs / "pg_dump", "--no-owner", "--no-privileges", url]
        said = subprocess.check_output(words, text=True)
        # Words of one psql to another that those before 2025 do not know.
        lines = [line for line in said.splitlines() if not line.startswith(r"\restrict")]
        lines = [line for line in lines if not line.startswith(r"\unrestrict")]
        (OUT / "postgresql.sql.xz").write_bytes(lzma.compress("\n".join(lines).encode()))
        (OUT / "answers.json").write_text(json.dumps(told[0], indent=1) + "\n")


def _pushes(top: Path) -> Iterator[tuple[StoreContent, ...]]:
    """What is pushed, together and one after the other: of ``race-half-done`` all but its last
    trial, then all of it."""
    yield (_content(top, "staged", "nightly"),)
    yield (_content(top, "troubled"),)
    half = unpacked(RESULTS / "race-half-done.tar.xz", top / "before")
    shutil.copytree(half, top / "race-half-done/results")
    lines = (half / "measurements.jsonl").read_text().splitlines(keepends=True)
    (half / "measurements.jsonl").write_text("".join(lines[:-1]))
    shutil.rmtree(half / "trials" / json.loads(lines[-1])["folder"])
    yield _placed(content_of(half, ("first",)), "race"), _content(top, "hosts", "one", "two")
    yield (_placed(content_of(top / "race-half-done/results", ("second",)), "race"),)
    yield (_content(top, "imported-table"),)


def _content(top: Path, name: str, *tags: str) -> StoreContent:
    return _placed(content_of(unpacked(RESULTS / f"{name}.tar.xz", top / name), tags), name)


def _placed(content: StoreContent, name: str) -> StoreContent:
    """As if the folder had been pushed from a machine of this name."""
    at = [column.name for column in schema.RESULTS.columns].index("place")
    (head,) = content.plain["results"]
    placed = (*head[:at], f"box:/results/{name}", *head[at + 1 :])
    return replace(content, plain={**content.plain, "results": [placed]})


def _pushed(store: ResultStore, pushes: Sequence[tuple[StoreContent, ...]]) -> None:
    """The first two are put together: as a part that DuckDB wrote."""
    store.push(pushes[0])
    with patch.object(parquet, "MANY", 2):
        store.push(pushes[1])
    for each in pushes[2:]:
        store.push(each)


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


if __name__ == "__main__":
    main()
