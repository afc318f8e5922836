"""Stores of both kinds: the same answers, nothing lost, nothing half there."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from pyarrow import parquet as columns

import postgres
from iotrial.cli.main import status
from iotrial.errors import IotrialError, UsageError
from iotrial.hosts.fake.fio import EFFECT
from iotrial.judgement import judge
from iotrial.report.document import document
from iotrial.store import open_results
from iotrial_store import parquet, schema
from iotrial_store.content import content_of
from iotrial_store.errors import StoreError
from iotrial_store.history import histories, noise_of, series_of
from iotrial_store.model import PushCounts, ResultStore
from iotrial_store.opened import opened
from iotrial_store.reading import MANY
from iotrial_store.site import store_site
from nightly import BEGAN, DAY, STUDY, PlantedChange, first, nights
from old_results import DATA, unpacked
from old_stores import columns_of, rows

OLD = DATA / "results-0.1.0"
SOME = ("race", "hosts", "staged", "imported-table", "troubled", "real-loop")
KINDS = ("parquet", "postgresql")
Verb = Callable[..., tuple[int, str]]


# -- a server --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    programs = postgres.programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is here (Debian: postgresql)")
    with postgres.started(programs) as address:
        yield address


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that nobody has made yet."""
    if request.param == "parquet":
        return f"file:{tmp_path}/a store"
    return postgres.database(request.getfixturevalue("server"))


@pytest.fixture
def store(url: str) -> Iterator[ResultStore]:
    found = opened(url)
    yield found
    found.close()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    into = tmp_path_factory.mktemp("old")
    return {name: unpacked(OLD / f"{name}.tar.xz", into / name) for name in SOME}


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str]) -> Verb:
    """Does what the words say: its exit code, and what it answers."""

    def done(*words: str) -> tuple[int, str]:
        return status(list(words)), capsys.readouterr().out

    return done


# -- what is in it ---------------------------------------------------------------------------------


def test_both_kinds_give_the_same_answers_and_those_of_the_folders(
    server: str, tmp_path: Path, folders: dict[str, Path]
) -> None:
    stores = [opened(f"file:{tmp_path}/store"), opened(postgres.database(server))]
    contents = [content_of(folder, ("one", "two")) for folder in folders.values()]
    for each in stores:
        assert each.push(contents) == PushCounts(added=len(SOME))
    assert dict(store_site(stores[0])) == dict(store_site(stores[1]))
    for view, names in columns_of().items():
        first, second = (rows(each, view, names) for each in stores)
        assert first == second, view
        assert first, f"{view} has rows"
    for folder, content in zip(folders.values(), contents, strict=True):
        _as_in(stores[0], folder, content.result)
    for each in stores:
        each.close()


def _as_in(store: ResultStore, folder: Path, result: str) -> None:
    results = open_results(folder)
    told = document(judge(results))
    numbers = store.query(
        "SELECT trial, metric, job, value FROM measurements WHERE result = ?", (result,)
    )
    expected = {
        (record.trial.number, each.metric, each.job, each.value)
        for record in results.records
        for each in record.measurements
    }
    assert set(numbers.rows) == expected
    states = store.query("SELECT trial, folder, state FROM trials WHERE result = ?", (result,))
    assert set(states.rows) == {
        (record.trial.number, record.trial.folder, record.state) for record in results.records
    }
    verdicts = store.query(
        "SELECT workload, metric, level, verdict, ratio FROM findings WHERE result = ?", (result,)
    )
    keys = ("workload", "metric", "level", "verdict", "ratio")
    assert sorted(map(str, verdicts.rows)) == sorted(
        str(tuple(row[key] for key in keys)) for row in told["findings"]
    )
    settings = store.query(
        "SELECT trial, device, tunable, value FROM settings JOIN trials USING (result, settings)"
        " WHERE result = ?",
        (result,),
    )
    assert set(settings.rows) == {
        (record.trial.number, *setting) for record in results.records for setting in record.before
    }


def test_points_are_of_valid_trials_without_a_doubt(
    store: ResultStore, folders: dict[str, Path]
) -> None:
    store.push([content_of(folders["troubled"])])
    rows = store.query(
        "SELECT p.treatment, p.metric, p.n, p.doubted, p.mean, (SELECT count(*) FROM trials t"
        " WHERE t.treatment = p.treatment AND t.workload = p.workload AND t.state = 'valid'"
        " AND NOT t.doubted) AS clean, (SELECT count(*) FROM trials t"
        " WHERE t.treatment = p.treatment AND t.workload = p.workload) AS of_all,"
        " (SELECT exp(avg(ln(m.value))) FROM measurements m JOIN trials t USING (result, trial)"
        " WHERE m.treatment = p.treatment AND m.workload = p.workload AND m.metric = p.metric"
        " AND m.job = 'all' AND t.state = 'valid' AND NOT t.doubted) AS again"
        " FROM points p WHERE metric LIKE '%.iops'"
    ).dicts()
    assert rows
    for row in rows:
        assert row["n"] == row["clean"], row
        assert row["doubted"] == int(str(row["of_all"])) - int(str(row["clean"])), row
        assert float(str(row["mean"])) == pytest.approx(float(str(row["again"])), rel=1e-9)
    assert any(row["doubted"] for row in rows), "the study has troubles"


# -- once, all, or nothing -------------------------------------------------------------------------


def test_the_same_folder_twice_is_once_and_one_that_went_on_replaces(
    store: ResultStore, tmp_path: Path
) -> None:
    half = unpacked(OLD / "race-half-done.tar.xz", tmp_path / "half")
    assert store.push([content_of(half, ("first",))]) == PushCounts(added=1)
    assert store.push([content_of(half)]) == PushCounts(same=1)
    before = store.query("SELECT result, trials FROM results").rows
    trials = sorted((half / "trials").iterdir())
    shutil.copytree(trials[0], tmp_path / "kept")
    lines = (half / "measurements.jsonl").read_text().splitlines(keepends=True)
    (half / "measurements.jsonl").write_text("".join(lines[:-1]))
    last = json.loads(lines[-1])["folder"]
    shutil.rmtree(half / "trials" / last)
    assert store.push([content_of(half, ("second",))]) == PushCounts(replaced=1)
    after = store.query("SELECT result, trials FROM results").rows
    assert after == [(before[0][0], int(str(before[0][1])) - 1)]
    assert store.query("SELECT count(*) FROM trials").rows == [(after[0][1],)]
    tags = store.query("SELECT tag FROM tags ORDER BY tag").rows
    assert tags == [("first",), ("second",)], "tags stay"


PUSH = "import sys; from iotrial.cli.main import main; sys.argv[0] = 'iotrial'; sys.exit(main())"


