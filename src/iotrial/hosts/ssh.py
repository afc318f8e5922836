"""A machine that is reached by the system's ssh(1), as a host, and the loads on it.

One connection, and on its far side one long-lived POSIX shell, the agent: every verb, and a whole
batch, is one request and one answer.  Nothing is installed there.  ``docs/decisions/0009-ssh.md``
says why so.

A load has a session of its own, which carries its end and its files.  While it runs, nobody there
or here does anything: its shell waits for it, we wait for the first byte of what that shell says.
What it left comes to a file here, which is read a piece at a time: a large one takes no memory.
"""

from __future__ import annotations

import base64
import os
import posixpath
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, NoReturn, Self, TypeVar

from iotrial.errors import FileRefused, HostError, HostUnreachable
from iotrial.hosts import agent
from iotrial.hosts.agent import AgentRequest, encoded, exit_of, load, prelude, said, text_of
from iotrial.hosts.bounds import (
    ADVICE,
    ANSWER_MOST,
    GREETING_MOST,
    LEFT_FREE,
    LEFT_MOST,
    ErrorOutput,
    held,
    missing,
    not_ours,
    started_on,
    timed_out,
    too_much,
    words,
)
from iotrial.hosts.connection import (
    AgentConnection,
    Connection,
    RemoteCommand,
    WrappedConnection,
    pipes,
)
from iotrial.hosts.container import STATE_FOLDER
from iotrial.hosts.places import STATE, places
from iotrial.hosts.process import pause, readable, watching
from iotrial.hosts.steps import code_of
from iotrial.model.host import Access, CompletedCommand, Host
from iotrial.model.step import Step, StepResult
from iotrial.units import format_bytes

T = TypeVar("T")

# -- what a load left ------------------------------------------------------------------------------

_LINE = 1 << 20
"""Bytes of a line that is no content, and of a name or the words about the end of a load."""
_PIECE = 1 << 18
"""Bytes of base64 at once: whole groups of four."""


class _Kept:
    """Answers out of a file.  Raises EOFError where they end too early, ValueError."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def line(self) -> bytes:
        found = self._file.readline(_LINE)
        if not found.endswith(b"\n"):
            raise ValueError("a line does not end") if len(found) == _LINE else EOFError
        return found[:-1]

    def exactly(self, count: int) -> bytes:
        if not 0 <= count <= _LINE:
            raise ValueError(f"{count} bytes are to follow")
        found = self._file.read(count)
        if len(found) < count:
            raise EOFError
        return found

    def until(self, mark: bytes) -> bytes:
        raise NotImplementedError(mark)  # nothing that a load leaves ends so

    def pieces(self) -> Iterator[bytes]:
        """What a line of base64 says."""
        short = False
        while True:
            found = self._file.readline(_PIECE)
            ends = found.endswith(b"\n")
            if not ends and len(found) < _PIECE:
                raise EOFError
            data = base64.b64decode(found.removesuffix(b"\n"), validate=True)
            if short and data:
                raise ValueError("data after the end of base64")
            short = len(data) < _PIECE // 4 * 3
            if data:
                yield data
            if ends:
                return


def results(file: IO[bytes]) -> tuple[int, Iterator[tuple[str, Iterator[bytes]]]]:
    """The status of a load that ended, and every file that it left, by its relative path, in
    pieces.

    Raises EOFError where it is not whole, ValueError for what is none, and for a path that leads
    out of its folder.
    """
    file.seek(0)
    kept = _Kept(file)
    status, _ = text_of(kept)
    return exit_of(status), _left(kept)


def _left(kept: _Kept) -> Iterator[tuple[str, Iterator[bytes]]]:
    while (line := kept.line()) != b"end":
        path = os.fsdecode(kept.exactly(int(line.removeprefix(b"file "))))
        kept.line()
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
            raise ValueError(f"{path[:200]!r} is not a file of the load's folder")
        content = kept.pieces()
        yield path, content
        for _ in content:  # what nobody wanted
            pass


# -- loads -----------------------------------------------------------------------------------------

STARTS_WITHIN = 60.0
LOOKS_EVERY = 16 << 20
"""Bytes after which it is looked whether there is still room."""
_STARTED, _NOT_MADE, _NOT_INSTALLED = 0, 1, 2


class BufferedResponse:
    """Answers out of bytes that are here already.  Raises EOFError where they end too early."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self.position = 0

    def line(self) -> bytes:
        return self.until(b"\n")

    def exactly(self, count: int) -> bytes:
        if count < 0:
            raise ValueError(f"{count} bytes are to follow")
        if len(self._data) - self.position < count:
            raise EOFError
        self.position += count
        return bytes(self._data[self.position - count : self.position])

    def until(self, mark: bytes) -> bytes:
        end = self._data.find(mark, self.position)
        if end < 0:
            raise EOFError
        taken = bytes(self._data[self.position : end])
        self.position = end + len(mark)
        return taken


