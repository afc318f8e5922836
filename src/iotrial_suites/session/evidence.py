"""Commands of a case: each is answered in bounded time, and evidence.

``commands.jsonl`` has a line a command, written as it ends, so that a kill loses none; what one
said beyond some KiB lies in a file beside.  ``kernel.log`` is what the kernels said meanwhile.

:meth:`~iotrial.model.host.Host.run` waits for what it started.  A command that waits for a dead
disk cannot be killed (state D), and would keep us waiting with it.  So commands of checks are run
by a small shell script on the host (``sentry.sh``), apart from us, into files; we ask it whether
they have ended.  Between two questions a signal is noticed, so Ctrl-C never waits long.

Sources: proc(5) (``wchan``, ``stack``, state D), flock(1), setsid(1).
"""

from __future__ import annotations

import itertools
import math
import posixpath
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from iotrial.errors import FormatError, HostError
from iotrial.execute.interruption import Interruption
from iotrial.files import append, line, parse_line, read_text, write_text
from iotrial.hosts.places import lock_path
from iotrial.model.host import CompletedCommand, Host
from iotrial.rows import checked
from iotrial_suites.case import CommandRecord, CommandResult

# -- the sentry -----------------------------------------------------------------------------------

MOST = 1 << 20
"""Bytes of each of stdout and stderr that are kept."""
SLICE = 1.0
"""Seconds between two looks whether a signal came."""
GRACE = 3.0
"""Seconds after SIGTERM, and after SIGKILL."""
_SLACK = 120.0
"""Seconds that a question may take beyond what it waits for, on a machine that is very busy."""
NAME = "iotrial-sentry"
_SIGNAL = 128
_SIGNALS = range(_SIGNAL + 1, _SIGNAL + 65)


@cache
def script() -> str:
    return files(__package__).joinpath("sentry.sh").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class _SupervisorReport:
    """One answer of the sentry.  ``state``: ``done``; ``running``; ``gone``, where nobody knows
    how it ended.  ``stacks`` says where its processes were in the kernel when they were ended."""

    state: str
    exit: int = 0
    seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""
    stacks: str = ""


@dataclass
class _SupervisorTask:
    """A command that the sentry has begun."""

    argv: tuple[str, ...]
    number: int
    began: float
    report: _SupervisorReport


@dataclass
class Supervisor:
    """The sentry on one host.  ``folder`` is where its files are, on the host; ``interruption`` is
    looked at while something is waited for."""

    host: Host
    folder: str
    interruption: Interruption
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _sign: str = field(default_factory=lambda: secrets.token_hex(16))

    def begin(
        self, argv: tuple[str, ...], *, stdin: str = "", patience: float = SLICE
    ) -> _SupervisorTask:
        """Begin a command and wait a little for its end."""
        number, began = next(self._numbers), self.host.clock()
        report = self._ask("begin", number, patience, ("in" if stdin else "", *argv), stdin)
        return _SupervisorTask(argv, number, began, report)

    def wait(self, task: _SupervisorTask, within: float) -> CommandResult:
        """Wait for its end; ``within`` so many seconds from now it is ended (``late``).

        Raises Interrupted when we are told to stop: whoever restores ends it then.
        """
        until = self.host.clock() + within
        while task.report.state == "running" and (left := until - self.host.clock()) > 0:
            self.interruption.check()
            task.report = self._ask("look", task.number, min(SLICE, left))
        self.interruption.check()
        if task.report.state == "running":
            return self.end(task)
        return self._said(task, late=False)

    def run(self, argv: tuple[str, ...], *, within: float, stdin: str = "") -> CommandResult:
        """Begin a command and wait for its end."""
        task = self.begin(argv, stdin=stdin, patience=min(SLICE, within))
        return self.wait(task, within - (self.host.clock() - task.began))

    def end(self, task: _SupervisorTask) -> CommandResult:
        """End a command that runs; where it hung is at the end of ``stderr``."""
        task.report = self._ask("end", task.number, GRACE)
        return self._said(task, late=True)

    def _said(self, task: _SupervisorTask, *, late: bool) -> CommandResult:
        report = task.report
        seconds = report.seconds or self.host.clock() - task.began
        stderr = report.stderr
        if late and report.stacks:
            stderr += f"\n[iotrial] it was ended; until then:\n{report.stacks}"
        if report.state == "running":
            stderr += "\n[iotrial] it does not end, not even by SIGKILL\n"
        status = report.exit if report.state == "done" else -9
        return CommandResult(task.argv, status, report.stdout, stderr, seconds, late)

    def close(self) -> None:
        """Remove what it left on the host; a command that does not end goes on without it."""
        self.host.run(("sh", "-c", script(), NAME, "close", self.folder))

    def _ask(
        self,
        verb: str,
        number: int,
        patience: float,
        words: tuple[str, ...] = (),
        stdin: str = "",
    ) -> _SupervisorReport:
        asked = (verb, self.folder, str(number), f"{patience:.2f}", str(MOST), self._sign, *words)
        done = self.host.run(
            ("sh", "-c", script(), NAME, *asked),
            stdin=stdin.encode("utf-8", "surrogateescape"),
            timeout=2 * patience + _SLACK,
        )
        try:
            return parsed(done.stdout, self._sign)
        except (ValueError, IndexError) as error:
            raise HostError(
                f"{self.host.name}: the sentry of `{' '.join(words[1:]) or number}` does not"
                f" answer: {done.complaint}",
                advice=f"Is {self.folder} writable? It needs flock and setsid.",
            ) from error


