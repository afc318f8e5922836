"""One suite for every kind of host: what iotrial may rely on, wherever it acts."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from iotrial.errors import FileRefused, HostError, LockedError, ToolMissing
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.local import LocalHost
from iotrial.model.host import Host

ROUNDING = 1e-6


@dataclass
class Place:
    """A host, an empty folder on it (``there``) and one of the controller's (``here``)."""

    host: Host
    there: str
    here: Path

    def path(self, name: str) -> str:
        return f"{self.there}/{name}"

    def errno_of(self, act: Callable[[], object]) -> int:
        with pytest.raises(FileRefused) as caught:
            act()
        assert caught.value.host == self.host.name
        return caught.value.errno

    def mode(self, path: str) -> str:
        return self.host.run(["stat", "-L", "-c", "%F %a", path]).text.strip()


@pytest.fixture(params=["local", "fake"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    here = tmp_path / "here"
    here.mkdir()
    host: Host = LocalHost() if request.param == "local" else FakeHost()
    there = f"{tmp_path}/there"
    assert host.run(["mkdir", "-p", there]).exit == 0
    return Place(host, there, here)


def is_a_host(host: Host) -> Host:
    return host


def test_both_kinds_are_hosts_to_the_type_checker() -> None:
    assert [is_a_host(LocalHost()).name, is_a_host(FakeHost()).name] == ["local", "fake"]


# -- commands -------------------------------------------------------------------------------------


def test_a_command_says_its_status_and_its_words(place: Place) -> None:
    done = place.host.run(["echo", "one", "two"])
    assert (done.argv, done.exit, done.text) == (("echo", "one", "two"), 0, "one two\n")
    assert place.host.run(["false"]).exit == 1


def test_a_command_reads_what_it_is_given(place: Place) -> None:
    assert place.host.run(["cat"], stdin=b"given").stdout == b"given"


def test_a_program_that_is_missing_is_127(place: Place) -> None:
    done = place.host.run(["iotrial-no-such-program"])
    assert done.exit == 127
    assert done.complaint


def test_a_failed_command_complains_in_english(place: Place) -> None:
    done = place.host.run(["rmdir", place.path("absent")])
    assert done.exit == 1
    assert done.complaint.endswith("No such file or directory")


def test_a_command_that_takes_too_long_is_an_error(place: Place) -> None:
    began = time.monotonic()
    with pytest.raises(HostError, match=r"sleep 30"):
        place.host.run(["sleep", "30"], timeout=0.2)
    assert time.monotonic() - began < 10


# -- files ----------------------------------------------------------------------------------------


def test_a_missing_file_is_enoent_to_read_write_and_list(place: Place) -> None:
    path = place.path("absent")
    assert place.errno_of(lambda: place.host.read(path)) == errno.ENOENT
    assert place.errno_of(lambda: place.host.write(path, b"1")) == errno.ENOENT
    assert place.errno_of(lambda: place.host.list(path)) == errno.ENOENT
    assert place.errno_of(lambda: place.host.read(f"{path}/below")) == errno.ENOENT


def test_a_folder_is_no_file_and_a_file_no_folder(place: Place) -> None:
    place.host.save(place.path("file"), b"1")
    assert place.errno_of(lambda: place.host.read(place.there)) == errno.EISDIR
    assert place.errno_of(lambda: place.host.write(place.there, b"1")) == errno.EISDIR
    assert place.errno_of(lambda: place.host.save(place.there, b"1")) == errno.EISDIR
    assert place.errno_of(lambda: place.host.append(place.there, b"1")) == errno.EISDIR
    assert place.errno_of(lambda: place.host.remove(place.there)) == errno.EISDIR
    assert place.errno_of(lambda: place.host.list(place.path("file"))) == errno.ENOTDIR


def test_a_saved_file_is_whole_private_and_alone(place: Place) -> None:
    path = place.path("new/deeper/file")
    place.host.save(path, b"first")
    place.host.save(path, b"second, longer")
    place.host.save(path, b"third")
    assert place.host.read(path) == b"third"
    assert place.mode(path) == "regular file 600"
    assert place.mode(place.path("new")) == "directory 700"
    assert place.mode(place.path("new/deeper")) == "directory 700"
    assert place.host.list(place.path("new/deeper")) == ["file"]


def test_appending_makes_and_grows_a_private_file(place: Place) -> None:
    path = place.path("journal.d/one")
    place.host.append(path, b"a\n")
    place.host.append(path, b"b\n")
    assert place.host.read(path) == b"a\nb\n"
    assert place.mode(path) == "regular file 600"


def test_writing_overlays_and_never_makes_a_file(place: Place) -> None:
    path = place.path("file")
    place.host.save(path, b"abcdef")
    place.host.write(path, b"XY")
    assert place.host.read(path) == b"XYcdef"
    assert place.errno_of(lambda: place.host.write(place.path("other"), b"1")) == errno.ENOENT
    assert place.host.list(place.there) == ["file"]


def test_removing_twice_is_removing_once(place: Place) -> None:
    path = place.path("file")
    place.host.save(path, b"1")
    place.host.remove(path)
    place.host.remove(path)
    place.host.remove(place.path("no/such/folder/file"))
    assert place.host.list(place.there) == []


def test_names_are_listed_in_order(place: Place) -> None:
    for name in ("b", "a10", "a9", "B"):
        place.host.save(place.path(name), b"")
    assert place.host.list(place.there) == ["B", "a10", "a9", "b"]


def test_the_kernel_shows_processes_disks_and_a_boot_id(place: Place) -> None:
    assert place.host.read("/proc/sys/kernel/random/boot_id").count(b"-") == 4
    assert "self" in place.host.list("/proc")
    for disk in place.host.list("/sys/block"):
        major, minor = place.host.read(f"/sys/block/{disk}/dev").decode().split(":")
        link = place.host.run(["readlink", "-e", f"/sys/dev/block/{major}:{int(minor)}"])
        assert link.text.strip().endswith(f"/{disk}")


def test_what_the_kernel_only_shows_cannot_be_written(place: Place) -> None:
    disk = place.host.list("/sys/block")[0]
    path = f"/sys/block/{disk}/size"
    assert place.errno_of(lambda: place.host.write(path, b"1")) == errno.EACCES


# -- the lock -------------------------------------------------------------------------------------


def test_a_lock_is_held_once_and_can_be_taken_again(place: Place) -> None:
    path = place.path("state/lock")
    with place.host.lock(path):
        with pytest.raises(LockedError, match="another iotrial"):
            enter(place.host.lock(path))
        with place.host.lock(place.path("state/another")):
            pass
    with place.host.lock(path):
        pass


def enter(context: AbstractContextManager[None]) -> None:
    with context:
        pass


def test_a_lock_is_given_back_when_its_holder_fails(place: Place) -> None:
    path = place.path("state/lock")

    def hold_and_fail() -> None:
        with place.host.lock(path):
            raise KeyError

    with pytest.raises(KeyError):
        hold_and_fail()
    enter(place.host.lock(path))


# -- loads ----------------------------------------------------------------------------------------


def test_a_load_ends_with_its_status(place: Place) -> None:
    process = place.host.start(["false"], folder=place.here, environment={})
    assert process.wait(30) == 1
    assert process.wait(0) == 1, "asked again"
    process.kill(gently=True)
    process.kill(gently=False)


def test_a_load_writes_into_its_folder(place: Place) -> None:
    assert place.host.start(["echo", "hi"], folder=place.here, environment={}).wait(30) == 0
    assert (place.here / "stdout").read_bytes() == b"hi\n"
    assert (place.here / "stderr").read_bytes() == b""


def test_waiting_for_a_load_has_an_end(place: Place) -> None:
    process = place.host.start(["sleep", "30"], folder=place.here, environment={})
    began = place.host.clock()
    assert process.wait(0.05) is None
    assert 0.05 - ROUNDING <= place.host.clock() - began < 10
    process.kill(gently=False)
    assert process.wait(30) == -9


def test_a_load_can_be_asked_to_end(place: Place) -> None:
    process = place.host.start(["sleep", "30"], folder=place.here, environment={})
    process.kill(gently=True)
    assert process.wait(30) == -15


def test_a_load_is_found_by_its_environment_and_can_be_ended_by_number(place: Place) -> None:
    process = place.host.start(
        ["sleep", "30"], folder=place.here, environment={"IOTRIAL_TOKEN": "t1"}
    )
    assert b"IOTRIAL_TOKEN=t1" in environment_of(place.host, process.pid)
    assert str(process.pid) in place.host.list("/proc")
    stat = place.host.read(f"/proc/{process.pid}/stat").decode().rpartition(")")[2].split()
    assert stat[2] == str(process.pid), "it leads a process group of its own"
    assert place.host.run(["kill", "-KILL", str(process.pid)]).exit == 0
    assert process.wait(30) == -9
    assert str(process.pid) not in place.host.list("/proc")
    assert place.host.run(["kill", "-KILL", str(process.pid)]).exit == 1


def environment_of(host: Host, pid: int) -> list[bytes]:
    """Empty for some microseconds: execve(2) closes our pipe before it sets up the new stack."""
    for _ in range(200):
        if environ := host.read(f"/proc/{pid}/environ"):
            return environ.split(b"\0")
        host.sleep(0.01)
    return []


def test_a_load_that_is_not_installed_is_named(place: Place) -> None:
    with pytest.raises(ToolMissing, match="iotrial-no-such-tool"):
        place.host.start(["iotrial-no-such-tool"], folder=place.here, environment={})


# -- time -----------------------------------------------------------------------------------------


def test_the_clock_goes_on_while_sleeping(place: Place) -> None:
    began = place.host.clock()
    place.host.sleep(0.02)
    assert place.host.clock() - began >= 0.02 - ROUNDING
    place.host.sleep(-1)
