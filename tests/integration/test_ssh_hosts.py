"""What only a machine behind a link can show: lost links, strangers' keys, sudo, jump hosts."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

from iotrial.errors import (
    FileRefused,
    HostError,
    HostUnreachable,
    LockedError,
    RefusedError,
    UsageError,
)
from iotrial.hosts.local import wakeup_pipe
from iotrial.hosts.places import holder, state_places
from iotrial.hosts.ssh import SSHHost
from iotrial.model.step import Change, Ensure, Probe, Read
from lab import Box, Lab

pytestmark = pytest.mark.root

NOTICED_WITHIN = 100.0
"""Seconds; TCP alone would take a quarter of an hour."""
LOCK = "/run/iotrial/lock"

LOCAL_HOLDER = """
import sys, time
from iotrial.hosts.local import LocalHost
with LocalHost(purpose="study night").lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""
FAR_HOLDER = """
import sys, time
from iotrial.hosts.ssh import SSHHost
with SSHHost(sys.argv[2], name="box", purpose="night").lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def box(lab: Lab) -> Box:
    return lab.box()


@pytest.fixture
def host(box: Box) -> Iterator[SSHHost]:
    with SSHHost(box.where, name="box", purpose="study far") as made:
        yield made


def enter(context: AbstractContextManager[None]) -> None:
    with context:
        pass


def soon(happened: Callable[[], bool], within: float = 200) -> bool:
    end = time.monotonic() + within
    while time.monotonic() < end:
        if happened():
            return True
        time.sleep(0.02)
    return False


def is_there(path: str) -> bool:
    """A process that is no zombie."""
    try:
        return Path(f"/proc/{path}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# -- one round trip -------------------------------------------------------------------------------


def test_fifty_steps_of_every_kind_are_one_round_trip(host: SSHHost, tmp_path: Path) -> None:
    probe = Probe("/proc/sys/vm/swappiness")
    file = tmp_path / "file"
    file.write_bytes(b"0")
    steps = [Read(probe), Ensure(Probe(str(file)), "1", (Change("write", str(file), "1"),))] * 24
    steps += [Read(Probe(argv=("uname", "-r"))), Read(Probe("/proc/self/no-such-file"))]
    before = host.rounds
    answers = host.batch(steps)
    assert host.rounds - before == 1
    assert [answer.errno for answer in answers] == [0] * 49 + [errno.ENOENT]
    assert [answer.raw for answer in answers[1:6:2]] == [b"0", b"1", b"1"]


@pytest.mark.parametrize("count", [1, 2, 2500])
def test_however_many_looks_each_gets_its_own_answer(
    host: SSHHost, tmp_path: Path, count: int
) -> None:
    for number in range(count):
        (tmp_path / str(number)).write_bytes(b"\0%d\n" % number)
    steps = [Read(Probe(f"{tmp_path}/{number}")) for number in range(count)]
    assert [answer.raw for answer in host.batch(steps)] == [b"\0%d\n" % n for n in range(count)]


def test_much_is_carried_both_ways(host: SSHHost, tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    host.save(f"{tmp_path}/much", data)
    assert host.read(f"{tmp_path}/much") == data
    assert host.run(["cat"], stdin=data).stdout == data


# -- connecting -----------------------------------------------------------------------------------


def test_the_name_of_a_ssh_configuration_is_enough(lab: Lab, tmp_path: Path) -> None:
    box = lab.box("alias", options="Port 1")
    with pytest.raises(HostUnreachable):
        SSHHost(box.where, name="alias")
    with SSHHost(f"{box.where} -p 22", name="alias") as host:
        assert host.name == "alias"
        assert host.run(["true"]).exit == 0


def test_a_host_behind_a_host_is_reached_through_it(lab: Lab) -> None:
    first = lab.box("gate")
    jumped = lab.box("jumped", options="ProxyJump gate", behind=first)
    command = f"ProxyCommand ssh -F {lab.config} -W %h:%p gate"
    inner = lab.box("inner", options=command, behind=first)
    for box in (inner, jumped):
        with SSHHost(box.where, name=box.name) as host:
            assert box.address.encode() in host.read("/proc/self/net/fib_trie")
            with host.guard(["sh", "-c", "echo ready; cat >/dev/null"], every=1):
                assert host.batch([Read(Probe("/proc/self/stat"))])[0].errno == 0


def test_a_key_that_is_refused(lab: Lab, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", other], check=True, timeout=200)
    box = lab.box("refusing", options=f"IdentityFile {other}\nIdentitiesOnly yes")
    text = lab.config.read_text().replace(f"IdentityFile {lab.folder}/client\n", "", 1)
    config = tmp_path / "config"
    config.write_text(text[text.index("Host refusing") :].replace(f"{lab.folder}/client", "/none"))
    with pytest.raises(HostUnreachable, match="Permission denied") as caught:
        SSHHost(f"-F {config} {box.name}", name="refusing")
    assert "ssh-copy-id" in caught.value.advice


def test_a_host_that_is_another_now(lab: Lab, tmp_path: Path) -> None:
    box = lab.box("changed")
    known = tmp_path / "known"
    key = (lab.folder / "client.pub").read_text().split()[:2]
    known.write_text(f"{box.address} {' '.join(key)}\n")
    where = f"-F {lab.config} -o UserKnownHostsFile={known} changed"
    with pytest.raises(HostUnreachable, match="Host key verification failed") as caught:
        SSHHost(where, name="changed")
    assert "known_hosts" in caught.value.advice
    assert where in caught.value.advice
    known.write_text("")
    with pytest.raises(HostUnreachable, match="Host key verification failed"):
        SSHHost(where, name="changed")


def test_nobody_listens(box: Box) -> None:
    began = time.monotonic()
    with pytest.raises(HostUnreachable, match=r"cannot connect: .*Connection refused") as caught:
        SSHHost(f"{box.where} -p 9", name="box")
    assert time.monotonic() - began < NOTICED_WITHIN
    assert "ssh -o BatchMode=yes" in caught.value.advice


def test_a_shell_that_ends_at_once(lab: Lab, tmp_path: Path) -> None:
    box = user_box(lab, tmp_path, "nologin", "", login="/usr/sbin/nologin")
    with pytest.raises(HostUnreachable, match="not available"):
        SSHHost(box.where, name="nologin")


@pytest.mark.parametrize("where", ["", "-p 22", "box rm -rf", "-N box", "box -W h:1", "'"])
def test_what_is_not_one_host_is_a_wrong_argument(where: str) -> None:
    with pytest.raises(UsageError, match="ssh = "):
        SSHHost(where, name="box")


# -- sudo -----------------------------------------------------------------------------------------


def user_box(lab: Lab, folder: Path, name: str, rule: str, login: str = "/bin/bash") -> Box:
    """A box with a user ana, whom sudo treats by ``rule``, and whose shell is talkative."""
    texts = {
        "passwd": f"ana:x:4242:4242::/run/ana:{login}\n",
        "shadow": "ana:*:19000:0:99999:7:::\n",
        "sudoers": f"Defaults use_pty\n{rule}\n",
    }
    into = []
    for file, text in texts.items():
        real = Path("/etc", file)
        before = real.read_text() if file != "sudoers" else ""
        (folder / file).write_text(before + text)
        (folder / file).chmod(0o440 if file == "sudoers" else 0o644)
        into.append((folder / file, str(real)))
    box = lab.box(name, into=into, options="User ana")
    talkative = "echo welcome; echo hello >&2; export XDG_RUNTIME_DIR=/run/ana"
    box.run("install", "-d", "-o", "4242", "-m", "700", "/run/ana")
    box.run("sh", "-c", f"echo '{talkative}' >/run/ana/.bashrc")
    return box


@pytest.fixture
def sudo() -> None:
    if not Path("/etc/sudoers").exists():
        pytest.skip("needs sudo")


def test_a_user_who_may_becomes_root(lab: Lab, tmp_path: Path, sudo: None) -> None:
    box = user_box(lab, tmp_path, "may", "ana ALL=(root) NOPASSWD: ALL")
    here = tmp_path / "here"
    here.mkdir()
    data = bytes(range(256)) * 300
    with SSHHost(box.where, name="may") as host:
        assert host.unprivileged == ""
        assert host.run(["id", "-u"]).text == "0\n"
        host.save("/run/may", data)
        assert host.read("/run/may") == data
        assert state_places(host).lock == LOCK
        with host.lock(LOCK):
            pass
        process = host.start(["sh", "-c", "id -u; kill $$"], folder=here, environment={})
        assert process.wait(200) == -15
        assert (here / "stdout").read_text() == "0\n"
        process = host.start(["sleep", "600"], folder=here, environment={})
        process.kill(gently=False)
        assert process.wait(200) == -9
        with host.guard(["sh", "-c", 'echo ready; id -u >"$0"; cat', "/run/who"], every=0.1):
            assert soon(lambda: host.run(["cat", "/run/who"]).text == "0\n")


def test_a_user_who_may_not_stays_who_he_is(lab: Lab, tmp_path: Path) -> None:
    box = user_box(lab, tmp_path, "may-not", "root ALL=(ALL) ALL")
    with SSHHost(box.where, name="may-not") as host:
        assert "user 4242" in host.unprivileged
        assert host.run(["id", "-u"]).text == "4242\n"
        assert state_places(host).files == "/run/ana/.local/state/iotrial/files"
        assert state_places(host).lock == "/run/ana/iotrial/lock"
        with host.lock(state_places(host).lock):
            pass
        with pytest.raises(FileRefused) as caught:
            host.write("/proc/sys/vm/swappiness", b"60")
        assert caught.value.errno == errno.EACCES


# -- a link that is lost --------------------------------------------------------------------------


def test_a_link_that_is_cut_under_a_load_is_noticed(lab: Lab, tmp_path: Path) -> None:
    box = lab.box("cut")
    with SSHHost(box.where, name="cut") as host:
        note = tmp_path / "note"
        script = 'echo ready; while read -r line; do :; done; echo end >"$0"'
        with host.guard(["sh", "-c", script, str(note)], every=0.5):
            process = host.start(["sleep", "600"], folder=tmp_path, environment={})
            assert process.wait(0.1) is None
            box.cut()
            began = time.monotonic()
            with pytest.raises(HostUnreachable):
                process.wait(200)
            assert time.monotonic() - began < NOTICED_WITHIN
            for verb in verbs(host, tmp_path):
                with pytest.raises(HostUnreachable, match="cut"):
                    verb()
            assert time.monotonic() - began < NOTICED_WITHIN
    box.mend()


def verbs(host: SSHHost, folder: Path) -> list[Callable[[], object]]:
    return [
        lambda: host.run(["true"]),
        lambda: host.read("/proc/stat"),
        lambda: host.write("/proc/none", b"1"),
        lambda: host.save("/run/none", b"1"),
        lambda: host.append("/run/none", b"1"),
        lambda: host.remove("/run/none"),
        lambda: host.list("/run"),
        lambda: host.batch([Read(Probe("/proc/stat"))]),
        lambda: host.start(["true"], folder=folder, environment={}),
        lambda: enter(host.lock(LOCK)),
        lambda: enter(host.guard(["sh", "-c", "echo ready"], every=1)),
    ]


def test_a_link_that_is_cut_under_a_request_is_noticed(lab: Lab) -> None:
    box = lab.box("cut-asking")
    with SSHHost(box.where, name="cut-asking") as host, host.lock(LOCK):
        box.cut()
        began = time.monotonic()
        with pytest.raises(HostUnreachable, match=r"the connection is lost: .*not responding"):
            host.write("/proc/sys/vm/swappiness", b"60")
        assert time.monotonic() - began < NOTICED_WITHIN


def test_an_agent_that_is_killed_frees_the_lock_and_its_guard_fires(
    box: Box, host: SSHHost, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    script = 'echo ready; while read -r line; do echo "$line" >>"$0"; done; echo end >>"$0"'
    fence = 'echo "$IOTRIAL_FENCE" >"$0"; '

    def work() -> None:
        with host.guard(["sh", "-c", fence + script, str(note)], every=60), host.lock(LOCK):
            pid = int(holder(host).split()[1])
            mark = f"IOTRIAL_AGENT={note.read_text().strip()}".encode()
            assert mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            os.kill(pid, signal.SIGKILL)
            host.read("/proc/stat")

    with pytest.raises(HostUnreachable, match="the connection is lost"):
        work()
    assert soon(lambda: note.read_text().endswith("end\n"))
    assert "done" not in note.read_text(), "it must not believe that all was given back"
    with SSHHost(box.where, name="box") as again, again.lock(LOCK):
        assert [name for name in again.list("/run/iotrial") if name.startswith("agent-")] == [
            f"agent-{int(holder(again).split()[1])}"
        ], "what the killed one left is gone"


def test_a_controller_that_is_killed_frees_the_lock(lab: Lab, box: Box, host: SSHHost) -> None:
    command = [sys.executable, "-c", FAR_HOLDER, LOCK, box.where]
    environment = {**os.environ, "TMPDIR": str(lab.folder)}  # what it leaves goes with the lab
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as controller:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"held\n"
        with pytest.raises(LockedError, match=r"pid \d+ \(night\) holds"):
            enter(host.lock(LOCK))
        controller.kill()

    def free() -> bool:
        with suppress(LockedError):
            enter(host.lock(LOCK))
            return True
        return False

    assert soon(free)


def test_an_iotrial_on_the_machine_and_one_far_away_exclude_each_other(
    box: Box, host: SSHHost
) -> None:
    enters = ["nsenter", "-t", str(box.pid), "-m", "-n", "--"]
    command = [*enters, sys.executable, "-c", LOCAL_HOLDER, LOCK]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as there:
        assert there.stdout is not None
        assert there.stdout.readline() == b"held\n"
        with pytest.raises(LockedError, match=rf"pid {there.pid} \(study night\) holds"):
            enter(host.lock(LOCK))
        there.kill()
    with host.lock(LOCK):
        done = subprocess.run(command, capture_output=True, timeout=200, check=False)
        assert b"LockedError" in done.stderr
        assert b"(study far) holds" in done.stderr
        assert host.run(["flock", "-n", LOCK, "true"]).exit == 1, "no command has it either"


def test_a_lock_in_a_folder_of_others_is_refused(host: SSHHost, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(RefusedError, match="mode 0777"):
        enter(host.lock(f"{tmp_path}/open/lock"))


# -- loads ----------------------------------------------------------------------------------------


def test_what_a_load_needs_goes_there_and_what_it_left_comes_back(
    host: SSHHost, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "job file").write_bytes(b"\0job\n")
    (here / "telemetry").write_bytes(b"one\n")
    script = (
        'cat "job file"; pwd; mkdir -p logs/deep; printf "\\0\\n" >"logs/deep/a b"; : >logs/empty;'
        ' ln -s /etc/passwd link; sleep 0.3; echo "$TOKEN" >&2; exit 3'
    )
    process = host.start(["sh", "-c", script], folder=here, environment={"TOKEN": "it's"})
    (here / "telemetry").write_bytes(b"one\ntwo\n")
    assert process.wait(200) == 3
    said, _, there = (here / "stdout").read_bytes().partition(b"\n")
    assert said == b"\0job"
    assert there.strip().decode().startswith("/var/lib/iotrial/files/load-")
    assert (here / "logs/deep/a b").read_bytes() == b"\0\n"
    assert (here / "logs/empty").read_bytes() == b""
    assert (here / "stderr").read_bytes() == b"it's\n"
    assert (here / "telemetry").read_bytes() == b"one\ntwo\n", "what is ours stays"
    assert not (here / "link").exists()
    assert host.list("/var/lib/iotrial/files") == []


def test_the_children_of_a_load_end_with_it(host: SSHHost, tmp_path: Path) -> None:
    script = "trap '' TERM; sleep 600 & echo $!"
    process = host.start(["sh", "-c", script], folder=tmp_path, environment={})
    assert process.wait(200) == 0
    assert soon(lambda: not is_there((tmp_path / "stdout").read_text().strip()))


def test_a_command_that_takes_too_long_is_killed_with_its_children(
    host: SSHHost, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    script = f"trap '' TERM; sleep 600 & echo $! > {note}; wait"
    with pytest.raises(HostError, match="still running after"):
        host.run(["sh", "-c", script], timeout=0.5)
    assert soon(lambda: not is_there(note.read_text().strip()))
    assert host.run(["sh", "-c", "kill -KILL $$"]).exit == -9, "which is something else"


def test_what_a_command_leaves_behind_writes_into_no_answer(host: SSHHost) -> None:
    script = "(sleep 0.2; echo late) & echo early"
    assert host.run(["sh", "-c", script]).text == "early\n"
    assert host.run(["sh", "-c", "sleep 0.4; echo second"]).text == "second\n"


def test_a_signal_wakes_who_waits_for_a_load(box: Box, tmp_path: Path) -> None:
    former = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with wakeup_pipe() as wakeup, SSHHost(box.where, name="box", wakeup=wakeup) as host:
            process = host.start(["sleep", "600"], folder=tmp_path, environment={})
            os.kill(os.getpid(), signal.SIGUSR1)
            began = time.monotonic()
            assert process.wait(30) is None
            assert time.monotonic() - began < 15, "it waited to the end"
            process.kill(gently=True)
            assert process.wait(200) == -15
    finally:
        signal.signal(signal.SIGUSR1, former)


# -- full disks -----------------------------------------------------------------------------------


def test_a_full_disk_keeps_what_was_there(box: Box, host: SSHHost) -> None:
    box.run("mkdir", "/run/small")
    box.run("mount", "-t", "tmpfs", "-o", "size=16k", "small", "/run/small")
    host.save("/run/small/file", b"whole")
    for refused in (
        lambda: host.save("/run/small/file", bytes(1 << 16)),
        lambda: host.append("/run/small/other", bytes(1 << 16)),
    ):
        with pytest.raises(FileRefused) as caught:
            refused()
        assert caught.value.errno == errno.ENOSPC
        host.remove("/run/small/other")
    assert host.read("/run/small/file") == b"whole"
    assert host.list("/run/small") == ["file"]
