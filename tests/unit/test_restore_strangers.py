"""Whom a debt is paid to: the thing itself, nobody where it is gone, never another by its name.
By both who pay: Python, and the guard in sh."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iotrial.errors import OwedError
from iotrial.execute.settings.guard import guard_argv
from iotrial.execute.settings.journal import SettingsUndo, open_journal
from iotrial.execute.settings.restore import boot_id, read_reports, restore
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.disk import FakeDisk
from iotrial.hosts.local import LocalHost
from iotrial.look.identity import identify
from iotrial.model.step import Change, Probe
from iotrial.model.tunable import FormerValue, Setting
from iotrial.tunables import tunable

BOOKS = "/var/lib/iotrial/journals"
Pay = Callable[[Path], str]


def by_python(folder: Path) -> str:
    try:
        return "\n".join(restore(LocalHost(), str(folder)).notes)
    except OwedError as error:
        return f"{error.message}\n{error.owed}"


def by_guard(folder: Path) -> str:
    journal = next(folder.glob("*.journal"))
    argv = guard_argv(str(journal), str(folder / "lock"), 0)
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return "\n".join(read_reports(LocalHost(), str(folder)))


@pytest.fixture(params=[by_python, by_guard])
def pay(request: pytest.FixtureRequest) -> Pay:
    found: Pay = request.param
    return found


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """An interface, as two files: its address, and a setting that a run has changed."""
    (tmp_path / "books").mkdir(mode=0o700)
    (tmp_path / "address").write_text("52:54:00:12:34:56\n")
    (tmp_path / "mtu").write_text("1500")
    host = LocalHost()
    header = {"boot_id": boot_id(host), "token": "t"}
    journal = open_journal(host, str(tmp_path / "books"), header)
    mtu = str(tmp_path / "mtu")
    owed = FormerValue(
        Setting("eth9", "net.mtu", "1500"), Probe(mtu), (Change("write", mtu, "1500"),)
    )
    witness = (str(tmp_path / "address"), "52:54:00:12:34:56")
    journal.owe_settings(SettingsUndo("eth9", None, (owed,), (witness,)))
    (tmp_path / "mtu").write_text("9000")
    return tmp_path


def left(card: Path) -> list[str]:
    return [path.name for path in (card / "books").glob("*.journal")]


def test_the_thing_itself_gets_it_back(card: Path, pay: Pay) -> None:
    pay(card / "books")
    assert (card / "mtu").read_text() == "1500"
    assert left(card) == []


def test_another_by_the_same_name_is_left_alone_and_it_is_owed(card: Path, pay: Pay) -> None:
    (card / "address").write_text("52:54:00:99:99:99\n")
    said = pay(card / "books")
    assert (card / "mtu").read_text() == "9000"
    assert left(card) == ["t.journal"]
    assert "eth9 is now another device" in said
    assert "net.mtu=1500 on eth9" in said


def test_what_is_gone_owes_nothing(card: Path, pay: Pay) -> None:
    (card / "address").unlink()
    (card / "mtu").unlink()
    said = pay(card / "books")
    assert left(card) == []
    assert "eth9 no longer exists, and neither do its settings" in said


# --- after a reboot, what it does not forget -----------------------------------------------------


def lasting_debt() -> FakeHost:
    """A host that owes fake0 its scheduler, as a value that outlives a reboot, and has rebooted."""
    host = FakeHost()
    knob, former = tunable("queue.scheduler"), "kyber"
    journal = open_journal(host, BOOKS, {"boot_id": boot_id(host), "token": "t"})
    setting = Setting("fake0", knob.name, former)
    owed = FormerValue(setting, knob.probe("fake0"), knob.undo("fake0", former), durable=True)
    journal.owe_settings(SettingsUndo("fake0", identify(host, "/dev/fake0"), (owed,)))
    host.reboot()
    return host


def scheduler(host: FakeHost, name: str) -> str:
    return host.read(f"/sys/block/{name}/queue/scheduler").decode()


def test_a_disk_with_another_name_after_a_reboot_gets_what_outlives_it() -> None:
    host = lasting_debt()
    for name, devno, number in (("fake0", (240, 0), 1), ("fake1", (240, 16), 0)):
        wwid = f"naa.600fa4e00000000{number}"
        host.replace_disk(name, FakeDisk(name, devno, serial=f"FAKE000{number}", wwid=wwid))
    others = scheduler(host, "fake0")
    said = restore(host, BOOKS)
    assert "[kyber]" in scheduler(host, "fake1")
    assert scheduler(host, "fake0") == others
    assert any("fake0 is now fake1" in note for note in said.notes)
    assert host.list(BOOKS) == []


MARK = "IOTRIAL_LOAD"
STRANGERS: tuple[dict[str, str], ...] = (
    *({MARK: value} for value in ("scheduler-2", "schedule", "a-scheduler", "", "scheduler ")),
    *({MARK: value} for value in (" scheduler", "Scheduler", "scheduler=1", "x IOTRIAL_LOAD=t")),
    *({name: "scheduler"} for name in (f"MY_{MARK}", f"X{MARK}", f"{MARK}2", f"{MARK} ", "LOAD")),
    {"NOTES": f"{MARK}=scheduler"},
    {"NOTES": f"first line\n{MARK}=scheduler"},
    {"NOTES": f"first line\n{MARK}=scheduler\nlast line"},
    {"NOTES": f"\n==> /proc/1/environ <==\n{MARK}=scheduler"},
    {},
)


@contextmanager
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """One for each stranger, one with the mark among its arguments, and the load itself."""
    clean = {name: value for name, value in os.environ.items() if name != MARK}
    with_it = ["sh", "-c", "sleep 60; :", f"{MARK}=scheduler"]
    started = [subprocess.Popen(["sleep", "60"], env=clean | each) for each in STRANGERS]
    started.append(subprocess.Popen(with_it, env=clean, start_new_session=True))
    started.append(subprocess.Popen(["sleep", "60"], env=clean | {MARK: "scheduler"}))
    try:
        yield started
    finally:
        for each in started:
            each.kill()
            each.wait(timeout=10)


def test_only_what_has_the_very_mark_is_ended(pay: Pay, tmp_path: Path) -> None:
    """Longer and shorter names, other variables, and lines within a value are strangers'."""
    folder = tmp_path / "books"
    folder.mkdir(mode=0o700)
    host = LocalHost()
    open_journal(host, str(folder), {"boot_id": boot_id(host), "token": "scheduler"})
    with processes() as (*strangers, load):
        pay(folder)
        assert load.wait(timeout=10) == -9
        assert [each.args for each in strangers if each.poll() is not None] == []
