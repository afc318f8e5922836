"""A host that does not end its answers: every kind of bad peer in every state of the protocol."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iotrial.errors import HostError, printable
from iotrial.hosts import bounds, connection, ssh
from iotrial.hosts.agent import AgentRequest
from iotrial.hosts.local import LocalHost
from iotrial.hosts.process import watching
from iotrial.hosts.ssh import SSHHost
from iotrial.model.step import Probe, Read

GROWTH = 64 << 10
"""KiB of memory that an endless answer may take."""

PEER = """#!{python}
import os, re, subprocess, sys, time
state, way = {state!r}, {way!r}
arguments = " ".join(sys.argv)
load = "iotrial-load" in arguments
def flood(descriptor=1):
    chunk = {{"line": b"x" * 65536, "nul": bytes(65536), "lines": b"y\\n" * 32768,
             "base64": b"QUFB" * 16384, "ansi": b"\\x1b[2J" * 16384}}[way]
    while True:
        os.write(descriptor, chunk)
def bad():
    if way == "length":
        os.write(1, b"0 99999999999999\\n"); way_on()
    elif way == "digits":
        os.write(1, b"0 " + b"9" * 5000 + b"\\n"); way_on()
    elif way == "negative":
        os.write(1, b"0 -99\\n"); way_on()
    elif way == "silence":
        time.sleep(60)
    elif way == "end":
        sys.exit(1)
    elif way == "trickle":
        while True:
            os.write(1, b"x"); time.sleep(0.01)
    else:
        flood()
def way_on():
    while True:
        os.write(1, b"z" * 65536)
if load and state != "load-left":
    bad() if state == "load" else sys.exit(1)
if state == "stderr":
    flood(2)
if state == "banner":
    bad()
shell = subprocess.Popen(["/bin/sh", "-s", "iotrial-agent"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
if load:
    text = sys.stdin.buffer.read()
    sign = text[text.rindex(b"printf %s '") + 11:]
    os.write(1, sign[:sign.index(b"'")] + b"0 1\\n1\\n0 0\\n\\nfile 1\\na\\n")
    bad()
# The agent is a true one until it was asked so many things.
honest, seen = {honest}, 0
os.set_blocking(0, False); os.set_blocking(shell.stdout.fileno(), False)
import select
while True:
    ready, _, _ = select.select([0, shell.stdout], [], [])
    if 0 in ready:
        data = os.read(0, 1 << 16)
        if not data: sys.exit()
        seen += data.count(b"echo 'answered")
        if seen > honest:
            bad()
        os.write(shell.stdin.fileno(), data) if len(data) < 60000 else shell.stdin.write(data)
        shell.stdin.flush()
    if shell.stdout in ready:
        data = os.read(shell.stdout.fileno(), 1 << 16)
        if not data: sys.exit()
        os.write(1, data)
"""

FLOODS = ("line", "nul", "lines", "base64", "ansi")
WAYS = (*FLOODS, "length", "digits", "negative", "silence", "end", "trickle")

ASKS: dict[str, Callable[[SSHHost], object]] = {
    "read": lambda host: host.read("/proc/version"),
    "list": lambda host: host.list("/proc"),
    "run": lambda host: host.run(["true"], timeout=0.3),
    "write": lambda host: host.write("/dev/null", b"x"),
    "batch": lambda host: host.batch([Read(Probe("/proc/version")), Read(Probe("/proc/a b"))]),
}


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, int], None]:
    """Make `ssh` a bad one."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("IOTRIAL_STATE", str(state))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)

    def make(state: str, way: str, honest: int) -> None:
        words = PEER.format(python=sys.executable, state=state, way=way, honest=honest)
        program = tmp_path / "bin" / "ssh"
        program.parent.mkdir(exist_ok=True)
        program.write_text(words)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return make


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make the short time limits hold: called once nothing honest is waited for any more."""

    def now() -> None:
        monkeypatch.setattr(connection, "GREETS_WITHIN", 1.0)
        monkeypatch.setattr(connection, "ENDS_WITHIN", 0.3)
        monkeypatch.setattr("iotrial.hosts.agent.PATIENCE", 0.5)
        monkeypatch.setattr(AgentRequest.__init__, "__defaults__", (0.5,))
        monkeypatch.setattr(ssh, "STARTS_WITHIN", 1.0)
        monkeypatch.setattr("iotrial.hosts.process.READY_WITHIN", 1.0)

    return now


def peak() -> int:
    """KiB of memory that this process had at most, of proc(5)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0])