def pushing(url: str, *folders: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PUSH, "push", *map(str, folders), "--store", url, "--json"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_pushes_at_the_same_time_lose_nothing(url: str, folders: dict[str, Path]) -> None:
    every = list(folders.values())
    jobs = [pushing(url, folder) for folder in every] + [pushing(url, *every) for _ in range(2)]
    counts = []
    for job in jobs:
        out, said = job.communicate(timeout=120)
        assert job.returncode == 0, said
        counts.append(json.loads(out))
    with_all = opened(url)
    assert with_all.query("SELECT count(*), count(DISTINCT result) FROM results").rows == [
        (len(SOME), len(SOME))
    ]
    _whole(with_all)
    assert sum(each["added"] for each in counts) == len(SOME)
    with_all.close()


def _whole(store: ResultStore) -> int:
    """How many results can be seen, each with all of its trials and their numbers."""
    rows = store.query(
        "SELECT r.result, r.trials, (SELECT count(*) FROM trials t WHERE t.result = r.result),"
        " (SELECT count(*) FROM measurements m WHERE m.result = r.result),"
        " (SELECT count(*) FROM files f WHERE f.result = r.result) FROM results r"
    ).rows
    for _, trials, found, numbers, files in rows:
        assert trials == found
        assert int(str(numbers)) > 0
        assert int(str(files)) > 0
    return len(rows)


def test_a_push_that_is_killed_leaves_nothing_half_there(
    url: str, folders: dict[str, Path]
) -> None:
    """From before it opens the store until after its last word."""
    every = list(folders.values())
    chance, seen = random.Random(1), set()
    first = opened(url)
    first.push([content_of(every[0])])  # the schema is made
    first.close()
    for _ in range(12):
        job = pushing(url, *every)
        time.sleep(chance.uniform(0.5, 4.0))
        job.kill()
        job.communicate()
        there = opened(url)
        seen.add(_whole(there))
        there.close()
    assert seen <= {1, len(every)}, "all of a push, or nothing"
    job = pushing(url, *every)
    job.communicate(timeout=120)
    assert job.returncode == 0
    there = opened(url)
    assert _whole(there) == len(every)
    there.close()


def test_many_small_parts_are_put_together(
    tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MANY", 4)
    store = opened(f"file:{tmp_path}/store")
    every = list(folders.values())
    half = unpacked(OLD / "race-half-done.tar.xz", tmp_path / "half")
    for folder in (half, *every):
        store.push([content_of(folder, ("a",))])
        _whole(store)
    parts = json.loads((tmp_path / "store/store.json").read_text())["parts"]
    assert len(parts) < 4 + 1
    assert _whole(store) == len(every) + 1
    assert store.query("SELECT count(*) FROM tags").rows == [(len(every) + 1,)]
    left = [path.name for path in (tmp_path / "store/parts").iterdir()]
    assert len(left) > len(parts), "who reads has an hour"
    monkeypatch.setattr(parquet, "KEPT", -1.0)
    store.push([content_of(every[0], ("b",))])
    left = [path.name for path in (tmp_path / "store/parts").iterdir()]
    parts = json.loads((tmp_path / "store/store.json").read_text())["parts"]
    assert sorted(left) == sorted(parts)
    assert _whole(store) == len(every) + 1
    store.close()


# -- what it refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM tags", "DROP VIEW trials", "SELECT 1; SELECT 2",
        "SELECT 1; COMMIT; DELETE FROM tags", "COPY results TO '/tmp/iotrial-never.csv'",
        "WITH gone AS (DELETE FROM tags RETURNING tag) SELECT * FROM gone", "SELECT * FROM nothing",
        "", "CREATE TABLE mine AS SELECT 1",
    ],
)  # fmt: skip
def test_a_query_can_change_nothing(store: ResultStore, folders: dict[str, Path], sql: str) -> None:
    store.push([content_of(folders["race"], ("mine",))])
    with pytest.raises(UsageError):
        store.query(sql)
    assert store.query("SELECT tag FROM tags").rows == [("mine",)]
    assert not Path("/tmp/iotrial-never.csv").exists()


def test_another_version_of_the_schema_is_refused(
    url: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    store = opened(url)
    store.push([content_of(folders["race"])])
    if url.startswith("file:"):
        index = Path(url.removeprefix("file:")) / "store.json"
        index.write_text(json.dumps({**json.loads(index.read_text()), "schema": 99}))
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE iotrial.version SET version = 99")
    store.close()
    with pytest.raises(StoreError, match="version 99 of the schema"):
        store.query("SELECT 1")
    with pytest.raises(StoreError, match="version 99 of the schema"):
        store.push([content_of(folders["race"])])
    store.close()


def test_what_is_no_store_is_said(url: str, tmp_path: Path) -> None:
    none = opened(url)
    with pytest.raises(StoreError, match="is no store"):
        none.query("SELECT 1")
    none.close()
    for wrong, said in (
        ("mysql://host/db", "no store that iotrial knows"),
        ("postgresql://me:secret@host/db", "no password"),
        ("postgresql://me@127.0.0.1:1/db", "onnection"),
        ("postgresql://me@/%s", "percent-encoded"),
        ("postgresql://me@host/db?nonsense=1", "nonsense"),
    ):
        with pytest.raises(IotrialError, match=said) as found:
            opened(wrong).query("SELECT 1")
        assert "secret" not in str(found.value)
        assert found.value.advice
    with pytest.raises(UsageError, match="is empty"):
        opened("")


def test_a_folder_that_cannot_be_read_keeps_no_other_out(
    url: str, folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = tmp_path / "results"
    shutil.copytree(folders["race"], parent / "race")
    words = [str(tmp_path / "nope"), str(folders["race"]), str(tmp_path)]
    assert status(["push", *words, "--store", url]) == 2
    said = capsys.readouterr()
    assert said.out.startswith("1 added")
    for folder in ("nope", ""):
        assert f"not added: {tmp_path / folder}" in said.err
    assert status(["push", str(parent), "--store", url]) == 2
    said = capsys.readouterr()
    assert said.out.startswith("0 added")
    assert f"push {parent}/*" in said.err
    for more, counted in (((), "1 there already;"), (("--tag", "v7"), "1 there already;")):
        assert status(["push", str(folders["race"]), *more, "--store", url]) == 0
        assert capsys.readouterr().out.startswith(counted)
    assert status(["push", str(tmp_path / "nope"), "--store", url, "--json"]) == 2
    assert list(json.loads(capsys.readouterr().out)["wrong"]) == [str(tmp_path / "nope")]


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user without rights")


def pushed_by_nobody(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return subprocess.run(
        [*user, sys.executable, "-c", PUSH, "push", *words],
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd)},
        capture_output=True,
        text=True,
        check=False,
    )


@ROOT
def test_a_folder_that_its_user_may_not_read_keeps_no_other_out(
    folders: dict[str, Path],
) -> None:
    with TemporaryDirectory(dir="/tmp") as name:
        top = Path(name)
        top.chmod(0o777)
        for folder, part in (("a", None), ("b", ""), ("c", "trials"), ("d", "plan.jsonl")):
            shutil.copytree(folders["race"], top / folder)
            for path in (top / folder, *(top / folder).rglob("*")):
                path.chmod(0o755)
            if part is not None:
                (top / folder / part).chmod(0)
        ended = pushed_by_nobody("a", "b", "c", "d", "--store", f"file:{top}/store", cwd=top)
        assert ended.returncode == 2, ended.stderr
        assert ended.stdout.startswith("1 added"), ended.stderr
        for part in ("b/plan.jsonl", "c/trials", "d/plan.jsonl"):
            assert f"not added: {part}: Permission denied" in ended.stderr
        assert ended.stderr.count("who may read all of the folder") == 1
        assert opened(f"file:{top}/store").query("SELECT count(*) FROM results").rows == [(1,)]


@ROOT
def test_who_may_not_write_a_store_is_told_whose_it_is(folders: dict[str, Path]) -> None:
    with TemporaryDirectory(dir="/tmp") as name:
        top = Path(name)
        top.chmod(0o755)
        url = f"file:{top}/store"
        for folder in ("race", "hosts"):
            shutil.copytree(folders[folder], top / folder)
        assert status(["push", str(top / "race"), "--store", url, "--quiet"]) == 0
        for path in top.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        ended = pushed_by_nobody("hosts", "--store", url, cwd=top)
        assert ended.returncode == 6, ended.stderr
        assert "It is of root: ask for the right to write." in ended.stderr
        assert opened(url).query("SELECT count(*) FROM results").rows == [(1,)]


# -- by several processes --------------------------------------------------------------------------


@pytest.fixture
def many(folders: dict[str, Path], tmp_path: Path) -> list[Path]:
    """As many folders as are read by several processes, each another's results."""
    made = []
    for number in range(2 * MANY):
        made.append(tmp_path / f"results-{number}")
        shutil.copytree(folders["race"], made[-1])
        sessions = made[-1] / "sessions.jsonl"
        first, *more = sessions.read_text().splitlines(keepends=True)
        row = json.loads(first)
        sessions.write_text("".join([json.dumps({**row, "token": f"{number}"}) + "\n", *more]))
    return made


SEVERAL = pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="one CPU: one process")


