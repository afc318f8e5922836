"""One connection to a host, with the agent at its far end: by the system's ssh(1), or through
another program that executes a command elsewhere.

Everything that ssh_config(5), known_hosts and the ssh agent say holds: host keys, users, ports,
jump hosts.  Only what makes ssh wait for a person, or share a connection that is not ours, is
overridden.  The first ssh holds the connection (ControlMaster) and carries the agent; guards and
loads get sessions of their own over it.

The folder of its socket, on this machine, is new and ours alone.  A controller that is killed
leaves it behind.  Whoever is alive holds a lock on the file ``alive`` in it, which the kernel frees
with its holder: a folder of ours that nobody holds goes with the next connection.

A tunnel is a socket here whose connections end at a socket on the far side.  It is asked of the ssh
that holds the connection (``-O forward``), and taken back (``-O cancel``).  No configuration is
read for that: forwardings of the user's own are not to be made twice.  Both ends are sockets of
unix(7) in folders that nobody else can look into, so that nobody else on either machine, and nobody
on the network, reaches what listens there.

Sources: ssh(1), -L and -O; unix(7).
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import os
import re
import secrets
import select
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from iotrial.errors import FileRefused, HostError, HostUnreachable
from iotrial.hosts.agent import AgentRequest, encoded, prelude, said, text_of
from iotrial.hosts.bounds import GREETING_MOST, WIRE_MOST, ErrorOutput, converse, words
from iotrial.hosts.container import ContainerAccess, ShellNamespaces, outside
from iotrial.hosts.local import LocalHost
from iotrial.hosts.login import destination
from iotrial.hosts.places import STATE, need_safe_above

# -- the folder of its socket ----------------------------------------------------------------------

_PREFIX = "iotrial-"
_NAME = re.compile(_PREFIX + r"[a-z0-9_]{8}")
"""As mkdtemp makes them."""
_ALIVE, _NEW = "alive", "alive.new"
_LONGEST = 80
"""Bytes of the folder's path: the socket's name and what ssh hangs on it while it binds must fit
into the 108 of unix(7)."""
_YOUNG = 3600.0
"""Seconds: who makes a folder locks it at once; one that is empty for so long is nobody's."""


def control_folder() -> tuple[Path, int]:
    """A new folder of ours alone, with a short path, and the descriptor to keep open as long as it
    is used.  Those of the dead go.

    Raises RefusedError where others could put another folder in its place.
    """
    base = tempfile.gettempdir()
    base = base if len(base) <= _LONGEST else "/tmp"  # noqa: S108 (mkdtemp: 0700, a new name)
    need_safe_above(LocalHost(), f"{base}/{_PREFIX}")
    for folder in _dead(Path(base)):
        shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    alive = os.open(folder / _NEW, flags, 0o600)
    fcntl.flock(alive, fcntl.LOCK_EX)
    # Locked before it has its name: nobody who sweeps finds it free in between.
    (folder / _NEW).rename(folder / _ALIVE)
    return folder, alive


def _dead(base: Path) -> Iterator[Path]:
    """Folders of this user's that such a controller made and does not hold any more."""
    for entry in os.scandir(base):
        if not _NAME.fullmatch(entry.name):
            continue
        with suppress(OSError):
            seen = entry.stat(follow_symlinks=False)
            ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
            if ours and stat.S_IMODE(seen.st_mode) == stat.S_IRWXU and _is_dead(Path(entry), seen):
                yield Path(entry)


