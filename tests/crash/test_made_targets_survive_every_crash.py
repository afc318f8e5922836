"""A run on targets with file systems and mounts of its own: however it and the restores after it
die, and whether the machine reboots between them, a last restore leaves nothing owed or behind.

By the method of :mod:`deaths`, with every step of a restore as a moment of death too: of a restore
that is cut short, what it did is gone, and what it did not do is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deaths import DEATHS, Tally
from iotrial.errors import OwedError
from iotrial.execute.interruption import Interruption
from iotrial.execute.runner import execute_study
from iotrial.execute.settings import grounds
from iotrial.execute.settings.journal import sessions
from iotrial.execute.settings.restore import restore
from iotrial.execute.targets import making, trees
from iotrial.hosts.fake import CrashHow, FakeHost, HostCrashed
from iotrial.hosts.fake.parts.mounts import Mounts
from iotrial.hosts.places import journal_folder
from iotrial.plan.load import parse_study

TARGETS = {
    "loop": 'loop = { size = "96MiB" }\nfilesystem = "ext4"',
    "disk": 'device = "FAKE0000"\ndestroy = "FAKE0000"\nfilesystem = "ext4"',
    "nas": 'directory = "/mnt/new/deep"\nmount = { source = "srv:/other", type = "nfs" }',
    "file": 'file = "/var/tmp/sub/f"\nsize = "4MiB"',
    "folder": 'directory = "/var/tmp/sub"',
}
STUDY = """
question = "Is all of it gone?"
[targets.t]
TARGET
[workloads.reads]
tool = "fio"
options = { rw = "randread", bs = "4k", size = "1m", runtime = "1s" }
[factors.ahead]
tunable = "sysctl.vm.dirty_ratio"
levels = [11]
[design]
blocks = 1
"""
OURS = "/var/lib/iotrial"
Between = Callable[[FakeHost], None]
BETWEEN: tuple[Between, ...] = (FakeHost.reconnect, FakeHost.reboot, FakeHost.power_cut)


def machine() -> FakeHost:
    host = FakeHost()
    host.machine.put("/var/tmp/sub/thesis", b"years of work")
    return host


def behind(host: FakeHost) -> tuple[object, ...]:
    """What there is, but for the books of iotrial itself."""
    there, part = host.machine, host.machine.parts["mount"]
    assert isinstance(part, Mounts)
    return (
        host.settings(),
        sorted(path for path in there.folders if not path.startswith((OURS, "/run"))),
        sorted(path for path in there.files if not path.startswith((OURS, "/run"))),
        sorted(path for path in there.files if "/files/" in path or "/journal.d/" in path),
        sorted(there.blocks),
        sorted(part.mounted),
        sorted(task.argv for task in there.tasks.values()),
    )


def dies(host: FakeHost, at: int, how: CrashHow, do: Callable[[FakeHost], object]) -> bool:
    """Whether the controller that does it dies at its operation ``at``."""
    host.crash_after, host.crash_how = host.operations + at, how
    try:
        do(host)
    except HostCrashed:
        return True
    finally:
        host.crash_after = None
    return False


def pay(host: FakeHost) -> None:
    restore(host, journal_folder(host))


def rows(whole: int, *, step: int) -> Iterator[tuple[int, CrashHow]]:
    for at in range(1, whole + 1, step):
        yield at, ("after", "torn", "before")[at % 3]  # type: ignore[misc]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", TARGETS)
def test_no_death_and_no_reboot_makes_a_debt_that_nobody_can_pay(kind: str, tmp_path: Path) -> None:
    study = parse_study(STUDY.replace("TARGET", TARGETS[kind]), "made.toml", str)

    def run(host: FakeHost) -> None:
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        execute_study(study, host, out, interruption=Interruption())

    before = behind(machine())
    whole = machine()
    run(whole)
    assert behind(whole) == before
    crashes = again = 0
    for at, how in rows(whole.operations, step=1):
        for between in BETWEEN:
            # Where the run dies early there is little to restore; each step of that is tried.
            step = 0
            died = True
            while died:
                step += 1
                host = machine()
                assert dies(host, at, how, run)
                between(host)
                died = dies(host, step, how, pay)
                host.reconnect()
                (between if step % 2 else FakeHost.power_cut)(host)
                said = f"run died at {at} {host.log[at - 1]!r} {how}, restore at {step}"
                try:
                    pay(host)
                except OwedError as owed:
                    pytest.fail(f"{said}, {between.__name__}: {owed}")
                assert sessions(host, journal_folder(host)) == (), said
                assert behind(host)[1:] == before[1:], f"{said}, {between.__name__}"
                crashes += 1
                again += died
                if at % 4 and step > 2:
                    break
    DEATHS.append(Tally(crashes, again))
    assert crashes > 60
    assert again > crashes // 4


@pytest.mark.parametrize("what", ["made", "mounted"])
def test_without_what_is_known_of_the_ground_a_debt_could_not_be_paid(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the enumeration can fail: a load's folder owed by its path alone."""
    if what == "made":
        as_folder = making._as_folder
        monkeypatch.setattr(
            making, "_as_folder", lambda *words: replace(as_folder(*words), filesystem="")
        )
    else:
        ground = grounds.ground_of
        monkeypatch.setattr(trees, "ground_of", lambda host, folder, _: ground(host, folder))
    kind = {"made": "loop", "mounted": "nas"}[what]
    with pytest.raises(pytest.fail.Exception, match="is not mounted"):
        test_no_death_and_no_reboot_makes_a_debt_that_nobody_can_pay(kind, tmp_path)