@SEVERAL
def test_processes_read_folders_as_one_does(url: str, many: list[Path], tmp_path: Path) -> None:
    (many[3] / "plan.jsonl").write_text("{\n")
    shutil.rmtree(many[-1])
    said = []
    one = f"{min(os.sched_getaffinity(0))}"
    for store, before in ((url, ()), (f"file:{tmp_path}/alone", ("taskset", "-c", one))):
        words = [*before, sys.executable, "-c", PUSH, "push", "--json", "--store", store]
        done = subprocess.run(
            [*words, *map(str, many)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, done.stderr
        told = json.loads(done.stdout)
        assert (told.pop("store"), told["added"]) == (store, len(many) - 2)
        assert list(told["wrong"]) == [str(many[3]), str(many[-1])]
        points = (
            "SELECT result, workload, treatment, metric, n, mean FROM points ORDER BY 1, 2, 3, 4"
        )
        with closing(opened(store)) as asked:
            rows = asked.query(points).rows
        assert len({row[0] for row in rows}) == len(many) - 2
        said.append((told, rows))
    assert said[0] == said[1]


def alive(pid: str) -> bool:
    """A zombie is not: who reaps orphans may be slow."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@SEVERAL
@pytest.mark.parametrize(
    ("who", "number", "code"),
    [
        ("all", signal.SIGINT, 130),
        ("push", signal.SIGKILL, -signal.SIGKILL),
        ("child", signal.SIGKILL, 6),
    ],
)
def test_no_process_outlives_a_push(
    many: list[Path], tmp_path: Path, who: str, number: int, code: int
) -> None:
    words = ["push", *map(str, many * 20), "--store", f"file:{tmp_path}/store"]
    pushing = subprocess.Popen(
        [sys.executable, "-c", PUSH, *words], stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    beside = Path(f"/proc/{pushing.pid}/task/{pushing.pid}/children")
    children: list[str] = []
    while len(children) < 2 and pushing.poll() is None:
        children = beside.read_text().split()
        time.sleep(0.01)
    assert len(children) >= 2, "several processes read them"
    if who == "all":
        os.killpg(pushing.pid, number)
    else:
        os.kill(pushing.pid if who == "push" else int(children[0]), number)
    _, said = pushing.communicate(timeout=60)
    assert pushing.returncode == code, said
    assert "Traceback" not in said
    assert ("Free memory, then push the same again" in said) == (who == "child")
    until = time.monotonic() + 30
    while any(map(alive, children)):
        assert time.monotonic() < until, "a process has outlived the push"
        time.sleep(0.05)


@SEVERAL
@pytest.mark.parametrize("side", ["after_in_parent", "after_in_child"])
def test_ctrl_c_while_processes_are_started_ends_a_push(
    many: list[Path], tmp_path: Path, side: str
) -> None:
    """What Python calls after a fork swallows the exception of Ctrl-C, or a child prints it."""
    at_once = f"import os; os.register_at_fork({side}=lambda: os.killpg(0, {signal.SIGINT:d})); "
    words = ["push", *map(str, many), "--store", f"file:{tmp_path}/store"]
    done = subprocess.run(
        [sys.executable, "-c", at_once + PUSH, *words], capture_output=True, text=True,
        start_new_session=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert "KeyboardInterrupt" not in done.stderr


def test_pretended_results_are_marked(tmp_path: Path, verb: Verb) -> None:
    url = f"file:{tmp_path}/store"
    code, said = verb("push", str(first(tmp_path, "marked")), "--store", url)
    assert code == 0
    assert "1 of them pretended" in said
    assert "1 (1 pretended)" in verb("list", "--store", url)[1]
    assert "Pretended: " in verb("find", "--store", url)[1]


def test_what_is_not_there_is_told_with_what_is_nearest(
    url: str, folders: dict[str, Path], verb: Verb
) -> None:
    assert verb("push", *map(str, folders.values()), "--tag", "spring", "--store", url)[0] == 0
    for option, wrong, said in (
        ("--setting", "scheduler=bfq", "no setting scheduler; did you mean queue.scheduler?"),
        ("--tag", "sprung", "no tag sprung; did you mean spring?"),
        ("--metric", "read.iopses", "did you mean read.iops?"),
        ("--study", "qqqqq", "no study qqqqq; it has "),
    ):
        code, told = verb("find", option, wrong, "--store", url)
        assert (code, said in " ".join(told.split())) == (1, True), told
    code, told = verb("history", "qqqqq", "--store", url, "--json")
    assert code == 2
    assert "no study qqqqq" in json.loads(told)["error"]["message"]
    machine = json.loads(
        verb("sql", "SELECT machine FROM machines", "--store", url, "--as", "json")[1]
    )[0]["machine"]
    told = verb("find", "--machine", machine, "--tag", "sprung", "--store", url)[1]
    assert "no machine" not in " ".join(told.split()), "a digest names one, too"
    code, told = verb("find", "--setting", "queue.scheduler=bfk", "--store", url)
    assert (code, "queue.scheduler was never bfk; it was" in " ".join(told.split())) == (1, True)
    code, told = verb("pull", "sprung", "--store", url, "--json")
    assert code == 2
    assert "did you mean spring?" in json.loads(told)["error"]["message"]
    for sql, said, advice in (
        ("SELECT 1; SELECT 2", "these are several", "one after another"),
        ("SELECT * FROM trial", "trial", "--schema"),
        ("SELECT treatmen FROM trials", "treatment", "--schema"),
    ):
        code, told = verb("sql", sql, "--store", url, "--json")
        assert code == 2
        error = json.loads(told)["error"]
        assert said in error["message"]
        assert advice in error["advice"]


def test_a_history_that_cannot_tell_yet_gives_no_all_clear(tmp_path: Path, verb: Verb) -> None:
    url = f"file:{tmp_path}/store"
    base = first(tmp_path, "short")
    assert verb("push", *map(str, nights(base, tmp_path, 2)), "--store", url)[0] == 0
    said = " ".join(verb("history", "--store", url)[1].split())
    assert "2 of them cannot tell yet: 10 results folders are needed (short has 2)" in said
    site = tmp_path / "site"
    assert verb("site", "--store", url, "--out", str(site))[0] == 0
    assert "too few results" in (site / "index.html").read_text()
    page = (site / "studies/short.html").read_text()
    assert "Too few results to tell: fewer than 10" in page
    assert "No change" not in page
    assert verb("push", *map(str, nights(base, tmp_path, 10, since=2)), "--store", url)[0] == 0
    assert "cannot tell" not in verb("history", "--store", url)[1]


def test_what_run_against_means_otherwise_is_no_tag(
    url: str, folders: dict[str, Path], verb: Verb
) -> None:
    for word, code in (("last", 2), ("best", 2), ("lasting", 0)):
        assert verb("push", str(folders["race"]), "--tag", word, "--store", url)[0] == code, word


@pytest.mark.parametrize(
    "tag", ["", " ", "a b", "a,b", "x\ny", "\x1b[31m", "\udcff", "--json", 65 * "x"]
)
def test_what_is_no_word_is_no_tag(tag: str, tmp_path: Path, verb: Verb) -> None:
    code, said = verb(
        "push", str(tmp_path), "--tag", tag, "--store", f"file:{tmp_path}/store", "--json"
    )
    assert code == 2
    assert "cannot be a tag" in said


@pytest.mark.parametrize("tag", ["v7", "feature/x", "1.0-rc", "é", 64 * "x"])
def test_a_word_is_a_tag(tag: str, url: str, folders: dict[str, Path], verb: Verb) -> None:
    assert verb("push", str(folders["race"]), "--tag", tag, "--store", url)[0] == 0
    assert verb("find", "--tag", tag, "--store", url)[0] == 0


def test_a_copy_that_lost_trials_replaces_nothing(
    url: str, folders: dict[str, Path], tmp_path: Path, verb: Verb
) -> None:
    whole, half = folders["race"], tmp_path / "half"
    assert verb("push", str(whole), "--store", url)[0] == 0
    with closing(opened(url)) as asked:
        before = asked.query("SELECT count(*) FROM trials").rows
    shutil.copytree(whole, half)
    shutil.rmtree(half / "trials")
    code, said = verb("push", str(half), "--store", url, "--json")
    assert code == 2
    assert "it has 0 trials, and the store" in said
    assert "push a whole copy" in said
    with closing(opened(url)) as asked:
        assert asked.query("SELECT count(*) FROM trials").rows == before


def test_no_store_is_made_among_results(
    folders: dict[str, Path], tmp_path: Path, verb: Verb
) -> None:
    shutil.copytree(folders["race"], tmp_path / "results/race")
    url = f"file:{tmp_path}/results"
    for words in (["list"], ["push", str(folders["race"])]):
        code, said = verb(*words, "--store", url, "--json")
        assert code == 6
        assert "a folder of results: it has race/plan.jsonl" in said
        assert "Name another folder" in said
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["race"]


def test_an_answer_is_told_where_only_ascii_can_be_printed(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    url = f"file:{tmp_path}/store"
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for words in (["push", str(folders["race"]), "--tag", "é"], ["find"]):
        done = subprocess.run(
            [sys.executable, "-c", PUSH, *words, "--store", url], env=ascii_only,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert "\\xe9" in done.stdout


def test_what_stands_where_a_store_is_looked_for_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for name, said, advice in (
        ("nowhere", "no such folder", f"--store 'file:{tmp_path}/nowhere'"),
        ("file", "it is a file", "Name a folder"),
        ("folder", "it has no store.json", "iotrial push DIR --store"),
    ):
        with pytest.raises(StoreError, match=said) as found:
            opened(f"file:{tmp_path}/{name}").query("SELECT 1")
        assert advice.replace("'", "") in found.value.advice.replace("'", "")
    with pytest.raises(StoreError) as found:
        opened("postgresql://me@127.0.0.1:1/db").query("SELECT 1")
    assert "server running" in found.value.advice


def test_a_database_that_is_not_there_is_to_be_made(server: str) -> None:
    with pytest.raises(StoreError, match="does not exist") as found:
        opened(server % "nobody_made_it").query("SELECT 1")
    assert "createdb" in found.value.advice


def test_no_store_is_made_in_a_folder_of_results(folders: dict[str, Path], tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(folders["race"], results)
    before = sorted(results.rglob("*"))
    with pytest.raises(StoreError, match="a folder of results: it has"):
        opened(f"file:{results}").push([content_of(folders["race"])])
    assert sorted(results.rglob("*")) == before


def test_a_store_without_room_is_named_and_has_nothing_half(
    tmp_path: Path, folders: dict[str, Path]
) -> None:
    if os.geteuid():
        pytest.skip("only root mounts")
    place = tmp_path / "full"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], check=True)
    try:
        store = opened(f"file:{place}/store")
        store.push([content_of(folders["race"])])
        with suppress(OSError), (place / "other").open("wb", buffering=0) as other:
            while other.write(bytes(4096)):
                pass
        os.truncate(place / "other", (place / "other").stat().st_size - 40_960)
        with pytest.raises(StoreError, match="No space left on device"):
            store.push(content_of(folder) for folder in folders.values())
        store.close()
        assert _whole(store) == 1
        store.close()
    finally:
        subprocess.run(["umount", place], check=True)


# -- the verbs -------------------------------------------------------------------------------------


def test_results_that_are_pulled_are_judged_as_those_that_were_pushed(
    url: str, tmp_path: Path, folders: dict[str, Path], verb: Verb
) -> None:
    assert verb("push", *map(str, folders.values()), "--store", url)[0] == 0
    for name, folder in folders.items():
        result = content_of(folder).result
        into = tmp_path / f"pulled-{name}"
        code, said = verb("pull", result[:12], "--out", str(into), "--store", url)
        assert code == 0, said
        assert str(folder.resolve()) in said
        assert document(judge(open_results(into))) == document(judge(open_results(folder)))
        assert verb("push", str(into), "--store", url, "--json")[0] == 0
    with_all = opened(url)
    assert _whole(with_all) == len(folders), "the same results, wherever they lie"
    with_all.close()


def test_results_are_found_by_what_they_are_of(
    url: str, folders: dict[str, Path], verb: Verb
) -> None:
    assert verb("push", str(folders["race"]), "--tag", "before", "--store", url)[0] == 0
    assert verb("push", str(folders["staged"]), str(folders["hosts"]), "--store", url)[0] == 0

    def found(*words: str) -> list[str]:
        code, said = verb("find", *words, "--store", url, "--json")
        rows = json.loads(said)["results"]
        assert code == (0 if rows else 1)
        return sorted(row["result"] for row in rows)

    every = found()
    assert len(every) == 3
    race = found("--tag", "before")
    assert len(race) == 1
    assert found("--study", "s*dy") == every
    assert found("--study", "s_udy") == []
    assert found("--tag", "after") == []
    assert found("--setting", "queue.scheduler=no such") == []
    assert found("--setting", "queue.scheduler")
    assert found("--metric", "read.iops")
    assert found("--kernel", "*fake*") == every
    assert found("--kernel", "%") == []
    assert found("--machine", "nobody") == []
    assert found("--since", "2026-01-01") == every
    assert found("--until", "2026-01-01") == []
    assert found("zzzz") == []
    assert verb("find", "--since", "monday", "--store", url)[0] == 2
    code, said = verb("list", "--store", url, "--json")
    assert code == 0
    (row,) = json.loads(said)["studies"]
    assert (row["study"], row["results"]) == ("study", 3)


def test_a_query_is_written_as_it_is_asked_for(
    url: str, tmp_path: Path, folders: dict[str, Path], verb: Verb
) -> None:
    assert verb("push", str(folders["race"]), "--store", url)[0] == 0
    sql = "SELECT treatment, metric, n, mean, began FROM points ORDER BY treatment, metric"
    code, text = verb("sql", sql, "--store", url, "--as", "json")
    assert code == 0
    rows = json.loads(text)
    table = list(csv.DictReader(io.StringIO(verb("sql", sql, "--store", url, "--as", "csv")[1])))
    file = tmp_path / "x.parquet"
    assert verb("sql", sql, "--store", url, "--as", "parquet", "--out", str(file))[0] == 0
    typed = columns.read_table(file).to_pylist()
    assert len(rows) == len(table) == len(typed) > 1
    for one, other, third in zip(rows, table, typed, strict=True):
        assert one["treatment"] == other["treatment"] == third["treatment"]
        assert one["mean"] == float(other["mean"]) == third["mean"]
        assert one["began"] == other["began"] == third["began"].isoformat()
    if url.startswith("postgresql:"):
        decimal = verb("sql", "SELECT 'nan'::numeric AS x", "--store", url, "--as", "json")[1]
        assert json.loads(decimal) == [{"x": None}]
    odd = "SELECT 'inf'::float8 AS x, 'nan'::float8 AS y"
    assert json.loads(verb("sql", odd, "--store", url, "--as", "json")[1]) == [
        {"x": None, "y": None}
    ]
    assert verb("sql", odd, "--store", url, "--as", "csv")[1] == "x,y\ninf,nan\n"
    assert verb("sql", "SELECT 1 AS c, 2 AS c", "--store", url, "--as", "json")[0] == 2
    total = "SELECT sum(trials) AS trials, avg(trials) / 2 AS half FROM results"
    text = verb("sql", total, "--store", url, "--as", "csv")[1].splitlines()[1]
    one, half = text.split(",")
    assert one.isdigit(), "the same in both: PostgreSQL adds integers as decimals"
    assert float(half) == int(one) / 2
    code, text = verb("sql", "SELECT '=1+1' AS x, 'a' || chr(27) || '[2J' AS y", "--store", url,
                      "--as", "csv")  # fmt: skip
    assert code == 0
    assert text == "x,y\n'=1+1,a\\x1b[2J\n"
    assert verb("sql", "--store", url)[0] == 2
    assert verb("sql", "SELECT 1", "--as", "parquet", "--store", url)[0] == 2
    code, text = verb("sql", "--schema", "--json")
    assert {row["view"] for row in json.loads(text)["views"]} == {v.name for v in schema.VIEWS}


# -- over time -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fortnight(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two weeks of three studies: of one a setting changes on the eleventh night, of one the
    kernel, and of one nothing; a night of the last is spoilt."""
    top = tmp_path_factory.mktemp("fortnight")
    small = PlantedChange(10, 0.85, setting=("queue.nr_requests", "64"), level="none")
    kernel = PlantedChange(10, 0.9, kernel="6.12.1")
    return [
        *nights(first(top, "setting"), top, 14, (small,), seed=1),
        *nights(first(top, "kernel"), top, 14, (kernel,), seed=2),
        *nights(first(top, "noise"), top, 14, seed=3, spoilt=lambda night: night == 5),
    ]


def test_of_two_weeks_the_planted_changes_are_told_with_what_changed_beside_them(
    url: str, fortnight: list[Path], verb: Verb
) -> None:
    assert verb("push", *map(str, fortnight), "--store", url)[0] == 0
    code, said = verb("history", "--store", url, "--json")
    assert code == 1, "something is worse"
    series = {(each["study"], each["treatment"]): each for each in json.loads(said)["series"]}
    assert len(series) == 6
    changed = {
        name: [one for one in each["changes"] if one["state"] == "confirmed"]
        for name, each in series.items()
    }
    told = {name for name, each in changed.items() if each}
    kernel = {("kernel", f"scheduler={level}") for level in ("none", "mq-deadline")}
    assert told == {("setting", "scheduler=none"), *kernel}
    for name, ratio, kind, before, after in (
        (("setting", "scheduler=none"), 0.85, "settings", "128", "64"),
        *((each, 0.9, "kernel", "6.18.0-fake", "6.12.1") for each in kernel),
    ):
        (change,) = changed[name]
        assert change["worse"]
        assert change["low"] < ratio < change["high"]
        assert change["first"] == BEGAN + 10 * DAY + 10.0, "the night that it was planted"
        beside = {(each["kind"], each["before"], each["after"]) for each in change["beside"]}
        assert (kind, before, after) in beside
        assert {each["kind"] for each in change["beside"]} == {kind}, "and nothing else"
    points = series["noise", "scheduler=none"]["points"]
    assert len(points) == 13, "a night of INVALID trials has no point"
    code, said = verb("history", "noise", "--store", url)
    assert (code, said.splitlines()[0]) == (0, "2 series, 0 changed.")
    assert verb("history", "nothing", "--store", url)[0] == 2
    for wrong in ("--margin=-3", "--margin=100%", "--error=0", "--error=-1", "--error=200%"):
        assert verb("history", wrong, "--store", url)[0] == 2, wrong
    code, said = verb("history", "setting", "--treatment", "scheduler=none", "--store", url)
    assert code == 1
    assert "queue.nr_requests on loop0 was 128, is 64" in said
    assert "●" not in said, "a picture is for terminals"


def on_a_terminal(*words: str, **environment: str) -> list[str]:
    """What ``iotrial`` says in a window of 80 columns, without its colours."""
    ours, theirs = pty.openpty()
    call = "from iotrial.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", call, *words], stdin=subprocess.DEVNULL, stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment},
    ) as process:  # fmt: skip
        os.close(theirs)
        said = b""
        with suppress(OSError):  # the end, as a terminal has it
            while part := os.read(ours, 65536):
                said += part
        os.close(ours)
    assert process.returncode in {0, 1}
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode()).splitlines()


