"""A whole run on the pretended machine, ended at every operation: restore gives everything back.

Loads, loop devices and files are owed like settings; afterwards the run is resumed and finishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deaths import share_of
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_study
from iotrial.execute.settings.restore import restore
from iotrial.hosts.fake import CrashHow, FakeHost, HostCrashed
from iotrial.hosts.places import journal_folder
from iotrial.model.study import Study
from iotrial.plan.load import parse_study
from iotrial.store import is_finished

STUDY = """
question = "Does all of it come back?"
[targets.disk]
device = "FAKE0000"
[targets.made]
loop = { size = "16MiB" }
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", iodepth = 4, runtime = "1s" }
[factors.where]
targets = ["disk", "made"]
[factors.scheduler]
tunable = "queue.scheduler"
levels = ["none", "bfq"]
[factors.ahead]
tunable = "queue.read_ahead_kb"
levels = [64]
[design]
blocks = 1
"""
FORMER = (("scheduler", "kyber"), ("nr_requests", "72"), ("read_ahead_kb", "320"))


@pytest.fixture
def study() -> Study:
    return parse_study(STUDY, "crash.toml", str)


def machine() -> FakeHost:
    host = FakeHost()
    for name, value in FORMER:
        host.meddle(f"/sys/block/fake0/queue/{name}", value.encode())
    return host


def run(host: FakeHost, study: Study, folder: Path) -> None:
    execute_study(study, host, folder, interruption=Interruption())


def left_behind(host: FakeHost) -> list[str]:
    """Loads, loop devices and backing files that were not there before."""
    found = [f"process {pid} {task.argv[0]}" for pid, task in host.machine.tasks.items()]
    found += [name for name in host.machine.blocks if name.startswith("loop")]
    found += [path for path in host.machine.files if path.endswith((".img", ".jsonl"))]
    return found


def moments(study: Study, folder: Path) -> Iterator[tuple[int, CrashHow]]:
    host = machine()
    run(host, study, folder)
    for number, what in enumerate(host.log, start=1):
        torn = what.startswith(("append ", "save "))
        hows: tuple[CrashHow, ...] = ("before", "torn", "after") if torn else ("before", "after")
        for how in hows:
            yield number, how


@pytest.mark.timeout(400)
def test_whenever_a_run_dies_a_restore_gives_back_everything_and_a_rerun_finishes(
    study: Study, tmp_path: Path, times: Callable[[int], int]
) -> None:
    before = machine().settings()
    assert left_behind(machine()) == []
    crashes = 0
    for number, how in share_of(moments(study, tmp_path / "whole")):
        folder = tmp_path / f"{number}-{how}"
        host = machine()
        host.crash_after, host.crash_how = number, how
        with pytest.raises(HostCrashed):
            run(host, study, folder)
        host.reconnect()
        restore(host, journal_folder(host))
        assert host.settings() == before, (number, how, host.log[-1])
        assert left_behind(host) == [], (number, how, host.log[-1])
        if number % 5 == 0:
            run(host, study, folder)
            assert is_finished(folder)
            assert host.settings() == before
            assert left_behind(host) == []
        crashes += 1
    assert crashes > times(60)


def test_after_a_reboot_nothing_is_written_and_what_was_made_is_removed(
    study: Study, tmp_path: Path
) -> None:
    host = machine()
    run(host, study, tmp_path / "whole")
    half = host.operations * 2 // 3
    host = machine()
    host.crash_after = half
    with pytest.raises(HostCrashed):
        run(host, study, tmp_path / "half")
    host.power_cut()
    writes = len(host.log)
    payment = restore(host, journal_folder(host))
    assert any("rebooted" in note for note in payment.notes)
    assert not [what for what in host.log[writes:] if what.startswith("write ")]
    assert left_behind(host) == []