_SWEEP = 'for each in "$1"/check-*; do [ ! -e "$each" ] || rm -rf -- "$each"; done'


def swept(host: Host) -> None:
    """Remove what sessions that were killed left on a host.  To be called under its lock: nobody
    else is at it."""
    host.run(("sh", "-c", _SWEEP, "iotrial-sweep", base_of(host)))


def base_of(host: Host) -> str:
    """The folder in which sentries have theirs: in memory, gone with the boot."""
    return posixpath.dirname(lock_path(host))


def parsed(data: bytes, sign: str) -> _SupervisorReport:
    """An answer read.  Raises ValueError or IndexError for what is none."""
    head, _, rest = data.partition(b"\n")
    state, status, began, ended = head.decode("ascii", "replace").split()
    if state not in ("done", "running", "gone"):
        raise ValueError(state)
    if state == "running" and not rest:
        return _SupervisorReport(state)
    stdout, stderr, stacks = (
        part.decode("utf-8", "replace") for part in rest.split(sign.encode("ascii"))
    )
    seconds = max(0.0, float(ended) - float(began))
    number = int(status)
    # A shell says 128 and its number of a command that a signal ended.
    signalled = _SIGNAL - number if number in _SIGNALS else number
    return _SupervisorReport(state, signalled, seconds, stdout, stderr, stacks)


# -- evidence -------------------------------------------------------------------------------------

INLINE = 8192
"""Characters of what a command said that stand in its line; more lies in a file of its own."""
CLEANS, LEAST = 4, 5.0
"""How often a clean-up may take as long as one of its commands may, until the rest of them get so
many seconds each: where a host waits for another that is gone, each may hang."""
CLEAN_UP = "clean-up"
"""The phase in which what a case made is undone."""
LOOKS = frozenset({"id", "printenv", "readlink", "stat", "uname"})
"""What others look with, and what cannot hang where they look: neither bounded nor evidence."""


@dataclass
class CaseEvidence:
    """The evidence of one case in ``folder``; ``phase`` is what the case is at.

    Raises OSError where it cannot be written, but for a clean-up, which has to go on: of that,
    ``unwritten`` is the first one.
    """

    folder: Path
    phase: str = "prepare"
    count: int = 0
    unwritten: OSError | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def keep(self, host: str, said: CommandResult, *, at: float, stdin: str = "") -> None:
        """Write down a command that has ended (or that never will)."""
        self.count += 1
        texts = {"stdout": said.stdout, "stderr": said.stderr}
        names = {"stdout": "", "stderr": ""}
        for stream, text in texts.items():
            if len(text) > INLINE:
                names[stream] = f"{self.count:04}.{stream}"
                with self._going_on():
                    write_text(self.folder / names[stream], text)
                texts[stream] = text[:INLINE]
        command = CommandRecord(
            self.count,
            host,
            self.phase,
            said.argv,
            round(at, 3),
            round(said.seconds, 3),
            said.exit,
            said.late,
            stdin,
            texts["stdout"],
            texts["stderr"],
            names["stdout"],
            names["stderr"],
        )
        row = {
            name: value
            for name, value in asdict(command).items()
            if value != "" and value is not False
        }
        self._append("commands.jsonl", line(row))

    def note(self, text: str) -> None:
        """Write down a sentence."""
        self._append("notes", text + "\n")

    def log(self, text: str) -> None:
        """Write down what a kernel said."""
        if text:
            self._append("kernel.log", text)

    def _append(self, name: str, text: str) -> None:
        with self._going_on():
            append(self.folder / name, text)

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self.phase != CLEAN_UP:
                raise
            self.unwritten = self.unwritten or error


