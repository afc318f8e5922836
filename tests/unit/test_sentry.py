"""The sentry answers about a command at whatever moment it is asked."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotrial.execute.interruption import Interruption
from iotrial.hosts.local import LocalHost, wakeup_pipe
from iotrial_suites.session.evidence import Supervisor


@pytest.fixture
def sentry(tmp_path: Path) -> Iterator[Supervisor]:
    with wakeup_pipe() as wakeup:
        made = Supervisor(LocalHost(wakeup=wakeup), str(tmp_path / "sentry"), Interruption())
        yield made
        made.close()


def test_a_command_that_ends_is_told_with_all_that_it_said(sentry: Supervisor) -> None:
    said = sentry.run(("sh", "-c", "cat; echo wrong >&2; exit 3"), within=30, stdin="given\n")
    assert (said.exit, said.stdout, said.stderr, said.late) == (3, "given\n", "wrong\n", False)


def test_one_that_is_just_ending_is_said_to_run(sentry: Supervisor) -> None:
    """Its status has a file, and nothing is in it yet."""
    task = sentry.begin(("true",), patience=10)
    assert task.report.state == "done"
    status = Path(sentry.folder) / f"{task.number}.exit"
    line = status.read_text()
    with (Path(sentry.folder) / f"{task.number}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status.write_text("")
        assert sentry._ask("look", task.number, 0.1).state == "running"
        status.write_text(line)
        assert sentry._ask("look", task.number, 0.1).state == "done"


def test_one_whose_watcher_is_gone_is_said_to_be_gone(sentry: Supervisor) -> None:
    task = sentry.begin(("true",), patience=10)
    (Path(sentry.folder) / f"{task.number}.exit").write_text("")
    assert sentry._ask("look", task.number, 0.1).state == "gone"
