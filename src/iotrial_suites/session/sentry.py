"""Sentry: a command on a host that is always answered in bounded time.

:meth:`~iotrial.model.host.Host.run` waits for what it started.  A command that waits for a dead
disk cannot be killed (state D), and would keep us waiting with it.  So commands of checks are run
by a small shell script on the host (``sentry.sh``), apart from us, into files; we ask it whether
they have ended.  Between two questions a signal is noticed, so Ctrl-C never waits long.

Sources: proc(5) (``wchan``, ``stack``, state D), flock(1), setsid(1).
"""

from __future__ import annotations

import itertools
import posixpath
import secrets
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from iotrial.errors import HostError
from iotrial.execute.interruption import Interruption
from iotrial.hosts.places import lock_path
from iotrial.model.host import Host
from iotrial_suites.case import Said

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
class Report:
    """One answer of the sentry.  ``state``: ``done``; ``running``; ``gone``, where nobody knows
    how it ended.  ``stacks`` says where its processes were in the kernel when they were ended."""

    state: str
    exit: int = 0
    seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""
    stacks: str = ""


@dataclass
class Task:
    """A command that the sentry has begun."""

    argv: tuple[str, ...]
    number: int
    began: float
    report: Report


@dataclass
class Sentry:
    """The sentry on one host.  ``folder`` is where its files are, on the host; ``interruption`` is
    looked at while something is waited for."""

    host: Host
    folder: str
    interruption: Interruption
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _sign: str = field(default_factory=lambda: secrets.token_hex(16))

    def begin(self, argv: tuple[str, ...], *, stdin: str = "", patience: float = SLICE) -> Task:
        """Begin a command and wait a little for its end."""
        number, began = next(self._numbers), self.host.clock()
        report = self._ask("begin", number, patience, ("in" if stdin else "", *argv), stdin)
        return Task(argv, number, began, report)

    def wait(self, task: Task, within: float) -> Said:
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

    def run(self, argv: tuple[str, ...], *, within: float, stdin: str = "") -> Said:
        """Begin a command and wait for its end."""
        task = self.begin(argv, stdin=stdin, patience=min(SLICE, within))
        return self.wait(task, within - (self.host.clock() - task.began))

    def end(self, task: Task) -> Said:
        """End a command that runs; where it hung is at the end of ``stderr``."""
        task.report = self._ask("end", task.number, GRACE)
        return self._said(task, late=True)

    def _said(self, task: Task, *, late: bool) -> Said:
        report = task.report
        seconds = report.seconds or self.host.clock() - task.began
        stderr = report.stderr
        if late and report.stacks:
            stderr += f"\n[iotrial] it was ended; until then:\n{report.stacks}"
        if report.state == "running":
            stderr += "\n[iotrial] it does not end, not even by SIGKILL\n"
        status = report.exit if report.state == "done" else -9
        return Said(task.argv, status, report.stdout, stderr, seconds, late)

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
    ) -> Report:
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


def parsed(data: bytes, sign: str) -> Report:
    """An answer read.  Raises ValueError or IndexError for what is none."""
    head, _, rest = data.partition(b"\n")
    state, status, began, ended = head.decode("ascii", "replace").split()
    if state not in ("done", "running", "gone"):
        raise ValueError(state)
    if state == "running" and not rest:
        return Report(state)
    stdout, stderr, stacks = (
        part.decode("utf-8", "replace") for part in rest.split(sign.encode("ascii"))
    )
    seconds = max(0.0, float(ended) - float(began))
    number = int(status)
    # A shell says 128 and its number of a command that a signal ended.
    signalled = _SIGNAL - number if number in _SIGNALS else number
    return Report(state, signalled, seconds, stdout, stderr, stacks)