def test_on_a_terminal_what_changed_is_drawn_and_a_study_that_is_named_whole(
    fortnight: list[Path], tmp_path: Path, verb: Verb
) -> None:
    url = f"file:{tmp_path}/store"
    assert verb("push", *map(str, fortnight), "--store", url)[0] == 0
    lines = on_a_terminal("history", "--store", url, PYTHONIOENCODING="utf-8")
    drawn = [line.partition(":")[0] for line in lines if "nights differ by" in line]
    assert drawn == ["kernel", "kernel", "setting"], "not those that did not change"
    assert sum("│" in line for line in lines) == 15, "five lines each"
    assert max(map(len, lines)) <= 80
    lines = on_a_terminal("history", "noise", "--store", url, PYTHONIOENCODING="utf-8")
    assert sum(line.count("●") for line in lines) == 26, "two series of thirteen points"
    for words, encoding in ((["--quiet"], "utf-8"), ([], "ascii")):
        plain = on_a_terminal("history", "noise", "--store", url, *words, PYTHONIOENCODING=encoding)
        assert plain == ["2 series, 0 changed."]


def test_what_was_told_before_since_is_shown_and_fails_no_job(
    url: str, fortnight: list[Path], tmp_path: Path, verb: Verb
) -> None:
    setting = [folder for folder in fortnight if folder.name.startswith("setting")]
    assert verb("push", *map(str, setting), "--store", url)[0] == 0
    told = dt.datetime.fromtimestamp(BEGAN + 12 * DAY, dt.UTC).date()  # begun two nights before
    for since, code in (
        ("25h", 1), ("12h", 0), ("30d", 1), (str(told), 1), (str(told + dt.timedelta(1)), 0),
    ):  # fmt: skip
        found, said = verb("history", "--since", since, "--store", url)
        assert (since, found) == (since, code)
        assert "worse, −15.7 %" in said
        assert ("told before --since" in said) == (code == 0)
    assert verb("history", "--store", url)[0] == 1
    (later,) = nights(first(tmp_path, "other"), tmp_path, 1, since=25)
    assert verb("push", str(later), "--store", url)[0] == 0
    assert verb("history", "--store", url)[0] == 0, "told more than a week before the newest"
    assert verb("history", "setting", "--store", url)[0] == 1, "the newest of what is asked for"
    assert verb("history", "--since", "monday", "--store", url)[0] == 2


