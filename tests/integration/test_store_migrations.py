"""Recorded stores of an earlier version of the schema are migrated whole, or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import postgres
from iotrial import __version__
from iotrial.cli.main import status
from iotrial.errors import FormatError
from iotrial_store import migrations, parquet, schema
from iotrial_store.content import StoreContent, content_of
from iotrial_store.errors import StoreError
from iotrial_store.model import PushCounts, ResultStore
from iotrial_store.opened import opened
from iotrial_store.postgres import _LOCK
from old_results import DATA, unpacked
from old_stores import answered, answers, columns_of, old_database, old_folder, rows

OLD = DATA / "results-0.1.0"
PUSHED = {
    "staged": ("nightly",),
    "troubled": (),
    "race-half-done": ("first", "second"),
    "hosts": ("one", "two"),
    "imported-table": (),
}
"""What is in the recorded stores, with its tags."""
Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    programs = postgres.programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is here (Debian: postgresql)")
    with postgres.started(programs) as address:
        yield address


@pytest.fixture(params=["parquet", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store of version 1."""
    if request.param == "parquet":
        return old_folder(1, tmp_path)
    return old_database(1, request.getfixturevalue("server"))


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str]) -> Verb:
    """Does what the words say: its exit code, and what it answers and says."""

    def done(*words: str) -> tuple[int, str, str]:
        code = status(list(words))
        said = capsys.readouterr()
        return code, said.out, said.err

    return done


def pushed(top: Path, name: str, *tags: str) -> StoreContent:
    """What of the recorded stores was pushed from this folder."""
    return content_of(unpacked(OLD / f"{name}.tar.xz", top / name), tags)


def folder_of(url: str) -> Path:
    return Path(url.removeprefix("file:"))


@contextmanager
def asked(url: str) -> Iterator[ResultStore]:
    store = opened(url)
    yield store
    store.close()


def version_of(url: str) -> object:
    if url.startswith("file:"):
        return json.loads((folder_of(url) / "store.json").read_text())["schema"]
    with psycopg.connect(url) as connection:
        (row,) = connection.execute("SELECT version FROM iotrial.version").fetchall()
    return row[0]


def state_of(url: str) -> object:
    """Everything of a store that a change would change."""
    if url.startswith("file:"):
        return {
            path.relative_to(folder_of(url)): path.read_bytes() if path.is_file() else b""
            for path in folder_of(url).rglob("*")
        }
    programs = postgres.programs()
    assert programs
    said = subprocess.check_output([programs / "pg_dump", url], text=True)
    return [line for line in said.splitlines() if "restrict" not in line]


def as_recorded(url: str) -> None:
    """A migrated store answers what it answered before; what is new is empty."""
    with asked(url) as store:
        assert answers(store, before()) == answered(1)
        assert store.query("SELECT DISTINCT pushed_by FROM results").rows == [("",)]


def before() -> dict[str, list[str]]:
    """The columns of each view of version 1."""
    return {view: told["columns"] for view, told in answered(1).items()}  # type: ignore[misc]


# -- the steps -------------------------------------------------------------------------------------


def test_steps_lead_to_this_version_and_add_the_last_columns_of_views() -> None:
    assert [step.version for step in migrations.MIGRATIONS] == list(range(2, schema.VERSION + 1))
    views = {**before()}
    for step in migrations.MIGRATIONS:
        for view, added in step.added.items():
            views[view] = [*views[view], *added]
    assert views == columns_of(), "a column that no step adds would be missing in older stores"


# -- what a user sees ------------------------------------------------------------------------------


def test_every_verb_leaves_an_older_store_alone_and_names_what_migrates_it(
    url: str, tmp_path: Path, verb: Verb
) -> None:
    was = state_of(url)
    race = unpacked(OLD / "race.tar.xz", tmp_path / "race")
    for words in (
        ("list",), ("find",), ("history",), ("sql", "SELECT 1"), ("pull", "first"),
        ("site", "--out", str(tmp_path / "site")), ("push", str(race)),
        ("run", str(race / "study.toml"), "--pretend", "--against", "last", "--out",
         str(tmp_path / "never")),
    ):  # fmt: skip
        code, _, said = verb(*words, "--store", url)
        assert code == 6, words
        said = " ".join(said.split())
        assert "has version 1 of the schema" in said, words
        assert "push --migrate --store" in said, words
        assert "before 1.0.0 cannot use it afterwards" in said, words
    assert state_of(url) == was
    assert verb("push", "--store", url)[0] == 2, "neither folders nor --migrate"