def peak_from_now() -> int:
    """The same, forgetting what was: else a test before this one would hide what this one takes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return peak()


def bounded(act: Callable[[], object]) -> HostError:
    """The act fails as a HostError that names the host, and takes no memory."""
    before = peak_from_now()
    with pytest.raises(HostError) as caught:
        act()
    assert peak() - before < GROWTH
    error = caught.value
    assert error.message.startswith(("box:", "local:")), error
    assert printable(str(error)) == str(error)
    assert len(error.message) < 2000, "what they said is not told whole"
    return error


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", ["banner", "settle"])
def test_one_that_is_bad_before_it_is_connected(
    peer: Callable[[str, str, int], None],
    impatient: Callable[[], None],
    state: str,
    way: str,
    tmp_path: Path,
) -> None:
    peer(state, way, 0)
    impatient()
    bounded(lambda: SSHHost("box", name="box"))
    assert not list((tmp_path / "tmp").iterdir()), "nothing is left behind"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("asked", ASKS)
def test_one_that_is_bad_when_it_is_asked(
    peer: Callable[[str, str, int], None], impatient: Callable[[], None], asked: str, way: str
) -> None:
    peer("asked", way, 1)
    with SSHHost("box", name="box") as host:
        endless = way in ("line", "nul", "base64")
        if not endless:  # what is read of them on a busy machine takes longer than patience
            impatient()
        error = bounded(lambda: ASKS[asked](host))
        if endless:
            assert "exceeds the limit" in error.message or "unexpected message" in error.message
        with pytest.raises(HostError):
            host.read("/proc/version")  # there is no connection any more


@pytest.mark.parametrize("way", FLOODS)
def test_ssh_that_complains_without_end(
    peer: Callable[[str, str, int], None], way: str, tmp_path: Path
) -> None:
    peer("stderr", way, 0)
    error = bounded(lambda: SSHHost("box", name="box"))
    assert "wrote more than" in error.message
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("way", WAYS)
def test_a_load_that_is_bad_before_it_began(
    peer: Callable[[str, str, int], None], impatient: Callable[[], None], way: str, tmp_path: Path
) -> None:
    peer("load", way, 1)
    with SSHHost("box", name="box") as host:
        impatient()
        bounded(lambda: host.start(["true"], folder=tmp_path, environment={}))


@pytest.mark.parametrize("way", [*FLOODS, "end"])
def test_a_load_that_leaves_too_much(
    peer: Callable[[str, str, int], None],
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(ssh, "LEFT_MOST", 100 << 20)
    peer("load-left", way, 1)
    folder = tmp_path / "trial"
    folder.mkdir()
    with SSHHost("box", name="box") as host:
        process = host.start(["true"], folder=folder, environment={})
        bounded(lambda: process.wait(30))
    assert not list(folder.iterdir()), "nothing is taken over of what is not whole"


def test_a_load_that_leaves_more_than_there_is_room_for(
    peer: Callable[[str, str, int], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ssh, "LEFT_FREE", 1 << 60)
    peer("load-left", "base64", 1)
    with SSHHost("box", name="box") as host:
        process = host.start(["true"], folder=tmp_path, environment={})
        assert "disk full after" in bounded(lambda: process.wait(30)).message


def finishing(peer: Callable[[str, str, int], None], tail: str) -> None:
    """A peer whose load leaves the file `a`, of which `tail` (Python) says the rest."""
    peer("load-left", "end", 1)
    program = Path(os.environ["PATH"].split(":")[0]) / "ssh"
    text = program.read_text(encoding="utf-8")
    before, mark, after = text.rpartition("    bad()\n# The agent")
    assert mark
    program.write_text(f"{before}    {tail}; sys.exit(0)\n# The agent{after}", encoding="utf-8")


LARGE = 96 << 20


def test_a_large_file_of_a_load_takes_no_memory(
    peer: Callable[[str, str, int], None], tmp_path: Path
) -> None:
    chunks = LARGE // (48 << 10)
    finishing(
        peer,
        f"sys.stdout.buffer.write(b'QUJD' * 16384 * {chunks} + b'\\nend\\n'); sys.stdout.flush()",
    )
    folder = tmp_path / "trial"
    folder.mkdir()
    with SSHHost("box", name="box") as host:
        process = host.start(["true"], folder=folder, environment={})
        before = peak_from_now()
        assert process.wait(60) == 0
        assert peak() - before < GROWTH
    assert (folder / "a").stat().st_size == LARGE
    assert (folder / "a").read_bytes()[-6:] == b"ABCABC"


@pytest.mark.parametrize("name", ["a/b", "x" * 256])
def test_a_file_of_a_load_that_cannot_be_written_is_the_hosts_error(
    peer: Callable[[str, str, int], None], tmp_path: Path, name: str
) -> None:
    words = f"QUJD\nfile {len(name)}\n{name}\nQUJD\nend\n"
    finishing(peer, f"os.write(1, {words.encode()!r})")
    folder = tmp_path / "trial"
    folder.mkdir()
    with SSHHost("box", name="box") as host:
        process = host.start(["true"], folder=folder, environment={})
        error = bounded(lambda: process.wait(30))
    assert error.message.startswith(f"box: {name}, a file of the load")


FEEDS = ("/dev/zero", "/dev/urandom")


@pytest.mark.parametrize("stream", [1, 2])
@pytest.mark.parametrize("file", FEEDS)
def test_a_command_here_that_does_not_end(file: str, stream: int) -> None:
    argv = ["sh", "-c", f"exec cat {file} >&{stream}"]
    error = bounded(lambda: LocalHost().run(argv))
    assert "exceeds the limit" in error.message
    assert file in error.message


@pytest.mark.parametrize("file", FEEDS)
def test_a_file_here_that_does_not_end(file: str) -> None:
    assert "exceeds the limit" in bounded(lambda: LocalHost().read(file)).message


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert LocalHost().read(str(tmp_path / "pipe")) == b""


def test_a_folder_with_too_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "NAMES_MOST", 3)
    for name in "abcd":
        (tmp_path / name).touch()
    assert "more than 3 names" in bounded(lambda: LocalHost().list(str(tmp_path))).message


def test_a_folder_there_with_too_many_names(
    peer: Callable[[str, str, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "NAMES_MOST", 3)
    (tmp_path / "full").mkdir()
    for name in "abc":
        (tmp_path / "full" / name).touch()
    peer("asked", "end", 99)
    with SSHHost("box", name="box") as host:
        assert host.list(str(tmp_path / "full")) == ["a", "b", "c"]
        (tmp_path / "full" / "d").touch()
        assert "more than 3 names" in bounded(lambda: host.list(str(tmp_path / "full"))).message


def test_a_guard_that_talks_without_end() -> None:
    def watched() -> None:
        with watching("local", ["yes"], every=1):
            pass

    bounded(watched)


def test_what_is_large_and_ends_is_taken_whole(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(os.urandom(20 << 20))
    host = LocalHost()
    content = host.read(str(tmp_path / "large"))
    assert content == (tmp_path / "large").read_bytes()
    assert host.run(["cat"], stdin=content).stdout == content
    assert host.run(["true"], stdin=content).exit == 0
    with pytest.raises(HostError, match="still running"):
        host.run(["sleep", "9"], timeout=0.1)


def test_memory_is_measured_at_all() -> None:
    """The measure of this page can fail, twice in one process."""
    for _ in range(2):
        before = peak_from_now()
        assert peak() - before < GROWTH
        assert len(os.urandom(100 << 20)) == 100 << 20
        assert peak() - before > GROWTH