def test_machines_are_told_apart_and_a_a_nights_are_the_yardstick(
    store: ResultStore, tmp_path: Path
) -> None:
    """Of a machine that was slower all the time nothing has changed."""
    base = first(tmp_path, "both")
    slower = PlantedChange(0, 0.7)
    folders = list(nights(base, tmp_path / "a", 12))
    for folder in nights(base, tmp_path / "b", 12, (slower,), seed=9):
        facts = folder / "hosts/fake.json"
        facts.write_text(json.dumps(json.loads(facts.read_text()) | {"machine_id": "other"}))
        sessions = folder / "sessions.jsonl"
        sessions.write_text(sessions.read_text().replace('"token": "', '"token": "other'))
        folders.append(folder)
    store.push(map(content_of, folders))
    many = series_of(store, "both", "read.iops")
    assert [len(each.points) for each in many] == [12, 12, 12, 12]
    assert len({each.machines for each in many}) == 2
    assert not any(each.changes for each in histories(store, many, margin=0.02, error=0.05))
    assert noise_of(store, many[0]) is None
    arms = first(tmp_path, "arms", "--aa")
    store.push(map(content_of, nights(arms, tmp_path / "c", 10, between=0.03, seed=4)))
    known = {each.machines: noise_of(store, each) for each in many}
    (there,) = (each for each in known.values() if each is not None)
    assert there.low < 0.03 < there.high
    assert None in known.values(), "of the other machine nothing is known"