def test_a_migrated_store_answers_as_before(url: str, tmp_path: Path, verb: Verb) -> None:
    code, out, said = verb("push", "--migrate", "--store", url, "--json")
    assert code == 0, said
    told = json.loads(out)
    assert {key: told[key] for key in ("store", "migrated", "added", "replaced", "same")} == {
        "store": url, "migrated": 1, "added": 0, "replaced": 0, "same": 0,
    }  # fmt: skip
    as_recorded(url)
    with asked(url) as store:
        for view, names in columns_of().items():
            assert list(store.query(f"SELECT * FROM {view}").columns) == names  # noqa: S608
    was = state_of(url)
    code, out, _ = verb("push", "--migrate", "--store", url)
    assert code == 0
    assert "version 2 of the schema already" in " ".join(out.split())
    assert state_of(url) == was
    assert verb("pull", "first", "--out", str(tmp_path / "again"), "--store", url)[0] == 0
    assert verb("compare", str(tmp_path / "again"))[0] in {0, 1}


def test_a_migrated_store_is_one_that_was_pushed_anew(
    url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """But for who pushed it, when and from where.  What is judged of it, a later version may judge
    in another way: that of the recording is held by its digest."""
    anew = f"file:{tmp_path}/anew"
    if not url.startswith("file:"):
        anew = postgres.database(request.getfixturevalue("server"))
    with asked(url) as old, asked(anew) as new:
        assert old.migrate() == 1
        new.push([pushed(tmp_path, name, *tags) for name, tags in PUSHED.items()])
        for view, names in columns_of().items():
            if view in {"findings", "doubts"}:
                continue
            own = {"pushed_by", "pushed", "place", "answer"}
            kept = [name for name in names if view != "results" or name not in own]
            assert rows(old, view, kept) == rows(new, view, kept), view
        assert new.query("SELECT DISTINCT pushed_by FROM results").rows == [(__version__,)]


def test_a_migrated_store_is_pushed_to_and_tags_stay(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: Verb
) -> None:
    monkeypatch.setattr(parquet, "MANY", 5)
    race = unpacked(OLD / "race-half-done.tar.xz", tmp_path / "half")
    words = ("push", str(race), "--tag", "third", "--store", url)
    code, out, said = verb(*words, "--migrate")
    assert code == 0, said
    assert "migrated from version 1 of the schema to 2, 1 there already" in " ".join(out.split())
    with asked(url) as store:
        assert store.push([pushed(tmp_path, "staged")]) == PushCounts(same=1)
        assert store.push([pushed(tmp_path, "full")]) == PushCounts(added=1)
        tags = "SELECT tag FROM tags WHERE tag NOT IN ('nightly', 'one', 'two') ORDER BY tag"
        assert store.query(tags).rows == [("first",), ("second",), ("third",)]
        assert store.query(
            "SELECT pushed_by, count(*) FROM results GROUP BY pushed_by ORDER BY 1"
        ).rows == [("", 4), (__version__, 2)]
        counts = "SELECT (SELECT count(*) FROM trials), (SELECT sum(trials) FROM results)"
        (row,) = store.query(counts).rows
        assert row[0] == row[1]
    if url.startswith("file:"):
        parts = json.loads((folder_of(url) / "store.json").read_text())["parts"]
        assert len(parts) < 5, "migrated parts and new ones were put together"


def test_who_reads_the_former_version_has_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tables that did not change nothing is written."""
    url = old_folder(1, tmp_path)
    parts = json.loads((folder_of(url) / "store.json").read_text())["parts"]
    was = state_of(url)
    assert isinstance(was, dict)
    with asked(url) as store:
        store.migrate()
        now = state_of(url)
        assert isinstance(now, dict)
        index = Path("store.json")
        assert {path: now.get(path) for path in was if path != index} == {
            path: data for path, data in was.items() if path != index
        }
        assert sorted(map(str, now.keys() - was.keys())) == sorted(
            f"parts/{part}/results.2.parquet" for part in parts
        )
        monkeypatch.setattr(parquet, "KEPT", -1.0)
        store.push([pushed(tmp_path, "full")])
    left = {path.name for path in folder_of(url).rglob("results*")}
    assert left == {"results.2.parquet"}
    with asked(url) as store:
        assert store.query("SELECT count(*) FROM results").rows == [(len(PUSHED) + 1,)]


# -- all of it, or nothing -------------------------------------------------------------------------

DYING = """
import os, signal, sys
from iotrial.cli.main import main
last, lines, inside = int(sys.argv.pop(1)), 0, False

def seen(frame, event, _):
    global lines
    name = frame.f_code.co_filename
    if not name.endswith(("iotrial_store/parquet.py", "iotrial_store/postgres.py", "files.py")):
        return None
    if event == "line":
        lines += 1
        if lines == last:
            os.kill(os.getpid(), signal.SIGKILL)
    return seen

def traced(migrate):
    def done(store):
        sys.settrace(seen)
        try:
            return migrate(store)
        finally:
            sys.settrace(None)
            print(lines, file=sys.stderr)
    return done

from iotrial_store.parquet import ParquetStore
from iotrial_store.postgres import PostgresStore
for kind in (ParquetStore, PostgresStore):
    kind.migrate = traced(kind.migrate)
sys.argv[0] = "iotrial"
sys.exit(main())
"""
"""Dies, by SIGKILL, before it executes this line of what migrates; says how many there were."""


def migrating(url: str, last: int = 0) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", DYING, str(last), "push", "--migrate", "--store", url, "--json"]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)


def test_a_migration_that_is_killed_leaves_the_store_as_it_was_or_migrated(
    url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = migrating(url)
    assert whole.returncode == 0, whole.stderr
    lines = int(whole.stderr.split()[-1])
    killed = set()
    for number in range(12):
        last = 1 + number * (lines - 1) // 11
        if url.startswith("file:"):
            store = old_folder(1, tmp_path / f"{number}")
        else:
            store = old_database(1, request.getfixturevalue("server"))
        was = answered(1)
        assert migrating(store, last).returncode == -9
        killed.add(version_of(store))
        if version_of(store) == 1:
            _reads_as_version_1(store, was)
        with asked(store) as there:
            assert there.migrate() in {1, 2}
        as_recorded(store)
        if store.startswith("file:"):
            with asked(store) as there:
                _nothing_is_left(there, store)
    assert killed == {1, 2}, "kills before the commit, and after it"


def _reads_as_version_1(url: str, was: dict[str, dict[str, object]]) -> None:
    """What an earlier iotrial would read: the files or tables of the former version."""
    if url.startswith("file:"):
        index = json.loads((folder_of(url) / "store.json").read_text())
        with asked(url) as store:
            assert isinstance(store, parquet.ParquetStore)
            connection = parquet._connected()
            count = 0
            for view, told in was.items():
                for part in index["parts"]:
                    path = folder_of(url) / "parts" / part / f"{view}.parquet"
                    names = ", ".join(told["columns"])  # type: ignore[arg-type]
                    query = f"SELECT {names} FROM read_parquet('{path}')"  # noqa: S608
                    count += len(connection.execute(query).fetchall())
            connection.close()
        assert count > sum(int(str(told["rows"])) for told in was.values()), "and what is gone"
    else:
        with psycopg.connect(url, options="-c search_path=iotrial") as connection:
            for view, told in was.items():
                found = connection.execute(f"SELECT * FROM {view}")  # type: ignore[arg-type] # noqa: S608
                assert [each.name for each in found.description or ()] == told["columns"]
                assert len(found.fetchall()) == told["rows"]


def _nothing_is_left(store: ResultStore, url: str) -> None:
    """A day later, of what a killed one had begun."""
    folder = folder_of(url)
    long_ago = time.time() - 2 * 86_400
    for path in (folder / "parts").iterdir():
        os.utime(path, (long_ago, long_ago))
    store.push([content_of(unpacked(OLD / "full.tar.xz", folder.parent / "full"))])
    index = json.loads((folder / "store.json").read_text())
    there = {path.name for path in (folder / "parts").iterdir()}
    assert there == {*index["parts"], *(name for name in index["old"] if "/" not in name)}


def test_a_migration_that_is_killed_while_it_waits_leaves_the_store_as_it_was(server: str) -> None:
    url = old_database(1, server)
    words = [sys.executable, "-c", DYING, "0", "push", "--migrate", "--store", url]
    with psycopg.connect(url) as reader:
        reader.execute("SELECT count(*) FROM iotrial.results")  # in a transaction that stays open
        job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: waiting_in(url, "relation") == 1)
        job.kill()
        job.wait()
    until(lambda: waiting_in(url, "relation") == 0)
    assert version_of(url) == 1
    with asked(url) as store:
        assert store.migrate() == 1
    as_recorded(url)


# -- at the same time ------------------------------------------------------------------------------


@contextmanager
def held(url: str, count: int) -> Iterator[Callable[[], None]]:
    """The lock of a store, held by somebody; what is given waits until ``count`` others wait."""
    if url.startswith("file:"):
        with (folder_of(url) / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            inode = os.fstat(file.fileno()).st_ino

            def waits() -> bool:
                lines = Path("/proc/locks").read_text().splitlines()
                return sum("->" in line and f":{inode} " in line for line in lines) == count

            yield lambda: until(waits)
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
            yield lambda: until(lambda: waiting_in(url, "advisory") == count)


def waiting_in(url: str, kind: str) -> int:
    """How many wait for a lock of this kind."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE NOT granted AND locktype = %s AND datname = current_database()",
            (kind,),
        ).fetchone()
    return int(found[0]) if found else 0


