"""Folders that loads work in: every moment of death, and what stands in the directory is what stood
there before.  By the method of :mod:`deaths`."""

from __future__ import annotations

from pathlib import Path

import pytest

from deaths import enumerate_deaths, hold_each_and_pay, killed, opened
from iotrial.execute.interruption import Interruption
from iotrial.execute.load.chores import clear, own
from iotrial.execute.runner import execute_study
from iotrial.execute.settings.restore import restore
from iotrial.hosts.fake import FakeHost, HostCrashed
from iotrial.hosts.places import journal_folder
from iotrial.model.target import PreparedTarget, Target
from iotrial.model.tool import Leftover, inside
from iotrial.plan.load import parse_study

HOME = "/var/tmp"
AIM = PreparedTarget(Target("t", "directory", HOME), HOME, "", None)
LEFTS = (
    Leftover(f"{HOME}/of-a-trial", "folder", "trial"),
    Leftover(f"{HOME}/of-the-study", "folder", "study"),
    Leftover(f"{HOME}/file-of-a-trial", "file", "trial"),
    Leftover(f"{HOME}/file-of-the-study", "file", "study"),
    Leftover(f"{HOME}/theirs", "file", "study"),
)
STUDY = """
question = "Is all of it gone?"
[targets.data]
directory = "/var/tmp"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", size = "1m", runtime = "1s" }
[factors.depth]
option = "iodepth"
levels = [1, 4]
[design]
blocks = 1
"""


def prepared() -> FakeHost:
    host = FakeHost()
    host.machine.put(f"{HOME}/theirs", b"years of work")
    return host


def live(host: FakeHost) -> None:
    """Two trials that leave something everywhere; the load of the first is killed."""
    bench = opened(host)
    for trial in range(2):
        own(bench, AIM, LEFTS)
        for left in LEFTS:
            place = f"{inside(left.path)}/{trial}" if left.kind == "folder" else left.path
            if left.path != f"{HOME}/theirs":
                host.run(["truncate", "-s", "1", place])
        if trial:
            clear(bench, LEFTS)
    hold_each_and_pay(bench, ())


def seen(host: FakeHost) -> list[str]:
    """All that lies in the directory.  What the journal lies in is made once and stays."""
    machine = host.machine
    return sorted(p for p in {*machine.files, *machine.folders} if p.startswith(f"{HOME}/"))


def test_whenever_a_run_dies_its_directory_is_as_it_was_after_a_restore() -> None:
    assert enumerate_deaths(prepared, live, seen=seen, changes=5).crashes > 80


def test_without_the_debt_something_would_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the test above can fail."""
    monkeypatch.setattr("iotrial.execute.settings.journal.Journal.owe_made", lambda *_: None)
    stayed = 0
    for at in range(3, 12):
        host = killed(prepared, live, at, "after")
        restore(host, journal_folder(host))
        stayed += seen(host) != seen(prepared())
    assert stayed > 5


def test_a_whole_run_in_a_directory_leaves_it_as_it_was_whenever_it_dies(tmp_path: Path) -> None:
    def run(host: FakeHost, name: str) -> None:
        study = parse_study(STUDY, "trees.toml", str)
        out = tmp_path / name
        execute_study(study, host, out, interruption=Interruption())

    whole = prepared()
    run(whole, "whole")
    assert seen(whole) == seen(prepared())
    there = 0
    for at in range(1, whole.operations + 1):
        host = prepared()
        host.crash_after, host.crash_how = at, "after"
        with pytest.raises(HostCrashed):
            run(host, str(at))
        there += seen(host) != seen(prepared())
        host.reconnect()
        restore(host, journal_folder(host))
        assert seen(host) == seen(prepared()), host.log[at - 1]
    assert there > 5