def test_a_run_is_held_against_what_is_stored(  # noqa: PLR0915 (one story)
    url: str, tmp_path: Path, verb: Verb
) -> None:
    """Of six nights, then a seventh that is the same, and one that is a fifth slower."""
    base = first(tmp_path, "watch")
    quiet = {"between": 0.003, "within": 0.003}
    stored = list(nights(base, tmp_path, 6, seed=5, **quiet))
    assert verb("push", *map(str, stored[:3]), "--tag", "release", "--store", url)[0] == 0
    assert verb("push", *map(str, stored[3:]), "--store", url)[0] == 0
    (same,) = nights(base, tmp_path / "same", 1, seed=6, since=7, **quiet)
    slow = PlantedChange(0, 0.8, kernel="6.99", level="none")
    (slower,) = nights(base, tmp_path / "slower", 1, (slow,), seed=7, since=7, **quiet)

    def against(folder: Path, which: str, *more: str) -> tuple[int, dict[str, Any]]:
        words = ["run", str(folder / "study.toml"), "--pretend", "--out", str(folder)]
        code, said = verb(*words, "--against", which, "--store", url, "--json", *more)
        return code, json.loads(said)

    for which in ("last", "best", "release"):
        code, told = against(same, which)
        assert code == 0
        verdicts = {each["verdict"] for each in told["against"]["findings"]}
        # Of three sessions little is known.
        assert verdicts == {"same"} if which != "release" else "worse" not in verdicts
    junit, markdown = tmp_path / "x.xml", tmp_path / "x.md"
    code, told = against(slower, "last", "--junit", str(junit), "--markdown", str(markdown))
    assert code == 1
    verdicts = {each["level"]: each for each in told["against"]["findings"]}
    assert verdicts["scheduler=none"]["verdict"] == "worse"
    assert verdicts["scheduler=none"]["low"] < 0.8 < verdicts["scheduler=none"]["high"]
    assert verdicts["scheduler=mq-deadline"]["verdict"] == "same"
    assert 'failures="1"' in junit.read_text()
    assert 'name="trials.planned" value="8"' in junit.read_text(), "of this run"
    took = float(re.findall(r'<testsuite .*? time="([0-9.]+)"', junit.read_text())[0])
    assert 0 < took < 3600, "stored nights are days ago"
    assert "6.99" in markdown.read_text(), "what else differs is said"
    code, told = against(slower, "never")
    assert code == 2
    assert told["error"]["message"].endswith("have the tag 'never'")
    code, told = against(slower, "lst")
    assert code == 2
    assert told["error"]["message"].endswith("have the tag 'lst'; did you mean last?")
    raced = tmp_path / "raced.toml"
    raced.write_text(
        (slower / "study.toml").read_text().replace("[design]", '[design]\nkind = "race"')
    )
    words = ["run", str(raced), "--pretend", "--out", str(tmp_path / "none")]
    assert verb(*words, "--against", "never", "--store", url)[0] == 2
    assert not (tmp_path / "none").exists(), "it is said before hours of measuring"
    fresh = tmp_path / "study-x"
    shutil.copytree(slower, fresh)
    plan = fresh / "plan.jsonl"
    plan.write_text(plan.read_text().replace('"study":"watch"', '"study":"study-x"'))
    code, told = against(fresh, "last", "--junit", str(junit))
    assert (code, told["against"]) == (0, None), "the first night has no past, which is no failure"
    assert 'skipped="1"' in junit.read_text()
    facts = slower / "hosts/fake.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"machine_id": "other"}))
    code, told = against(slower, "last")
    assert code == 2
    assert "on this machine" in told["error"]["message"]
    assert verb("run", "x.toml", "--junit", "y.xml")[0] == 2
    words = ["run", str(same / "study.toml"), "--pretend", "--out", str(tmp_path / "never")]
    assert verb(*words, "--against", "last", "--store", f"file:{tmp_path}/none")[0] == 6
    assert not (tmp_path / "never").exists(), "a store that is none is said before hours of trials"