def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to that")


def migrated(url: str) -> int:
    with asked(url) as store:
        return store.migrate()


def test_of_two_migrations_at_once_one_does_it(url: str) -> None:
    with ThreadPoolExecutor(2) as both:
        with held(url, 2) as others_wait:
            jobs = [both.submit(migrated, url) for _ in range(2)]
            others_wait()
        assert sorted(job.result(timeout=300) for job in jobs) == [1, 2]
    as_recorded(url)


def test_of_two_first_pushes_at_once_one_makes_the_schema(server: str, tmp_path: Path) -> None:
    url = postgres.database(server)
    contents = [pushed(tmp_path, name) for name in ("race", "full")]
    stores = [opened(url) for _ in contents]
    with ThreadPoolExecutor(2) as both:
        with held(url, 2) as others_wait:
            jobs = [
                both.submit(store.push, [content])
                for store, content in zip(stores, contents, strict=True)
            ]
            others_wait()
        assert [job.result(timeout=300) for job in jobs] == [PushCounts(added=1)] * 2
    for store in stores:
        store.close()


def test_a_push_of_the_former_version_that_comes_first_is_migrated_too(url: str) -> None:
    """It holds the lock, or has not committed yet, when the migration begins."""
    if url.startswith("file:"):
        path = folder_of(url) / "store.json"
        index = json.loads(path.read_text())
        last = list(index["parts"])[-1]
        without = {name: part for name, part in index["parts"].items() if name != last}
        path.write_text(json.dumps(index | {"parts": without}))
        with ThreadPoolExecutor(1) as one:
            with held(url, 1) as other_waits:
                job = one.submit(migrated, url)
                other_waits()
                path.write_text(json.dumps(index))
            assert job.result(timeout=300) == 1
    else:
        with ThreadPoolExecutor(1) as one:
            with psycopg.connect(url) as former:
                saved = former.execute("SELECT * FROM iotrial.results LIMIT 1").fetchone()
                assert saved
                former.commit()
                former.execute("DELETE FROM iotrial.results WHERE result = %s", saved[:1])
                former.commit()
                names = ", ".join(before()["results"])
                values = ", ".join(["%s"] * len(saved))
                insert = f"INSERT INTO iotrial.results ({names}) VALUES ({values})"  # noqa: S608
                former.execute(insert, saved)  # type: ignore[arg-type]
                job = one.submit(migrated, url)
                until(lambda: waiting_in(url, "relation") == 1)
            assert job.result(timeout=300) == 1
        with psycopg.connect(url) as former:  # of a push that goes on in another transaction
            former.execute("DELETE FROM iotrial.results WHERE result = %s", saved[:1])
            former.execute(insert, saved)  # type: ignore[arg-type]
    as_recorded(url)