_COMMAND = TypeAdapter(CommandRecord)
T = TypeVar("T")


def checked_line(path: Path, number: int, text: str, adapter: TypeAdapter[T]) -> T:
    """One line of a file as what ``adapter`` makes of it.  Raises FormatError, naming all three."""
    row = parse_line(path, number, text)
    try:
        return checked(adapter, row)
    except FormatError as error:
        raise FormatError(f"{path}:{number}: {error.message}") from error


def commands(folder: Path) -> Iterator[CommandRecord]:
    """The commands of a case, read back; a torn last line is passed over."""
    path = folder / "commands.jsonl"
    if not path.exists():
        return
    whole, _, _ = read_text(path, folder.parent.parent).rpartition("\n")
    for number, text in enumerate(whole.splitlines(), start=1):
        yield checked_line(path, number, text, _COMMAND)


@dataclass
class RecordingHost:
    """A host whose commands are bounded in time, and evidence.  It stands in for the host where
    what others wrote is to be done so too (making and unmaking of loop devices, of mounts)."""

    host: Host
    sentry: Supervisor
    evidence: CaseEvidence
    _most: float = math.inf
    _until: float = math.inf
    _hung: set[tuple[str, ...]] = field(default_factory=set)

    def calm(self, most: float) -> None:
        """For the clean-up: no command takes more than so many seconds, and once some have taken
        long, no other takes longer than :data:`LEAST`; one that hung is not tried again; a signal
        does not keep from it."""
        self._most = most
        self._until = self.host.clock() + CLEANS * most
        self._hung = set()
        self.sentry.interruption = Interruption()

    def as_host(self) -> Host:
        return cast("Host", self)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the host has)
        return getattr(self.host, name)

    def run(
        self, argv: tuple[str, ...] | list[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        """As a host does, but a command whose time is over has failed."""
        if argv[0] in LOOKS:
            return self.host.run(argv, stdin=stdin, timeout=min(timeout, self._most))
        words = stdin.decode("utf-8", "surrogateescape")
        if tuple(argv) in self._hung:
            return CompletedCommand(
                tuple(argv), -9, b"", b"it hung before, and was not tried again\n"
            )
        left = max(LEAST, self._until - self.host.clock())
        said = self.do(tuple(argv), within=min(timeout, self._most, left), stdin=words)
        if said.late:
            self._hung.add(tuple(argv))
        return CompletedCommand(said.argv, said.exit, said.stdout.encode(), said.stderr.encode())

    def do(self, argv: tuple[str, ...], *, within: float, stdin: str = "") -> CommandResult:
        """Run a command to its end."""
        at = time.time()
        said = self.sentry.run(argv, within=within, stdin=stdin)
        self.evidence.keep(self.host.name, said, at=at, stdin=stdin)
        return said

    def begin(self, argv: tuple[str, ...]) -> tuple[_SupervisorTask, float]:
        """Start a command; gives back when, too."""
        at = time.time()
        return self.sentry.begin(argv, patience=0.0), at

    def wait(self, begun: tuple[_SupervisorTask, float], within: float) -> CommandResult:
        """Wait for the end of what was started; it is ended when its time is over."""
        said = self.sentry.wait(begun[0], within)
        self.evidence.keep(self.host.name, said, at=begun[1])
        return said

    def end(self, begun: tuple[_SupervisorTask, float]) -> CommandResult:
        """End what was started."""
        said = self.sentry.end(begun[0])
        self.evidence.keep(self.host.name, said, at=begun[1])
        return said
