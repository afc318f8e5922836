"""Check: a case of a functional suite, as data, and what cases came to, for every report of them.

A case never calls a host.  Its ``steps`` is a generator: it yields a :data:`Step`, and gets what
came of it; :mod:`iotrial_suites.session` does the steps, :mod:`iotrial_suites.suites.vocabulary`
has the words that cases are written in.  So a case can be played against pretended answers, and a
system that lies is easily made.

Everything a case does on a host is a command with a time limit, also reading a file: a control
file of a broken array hangs as its commands do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MIB = 2**20


class CaseFailed(Exception):
    """What is checked is not so: raised in a case, by it or by the step it yielded."""


class CaseNotRun(Exception):
    """The case finds that it cannot be done here: it is *not run*, for this reason."""


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Run a command to its end, on the host number ``on``.  The answer is a
    :class:`CommandResult`.

    It fails the case when it does not end ``within`` so many seconds (it is killed then), or with
    an exit status that is not one of ``exits`` (None: any will do).
    """

    argv: tuple[str, ...]
    on: int = 0
    within: float = 120.0
    exits: tuple[int, ...] | None = (0,)
    stdin: str = ""


@dataclass(frozen=True, slots=True)
class StartCommand:
    """Start a command and go on.  The answer is :class:`StartedCommand`.  It is killed after
    ``within`` seconds at the latest, and at the end of the case."""

    argv: tuple[str, ...]
    on: int = 0
    within: float = 120.0


@dataclass(frozen=True, slots=True)
class JoinCommand:
    """Wait for the end of what was started; else as :class:`RunCommand`."""

    started: StartedCommand
    within: float = 60.0
    exits: tuple[int, ...] | None = (0,)