def test_a_push_that_waits_for_a_migration_to_a_later_version_adds_nothing(
    url: str, tmp_path: Path
) -> None:
    migrated(url)
    content = pushed(tmp_path, "full")
    store = opened(url)
    with ThreadPoolExecutor(1) as one:
        with held(url, 1) as other_waits:
            job = one.submit(store.push, [content])
            other_waits()
            of_version(url, 99)
        with pytest.raises(StoreError, match="version 99 of the schema"):
            job.result(timeout=300)
    store.close()
    of_version(url, 2)
    as_recorded(url)


def of_version(url: str, version: int) -> None:
    if url.startswith("file:"):
        index = folder_of(url) / "store.json"
        index.write_text(json.dumps({**json.loads(index.read_text()), "schema": version}))
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE iotrial.version SET version = %s", (version,))


# -- what it refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [99, 0])
def test_a_store_of_a_version_that_is_unknown_is_left_alone(
    url: str, verb: Verb, version: int
) -> None:
    of_version(url, version)
    was = state_of(url)
    code, _, said = verb("push", "--migrate", "--store", url)
    assert code == 6
    assert f"version {version} of the schema" in " ".join(said.split())
    assert state_of(url) == was


def test_what_is_no_store_is_not_migrated(tmp_path: Path, server: str) -> None:
    for url in (f"file:{tmp_path}/none", postgres.database(server)):
        with asked(url) as store, pytest.raises(StoreError, match="is no store"):
            store.migrate()
    assert not (tmp_path / "none").exists()


