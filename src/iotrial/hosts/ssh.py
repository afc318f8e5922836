"""A machine that is reached by the system's ssh(1), as a host.

One connection, and on its far side one long-lived POSIX shell, the agent: every verb, and a whole
batch, is one request and one answer.  Nothing is installed there.  ``docs/decisions/0009-ssh.md``
says why so.
"""

from __future__ import annotations

import os
import posixpath
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from iotrial.errors import FileRefused, HostUnreachable
from iotrial.hosts import agent
from iotrial.hosts.agent import Request, said, text_of
from iotrial.hosts.bounds import ANSWER_MOST, too_much
from iotrial.hosts.complaints import held, not_ours, timed_out
from iotrial.hosts.connection import Connection
from iotrial.hosts.far_load import FarProcess
from iotrial.hosts.places import places
from iotrial.hosts.process import pause
from iotrial.hosts.steps import code_of
from iotrial.hosts.watching import watching
from iotrial.model.host import Completed
from iotrial.model.step import Answer, Step

T = TypeVar("T")

_KILLED = -9
_OURS, _REFUSED, _HELD = 0, 1, 2
_DESCRIPTORS = range(4, 10)
"""Those that a POSIX shell can name and that the agent does not use: one for each lock."""


class SSHHost:
    """The host that ``ssh WHERE`` reaches; ``where`` are words for ssh(1), as a study says them.
    Connected when made; ended by :meth:`close`, or as a context.

    Acts as the user there if that is root, else as root where ``sudo -n`` lets it, else as that
    user: :attr:`unprivileged` says so then.  ``wakeup`` and ``purpose`` are as for
    :class:`~iotrial.hosts.local.LocalHost`.

    Raises :class:`~iotrial.errors.HostUnreachable`, saying what ssh said.
    """

    remote = True

    def __init__(
        self, where: str, *, name: str, wakeup: int | None = None, purpose: str = ""
    ) -> None:
        self.name = name
        self._wakeup = wakeup
        self._purpose = purpose
        self._marked: tuple[str, ...] = ()
        self._marks: dict[str, str] = {}
        self._unsaid = ""
        self._locks: set[int] = set()
        self._connection = Connection(where, name)
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
            f" ({self._connection.sudo_said or 'it says nothing'}); log in as root, or let it"
        )

    # -- commands ---------------------------------------------------------------------------------

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0) -> Completed:
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
    ) -> FarProcess:
        """As the protocol says: what lies in ``folder`` goes there with the load, and what the
        load left comes back.  Raises :class:`~iotrial.errors.ToolMissing`."""
        self._connection.check()
        process = FarProcess(
            self.name,
            self._connection,
            folder=folder,
            wakeup=self._wakeup,
            signalled=self._signal,
        )
        process.start(argv, {**self._marks, **environment}, self._files)
        return process

    def _signal(self, group: int, gently: bool) -> None:  # noqa: FBT001 (as Process.kill)
        self._ask(Request(said("group", "TERM" if gently else "KILL", group), _nothing))

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

    def batch(self, steps: Sequence[Step]) -> tuple[Answer, ...]:
        return self._ask(agent.batch(self.name, steps, self._connection.sign))

    # -- guard and lock ---------------------------------------------------------------------------

    @contextmanager
    def guard(self, argv: Sequence[str], *, every: float) -> Iterator[None]:
        """As the protocol says.  It is told by what mark to know the agent (``IOTRIAL_FENCE``), so
        that it can end that and all it forked before it puts back: nothing comes late then."""
        self._connection.check()
        script = (
            "LC_ALL=C PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n"
            f"IOTRIAL_FENCE={self._connection.nonce}\n"
            f"export LC_ALL PATH IOTRIAL_FENCE\nexec {shlex.join(argv)}"
        )
        command = self._connection.running(script)
        with watching(self.name, command, every=every, lost=lambda: self._connection.lost):
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
                self._ask(Request(said("unlock", descriptor, path), _nothing))

    def _take(self, descriptor: int, path: str) -> None:
        status, words = self._ask(Request(said("lock", descriptor, path, self._purpose), text_of))
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

    def _ask(self, request: Request[T]) -> T:
        if self._unsaid:
            text = f"{self._unsaid}\n{request.text}"
            request = Request(text, request.parse, request.within)
            self._unsaid = ""
        return self._connection.ask(request)

    def _change(self, act: str, path: str, call: str) -> None:
        self._ask(agent.change(self.name, act, path, call))

    def _settle(self) -> None:
        """Have the agent make its folders, before anything else can be asked."""
        there = places(self._connection.uid, self._connection.environment)
        volatile = posixpath.dirname(there.lock)
        self._files = there.files
        sign = self._connection.sign.decode()
        status, words = self._ask(Request(said("settle", volatile, there.files, sign), text_of))
        self._check("make", volatile, status, words)


def _nothing(answers: agent.Answers) -> None:
    text_of(answers)
