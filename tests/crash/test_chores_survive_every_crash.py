"""A run with chores on the pretended machine, ended at every operation: what a clean-up command
would undo is undone by a restore, what fills a file system is gone, and a rerun finishes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deaths import IN_EVERY_WAY, share_of
from iotrial.execute.interruption import Interruption
from iotrial.execute.load import chores
from iotrial.execute.runner import execute_study
from iotrial.execute.settings.journal import sessions
from iotrial.execute.settings.restore import restore
from iotrial.hosts.fake import FakeHost, HostCrashed
from iotrial.hosts.places import journal_folder
from iotrial.plan.load import parse_study
from iotrial.store import is_finished

MADE = ("/var/tmp/of-the-study", "/var/tmp/of-a-block", "/var/tmp/of-a-trial")
STUDY = """
question = "Is all of it cleaned up?"
[targets.data]
file = "/var/tmp/iotrial.dat"
size = "16MiB"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 4, runtime = "1s" }
cache = "drop"
prepare = [
    { fill = "41%" },
    { command = ["truncate", "-s", "1", "/var/tmp/of-the-study"], each = "study" },
    { command = ["truncate", "-s", "1", "/var/tmp/of-a-block"], each = "block" },
    { command = ["truncate", "-s", "1", "/var/tmp/of-a-trial"] },
]
cleanup = [
    { command = ["rm", "-f", "/var/tmp/of-a-trial"] },
    { command = ["rm", "-f", "/var/tmp/of-a-block"], each = "block" },
    { command = ["rm", "-f", "/var/tmp/of-the-study"], each = "study" },
]
[factors.depth]
option = "iodepth"
levels = [1, 4]
[design]
blocks = 2
"""


def run(host: FakeHost, folder: Path) -> None:
    study = parse_study(STUDY, "chores.toml", str)
    execute_study(study, host, folder, interruption=Interruption())


def left_behind(host: FakeHost) -> list[str]:
    files = [path for path in host.machine.files if path.startswith("/var/tmp/")]
    files += [path for path in host.machine.files if "/journal.d/" in path]
    return files + [str(pid) for pid in host.machine.tasks]


def test_whenever_a_run_dies_its_cleanups_are_done_by_a_restore(
    tmp_path: Path, times: Callable[[int], int]
) -> None:
    host = FakeHost()
    run(host, tmp_path / "whole")
    assert left_behind(host) == []
    there: set[str] = set()
    crashes = 0
    for number, how in share_of(IN_EVERY_WAY(host.log)):
        died = FakeHost()
        died.crash_after, died.crash_how = number, how
        with pytest.raises(HostCrashed):
            run(died, tmp_path / f"{number}-{how}")
        there |= {path for path in MADE if path in died.machine.files}
        died.reconnect()
        restore(died, journal_folder(died))
        assert sessions(died, journal_folder(died)) == ()
        assert left_behind(died) == [], (number, how, died.log[number - 1])
        crashes += 1
        if number % 10 == 0:
            run(died, tmp_path / f"{number}-{how}")
            assert is_finished(tmp_path / f"{number}-{how}")
            assert left_behind(died) == []
    assert there == set(MADE)
    assert crashes > times(100)


def test_without_the_debt_something_would_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the test above can fail."""
    monkeypatch.setattr(chores, "_owed", lambda _path, _argv: ())
    host = FakeHost()
    run(host, tmp_path / "whole")
    stayed = 0
    for number in range(1, host.operations + 1, 4):
        died = FakeHost()
        died.crash_after, died.crash_how = number, "after"
        with pytest.raises(HostCrashed):
            run(died, tmp_path / str(number))
        died.reconnect()
        restore(died, journal_folder(died))
        stayed += bool(left_behind(died))
    assert stayed > 5


def test_a_cleanup_that_was_done_is_not_done_once_more(tmp_path: Path) -> None:
    host = FakeHost()
    run(host, tmp_path / "whole")
    assert [what for what in host.log if "of-a-trial" in what].count(
        "rm -f /var/tmp/of-a-trial"
    ) == 4