AHEAD = STUDY.replace(
    'tunable = "queue.scheduler"\nlevels = ["none", "mq-deadline"]',
    'tunable = "queue.read_ahead_kb"\nlevels = [128, 4096]',
)


def test_settings_that_are_not_what_they_were_are_measured_in_turn(
    tmp_path: Path, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of six nights under another scheduler, which this machine is a half faster with: the numbers
    of the nights do not say so, those measured in turn do."""
    monkeypatch.setitem(EFFECT, "mq-deadline", 1.5)
    base = first(tmp_path, "ahead", text=AHEAD)
    facts = base / "hosts/fake.json"
    told = json.loads(facts.read_text())
    told["devices"]["loop0"]["queue"]["scheduler"] = "none [mq-deadline] kyber bfq"
    facts.write_text(json.dumps(told))
    url = f"file:{tmp_path}/store"
    stored = nights(base, tmp_path, 6, between=0.05)
    assert verb("push", *map(str, stored), "--store", url)[0] == 0
    new, junit, markdown = tmp_path / "new", tmp_path / "x.xml", tmp_path / "x.md"
    study = tmp_path / "ahead.toml"
    words = ["run", str(study), "--pretend", "--out", str(new), "--against", "last"]
    words += ["--store", url, "--junit", str(junit), "--markdown", str(markdown)]
    code, said = verb(*words, "--in-turn", "never")
    assert (code, "measured in turn" in said) == (0, True), said
    assert "queue.scheduler on loop0: mq-deadline then, none now" in said
    assert not (tmp_path / "new-in-turn").exists()
    code, said = verb(*words, "--json")
    found = json.loads(said)
    assert code == 1, said
    assert {each["verdict"] for each in found["in_turn"]["findings"]} == {"worse"}
    assert "worse" not in {each["verdict"] for each in found["against"]["findings"]}
    for each in found["in_turn"]["findings"]:
        assert each["low"] < 1 / 1.5 < each["high"]
    suites = re.findall(r'<testsuite .*? failures="(\d+)"', junit.read_text())
    assert suites == ["0", "2"]
    assert markdown.read_text().count("# Is ") + markdown.read_text().count("Question: Is ") == 2
    turn = open_results(tmp_path / "new-in-turn")
    assert {len(turn.records), len(turn.planned)} == {16}
    held = {
        (dict(record.trial.treatment)["against"], value)
        for record in turn.records
        for _, name, value in record.before
        if name == "queue.scheduler"
    }
    assert held == {("stored", "mq-deadline"), ("now", "none")}
    last = max(turn.records, key=lambda record: record.trial.number).trial.folder
    lines = (turn.folder / "measurements.jsonl").read_text().splitlines(keepends=True)
    (turn.folder / "measurements.jsonl").write_text("".join(lines[:-1]))
    shutil.rmtree(turn.folder / "trials" / last)
    assert verb(*words, "--json")[0] == 1, "the same command resumes what was killed"
    assert len(open_results(turn.folder).records) == 16
    facts = new / "hosts/fake.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"machine_id": "other"}))
    code, said = verb(*words, "--json")
    assert code == 1, "of another machine what can be set here is compared"
    assert "against" not in json.loads(said)


def test_a_study_that_is_not_what_it_was_is_executed_beside_what_it_is(
    tmp_path: Path, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotrial_store.cli.against._TIMES", 2)
    base = first(tmp_path, "other")
    url = f"file:{tmp_path}/store"
    assert verb("push", str(base), "--store", url)[0] == 0
    new = tmp_path / "new"
    words = ["run", str(tmp_path / "other.toml"), "--pretend", "--out", str(new)]
    words += ["--against", "last", "--store", url, "--json"]
    study = tmp_path / "other.toml"
    study.write_text(STUDY.replace("blocks = 4", "blocks = 3"))
    assert "in_turn_study" not in json.loads(verb(*words)[1]), "no measurement depends on it"
    shutil.rmtree(new)
    study.write_text(STUDY.replace('"0s"', '"0.1s"'))
    code, said = verb(*words)
    found = json.loads(said)
    verdicts = {each["verdict"] for each in found["in_turn_study"]["findings"]}
    assert code == (1 if "worse" in verdicts else 0)
    assert {each["n"] for each in found["in_turn_study"]["findings"]} == {2}
    assert all(each["low"] is None for each in found["against"]["findings"]), "of one night"
    assert sorted(path.name for path in (tmp_path / "new-in-turn-study").iterdir()) == [
        "after-1", "after-2", "before-1", "before-2",
    ]  # fmt: skip
    study.write_text(STUDY.replace('bs = "4k"', 'bs = "8k"'))
    shutil.rmtree(new)
    junit, markdown = tmp_path / "x.xml", tmp_path / "x.md"
    code, said = verb(*words, "--junit", str(junit), "--markdown", str(markdown))
    assert code == 2, "another load is no regression"
    assert "load (then and now: bs = 4k and 8k)" in json.loads(said)["error"]["message"]
    assert "bs = 4k and 8k" in junit.read_text()
    assert 'errors="1"' in junit.read_text()
    assert "iotrial push" in markdown.read_text()
    assert "bs = 4k and 8k" in markdown.read_text()


def test_what_cannot_be_compared_or_written_is_said_before_hours_of_measuring(
    tmp_path: Path, verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    base = first(tmp_path, "early")
    url = f"file:{tmp_path}/store"
    assert verb("push", str(base), "--store", url)[0] == 0
    study, new = tmp_path / "early.toml", tmp_path / "new"
    study.write_text(STUDY.replace('bs = "4k"', 'bs = "8k"'))
    words = ["run", str(study), "--pretend", "--out", str(new), "--against", "last"]
    words += ["--store", url]
    assert verb(*words, "--markdown", str(tmp_path / "none/x.md"))[0] == 2
    assert verb(*words, "--junit", str(tmp_path))[0] == 2
    assert not new.exists()
    assert status(words) == 2
    told = capsys.readouterr().err
    assert "will not be compared with what is stored" in told
    assert told.index("will not be compared") < told.index("8/8"), told
    # Which levels are "available" is known later: nothing is said of them.
    study.write_text(STUDY.replace('["none", "mq-deadline"]', '"available"'))
    assert status([*words[:4], str(tmp_path / "all"), *words[5:]]) in {0, 1}
    assert "will not be compared" not in capsys.readouterr().err
    study.write_text(STUDY.replace('bs = "4k"', 'bs = "8k"'))
    # Those of the load that is measured now are what it is compared with, where there are any.
    assert verb("push", str(new), "--store", url)[0] == 0
    shutil.rmtree(new)
    code, said = verb(*words, "--json")
    assert code in {0, 1}, said
    assert len(json.loads(said)["against"]["findings"]) == 2


def test_pretended_results_are_compared_with_no_measured_ones(tmp_path: Path, verb: Verb) -> None:
    base, url = first(tmp_path, "real"), f"file:{tmp_path}/store"
    plan = base / "plan.jsonl"
    text = plan.read_text()
    plan.write_text(text.replace('"pretended":true', '"pretended":false'))
    assert plan.read_text() != text
    code, said = verb("push", str(base), "--store", url)
    assert (code, "of them pretended" in said) == (0, False)
    words = ["run", str(tmp_path / "real.toml"), "--pretend", "--out", str(tmp_path / "new")]
    code, said = verb(*words, "--against", "last", "--store", url)
    assert code == 0
    assert "not compared: the store has no results of real" in " ".join(said.split())


def test_sessions_that_are_exactly_alike_are_said_to_give_no_interval(
    tmp_path: Path, verb: Verb
) -> None:
    study, url = tmp_path / "alike.toml", f"file:{tmp_path}/store"
    study.write_text(STUDY)
    words = ["run", str(study), "--pretend", "--out"]
    for number in range(2):
        assert verb(*words, str(tmp_path / f"{number}"))[0] == 0
        assert verb("push", str(tmp_path / f"{number}"), "--store", url)[0] == 0
    junit = tmp_path / "x.xml"
    words += [str(tmp_path / "new"), "--store", url, "--against", "last", "--junit", str(junit)]
    code, said = verb(*words)
    assert code == 0
    assert "exactly alike, such as pretended ones" in " ".join(said.split())
    assert "near-sessions" in junit.read_text()


def test_both_sides_of_a_comparison_have_their_means_and_sessions(
    tmp_path: Path, verb: Verb
) -> None:
    base = first(tmp_path, "sides")
    url, markdown = f"file:{tmp_path}/store", tmp_path / "x.md"
    stored = list(nights(base, tmp_path, 3, seed=5))
    assert verb("push", *map(str, stored), "--store", url)[0] == 0
    (new,) = nights(base, tmp_path / "new", 1, seed=6, since=4)
    words = ["run", str(new / "study.toml"), "--pretend", "--out", str(new), "--store", url]
    code, said = verb(*words, "--against", "last", "--markdown", str(markdown), "--json")
    assert code in {0, 1}
    for finding in json.loads(said)["against"]["findings"]:
        assert finding["sessions"] == [3, 1]
        ratio = finding["value"] / finding["baseline_value"]
        assert ratio == pytest.approx(finding["ratio"])
    text = markdown.read_text()
    assert "| sessions |" in text
    assert "| 3+1 |" in text
    assert re.search(r"against \d{4}-\d\d-\d\d-[0-9a-f]{8} and 2 more", text)
    for word in ("--before", "--paired", "/tmp/iotrial-"):
        assert word not in text


def test_a_run_has_as_many_blocks_as_its_comparison_needs(tmp_path: Path, verb: Verb) -> None:
    """Where nights are apart by more than their trials, more blocks in a night say nothing."""
    text = STUDY.replace("blocks = 4", "blocks = 12")
    base = first(tmp_path, "long", text=text)
    url = f"file:{tmp_path}/store"
    stored = nights(base, tmp_path, 8, between=0.03, within=0.01)
    assert verb("push", *map(str, stored), "--store", url)[0] == 0
    words = ["run", str(tmp_path / "long.toml"), "--pretend", "--against", "last", "--store", url]
    new = tmp_path / "new"
    code, _ = verb(*words, "--out", str(new))
    assert code in {0, 1}
    few = open_results(new)
    blocks = few.study.design.blocks
    assert 2 <= blocks < 12
    assert len(few.records) == len(few.planned) == 2 * blocks
    assert verb(*words, "--out", str(new), "--json")[0] == code, "it is complete"
    assert len(open_results(new).records) == 2 * blocks
    assert verb(*words, "--out", str(tmp_path / "all"), "--blocks", "5")[0] in {0, 1}
    assert open_results(tmp_path / "all").study.design.blocks == 5