@dataclass(frozen=True, slots=True)
class WaitSeconds:
    """Let so many seconds pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class OweUndo:
    """From now on ``argv`` is owed to the host ``on``: it is run when the case is over, whatever
    happens, the last one first; also when we are killed.  Say it *before* what it undoes is made.

    It must succeed; with ``at``, a path, it may fail where there is no such path any more.
    """

    argv: tuple[str, ...]
    on: int = 0
    at: str = ""


@dataclass(frozen=True, slots=True)
class MountDevice:
    """Mount a device at a new folder, both owed.  The answer is the folder."""

    device: str
    type: str
    options: str = ""
    on: int = 0


@dataclass(frozen=True, slots=True)
class LoseHost:
    """Run a command after which the host ``on`` is expected to be gone (its power is cut, its link
    taken down).  It fails the case when the host still answers after ``within`` seconds."""

    argv: tuple[str, ...]
    on: int = 0
    within: float = 60.0


@dataclass(frozen=True, slots=True)
class AwaitHost:
    """Wait until a host that was lost can be reached again."""

    on: int = 0
    within: float = 180.0


@dataclass(frozen=True, slots=True)
class AddNote:
    """Keep a sentence among the evidence."""

    text: str


Step = (
    RunCommand
    | StartCommand
    | JoinCommand
    | WaitSeconds
    | OweUndo
    | MountDevice
    | LoseHost
    | AwaitHost
    | AddNote
)
Script = Generator[Step, Any, None]
"""What the ``steps`` of a case gives."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command came to.  ``exit`` is its status, or minus the signal that ended it;
    ``seconds`` how long it took; ``late`` whether it was ended because its time was over."""

    argv: tuple[str, ...]
    exit: int
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    late: bool = False

    @property
    def complaint(self) -> str:
        """The last line that it complained with, for people."""
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"exit status {self.exit}"


@dataclass(frozen=True, slots=True)
class StartedCommand:
    """A command that was started: ``number`` is for the runner."""

    number: int
    argv: tuple[str, ...]
    on: int


@dataclass(frozen=True, slots=True)
class CaseHost:
    """What a case is told of a host: its name, its kernel's version, and its scratch ``devices``:
    nodes of block devices that hold nothing, at least as large as the case needs them."""

    name: str
    kernel: tuple[int, ...]
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseContext:
    """Where a case is played.  ``token`` is a word that nothing else here has in its name."""

    nodes: tuple[CaseHost, ...]
    token: str

    @property
    def devices(self) -> tuple[str, ...]:
        """Those of the first host."""
        return self.nodes[0].devices

    def name(self, what: str) -> str:
        """A name of our own for an array, a volume group …"""
        return f"iotrial-{self.token}-{what}"


@dataclass(frozen=True, slots=True)
class CaseNeeds:
    """What must be there, else the case is *not run*, and every reason is said.

    ``commands`` and ``modules`` (loaded, built in or to be had) on each host; ``paths`` that
    exist; a ``kernel`` of this version or newer; so many scratch ``devices`` of at least ``size``
    bytes on each host, the same disks on all of them where ``shared``; so many ``hosts``.  Devices
    that are not given with ``--devices`` are files behind loop devices; ``disks``: those will not
    do.  Without ``root`` it can be done by anybody.  Where a case ``loses`` a host, it is the
    second one, which goes down without being asked and boots again, or loses a link: its owner has
    to allow that.
    """

    commands: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    kernel: tuple[int, ...] = ()
    devices: int = 0
    size: int = 64 * MIB
    shared: bool = False
    disks: bool = False
    hosts: int = 1
    root: bool = True
    loses: bool = False

    def words(self) -> tuple[str, ...]:
        """For people."""
        kind = "disk" if self.disks or self.shared else "scratch device"
        several = f"{self.devices} {'shared ' if self.shared else ''}{kind}"
        found = [
            f"{self.hosts} hosts" if self.hosts > 1 else "",
            f"Linux {'.'.join(map(str, self.kernel))}" if self.kernel else "",
            *self.commands,
            *(f"module {name}" for name in self.modules),
            *self.paths,
            f"{several}{'s' if self.devices > 1 else ''} of {self.size // MIB} MiB"
            if self.devices
            else "",
            "leave to lose the second host (--lose)" if self.loses else "",
        ]
        return tuple(filter(None, found))


@dataclass(frozen=True, slots=True)
class Case:
    """One case: ``title`` says in a sentence what is so when it passes.

    ``announces`` are regular expressions for lines of the kernel's log that it causes on purpose
    (an array that loses a disk is told of as an error); any other trouble there fails it.
    ``limit`` is for all of it, in seconds; like all limits it is for what never ends, and must hold
    on a machine that is very busy.  ``source`` says where it comes from.
    """

    name: str
    title: str
    steps: Callable[[CaseContext], Script]
    needs: CaseNeeds = field(default_factory=CaseNeeds)
    announces: tuple[str, ...] = ()
    limit: float = 1200.0
    source: str = ""


def case(  # noqa: PLR0913 (a case's words)
    name: str,
    title: str,
    needs: CaseNeeds = CaseNeeds(),
    *,
    announces: tuple[str, ...] = (),
    limit: float = 1200.0,
    source: str = "",
) -> Callable[[Callable[[CaseContext], Script]], Case]:
    """The function is what a case does; all else is as in :class:`Case`."""

    def made(steps: Callable[[CaseContext], Script]) -> Case:
        return Case(name, title, steps, needs, announces, limit, source)

    return made


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of one folder, in their order.  ``tools`` are asked for their version, which stands
    in the report and by which known failures are told."""

    name: str
    title: str
    cases: tuple[Case, ...]
    tools: tuple[str, ...] = ()

    def id_of(self, case: Case) -> str:
        """``md/create``: what a case is called in reports and on the command line."""
        return f"{self.name}/{case.name}"


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A failure that is known: of which ``case`` ('': a false alarm of the kernel's, a line of its
    log that is no trouble whatever the case), on which versions (``tool`` '': the kernel's;
    from ``since`` to before ``until``, empty: no bound), ``says`` what its reason must hold, and
    why it is so."""

    case: str
    reason: str
    source: str
    tool: str = ""
    since: tuple[int, ...] = ()
    until: tuple[int, ...] = ()
    says: str = ""

    def holds(self, version: tuple[int, ...]) -> bool:
        """Whether it is about this version."""
        above = not self.since or version >= self.since
        return bool(version) and above and (not self.until or version < self.until)


State = Literal["pass", "fail", "known failure", "not run"]
STATES: tuple[State, ...] = ("pass", "fail", "known failure", "not run")


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """A command that was run for a case: evidence.

    ``phase``: ``prepare``, ``steps`` or ``clean-up``.  ``at`` is when it began (Unix time),
    ``seconds`` how long it took; ``exit`` its status or minus its signal; ``late`` whether it was
    ended because its time was over; ``stdout`` and ``stderr`` what it said, or the name of the
    file beside that holds it (``stdout_file``).
    """

    number: int
    host: str
    phase: str
    argv: tuple[str, ...]
    at: float
    seconds: float
    exit: int
    late: bool = False
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    stdout_file: str = ""
    stderr_file: str = ""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one case came to, once.

    ``case`` is its id (``md/create``), ``round`` counts repetitions from 1.  ``reasons`` say why it
    failed or was not run: all of them.  ``known`` says why it is known to fail on this kernel or
    version; with state ``pass``, that it was known to, and does not any more.  ``at`` is Unix time,
    ``seconds`` how long it took, clean-up and all.  ``folder`` holds its evidence, below the
    results folder ('': there is none).  ``owed`` is what clean-up could not do.
    """

    case: str
    title: str
    round: int
    state: State
    reasons: tuple[str, ...] = ()
    known: str = ""
    at: float = 0.0
    seconds: float = 0.0
    folder: str = ""
    commands: int = 0
    owed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people; the round where it is not the first."""
        return self.case if self.round == 1 else f"{self.case} (round {self.round})"

    @property
    def key(self) -> tuple[str, int]:
        return (self.case, self.round)

    @property
    def anchor(self) -> str:
        """Names its place on a page."""
        return f"{self.case.replace('/', '-')}-{self.round}"

    @property
    def mended(self) -> bool:
        """A known failure that begins to pass."""
        return self.state == "pass" and bool(self.known)


@dataclass(frozen=True, slots=True)
class HostVersions:
    """A host that cases were run on: its kernel (``uname -r``) and the versions of the tools that
    matter, as they say them."""

    name: str
    kernel: str
    distribution: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckResults:
    """All of it: a session's results and, of each case, the last time before.

    ``suites`` are names and titles; ``last`` maps a case's id to its newest result in an earlier
    folder, ``last_from`` is that folder's name.  ``seed`` is that of the order (None: as listed).
    ``stopped`` says why it ended early; ``undone`` are the cases and rounds without a result.
    """

    suites: tuple[tuple[str, str], ...]
    machines: tuple[HostVersions, ...]
    results: tuple[CaseResult, ...]
    started: float = 0.0
    last: Mapping[str, CaseResult] = field(default_factory=dict)
    last_from: str = ""
    seed: int | None = None
    stopped: str = ""
    commands: Mapping[tuple[str, int], tuple[CommandRecord, ...]] = field(default_factory=dict)
    logs: Mapping[tuple[str, int], str] = field(default_factory=dict)
    undone: tuple[tuple[str, int], ...] = ()

    @property
    def counts(self) -> dict[State, int]:
        states = [each.state for each in self.results]
        return {state: states.count(state) for state in STATES}

    @property
    def mended(self) -> tuple[CaseResult, ...]:
        return tuple(each for each in self.results if each.mended)

    @property
    def owed(self) -> tuple[str, ...]:
        return tuple(line for each in self.results for line in each.owed)

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.results)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "suites": [name for name, _ in self.suites],
            "hosts": [
                {
                    "name": each.name,
                    "kernel": each.kernel,
                    "distribution": each.distribution,
                    "tools": dict(each.tools),
                }
                for each in self.machines
            ],
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "seed": self.seed,
            "stopped": self.stopped,
            "counts": {state.replace(" ", "_"): n for state, n in self.counts.items()},
            "undone": [{"case": case, "round": turn} for case, turn in self.undone],
            "results": [self._row(each) for each in self.results],
        }

    def _row(self, each: CaseResult) -> dict[str, Any]:
        last = self.last.get(each.case)
        return {
            "case": each.case,
            "title": each.title,
            "round": each.round,
            "state": each.state,
            "reasons": list(each.reasons),
            "known": each.known,
            "mended": each.mended,
            "seconds": round(each.seconds, 3),
            "evidence": each.folder,
            "owed": list(each.owed),
            "last": {"state": last.state, "seconds": round(last.seconds, 3)} if last else None,
        }


def numbers(said: str) -> tuple[int, ...]:
    """The first version number in what a program or kernel says.

    >>> numbers("mdadm - v4.2 - 2021-12-30 - Debian 4.2-5")
    (4, 2)
    """
    found = re.search(r"\d+(?:\.\d+)+", said) or re.search(r"\d+", said)
    return tuple(map(int, found[0].split("."))) if found else ()