class RemoteProcess:
    """A load, once :meth:`start` was called, in a session over ``connection``.  What lies in
    ``folder``, the controller's, goes with the load; what the load left there comes back when it
    ended.  ``signalled`` signals the group of this number, gently or not.
    """

    def __init__(
        self,
        host: str,
        connection: AgentConnection,
        *,
        folder: Path,
        wakeup: int | None,
        signalled: Callable[[int, bool], None],
    ) -> None:
        self._host = host
        self._sign = connection.sign
        self._folder = folder
        self._wakeup = wakeup
        self._signalled = signalled
        self._status: int | None = None
        self._data = bytearray()
        self._sent = _supplies(folder)
        session = connection.session("-s iotrial-load")
        self._opening, self._opened = session.opening, connection.opened
        self._ssh = subprocess.Popen(
            session.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._complaints = ErrorOutput(self._ssh)
        # Beside what it becomes: a disk with room for that has room for this.
        self._left = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed with the session)
        self._came = 0
        self._in, self._out = pipes(self._ssh)
        self._pid, self._started = 0, False

    def start(self, argv: Sequence[str], environment: Mapping[str, str], there: str) -> None:
        """Have it run, in a new folder below ``there``.

        Raises :class:`~iotrial.errors.ToolMissing` for a program that is not installed there.
        """
        sign = said("printf", "%s", self._sign.decode())
        request = f"{sign}\n{load(there, self._sent, environment, argv)}"
        text = prelude().encode() + encoded(request)
        deadline = time.monotonic() + STARTS_WITHIN
        with suppress(BrokenPipeError):
            if self._opening:
                self._in.write(self._opening)
                self._in.flush()
                self._heard(self._opened, deadline, lambda _: None)
            self._in.write(text)
            self._in.close()
        # behind what the login's files print
        (status, number), told = self._heard(self._sign, deadline, text_of)
        if status == _NOT_INSTALLED:
            self._close()
            raise missing(self._host, argv[0])
        if status == _NOT_MADE:
            self._close()
            raise FileRefused(self._host, "make", f"{there}/load-…", code_of(os.fsdecode(number)))
        self._pid = int(number)
        self._left.write(self._data[told:])
        self._started = True

    def _heard(
        self, mark: bytes, deadline: float, parse: Callable[[BufferedResponse], T]
    ) -> tuple[T, int]:
        """What comes behind ``mark``, as soon as it is whole, and where that ends."""
        while True:
            told = BufferedResponse(self._data)
            try:
                told.until(mark)
                return parse(told), told.position
            except EOFError:
                left = deadline - time.monotonic()
                if left <= 0 or (readable(self._out.fileno(), left, None) and not self._more()):
                    self._fail()
                if len(self._data) > GREETING_MOST:
                    self._refuse(words("start a load", len(self._data), GREETING_MOST))

    @property
    def pid(self) -> int:
        return self._pid

    def wait(self, seconds: float) -> int | None:
        """As the protocol says.  A load ended when all that it left is here.

        Raises HostUnreachable when the connection is lost.
        """
        deadline = time.monotonic() + max(0.0, seconds)
        while self._status is None:
            left = deadline - time.monotonic()
            ready = readable(self._out.fileno(), left, self._wakeup)
            if ready and not self._more():
                self._finish()
            elif not ready:
                return None
        return self._status

    def kill(self, *, gently: bool) -> None:
        if self._status is None:
            self._signalled(self._pid, gently)

    def _more(self) -> bool:
        more = os.read(self._out.fileno(), 1 << 16)
        self._came += len(more)
        if not self._started:
            self._data += more
            return bool(more)
        self._left.write(more)
        if self._came > LEFT_MOST:
            self._refuse(words("files of the load", self._came, LEFT_MOST))
        if self._came % LOOKS_EVERY < len(more) and _free(self._folder) < LEFT_FREE:
            self._refuse(
                f"disk full after {format_bytes(self._came)} of the load's files: {self._folder}"
                f" has less than {format_bytes(LEFT_FREE)} free"
            )
        return bool(more)

    def _refuse(self, why: str) -> NoReturn:
        """End the session; the guard there ends the load."""
        self._ssh.kill()
        self._close()
        raise HostError(f"{self._host}: {why}", advice=ADVICE)

    def _finish(self) -> None:
        try:
            status = self._taken_over()
        except EOFError:
            self._fail()
        except ValueError as error:
            self._close()
            raise HostError(
                f"{self._host}: the files of the load cannot be transferred: {error}",
                advice="Only iotrial may print in a session there: check ~/.bashrc.",
            ) from error
        self._close()
        self._status = status

    def _taken_over(self) -> int:
        """Twice through what came: nothing is taken over of what is not whole."""
        self._left.flush()
        if not self._came or not os.fstat(self._left.fileno()).st_size:
            raise EOFError
        same = set()
        status, files = results(self._left)
        for name, pieces in files:
            if name in self._sent and _is(self._sent[name], pieces):
                same.add(name)
        for name, pieces in results(self._left)[1]:
            if name not in same:
                self._take(name, pieces)
        return status

    def _take(self, name: str, pieces: Iterator[bytes]) -> None:
        """One file to the disk.  A name may be too long here, or that of a folder: this ends what
        is done on this host, and not on the others."""
        path = self._folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
        except OSError as error:
            self._close()
            raise HostError(
                f"{self._host}: {name[:300]}, a file of the load, cannot be written here:"
                f" {error.strerror}",
                advice=f"Check the content of {self._folder}, and the free space on its disk.",
            ) from error

    def _fail(self) -> NoReturn:
        with suppress(subprocess.TimeoutExpired):
            self._ssh.wait(1.0)
        why = self._complaints.last()
        self._close()
        raise HostUnreachable(
            f"{self._host}: the session of the load ended before the load"
            + (f": {why}" if why else ""),
            advice="The guard there stops the load; so does `iotrial restore` once the host is"
            " reachable.",
        )

    def _close(self) -> None:
        for pipe in (self._in, self._out, self._left):
            with suppress(OSError):
                pipe.close()
        try:
            self._ssh.wait(1.0)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()


