"""Evidence of a case: every command with what it said, written as it ends, so that a kill loses
none of it.

``commands.jsonl`` has a line a command; what one said beyond some KiB lies in a file beside.
``kernel.log`` is what the kernels said meanwhile.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

from iotrial.errors import FormatError
from iotrial.execute.interruption import Interruption
from iotrial.files import append, line, parse_line, read_text, write_text
from iotrial.model.host import Completed, Host
from iotrial.rows import checked
from iotrial_suites.case import Said
from iotrial_suites.result import Command
from iotrial_suites.session.sentry import Sentry, Task

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
class Evidence:
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

    def keep(self, host: str, said: Said, *, at: float, stdin: str = "") -> None:
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
        command = Command(
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


_COMMAND = TypeAdapter(Command)
T = TypeVar("T")


def checked_line(path: Path, number: int, text: str, adapter: TypeAdapter[T]) -> T:
    """One line of a file as what ``adapter`` makes of it.  Raises FormatError, naming all three."""
    row = parse_line(path, number, text)
    try:
        return checked(adapter, row)
    except FormatError as error:
        raise FormatError(f"{path}:{number}: {error.message}") from error


def commands(folder: Path) -> Iterator[Command]:
    """The commands of a case, read back; a torn last line is passed over."""
    path = folder / "commands.jsonl"
    if not path.exists():
        return
    whole, _, _ = read_text(path, folder.parent.parent).rpartition("\n")
    for number, text in enumerate(whole.splitlines(), start=1):
        yield checked_line(path, number, text, _COMMAND)


@dataclass
class Witness:
    """A host whose commands are bounded in time, and evidence.  It stands in for the host where
    what others wrote is to be done so too (making and unmaking of loop devices, of mounts)."""

    host: Host
    sentry: Sentry
    evidence: Evidence
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
    ) -> Completed:
        """As a host does, but a command whose time is over has failed."""
        if argv[0] in LOOKS:
            return self.host.run(argv, stdin=stdin, timeout=min(timeout, self._most))
        words = stdin.decode("utf-8", "surrogateescape")
        if tuple(argv) in self._hung:
            return Completed(tuple(argv), -9, b"", b"it hung before, and was not tried again\n")
        left = max(LEAST, self._until - self.host.clock())
        said = self.do(tuple(argv), within=min(timeout, self._most, left), stdin=words)
        if said.late:
            self._hung.add(tuple(argv))
        return Completed(said.argv, said.exit, said.stdout.encode(), said.stderr.encode())

    def do(self, argv: tuple[str, ...], *, within: float, stdin: str = "") -> Said:
        """Run a command to its end."""
        at = time.time()
        said = self.sentry.run(argv, within=within, stdin=stdin)
        self.evidence.keep(self.host.name, said, at=at, stdin=stdin)
        return said

    def begin(self, argv: tuple[str, ...]) -> tuple[Task, float]:
        """Start a command; gives back when, too."""
        at = time.time()
        return self.sentry.begin(argv, patience=0.0), at

    def wait(self, begun: tuple[Task, float], within: float) -> Said:
        """Wait for the end of what was started; it is ended when its time is over."""
        said = self.sentry.wait(begun[0], within)
        self.evidence.keep(self.host.name, said, at=begun[1])
        return said

    def end(self, begun: tuple[Task, float]) -> Said:
        """End what was started."""
        said = self.sentry.end(begun[0])
        self.evidence.keep(self.host.name, said, at=begun[1])
        return said