def _is_dead(folder: Path, seen: os.stat_result) -> bool:
    try:
        alive = os.open(folder / _ALIVE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        empty = set(os.listdir(folder)) <= {_NEW}  # noqa: PTH208
        return empty and time.time() - seen.st_mtime > _YOUNG
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(alive)
    return True


# -- tunnels ---------------------------------------------------------------------------------------

LONGEST = 107
"""Bytes of a socket's path (sun_path of unix(7))."""
WITHIN = 15.0
_numbers = itertools.count()


@contextmanager
def tunnel(host: str, folder: Path, path: str) -> Iterator[str]:
    """The path of a socket in ``folder``, where the connection's own socket ``c`` is, that leads
    to ``path`` on ``host``.

    Raises HostError where that cannot be, HostUnreachable where there is no connection.
    """
    if len(path.encode("utf-8", "surrogateescape")) > LONGEST:
        raise HostError(
            f"{host}: {path} is too long for a socket", advice="Use a shorter IOTRIAL_STATE."
        )
    here = folder / f"t{next(_numbers)}"
    way = f"{_spelled(str(here))}:{_spelled(path)}"
    _tell(host, folder, "forward", way)
    try:
        yield str(here)
    finally:
        with suppress(HostUnreachable, HostError):  # then it went with the connection
            _tell(host, folder, "cancel", way)
        here.unlink(missing_ok=True)


def _tell(host: str, folder: Path, what: str, way: str) -> None:
    command = ["ssh", "-F", "none", "-S", f"{folder}/c", "-O", what, "-L", way, "--", "iotrial"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as asked:
        try:
            _, complaint = converse(host, asked, b"", WITHIN)
        except subprocess.TimeoutExpired:
            raise HostUnreachable(f"{host}: ssh no longer responds") from None
        finally:
            asked.kill()
    if asked.returncode:
        words = complaint.decode("utf-8", "replace").strip() or f"exit {asked.returncode}"
        if not (folder / "c").exists():
            raise HostUnreachable(f"{host}: the connection is lost: {words}")
        raise HostError(
            f"{host}: no tunnel through its SSH connection: {words}",
            advice="It needs OpenSSH 6.7 or newer on both sides.",
        )


def _spelled(path: str) -> str:
    """A path in the argument of ``-L``, where a colon parts."""
    return path.replace("\\", "\\\\").replace(":", "\\:")


# -- the connection --------------------------------------------------------------------------------

T = TypeVar("T")

CONNECTS_WITHIN = 10
"""Seconds for each TCP connection (ConnectTimeout)."""
GREETS_WITHIN = 40.0
"""Seconds until the agent has said who it is, jump hosts and all."""
ALIVE_EVERY, ALIVE_TRIES = 5, 2
"""ssh asks a silent link every so many seconds, and gives it up when it was silent to so many
questions: after 15 s (ServerAliveCountMax of ssh_config(5))."""
ENDS_WITHIN = 5.0

_OPTIONS = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECTS_WITHIN}",
    f"ServerAliveInterval={ALIVE_EVERY}",
    f"ServerAliveCountMax={ALIVE_TRIES}",
    "ControlPersist=no",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "RequestTTY=no",
    "UpdateHostKeys=no",
    "CheckHostIP=no",  # else it adds addresses to known_hosts, however strict it is; OpenSSH 8.5 on
)
_BECOME = (
    'test "$(id -u)" = 0 || { IOTRIAL_SUDO=$(sudo -n /bin/sh -c : 2>&1) && '
    "exec sudo -n env IOTRIAL_AGENT=%s /bin/sh -s iotrial-agent sudo; }; "
    "export IOTRIAL_SUDO; exec env IOTRIAL_AGENT=%s /bin/sh -s iotrial-agent"
)
"""The mark is in the environment of the agent and of everything it forks, where the guard finds
it."""
_PLACES = ("HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", STATE)


@dataclass(frozen=True, slots=True)
class RemoteCommand:
    """A local command whose far end executes what it was asked to.  ``opening`` is what it must be
    told on stdin first: the far end is a shell then, which must have nothing else to read until it
    has said :attr:`AgentConnection.opened`; it may read ahead, and what it has read is lost to the
    program that takes its place."""

    argv: list[str]
    opening: bytes = b""


