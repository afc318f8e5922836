"""One suite for every kind of host: what iotrial may rely on, wherever it acts."""

from __future__ import annotations

import errno
import functools
import os
import shlex
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster import Cluster
from containers import Podman, path_with
from iotrial.errors import FileRefused, HostError, HostUnreachable, LockedError, ToolMissing
from iotrial.hosts.bounds import ANSWER_MOST
from iotrial.hosts.connection import WrappedConnection
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.local import LocalHost
from iotrial.hosts.ssh import AgentHost, SSHHost
from iotrial.hosts.steps import reads
from iotrial.hosts.via.nsenter import HOST as NSENTER
from iotrial.hosts.via.podman import HOST as PODMAN
from iotrial.hosts.via.shell import HOST as SHELL
from iotrial.hosts.via.slurm import HOST as SLURM
from iotrial.hosts.via.sudo import HOST as SUDO
from iotrial.model.host import Access, Host
from iotrial.model.step import ABSENT, Change, Ensure, Probe, Read, StepResult
from lab import Lab

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


SHELLS = ("dash", "bash", "busybox")
"""What /bin/sh is on Debian, on Red Hat and SUSE, and on small machines."""


@pytest.fixture(scope="module")
def far(lab: Lab) -> Iterator[Callable[[str], Host]]:
    """Machines behind a link, by what their shell is; connected once, which takes longer than
    most tests do."""
    with ExitStack() as stack:

        @functools.cache
        def connected(shell: str) -> Host:
            program = shutil.which(shell)
            if program is None:
                pytest.skip(f"needs {shell}")
            box = lab.box(shell, into=[(Path(program), os.path.realpath("/bin/sh"))])
            return stack.enter_context(SSHHost(box.where, name=shell))

        yield connected


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """This machine through a program that executes a command, with a state of its own."""
    state = tmp_path_factory.mktemp("wrapped") / "state"
    with AgentHost(WrappedConnection(["env", f"IOTRIAL_STATE={state}"], "wrapped")) as host:
        yield host


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """This machine through a shell that reads ahead, with a state of its own."""
    state = tmp_path_factory.mktemp("shell") / "state"
    words = shlex.join(["env", f"IOTRIAL_STATE={state}", "dash"])
    with SHELL.connect(Access(words, "shell")) as host:
        yield host


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Podman, str]]:
    """A container of Podman's, and its name; what tests keep in folders of theirs is in it too."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a container is made")
    podman = Podman(tmp_path_factory.mktemp("podman"))
    folder = str(tmp_path_factory.getbasetemp())
    podman.run("box", "--network", "none", "--privileged", "--volume", f"{folder}:{folder}")
    yield podman, "box"
    podman.close()


@pytest.fixture(scope="module")
def podman(container: tuple[Podman, str]) -> Iterator[Host]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path_with(container[0])["PATH"])
        with PODMAN.connect(Access(container[1], "podman")) as host:
            yield host


@pytest.fixture(scope="module")
def nsenter(container: tuple[Podman, str]) -> Iterator[Host]:
    podman, name = container
    pid = podman.do("inspect", "--format", "{{.State.Pid}}", name).strip()
    with NSENTER.connect(Access(pid, "nsenter")) as host:
        yield host


@pytest.fixture(scope="module")
def sudo() -> Iterator[Host]:
    if not shutil.which("sudo") or os.geteuid() != 0:
        pytest.skip("needs sudo, and root for it to let us")
    with SUDO.connect(Access("", "sudo")) as host:
        yield host


@pytest.fixture(scope="module")
def slurm(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A node of a job."""
    cluster = Cluster(tmp_path_factory.mktemp("slurm"), lab, 1)
    try:
        job = cluster.do(
            "sbatch", "--output=/dev/null", "--parsable", "--wrap", "exec sleep 3600"
        ).strip()
        deadline = time.monotonic() + 60
        while f"{job} RUNNING" not in cluster.jobs:
            assert time.monotonic() < deadline, cluster.logs
            time.sleep(0.1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", cluster.environment["PATH"])
            with SLURM.connect(Access(f"{job}/n1", "slurm")) as host:
                yield host
    finally:
        cluster.close()


OTHERS = ("shell", "podman", "nsenter", "sudo", "slurm")
"""Connectors."""


def a_place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    here = tmp_path / "here"
    here.mkdir()
    kinds = {"local": LocalHost, "fake": FakeHost}
    host: Host
    if kind in ("wrapped", *OTHERS):
        host = request.getfixturevalue(kind)
    else:
        host = kinds[kind]() if kind in kinds else request.getfixturevalue("far")(kind)
    there = f"{tmp_path}/there"
    assert host.run(["mkdir", "-p", there]).exit == 0
    yield Place(host, there, here)
    host.mark({})


@pytest.fixture(params=["local", "fake", "wrapped", *OTHERS, *SHELLS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield from a_place(request.param, request, tmp_path)


@pytest.fixture(params=["local", "wrapped", *OTHERS, *SHELLS])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place whose processes are the kernel's."""
    yield from a_place(request.param, request, tmp_path)


def is_a_host(host: Host) -> Host:
    return host


def test_every_kind_is_a_host_to_the_type_checker(far: Callable[[str], Host]) -> None:
    kinds = [is_a_host(LocalHost()), is_a_host(FakeHost()), far("dash")]
    assert [(host.name, host.remote) for host in kinds] == [
        ("local", False),
        ("fake", FakeHost().remote),
        ("dash", True),
    ]


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


@pytest.mark.parametrize("stream", ["", " >&2"], ids=["stdout", "stderr"])
def test_what_a_command_says_has_an_end(real: Place, stream: str) -> None:
    """More than is ever asked for is an error, and the host can be asked again."""
    flood = ["sh", "-c", f"head -c {ANSWER_MOST + 2**23} /dev/zero{stream}"]
    with pytest.raises(HostError, match="exceeds the limit"):
        real.host.run(flood)
    assert real.host.run(["echo", "still there"]).text == "still there\n"


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
    # Other tests make such devices meanwhile, and remove them.
    disks = [
        disk for disk in place.host.list("/sys/block") if not disk.startswith(("loop", "zram"))
    ]
    assert disks
    for disk in disks:
        major, minor = place.host.read(f"/sys/block/{disk}/dev").decode().split(":")
        link = place.host.run(["readlink", "-e", f"/sys/dev/block/{major}:{int(minor)}"])
        assert link.text.strip().endswith(f"/{disk}")


def test_what_the_kernel_only_shows_cannot_be_written(place: Place) -> None:
    disk = place.host.list("/sys/block")[0]
    path = f"/sys/block/{disk}/size"
    assert place.errno_of(lambda: place.host.write(path, b"1")) == errno.EACCES


def test_a_public_file_keeps_the_mode_it_had(place: Place) -> None:
    path = place.path("file")
    place.host.save(path, b"1", private=False)
    assert place.mode(path) == "regular file 644"
    place.host.save(path, b"22")
    place.host.save(path, b"333", private=False)
    assert (place.mode(path), place.host.read(path)) == ("regular file 600", b"333")


ODD_NAMES = ("a b", "it's", "$(false)", "`false`", "-x", "*", "a\\b", 'a"b', "é", "a:b")
ODD_BYTES = (b"", b"\n", b"a\n\nb", b"%s\\n\\0", b"'$HOME'`\"", bytes(range(256)) * 40)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_is_only_a_name(place: Place, name: str) -> None:
    path = place.path(name)
    place.host.save(path, b"1\n")
    place.host.write(path, b"2")
    place.host.append(path, b"3")
    assert place.host.list(place.there) == [name]
    assert place.host.read(path) == b"2\n3"
    assert place.host.run(["echo", name, path]).text == f"{name} {path}\n"
    look, lost = place.host.batch([Read(Probe(path)), Read(Probe(f"{path} lost"))])
    assert (look.raw, lost.errno) == (b"2\n3", errno.ENOENT)
    place.host.remove(path)
    assert place.host.list(place.there) == []


@pytest.mark.parametrize("data", ODD_BYTES, ids=range(len(ODD_BYTES)))
def test_every_byte_stays_what_it_is(place: Place, data: bytes) -> None:
    path = place.path("file")
    place.host.save(path, data)
    assert place.host.read(path) == data
    place.host.append(path, data)
    assert place.host.batch([Read(Probe(path))])[0] == StepResult(data * 2)
    place.host.write(path, data[::-1])
    assert place.host.read(path) == data[::-1] + data


# -- batches --------------------------------------------------------------------------------------


def test_a_batch_of_nothing_is_nothing(place: Place) -> None:
    assert place.host.batch([]) == ()


def test_what_is_in_force_is_not_touched(place: Place) -> None:
    path, note = place.path("file"), place.path("note")
    place.host.save(path, b"none [bfq] kyber\n")
    probe = Probe(path, pick="chosen")
    acts = (Change("save", note, "touched"),)
    held, other = place.host.batch([Ensure(probe, "bfq", acts), Read(probe)])
    assert (held.errno, reads(probe, held), other.raw) == (0, "bfq", b"none [bfq] kyber\n")
    assert place.host.list(place.there) == ["file"]
    assert place.host.batch([Ensure(probe, "none", acts)])[0].errno == 0
    assert place.host.read(note) == b"touched"


def test_every_kind_of_act_is_done_in_order(place: Place) -> None:
    file, made, gone = place.path("file"), place.path("made/new"), place.path("gone")
    place.host.save(file, b"old")
    place.host.save(gone, b"1")
    acts = (
        Change("write", file, "new"),
        Change("save", made, "whole\n"),
        Change("remove", gone),
        Change("run", argv=("mkdir", "-p", place.path("by command"))),
    )
    before, after = place.host.batch([Ensure(Probe(file), "new", acts), Read(Probe(file))])
    assert (before.raw, before.errno, after.raw) == (b"old", 0, b"new")
    assert place.host.read(made) == b"whole\n"
    assert place.mode(made) == "regular file 644"
    assert place.host.list(place.there) == ["by command", "file", "made"]


def test_what_is_refused_is_named_and_ends_nothing_but_itself(place: Place) -> None:
    disk = place.host.list("/sys/block")[0]
    size, lost, file = f"/sys/block/{disk}/size", place.path("lost"), place.path("file")
    place.host.save(file, b"1")
    other = Probe(file)
    answers = place.host.batch(
        [
            Read(Probe(lost)),
            Ensure(Probe(size), "x", (Change("write", size, "1"), Change("save", lost, "never"))),
            Ensure(other, "x", (Change("write", lost, "1"),)),
            Ensure(other, "x", (Change("save", place.there, "1"),)),
            Ensure(other, "x", (Change("remove", place.there),)),
            Ensure(other, "x", (Change("run", argv=("rmdir", lost)),)),
            Read(Probe(argv=("rmdir", lost))),
            Read(Probe(place.there)),
            Ensure(other, "2", (Change("write", file, "2"),)),
            Read(other),
        ]
    )
    codes = [errno.ENOENT, errno.EACCES, errno.ENOENT, errno.EISDIR, errno.EISDIR]
    codes += [errno.ENOENT, errno.ENOENT, errno.EISDIR, 0, 0]
    assert [answer.errno for answer in answers] == codes
    name = place.host.name
    assert answers[0].complaint == f"{name}: read {lost}: No such file or directory"
    assert answers[1].complaint == f"{name}: write {size}: Permission denied"
    assert answers[5].complaint.startswith(f"`rmdir {lost}`: ")
    assert answers[6].complaint == answers[5].complaint
    assert answers[-1].raw == b"2"
    assert place.host.list(place.there) == ["file"]


def test_a_program_that_is_missing_is_refused_in_a_batch(place: Place) -> None:
    probe = Probe(argv=("iotrial-no-such-program",))
    (answer,) = place.host.batch([Read(probe)])
    assert answer.errno
    assert answer.complaint


def test_what_a_command_prints_is_read(place: Place) -> None:
    probe = Probe(argv=("echo", "RX:", "7"), pick="field", key="RX:")
    note = place.path("note")
    seen, held, differs = place.host.batch(
        [
            Read(probe),
            Ensure(probe, "7", (Change("save", place.path("never"), ""),)),
            Ensure(probe, "8", (Change("save", note, ""),)),
        ]
    )
    assert (seen.raw, reads(probe, seen)) == (b"RX: 7\n", "7")
    assert (held.errno, differs.errno) == (0, 0)
    assert place.host.list(place.there) == ["note"]


def test_what_is_absent_can_be_made_and_taken_away(place: Place) -> None:
    path = place.path("drop-in")
    probe = Probe(path, pick="whole", absent=ABSENT)
    text = "one = 1\n\n"
    away, make = (Change("remove", path),), (Change("save", path, text),)
    steps = [Ensure(probe, ABSENT, make), Read(probe), Ensure(probe, text, make), Read(probe)]
    first, absent, _, there = place.host.batch(steps)
    assert (first.raw, reads(probe, absent), reads(probe, there)) == (b"", ABSENT, text)
    assert place.host.batch([Ensure(probe, text, (Change("save", path, "other"),))])[0].errno == 0
    assert place.host.read(path) == text.encode(), "it was in force"
    last = place.host.batch([Ensure(probe, ABSENT, away), Read(probe)])[1]
    assert reads(probe, last) == ABSENT
    assert place.host.list(place.there) == []


def test_a_nul_is_no_end_of_a_file(place: Place) -> None:
    path = place.path("file")
    place.host.save(path, b"a\0b")
    probe = Probe(path, pick="whole")
    seen, _ = place.host.batch([Read(probe), Ensure(probe, "ab", (Change("save", path, "ab"),))])
    assert seen.raw == b"a\0b"
    assert place.host.read(path) == b"ab"


# -- the guard ------------------------------------------------------------------------------------


def guarding(note: str) -> list[str]:
    """A guard that writes down every line it hears."""
    script = 'echo ready; while read -r line; do echo "$line" >>"$0"; done; echo end >>"$0"'
    return ["sh", "-c", script, note]


def test_a_guard_hears_that_we_live_and_that_we_leave(real: Place) -> None:
    note = real.path("note")
    with real.host.guard(guarding(note), every=0.05):
        while real.host.run(["grep", "-c", "^[.]$", note]).text.strip() in ("", "0", "1"):
            real.host.sleep(0.02)
    heard = real.host.read(note).decode().split()
    assert set(heard[:-2]) == {"."}
    assert heard[-2:] == ["done", "end"]


def test_a_guard_has_a_session_of_its_own_and_no_mark(real: Place) -> None:
    real.host.mark({"IOTRIAL_TOKEN": "t1"})
    script = 'cat /proc/$$/stat /proc/$$/environ >"$0"; echo ready; cat >/dev/null'
    with real.host.guard(["sh", "-c", script, real.path("note")], every=60):
        said = real.host.read(real.path("note"))
    stat, _, environment = said.partition(b"\n")
    pid, *_ = stat.split()
    assert stat.rpartition(b")")[2].split()[3] == pid, "it leads a session"
    assert b"IOTRIAL_TOKEN" not in environment
    assert b"LC_ALL=C" in environment.split(b"\0")


def test_a_guard_that_does_not_get_ready_says_why(real: Place) -> None:
    guard = real.host.guard(["sh", "-c", "echo no flock >&2; exit 1"], every=60)
    with pytest.raises(HostError, match="no flock"):
        enter(guard)


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


def test_what_is_started_after_a_mark_carries_it_until_it_is_another(real: Place) -> None:
    value = 'it\'s "$HOME"\nand more'
    real.host.mark({"IOTRIAL_TOKEN": value, "IOTRIAL_OTHER": "1"})
    assert real.host.run(["printenv", "IOTRIAL_TOKEN"]).text == f"{value}\n"
    process = real.host.start(["sleep", "30"], folder=real.here, environment={})
    assert f"IOTRIAL_TOKEN={value}".encode() in environment_of(real.host, process.pid)
    process.kill(gently=False)
    process.wait(30)
    real.host.mark({"IOTRIAL_OTHER": "2"})
    assert real.host.run(["printenv", "IOTRIAL_TOKEN"]).exit == 1
    assert real.host.run(["printenv", "IOTRIAL_OTHER"]).text == "2\n"


# -- time -----------------------------------------------------------------------------------------


def test_the_clock_goes_on_while_sleeping(place: Place) -> None:
    began = place.host.clock()
    place.host.sleep(0.02)
    assert place.host.clock() - began >= 0.02 - ROUNDING
    place.host.sleep(-1)


# -- tunnels --------------------------------------------------------------------------------------


def test_a_tunnel_leads_to_a_socket_there_for_us_alone_and_ends_with_its_context(
    real: Place,
) -> None:
    there = f"{real.there}/a:b"
    if real.host.name in ("wrapped", *OTHERS):
        refused_a_tunnel(real)
        return
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(there)  # the boxes see our files
        listener.listen()
        listener.settimeout(30)
        with real.host.tunnel(there) as here:
            if here != there:
                assert Path(here).stat().st_mode & 0o077 == 0
                assert Path(here).parent.stat().st_mode & 0o077 == 0
            client.connect(here)
            server, _ = listener.accept()
            with server:
                client.sendall(b"there")
                assert server.recv(5) == b"there"
                server.sendall(b"back")
                assert client.recv(4) == b"back"
        assert here == there or not Path(here).exists()


def refused_a_tunnel(place: Place) -> None:
    """A program that only executes commands has none, and says so."""
    with pytest.raises(HostError, match=f"{place.host.name}: no tunnel"):
        place.host.tunnel(place.path("one"))


def test_two_tunnels_are_two(real: Place) -> None:
    if real.host.name in ("wrapped", *OTHERS):
        refused_a_tunnel(real)
        return
    with (
        real.host.tunnel(real.path("one")) as one,
        real.host.tunnel(real.path("two")) as two,
    ):
        assert one != two


def test_a_socket_with_too_long_a_name_is_refused(far: Callable[[str], Host]) -> None:
    with pytest.raises(HostError, match="too long"), far("dash").tunnel(f"/{'x' * 107}"):
        pass


def test_a_shell_that_goes_mute_is_lost_before_a_load_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is not heard: a step of a job whose node is gone, a container that is paused."""
    words = ["env", f"IOTRIAL_STATE={tmp_path / 'state'}"]
    with AgentHost(WrappedConnection(words, "mute")) as host:
        uptime = Read(Probe("/proc/uptime", pick="whole"))
        assert host.batch([uptime])[0].raw
        above = host.run(["sh", "-c", "cat /proc/$PPID/stat"]).text  # of timeout(1)
        pid = int(above.rpartition(") ")[2].split()[1])
        monkeypatch.setattr("iotrial.hosts.agent.LOOKS_WITHIN", 0.5)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(HostUnreachable, match="it no longer responds"):
                host.batch([uptime])
        finally:
            os.kill(pid, signal.SIGCONT)
