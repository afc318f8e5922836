"""A run whose journal another program removes, empties, cuts or changes, at every moment:
everything comes back from memory, exit 4 names it, and the trial that went on does not count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from iotrial.errors import OwedError
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_study
from iotrial.execute.settings.journal import SUFFIX
from iotrial.execute.settings.restore import restore
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.places import journal_folder
from iotrial.model.study import Study
from iotrial.plan.load import parse_study

STUDY = """
question = "Does all of it come back?"
[targets.disk]
device = "FAKE0000"
[targets.made]
loop = { size = "96MiB" }
filesystem = "ext4"
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", size = "1m", runtime = "1s" }
[factors.where]
targets = ["disk", "made"]
[factors.ahead]
tunable = "sysctl.vm.dirty_ratio"
levels = [11, 12]
[design]
blocks = 1
"""
Spoil = Callable[[FakeHost, str], object]


def folder_gone(host: FakeHost, path: str) -> None:
    folder = path.rpartition("/")[0]
    for each in [name for name in host.machine.files if name.startswith(f"{folder}/")]:
        del host.machine.files[each]
    del host.machine.folders[folder]


SPOILT: dict[str, Spoil] = {
    "removed": lambda host, path: host.machine.files.pop(path),
    "emptied": lambda host, path: host.machine.put(path, b""),
    "truncated": lambda host, path: host.machine.put(path, host.machine.files[path].data[:-9]),
    "cut at a line": lambda host, path: host.machine.put(
        path, host.machine.files[path].data.partition(b"\n")[0] + b"\n"
    ),
    "another one": lambda host, path: host.machine.put(path, b"open|3|x|b|1|/r|s|.\n"),
    "folder": folder_gone,
}


class Spoilt(FakeHost):
    """A machine on which the journal is spoilt before operation ``at``, if there is one then."""

    def __init__(self, at: int, spoil: Spoil) -> None:
        super().__init__()
        self.at, self.spoil, self.done = at, spoil, False

    def alive(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
        if self.operations >= self.at and not self.done:
            paths = [path for path in self.machine.files if path.endswith(SUFFIX)]
            self.done = bool(paths)
            for path in paths:
                self.spoil(self, path)
        return super().alive()


@pytest.fixture
def study() -> Study:
    return parse_study(STUDY, "spoilt.toml", str)


def left(host: FakeHost) -> tuple[object, ...]:
    there = host.machine
    books = ("/run", "/var/lib/iotrial/journal.d")
    files = sorted(path for path in there.files if not path.startswith(books))
    return host.settings(), files, sorted(there.blocks), sorted(there.tasks)


def run(study: Study, host: FakeHost, out: Path) -> str:
    """What it says is owed, or ''."""
    try:
        execute_study(study, host, out, interruption=Interruption())
    except OwedError as owed:
        return str(owed)
    return ""


@pytest.mark.parametrize("how", SPOILT)
def test_whenever_the_journal_is_spoilt_everything_comes_back_and_is_named(
    study: Study, tmp_path: Path, how: str
) -> None:
    before = left(FakeHost())
    whole = FakeHost()
    assert run(study, whole, tmp_path / "whole") == ""
    told = counted = 0
    for at in range(1, whole.operations + 1):
        host = Spoilt(at, SPOILT[how])
        out = tmp_path / str(at)
        owed = run(study, host, out)
        if owed:
            told += 1
            assert "during this run" in owed, (at, host.log[-1])
            loads = sum(line.startswith("fio ") for line in host.log)
            committed = len([each for each in out.glob("trials/*") if each.suffix != ".partial"])
            during = host.log[at - 1].startswith("fio ")
            assert committed <= loads - during, (at, host.log)
            assert not loads or "sysctl.vm.dirty_ratio = 20" in owed, owed
            counted += during
        else:
            # Spoilt while it was paid.
            assert at > whole.operations - 8, (at, host.log[at - 1 : at + 1])
        assert left(host) == before, (at, host.log[at - 1])
        restore(host, journal_folder(host))
    assert told >= whole.operations - 8
    assert counted == 4