class AgentConnection(ABC):
    """Connected when made: a local command whose far end is a shell, which becomes the agent.

    ``uid`` is the agent's user there; ``sudo`` whether that is sudo's doing, ``sudo_said`` why not;
    ``environment`` where that user keeps files; ``outside`` how a guard is started where the shell
    is in a container (:mod:`iotrial.hosts.container`).  ``rounds`` counts requests.  ``nonce``
    marks the agent's processes there, ``sign`` is in no file there.

    Raises HostUnreachable, or HostError where the far side lacks a program.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rounds = 0
        self.outside = ContainerAccess()
        self.nonce = secrets.token_hex(16)
        self.opened = f"\niotrial {secrets.token_hex(16)}\n".encode()
        self.sign = f"\n{secrets.token_hex(16)}\n".encode()
        self._lost = ""
        self._greeted = False
        self._asked = "who are you"
        self._buffer = bytearray()
        self._outgoing = memoryview(b"")
        self._deadline = 0.0
        self._ssh = self._master()
        self._complaints = ErrorOutput(self._ssh)
        self._in, self._out = pipes(self._ssh)
        os.set_blocking(self._in.fileno(), False)
        try:
            self._greet()
        except BaseException:
            self._lost = self._lost or "the agent did not start"
            self.close()
            raise

    @abstractmethod
    def first(self, text: str) -> RemoteCommand:
        """What connects, and has a shell of the user's there execute ``text``."""

    @abstractmethod
    def more(self, text: str) -> RemoteCommand:
        """The same for what is beside that, on the same machine or not at all."""

    @abstractmethod
    def tunnel(self, path: str) -> AbstractContextManager[str]:
        """As :meth:`~iotrial.model.host.Host.tunnel`.  Raises HostError where there is none."""

    @abstractmethod
    def remedy(self, why: str) -> str:
        """What to do where it did not connect."""

    @abstractmethod
    def release(self) -> None:
        """Give back what the connection took here: it has ended."""

    def _master(self) -> subprocess.Popen[bytes]:
        first = self.first(f"exec /bin/sh -c '{_BECOME % (self.nonce, self.nonce)}'")
        self._opening = first.opening
        try:
            return subprocess.Popen(
                first.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for us: what is owed is paid over this
            )
        except (FileNotFoundError, PermissionError) as error:
            self.release()
            raise HostError(
                f"{self.name}: {first.argv[0]} is not installed on this host",
                advice=self.remedy(""),
            ) from error

    # -- requests ---------------------------------------------------------------------------------

    def ask(self, request: AgentRequest[T]) -> T:
        """One round trip.  Raises what its parser raises, and HostUnreachable when there is no
        agent any more; then there never will be one on this connection."""
        self.check()
        self.rounds += 1
        sign = f"answered {self.rounds}"
        self._asked = request.text
        self._send(encoded(f"{request.text}\necho {sign!r}"), request.within)
        refused = None
        try:
            try:
                answer = request.parse(self)
            except FileRefused as error:
                refused = error
            self._expect(sign.encode())
        except HostUnreachable:
            raise
        except (ValueError, IndexError) as error:
            raise self._lose(f"unexpected message of the agent ({error})") from error
        except BaseException:
            self._lose("an answer was not read to its end")
            raise
        if refused is not None:
            raise refused
        return answer

    def _expect(self, sign: bytes) -> None:
        found = self.line()
        if found != sign:
            raise ValueError(f"{found[:80]!r} instead of {sign!r}")

    def line(self) -> bytes:
        return self.until(b"\n")

    def exactly(self, count: int) -> bytes:
        if not 0 <= count <= WIRE_MOST:
            raise ValueError(f"{count} bytes are to follow")
        while len(self._buffer) < count:
            self._pull()
        return self._cut(count, 0)

    def until(self, mark: bytes) -> bytes:
        searched = 0
        while (found := self._buffer.find(mark, searched)) < 0:
            searched = max(0, len(self._buffer) - len(mark) + 1)
            self._pull()
        return self._cut(found, len(mark))

    def _cut(self, count: int, more: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[: count + more]
        return taken

    def _send(self, data: bytes, within: float) -> None:
        self._outgoing = memoryview(data)
        self._deadline = time.monotonic() + within
        self._came, self._late = len(self._buffer), False

    def _pull(self) -> None:
        """Wait for more of the answer, sending what is left of the request meanwhile."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        if self._outgoing:
            poll.register(self._in, select.POLLOUT)
        left = self._deadline - time.monotonic()
        ready = [descriptor for descriptor, _ in poll.poll(max(0.0, left) * 1000)]
        if left <= 0 and (self._late or not ready):
            raise self._lose("it no longer responds")
        if left <= 0:  # it was we who stood still: what lies there is read, but not for ever
            self._late, self._deadline = True, time.monotonic() + ENDS_WITHIN
        if self._in.fileno() in ready:
            try:
                self._outgoing = self._outgoing[os.write(self._in.fileno(), self._outgoing) :]
            except OSError:
                self._outgoing = memoryview(b"")  # it is gone: the end of its words will tell
        if self._out.fileno() in ready:
            said = os.read(self._out.fileno(), 1 << 16)
            if not said:
                raise self._lose("")
            self._buffer += said
            self._came += len(said)
            most = WIRE_MOST if self._greeted else GREETING_MOST
            if self._came > most:
                self._buffer.clear()
                asked = " ".join(self._asked.split())
                raise self._lose(words(asked, self._came, most))

    # -- sessions ---------------------------------------------------------------------------------

    def session(self, arguments: str) -> RemoteCommand:
        """What runs ``/bin/sh`` with these arguments there, as the agent's user, over this
        connection or not at all."""
        return self.more(f"exec {'sudo -n ' if self.sudo else ''}/bin/sh {arguments}")

    def running(self, script: str) -> RemoteCommand:
        """What runs ``script`` there and leaves it stdin.  Base64, because whatever the login shell
        there is, it must not read it."""
        packed = base64.b64encode(script.encode("utf-8", "surrogateescape")).decode("ascii")
        return self.session(f"-c 'eval \"$(echo {packed} | base64 -d)\"'")

    @property
    def lost(self) -> bool:
        return bool(self._lost)

    def check(self) -> None:
        """Raise HostUnreachable where the connection is known to be lost."""
        if self._lost:
            raise self._unreachable()

    def close(self) -> None:
        """End the agent, and the connection with every session over it."""
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()
        if self._lost:
            self._ssh.terminate()
        try:
            self._ssh.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        self._lost = self._lost or "the connection was closed"
        self.release()

    # -- beginning and end ------------------------------------------------------------------------

    def _greet(self) -> None:
        """Make the shell there the agent, and hear who it is.  What its start-up files print
        before is passed over."""
        if self._opening:
            self._send(self._opening, GREETS_WITHIN)
            self.until(self.opened)
        hello = said("hello", self.sign.decode().strip())
        self._send(prelude().encode() + encoded(hello), GREETS_WITHIN)
        self.until(self.sign)
        texts = [os.fsdecode(text_of(self)[1]) for _ in range(8)]
        lacking, who, sudo, *folders, namespaces = texts
        if lacking:
            raise HostError(
                f"{self.name}: missing programs: {lacking}",
                advice="Install coreutils and util-linux there.",
            )
        user, how = who.split()
        self.uid = int(user)
        self.sudo, self.sudo_said = how == "sudo", sudo.strip()
        named = zip(_PLACES, folders, strict=True)
        self.environment = {name: folder for name, folder in named if folder}
        self.namespaces = ShellNamespaces(*namespaces.split(" "))
        self._greeted = True

    def _lose(self, why: str) -> HostUnreachable:
        """There is no agent any more.  ``why``: '' when ssh knows better."""
        if not why:
            with suppress(subprocess.TimeoutExpired):
                self._ssh.wait(1.0 if self._greeted else ENDS_WITHIN)
            why = self._last_words() or "the shell there ended"
        self._lost = why
        return self._unreachable()

    def _last_words(self) -> str:
        text = self._complaints.last()
        if not text and not self._greeted:  # nologin(8) says why on stdout
            text = self._buffer.decode("utf-8", "replace").strip()
        return text.splitlines()[-1].strip() if text else ""

    def _unreachable(self) -> HostUnreachable:
        if self._greeted:
            return HostUnreachable(
                f"{self.name}: the connection is lost: {self._lost}",
                advice="Its guard restores the settings recorded in its journal; so does"
                " `iotrial restore` once the host is reachable.",
            )
        return HostUnreachable(
            f"{self.name}: cannot connect: {self._lost}", advice=self.remedy(self._lost)
        )


class Connection(AgentConnection):
    """By ssh(1).  ``where`` are words for it, as a study says them."""

    def __init__(self, where: str, name: str) -> None:
        self._where = where
        self._words = destination(where)
        self._folder, self._alive = control_folder()
        super().__init__(name)

    def first(self, text: str) -> RemoteCommand:
        return self._command(text, "ControlMaster=yes", f"ControlPath={self._folder}/c")

    def more(self, text: str) -> RemoteCommand:
        # never a connection of its own
        own = ("ControlMaster=no", f"ControlPath={self._folder}/c", "ProxyCommand=false")
        return self._command(text, *own)

    def _command(self, text: str, *options: str) -> RemoteCommand:
        said = (word for option in (*_OPTIONS, *options) for word in ("-o", option))
        return RemoteCommand(["ssh", *said, *self._words, text])

    def tunnel(self, path: str) -> AbstractContextManager[str]:
        """See :func:`iotrial.hosts.connection.tunnel`.  Raises HostError where the agent is root by
        sudo: sshd is not."""
        if self.sudo:
            raise HostError(
                f"{self.name}: no tunnel to processes under sudo: the login is not root",
                advice='Log in as root, or remove start = "server".',
            )
        return tunnel(self.name, self._folder, path)

    def release(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._alive)

    def remedy(self, why: str) -> str:
        if not why:
            return "Install openssh-client on this host."
        trial = f"Try manually: ssh -o BatchMode=yes {self._where} true"
        if "Host key verification failed" in why:
            return (
                "Its host key differs from known_hosts or is missing there: verify the host,"
                f" then correct known_hosts.\n  {trial}"
            )
        if "Permission denied" in why:
            return (
                "Password login is not possible: install your key (ssh-copy-id), or load it"
                f" (ssh-add).\n  {trial}"
            )
        return trial


class WrappedConnection(AgentConnection):
    """Through a program of this machine that executes a command elsewhere, and passes on stdin and
    stdout: ``argv`` is what comes before that command.  ``is_shell``: it takes none, and is a shell
    on stdin and stdout."""

    def __init__(self, argv: Sequence[str], name: str, *, is_shell: bool = False) -> None:
        self._argv = tuple(argv)
        self._is_shell = is_shell
        super().__init__(name)
        if self.uid == 0:  # others change nothing that would outlive the container
            self.outside = outside(self.namespaces)

    def first(self, text: str) -> RemoteCommand:
        if self._is_shell:
            mark = self.opened.decode().strip()
            return RemoteCommand([*self._argv], f"printf '\\n%s\\n' '{mark}'; {text}\n".encode())
        return RemoteCommand([*self._argv, "/bin/sh", "-c", text])

    more = first

    def tunnel(self, path: str) -> AbstractContextManager[str]:
        raise HostError(
            f"{self.name}: no tunnel to {path}: {self._argv[0]} has none",
            advice='Set listen = … for the host, or remove start = "server".',
        )

    def release(self) -> None:
        self.outside.close()

    def remedy(self, why: str) -> str:
        if self._is_shell:
            return f"It must give a POSIX shell. Try manually: echo id | {shlex.join(self._argv)}"
        trial = shlex.join([*self._argv, "true"])
        return (
            f"Try manually: {trial}" if why else f"Install it. It must be able to execute: {trial}"
        )


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """Its stdin and stdout, which were asked for."""
    assert process.stdin is not None  # noqa: S101 (for the type checker)
    assert process.stdout is not None  # noqa: S101
    return process.stdin, process.stdout