def test_who_must_migrate_is_said_to_a_role_that_may_not(server: str, verb: Verb) -> None:
    url = old_database(1, server)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS pushes")
        connection.execute("CREATE ROLE pushes LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA iotrial TO pushes")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA iotrial TO pushes")
    was = state_of(url)
    code, _, said = verb("push", "--migrate", "--store", url.replace("postgres@", "pushes@"))
    assert code == 6
    said = " ".join(said.split())
    assert "must be owner of table results" in said
    assert "Its owner must, the role 'postgres': " in said
    assert state_of(url) == was
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP OWNED BY pushes")
        connection.execute("DROP ROLE pushes")


def test_who_must_migrate_is_said_of_a_folder_that_cannot_be_written(
    tmp_path: Path, verb: Verb
) -> None:
    url = old_folder(1, tmp_path)
    was = state_of(url)
    with _read_only(folder_of(url)) as why:
        code, _, said = verb("push", "--migrate", "--store", url)
    assert code == 6
    said = " ".join(said.split())
    assert why in said
    owner = (folder_of(url) / "store.json").owner()
    assert f"Who may write there must, such as {owner}: " in said
    assert state_of(url) == was


@contextmanager
def _read_only(folder: Path) -> Iterator[str]:
    if os.geteuid():
        (folder / "lock").chmod(0o444)
        yield "Permission denied"
    else:
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
            yield "Read-only file system"
        finally:
            subprocess.run(["umount", folder], check=True)


def test_without_room_nothing_is_migrated_and_with_room_it_is(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root mounts")
    place = tmp_path / "full"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place], check=True)
    try:
        url = old_folder(1, place)
        was = state_of(url)
        assert isinstance(was, dict)
        with suppress(OSError), (place / "other").open("wb", buffering=0) as other:
            while other.write(bytes(4096)):
                pass
        with asked(url) as store:
            for left in (0, 8192, 24_576):
                os.truncate(place / "other", (place / "other").stat().st_size - left)
                with pytest.raises(StoreError, match="No space left on device"):
                    store.migrate()
                now = state_of(url)
                assert isinstance(now, dict)
                assert was.items() <= now.items(), "what is read of version 1 is as it was"
            (place / "other").unlink()
            assert store.migrate() == 1
        as_recorded(url)
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("name", ["../../precious", "/precious", "1-1/../../../precious", "..", ""])
def test_an_index_that_names_what_is_elsewhere_removes_nothing(tmp_path: Path, name: str) -> None:
    """Others write to a store, too."""
    url = old_folder(1, tmp_path)
    migrated(url)
    precious = tmp_path / "precious"
    precious.mkdir()
    path = folder_of(url) / "store.json"
    index: dict[str, Any] = json.loads(path.read_text())
    path.write_text(json.dumps(index | {"old": {name: 0.0}}))
    with asked(url) as store, pytest.raises(FormatError, match="names a part"):
        store.push([pushed(tmp_path, "full")])
    assert precious.is_dir()
    assert (folder_of(url) / "parts").is_dir()
