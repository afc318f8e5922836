"""Host: a machine we can act on.

A host is the one seam between iotrial and a machine.  ``iotrial.hosts`` has its kinds (local,
SSH, fake), and one conformance suite that all of them pass.  Commands are argument
vectors: nothing here ever reaches a shell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from iotrial.model.step import Read, Step, StepResult
from iotrial.model.study import StudyHost


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """What a finished command said.  ``exit`` is its status, or minus the signal that ended it."""

    argv: tuple[str, ...]
    exit: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """The last line it wrote to stderr: what to show a person."""
        lines = self.stderr.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self.exit}"


class Process(Protocol):
    """A load that was started and is not yet reaped."""

    @property
    def pid(self) -> int: ...

    def wait(self, seconds: float) -> int | None:
        """The exit status (or minus the signal), or None when ``seconds`` pass first.

        Returns early (None) when a signal reaches the controller, so that a caller can look
        whether it was told to stop.
        """
        ...

    def kill(self, *, gently: bool) -> None:
        """Signal the whole process group: SIGTERM if ``gently``, else SIGKILL.  Never raises
        for a group that is already gone."""
        ...


class Reader(Protocol):
    """A machine that is looked at: what reads it, and nothing that could change it.

    What only reads takes one of these (:mod:`iotrial.look`), so that the type checker sees that it
    writes nothing.  ``run`` can execute any program; those that look execute what prints.
    """

    @property
    def name(self) -> str: ...

    @property
    def remote(self) -> bool:
        """Whether there is a link to it that can be lost."""
        ...

    @property
    def unprivileged(self) -> str:
        """'' as root; else who we are there, and how to be root."""
        ...

    @property
    def unguarded(self) -> str:
        """'' where a guard (:meth:`Host.guard`) lives on when all that reaches the host is killed;
        else why it would be killed too, and what to do."""
        ...

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        """Run a short command to its end, environment ``LC_ALL=C``, and give back all it said.

        A program that is not installed is ``exit=127``, as in a shell.  Raises
        :class:`~iotrial.errors.HostError` on time-out (the command and its children are killed)
        and :class:`~iotrial.errors.HostUnreachable` when the host is gone.
        """
        ...

    def read(self, path: str) -> bytes:
        """The whole content.  Raises :class:`~iotrial.errors.FileRefused` (with errno)."""
        ...

    def list(self, path: str) -> list[str]:
        """Sorted names in a folder.  Raises :class:`~iotrial.errors.FileRefused` (with errno)."""
        ...

    def batch(self, steps: Sequence[Read]) -> tuple[StepResult, ...]:
        """Read the probes in order and answer each: one round trip, however many they are.

        Raises :class:`~iotrial.errors.HostUnreachable` when the host is gone.
        """
        ...

    def clock(self) -> float:
        """Seconds on the host's monotonic clock (the fake host has its own)."""
        ...


class Host(Reader, Protocol):
    """A machine we can act on.  Paths are absolute paths on that machine."""

    def mark(self, environment: Mapping[str, str]) -> None:
        """From now on add this to the environment of every command that is run or started, in
        place of what was marked before.  A restore finds them by it: a controller that is killed
        leaves not only loads behind, but also whatever it had just run (dd, a probe)."""
        ...

    def start(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
    ) -> Process:
        """Start a load in a process group of its own, in the controller's ``folder``, its output
        going to ``folder/stdout`` and ``folder/stderr``.  ``environment`` is added to the
        host's own, and is how a restore finds the load and all its children again.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Write into an *existing* control file (sysfs, procfs) in one write(2), no truncation
        semantics relied upon.  Raises :class:`~iotrial.errors.FileRefused` (with errno)."""
        ...

    def save(self, path: str, data: bytes, *, private: bool = True) -> None:
        """Make or replace a file durably: beside, fsync, rename, fsync of the folder; mode 0600,
        missing folders made with 0700.  Unless ``private`` one that exists keeps its owner and
        mode, and a new one has mode 0644.  Raises :class:`~iotrial.errors.FileRefused`."""
        ...

    def append(self, path: str, data: bytes) -> None:
        """Append to a file durably (fsync file; and folder when the file is new); mode 0600,
        missing folders made with 0700.  Raises :class:`~iotrial.errors.FileRefused`."""
        ...

    def remove(self, path: str) -> None:
        """Unlink a file; one that is not there is no error.  Durable (fsync of the folder)."""
        ...

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        """Do the steps in order and answer each: one round trip, however many they are.

        A step that is refused does not keep the ones after it from being done.  Raises
        :class:`~iotrial.errors.HostUnreachable` when the host is gone.
        """
        ...

    def guard(self, argv: Sequence[str], *, every: float) -> AbstractContextManager[None]:
        """Have ``argv`` watch over the host while the context lives, also when we are killed.

        It is started apart from us (a session of its own, no mark), says ``ready`` when it
        watches, and is told a line ``.`` every ``every`` seconds on its stdin for as long as we
        live and reach it; ``done`` when the context is left.  End of file means that we died.
        Raises :class:`~iotrial.errors.HostError` where it does not get ready within 10 s.
        """
        ...

    def tunnel(self, path: str) -> AbstractContextManager[str]:
        """The path of a socket of the controller's, for its user alone, whose connections end at
        the socket ``path`` on the host while the context lives.  On this machine that itself.
        Raises :class:`~iotrial.errors.HostError` where the host does not allow it."""
        ...

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Hold the exclusive lock ``path`` while the context lives; freed by the kernel if the
        controller dies.  Raises :class:`~iotrial.errors.LockedError` at once if held."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let time pass on the host's clock; returns early when a signal arrives."""
        ...


Connect = Callable[[StudyHost], AbstractContextManager[Host]]
"""How a host is reached; left, the connection ends."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a connector is told of the host that it is to reach: ``to``, which host (the words
    behind ``://``), and its ``name`` ('': the host's own).  ``purpose`` is what the host's lock
    says of us; ``wakeup`` is a descriptor that becomes readable when a signal reaches us, so that
    waits return early (None: they do not)."""

    to: str = ""
    name: str = ""
    wakeup: int | None = None
    purpose: str = ""


def _anything(_to: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Connector:
    """A way to reach hosts.  A study and a command line name a host by it as ``NAME://TO``;
    ``about`` says in a line which hosts those are.

    ``connect`` gives the host; the connection ends when the context is left.  It may be called from
    any thread, and raises :class:`~iotrial.errors.HostUnreachable`.  ``check`` says what is wrong
    with ``TO`` ('': nothing), without looking at any machine.  ``executes``: ``TO`` is a command
    that is executed on this machine, and not only the name of a host.
    """

    name: str
    about: str
    connect: Callable[[Access], AbstractContextManager[Host]]
    check: Callable[[str], str] = _anything
    executes: bool = False
