"""``status --follow`` and ``run --live``: the command line around what is seen live."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

import factories
from iotrial.cli import screen
from iotrial.cli import status as follow
from iotrial.cli.main import status
from iotrial.judgement import judge
from iotrial.live.file import LiveFile, read
from iotrial.live.live import findings
from iotrial.live.picture import InterimFindings, LiveDocument
from iotrial.model.event import (
    CountersSampled,
    SettingsInForce,
    TrialBegan,
    TrialEnded,
    TrialsPlanned,
)
from iotrial.model.results import TelemetrySample
from iotrial.model.tunable import Setting

pytestmark = pytest.mark.usefixtures("state")
RESULTS = factories.results()
RECORDS = RESULTS.records
STUDY = """
question = "Which scheduler?"
[targets.disk]
loop = { size = "16MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", runtime = "2s" }
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
[design]
blocks = 2
settle = "0s"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def at_work() -> LiveDocument:
    picture = LiveDocument(RESULTS.study, os.getpid())
    picture.add(TrialsPlanned(63, 63, Path("r")), 0.0)
    picture.add(InterimFindings(findings(RESULTS, judge), {"valid": 58}), 0.0)
    picture.add(TrialEnded(RECORDS[0]), 0.0)
    picture.add(TrialBegan(RECORDS[1].trial, 3.0), 0.0)
    picture.add(SettingsInForce("local", [Setting("sda", "queue.scheduler", "bfq")]), 0.0)
    for t in (0, 1):
        disk = {"reads": 4000 * t, "sectors_read": 32_000 * t, "read_ms": 2000 * t, "io_ms": t}
        picture.add(
            CountersSampled(TelemetrySample("a", "b", "c", {"t": float(t), "disk": disk})), float(t)
        )
    return picture


def write(folder: Path, **about: object) -> None:
    file = LiveFile()
    file.write(folder, {**at_work().document(1.1), "now": time.time(), **about})
    file.close()


def test_a_line_has_what_a_look_wants() -> None:
    said = screen.line(at_work().document(1.1))
    assert said.startswith("1/63  ETA ")
    assert "  block 1  " in said
    assert "read 4.00 kIOPS 15.6 MiB/s 500 µs" in said
    assert "scheduler=" in said


@pytest.mark.parametrize("code", [0, 5, 130])
def test_following_exits_as_the_run_did(
    here: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    write(here, state="over", exit=code, why="stopped by SIGINT" if code else "", trial=None)
    assert status(["status", ".", "--follow"]) == code
    said = capsys.readouterr()
    assert said.out.splitlines() == ["1/63  read 4.00 kIOPS 15.6 MiB/s 500 µs  over"]
    assert ("stopped by SIGINT" in said.err) == bool(code)


def test_a_run_that_was_killed_is_told_and_no_good_end(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = next(n for n in range(2**22 - 1, 2, -1) if not Path(f"/proc/{n}").exists())
    write(here, pid=gone, now=time.time() - follow.PATIENCE - 1)
    assert status(["status", ".", "--follow", "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["live"]["pid"] == gone
    assert "is gone before its end" in said.err


def test_a_run_elsewhere_that_falls_silent_is_gone_too() -> None:
    now = {"pid": os.getpid(), "now": time.time()}
    assert not follow._gone(now)
    assert not follow._gone({**now, "now": now["now"] - follow.PATIENCE - 1})
    assert follow._gone({**now, "now": now["now"] - follow.SILENT - 1})


def test_a_folder_without_a_run_is_told_after_a_while(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "AT_FIRST", 0.0)
    assert status(["status", "nowhere", "--follow"]) == 2
    assert "no live status of a run" in capsys.readouterr().err
    assert status(["status", "--follow"]) == 2


def test_a_pretended_run_leaves_its_end_and_follows_from_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["run", "study.toml", "--pretend", "--out", "r", "--live"]) == 0
    said = capsys.readouterr().err
    assert "live: http://127.0.0.1:" in said
    assert "ssh -L" in said
    left = read(Path("r")) or {}
    assert (left["state"], left["exit"], left["progress"]["valid"]) == ("over", 0, 4)
    assert left["findings"][0]["verdict"]
    assert status(["status", "r", "--follow"]) == 0
    (here / "r" / "live.json").unlink()
    assert status(["status", "r", "--follow"]) == 0
    assert "The study in" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--live", "study.toml"],
        ["study.toml", "--live"],
        ["--live=127.0.0.1:0", "study.toml"],
        ["--live", "127.0.0.1:0", "study.toml"],
    ],
)
def test_live_may_stand_alone_or_with_an_address(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert status(["run", *words, "--pretend", "--out", "r", "-q"]) == 0
    assert "live: http://127.0.0.1:" in capsys.readouterr().err


def test_a_port_that_is_taken_ends_the_run_before_it_begins(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert status(["run", "study.toml", "--pretend", "--out", "r", "--live", place]) == 2
    assert "--live 127.0.0.1:0" in capsys.readouterr().err
    assert not Path("r").exists()


def test_what_is_resumed_counts_what_was_done_before(here: Path) -> None:
    assert status(["run", "study.toml", "--pretend", "--out", "r", "-q"]) == 0
    plan = Path("r/plan.jsonl").read_text().splitlines()
    last = json.loads(plan[-1])
    for path in Path("r/trials").glob(f"{last['number']:04d}-*"):
        for each in path.iterdir():
            each.unlink()
        path.rmdir()
    assert status(["run", "study.toml", "--pretend", "--out", "r", "-q"]) == 0
    progress = (read(Path("r")) or {})["progress"]
    assert (progress["done"], progress["valid"]) == (1, 4)