def _is(data: bytes, pieces: Iterator[bytes]) -> bool:
    """Whether the pieces make exactly ``data``."""
    at = 0
    for piece in pieces:
        if data[at : at + len(piece)] != piece:
            return False
        at += len(piece)
    return at == len(data)


def _free(folder: Path) -> int:
    seen = os.statvfs(folder)
    return seen.f_bavail * seen.f_frsize


def _supplies(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


# -- the host --------------------------------------------------------------------------------------

_KILLED = -9
_WAITS = """
trap : HUP INT TERM
for _ in 1 2 3 4 5 6 7 8 9; do
    wait "$!"
    [ $? -gt 128 ] || exit 0
done
"""
"""A signal ends a wait(1); how often, nobody knows.  Some shells remember how a process ended, so
that one which was killed would be waited for again and again."""
_OURS, _REFUSED, _HELD = 0, 1, 2
_DESCRIPTORS = range(4, 10)
"""Those that a POSIX shell can name and that the agent does not use: one for each lock."""


class AgentHost:
    """The host at the far end of a connection; ended by :meth:`close`, or as a context.

    Acts as the user there if that is root, else as root where ``sudo -n`` lets it, else as that
    user: :attr:`unprivileged` says so then.  ``wakeup`` and ``purpose`` are as for
    :class:`~iotrial.hosts.local.LocalHost`.
    """

    remote = True

    def __init__(
        self, connection: AgentConnection, *, wakeup: int | None = None, purpose: str = ""
    ) -> None:
        self.name = connection.name
        self._wakeup = wakeup
        self._purpose = purpose
        self._marked: tuple[str, ...] = ()
        self._marks: dict[str, str] = {}
        self._unsaid = ""
        self._locks: set[int] = set()
        self._connection = connection
        try:
            self._settle()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; locks are freed."""
        self._connection.close()

    @property
    def rounds(self) -> int:
        """How many requests went there, each with one answer."""
        return self._connection.rounds

    @property
    def unprivileged(self) -> str:
        if self._connection.uid == 0:
            return ""
        return (
            f"the login is user {self._connection.uid}'s, and sudo -n does not help"
            f" ({self._connection.sudo_said or 'no message'}); log in as root, or let it"
        )

    @property
    def unguarded(self) -> str:
        return self._connection.outside.why

    # -- commands ---------------------------------------------------------------------------------

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        began = time.monotonic()
        done, came = self._ask(agent.run(argv, stdin, timeout))
        if came:
            raise too_much(self.name, " ".join(argv), came, ANSWER_MOST)
        if done.exit == _KILLED and time.monotonic() - began >= timeout:
            raise timed_out(self.name, argv, timeout)
        return done

    def mark(self, environment: Mapping[str, str]) -> None:
        """As the protocol says; it goes there with the next request."""
        self._unsaid = agent.marks(self._marked, environment)
        self._marked = tuple({*self._marked, *environment})
        self._marks = dict(environment)

    def start(
        self, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> RemoteProcess:
        """As the protocol says: what lies in ``folder`` goes there with the load, and what the
        load left comes back.  Raises :class:`~iotrial.errors.ToolMissing`."""
        self._connection.check()
        process = RemoteProcess(
            self.name,
            self._connection,
            folder=folder,
            wakeup=self._wakeup,
            signalled=self._signal,
        )
        process.start(argv, {**self._marks, **environment}, self._files)
        return process

    def _signal(self, group: int, gently: bool) -> None:  # noqa: FBT001 (as Process.kill)
        self._ask(AgentRequest(said("group", "TERM" if gently else "KILL", group), _nothing))

    # -- files ------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        return self._ask(agent.read(self.name, path))

    def write(self, path: str, data: bytes) -> None:
        self._change("write", path, agent.written(path, data))

    def save(self, path: str, data: bytes, *, private: bool = True) -> None:
        self._change("save", path, agent.saved(path, data, private=private))

    def append(self, path: str, data: bytes) -> None:
        self._change("append", path, agent.appended(path, data))

    def remove(self, path: str) -> None:
        self._change("remove", path, agent.removed(path))

    def list(self, path: str) -> list[str]:
        return self._ask(agent.names(self.name, path))

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        return self._ask(agent.batch(self.name, steps, self._connection.sign))

    # -- guard and lock ---------------------------------------------------------------------------

    @contextmanager
    def guard(self, argv: Sequence[str], *, every: float) -> Iterator[None]:
        """As the protocol says.  It is told by what mark to know the agent (``IOTRIAL_FENCE``), so
        that it can end that and all it forked before it puts back: nothing comes late then.

        In a session of its own, behind a shell that waits and a cat(1) that tells it what we say:
        these are killed with the session of that shell, or its process group, and the guard acts
        as soon as that cat is gone.  Where they are told to end first (a job of Slurm's), the shell
        stays until the guard has restored: a job that is not over has its nodes to itself."""
        self._connection.check()
        outside = self._connection.outside
        script = (
            "LC_ALL=C PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n"
            f"IOTRIAL_FENCE={self._connection.nonce}\n"
            f"IOTRIAL_OUTSIDE={'yes' if outside.descriptors else ''}\n"
            "export LC_ALL PATH IOTRIAL_FENCE IOTRIAL_OUTSIDE\nexec 3<&0\n"
            f"cat <&3 3<&- | setsid {shlex.join(argv)} 3<&- &\nexec 3<&- <&-\n{_WAITS}"
        )
        if outside.descriptors:
            session = RemoteCommand(outside.argv(["/bin/sh", "-c", script]))
        else:
            session = self._connection.running(script)
        with watching(
            self.name,
            session.argv,
            opening=session.opening,
            every=every,
            lost=lambda: self._connection.lost,
        ):
            yield

    def tunnel(self, path: str) -> AbstractContextManager[str]:
        """As the protocol says.  sshd connects there as the user of the login, so that what
        another user's server listens at cannot be reached."""
        self._connection.check()
        return self._connection.tunnel(path)

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """As the protocol says.  The agent holds it: the kernel frees it when that ends."""
        descriptor = next(number for number in _DESCRIPTORS if number not in self._locks)
        self._take(descriptor, path)
        self._locks.add(descriptor)
        try:
            yield
        finally:
            self._locks.discard(descriptor)
            with suppress(HostUnreachable):  # then it is free already
                self._ask(AgentRequest(said("unlock", descriptor, path), _nothing))

    def _take(self, descriptor: int, path: str) -> None:
        status, words = self._ask(
            AgentRequest(said("lock", descriptor, path, self._purpose), text_of)
        )
        if status == _HELD:
            raise held(self.name, path, words)
        self._check("lock", path, status, words)

    def _check(self, act: str, path: str, status: int, words: bytes) -> None:
        if status == _OURS:
            return
        text = os.fsdecode(words)
        if status == _REFUSED:
            raise FileRefused(self.name, act, path, code_of(text))
        owner, mode, *_, folder = text.split()
        raise not_ours(self.name, folder, int(owner), int(mode, 8))

    # -- time -------------------------------------------------------------------------------------

    def clock(self) -> float:
        """Ours: what is measured by it is how long we waited."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        pause(seconds, self._wakeup)

    # -- requests ---------------------------------------------------------------------------------

    def _ask(self, request: AgentRequest[T]) -> T:
        if self._unsaid:
            text = f"{self._unsaid}\n{request.text}"
            request = AgentRequest(text, request.parse, request.within)
            self._unsaid = ""
        return self._connection.ask(request)

    def _change(self, act: str, path: str, call: str) -> None:
        self._ask(agent.change(self.name, act, path, call))

    def _settle(self) -> None:
        """Have the agent make its folders, before anything else can be asked."""
        environment = self._connection.environment
        if self._connection.outside.descriptors and STATE not in environment:
            environment[STATE] = STATE_FOLDER
            self._ask(AgentRequest(said("state", STATE_FOLDER), text_of))
        there = places(self._connection.uid, environment)
        volatile = posixpath.dirname(there.lock)
        self._files = there.files
        sign = self._connection.sign.decode()
        status, words = self._ask(
            AgentRequest(said("settle", volatile, there.files, sign), text_of)
        )
        self._check("make", volatile, status, words)


class SSHHost(AgentHost):
    """The host that ``ssh WHERE`` reaches; ``where`` are words for ssh(1), as a study says them.
    Connected when made.

    Raises :class:`~iotrial.errors.HostUnreachable`, saying what ssh said.
    """

    def __init__(
        self, where: str, *, name: str, wakeup: int | None = None, purpose: str = ""
    ) -> None:
        super().__init__(Connection(where, name), wakeup=wakeup, purpose=purpose)


def through(
    command: Callable[[str], Sequence[str]],
    *,
    is_shell: bool = False,
    unguarded: Callable[[], str] = str,
) -> Callable[[Access], AbstractContextManager[Host]]:
    """How hosts are reached through a program that executes a command elsewhere: ``command`` gives
    the words that come before that command, made of what a study says of the host (``TO``).
    ``is_shell``: the program takes no command, and is a POSIX shell on stdin and stdout.
    ``unguarded`` says why no guard would outlive what the program starts ('': it would)."""

    def connect(access: Access) -> AbstractContextManager[Host]:
        argv = command(access.to)
        connection = WrappedConnection(argv, access.name or argv[0], is_shell=is_shell)
        connection.outside.why = connection.outside.why or unguarded()
        return AgentHost(connection, wakeup=access.wakeup, purpose=started_here(access.purpose))

    return connect


def started_here(purpose: str) -> str:
    """What the lock there says of us."""
    return started_on(purpose, socket.gethostname(), os.getpid())


def _nothing(answers: agent.ResponseReader) -> None:
    text_of(answers)
