"""A kernel in a dictionary, as a host: what ``--pretend`` runs on, and the crash tests.

Its block queues behave as a 6.18 kernel's (``disk``), its loads are a pretended fio (``fio``) and
other tools (``loads``): a command line becomes a process with an end and a result.  Its clock is
its own: a whole study takes milliseconds.  It refuses and crashes on demand.

Every act that changes the machine is an *operation* and is counted: write, save, append, remove,
start, a signal to a load, and each run of a command that changes something.  ``crash_after=k``
ends the controller at the k-th: :class:`HostCrashed` is raised there and at everything the dead
controller still tries (``finally`` blocks, ``with`` exits), while the machine and its loads live
on.  :meth:`FakeHost.reconnect` is the next controller's arrival, :meth:`FakeHost.reboot` and
:meth:`FakeHost.power_cut` are what they say.
"""

from __future__ import annotations

import errno
import fnmatch
import random
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, TypeVar

from iotrial.errors import FileRefused, HostError, LockedError, ToolMissing
from iotrial.hosts.fake import fio as fake_fio
from iotrial.hosts.fake.commands import changes, meant, program_of, send
from iotrial.hosts.fake.disk import (
    DISKS,
    NEWEST,
    SECTOR,
    FakeBlockDevice,
    FakeDisk,
    FakeKernel,
    block,
)
from iotrial.hosts.fake.fio import FioCommand, JobResult
from iotrial.hosts.fake.loads import FakeLoad, imitate
from iotrial.hosts.fake.machine import (
    CommandOutput,
    FakeMachine,
    FakeTask,
    MachinePart,
    Rates,
    block_below,
)
from iotrial.hosts.steps import beside, look, perform
from iotrial.model.host import CompletedCommand
from iotrial.model.step import Probe, Step, StepResult
from iotrial.units import parse_bytes

# -- loads -----------------------------------------------------------------------------------------

Moves = dict[str, Rates]
"""By block device."""
_NOTHING: Rates = (0.0, 0.0, 0.0, 0.0)


class _LoadPlan(NamedTuple):
    """How long a load takes, what it moves a second, what it leaves when it ends by itself (and
    its exit status), and for how long it waits before all that."""

    seconds: float
    moves: Moves
    finish: Callable[[], int]
    waits: float = 0.0


def _begin(
    machine: FakeMachine,
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    luck: random.Random,
) -> int:
    """Start a load; gives back its process id.  Its output files lie in ``folder``."""
    for name in ("stdout", "stderr"):
        (folder / name).write_bytes(b"")
    plan = _plan(machine, tuple(argv), folder, luck)
    begins = machine.clock + plan.waits
    leader = machine.next_pid
    for pid in (leader, leader + 1):  # fio works in children: ending only the leader leaves one
        machine.spawn(
            FakeTask(
                pid=pid,
                group=leader,
                argv=tuple(argv),
                environment=dict(environment),
                started=machine.clock,
                ends=begins + plan.seconds,
                moves=plan.moves if pid == leader else {},
                finish=plan.finish if pid == leader else lambda: 0,
                begins=begins,
            )
        )
    machine.next_pid += 2
    return leader


def _plan(
    machine: FakeMachine, argv: tuple[str, ...], folder: Path, luck: random.Random
) -> _LoadPlan:
    if argv[3:4] == ("iotrial-join",):  # sh -c SCRIPT iotrial-join GROUP ARGUMENT…
        if not machine.kind(f"{argv[4]}/cgroup.procs"):
            said = CommandOutput(
                2, "", f"sh: cannot create {argv[4]}/cgroup.procs: Directory nonexistent\n"
            )
            return _LoadPlan(0.0, {}, lambda: _leave(folder, said))
        return _plan(machine, argv[5:], folder, luck)
    if argv[3:4] == ("iotrial-together",):  # sh -c SCRIPT iotrial-together MOMENT
        return _together(machine, argv[2], folder, luck)._replace(waits=_left(argv[4]))
    program = PurePosixPath(argv[0]).name
    if program != "fio" or "--version" in argv:
        acted = None if "--version" in argv else imitate(machine, argv, luck)
        return _acted(acted, folder) if acted else _other(machine, argv, folder)
    try:
        command = fake_fio.parse(argv, folder)
        blocks = [_open(machine, job) for job in command.jobs]
    except ValueError as error:
        said = CommandOutput(1, "", f"{error}\n")
        return _LoadPlan(0.0, {}, lambda: _leave(folder, said))
    works = [
        fake_fio.work(job, block.queue.scheduler if block else "none", luck, _pace(block))
        for job, block in zip(command.jobs, blocks, strict=True)
    ]
    groups = fake_fio.after_each_other(works)
    works = [each for group in groups for each in group]
    lasts = [fake_fio.lasting(group) for group in groups]
    seconds = sum(lasts)
    moves = _moves(works, blocks, [each / seconds for each in lasts])
    disk = next(iter(moves), "")
    return _LoadPlan(seconds, moves, lambda: _report(machine, command, works, disk, folder))


def _pace(block: FakeBlockDevice | None) -> float:
    return block.pace if block else 1.0


def _acted(acted: FakeLoad, folder: Path) -> _LoadPlan:
    """A load of another tool that is imitated."""

    def finish() -> int:
        for name, said in acted.said.items():
            (folder / name).write_text(said, "utf-8")
        if not acted.exit:
            acted.done()
        return acted.exit

    return _LoadPlan(acted.seconds, acted.moves, finish)


def _other(machine: FakeMachine, argv: tuple[str, ...], folder: Path) -> _LoadPlan:
    """Anything that is no load: it moves nothing."""
    program = PurePosixPath(argv[0]).name
    if program == "sleep":
        return _LoadPlan(float(argv[1]), {}, lambda: 0)
    known = program_of(machine, argv)
    words = f"sh: {program}: not found\n"
    said = known.command(machine, argv[1:], b"") if known else CommandOutput(127, "", words)
    return _LoadPlan(0.0, {}, lambda: _leave(folder, said))


def _together(machine: FakeMachine, script: str, folder: Path, luck: random.Random) -> _LoadPlan:
    """Several loads at once, each in its folder: lines ``one FOLDER ARGUMENT… & …``, or ``early``
    where it waits by itself."""
    plans = [
        (folder / name, _plan(machine, argv, folder / name, luck)) for name, argv in _loads(script)
    ]
    moves: Moves = {}
    for _, plan in plans:
        for disk, each in plan.moves.items():
            moves[disk] = _sum(moves.get(disk, _NOTHING), each)

    def finish() -> int:
        worst = 0
        for place, plan in plans:
            status = plan.finish()
            (place / "exitcode").write_text(f"{status}\n", "ascii")
            worst = max(worst, status)
        return worst

    return _LoadPlan(max(plan.seconds for _, plan in plans), moves, finish)


@lru_cache(maxsize=256)  # it follows from the script alone, and hosts that are alike get the same
def _loads(script: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The loads of a script: folder and arguments."""
    lines = (line.partition(" & all=")[0] for line in script.splitlines())
    words = (shlex.split(line) for line in lines if line.startswith(("one ", "early ")))
    return tuple((name, tuple(argv)) for _, name, *argv in words)


def _sum(one: Rates, more: Rates) -> Rates:
    a, b, c, d = (each + other for each, other in zip(one, more, strict=True))
    return (a, b, c, d)


def _left(moment: str) -> float:
    """Seconds until a moment by the real clock, which the controller reckons it by; 0: at once."""
    return max(0.0, int(moment) / 1e9 - time.time())


def _leave(folder: Path, said: CommandOutput) -> int:
    (folder / "stdout").write_text(said.stdout, "utf-8")
    (folder / "stderr").write_text(said.stderr, "utf-8")
    return said.exit


def _report(
    machine: FakeMachine, command: FioCommand, works: Sequence[JobResult], disk: str, folder: Path
) -> int:
    """Write fio's result.  A folder that is gone by then is fio's failure, as in reality."""
    try:
        result = fake_fio.result(command, works, disk, machine.clock)
        (folder / (command.output or "stdout")).write_bytes(result)
    except OSError:
        return 1
    return 0


def _open(machine: FakeMachine, job: fake_fio.FakeJob) -> FakeBlockDevice | None:
    """The disk below what a job works on; a missing file is made, even in a missing folder.

    Raises ValueError, with fio's words, for a missing device.
    """
    path = machine.real(job.path)
    devno = machine.nodes.get(path)
    if devno is None and path.startswith("/dev/"):
        raise ValueError(f"fio: looks like your file system does not support direct=1: {path}")
    if devno is None and path not in machine.files:
        size = job.options.get("size", "0")
        machine.put(path, b"", mode=0o644, size=0 if "%" in size else parse_bytes(size))
        machine.files[path].durable = False
    return block_below(machine, path)


def _moves(
    works: Sequence[JobResult], blocks: Sequence[FakeBlockDevice | None], shares: Sequence[float]
) -> Moves:
    """On average over the whole load, of which each group of jobs has a share."""
    moves: Moves = {}
    for each, disk in zip(works, blocks, strict=True):
        if disk is not None:
            rate = each.rate * shares[each.group]
            reads, writes = rate * each.job.reads, rate * (1 - each.job.reads)
            sectors = each.job.block / SECTOR
            mine = (reads, reads * sectors, writes, writes * sectors)
            moves[disk.name] = _sum(moves.get(disk.name, _NOTHING), mine)
    return moves


# -- the host --------------------------------------------------------------------------------------

_T = TypeVar("_T")

CrashHow = Literal["before", "torn", "after"]
"""The operation was not done; was done by half (save: only the file beside; append: half of the
bytes; any other: not done); was done, and nothing after it."""


class HostCrashed(BaseException):
    """The controller died.  Not an Exception: no handler may swallow a SIGKILL."""


class FakeProcess:
    """A pretended load: a leader and one child in a process group of their own."""

    def __init__(self, host: FakeHost, pid: int) -> None:
        self._host = host
        self._pid = pid

    @property
    def pid(self) -> int:
        return self._pid

    def wait(self, seconds: float) -> int | None:
        """Returns at once in real time: the clock is the host's own."""
        machine = self._host.alive()
        task = machine.tasks.get(self._pid)
        if task is not None:
            machine.pass_time(min(seconds, max(0.0, task.ends - machine.clock)))
        if self._pid in machine.tasks:
            return None
        # As on a real host, what is left of the group ends with its leader.
        send(machine, -self._pid, 9)
        return machine.ended.get(self._pid, -9)

    def kill(self, *, gently: bool) -> None:
        machine = self._host.alive()
        if any(task.group == self._pid for task in machine.tasks.values()):
            self._host.change(
                f"kill {self._pid}", lambda: send(machine, -self._pid, 15 if gently else 9)
            )


class FakeHost:
    """A pretended machine.

    ``seed`` makes its noise and its boot ids repeatable.  ``refuse`` maps a path, a pattern
    (fnmatch) or ``read PATTERN`` to the errno that changing (or reading and listing) it answers:
    ``{"/sys/*": errno.EROFS}`` is a container.  ``crash_after`` and ``crash_how``: see above.
    ``kernel`` is whose queues it has; ``parts`` are families that it has besides.
    ``refuse`` and ``crash_after`` may be set later too; ``log`` names each operation done.
    """

    name = "fake"
    remote = False
    unprivileged = ""
    unguarded = ""

    def __init__(  # noqa: PLR0913 (each has its name)
        self,
        *,
        seed: int = 1,
        disks: tuple[FakeDisk, ...] = DISKS,
        refuse: Mapping[str, int] | None = None,
        crash_after: int | None = None,
        crash_how: CrashHow = "before",
        kernel: FakeKernel = NEWEST,
        parts: Iterable[type[MachinePart]] = (),
    ) -> None:
        self.machine = FakeMachine(disks, seed, kernel, parts)
        self.refuse = dict(refuse or {})
        self.crash_after = crash_after
        self.crash_how: CrashHow = crash_how
        self.log: list[str] = []
        self._seed = seed
        self._loads = 0
        self._dead = False
        self._locks: set[str] = set()

    # -- what a test does to it -------------------------------------------------------------

    @property
    def operations(self) -> int:
        """How many operations were begun."""
        return len(self.log)

    def reconnect(self) -> None:
        """Another controller comes to the same machine, which went on without the first."""
        self._dead = False
        self.crash_after = None
        self._locks.clear()

    def reboot(self) -> None:
        """In good order: all files are written; settings, loads and loop devices are gone."""
        self.machine.boot()
        self.reconnect()

    def power_cut(self) -> None:
        """A reboot that loses whatever was not written durably."""
        files = self.machine.files
        for path in [path for path, file in files.items() if not file.durable]:
            del files[path]
        self.reboot()

    def replace_disk(self, name: str, disk: FakeDisk) -> None:
        """The name is another disk's from now on."""
        machine = self.machine
        machine.disks = tuple(disk if d.name == name else d for d in machine.disks)
        machine.blocks.pop(name, None)
        machine.blocks[disk.name] = block(disk, machine.kernel)
        machine.relink()

    def meddle(self, path: str, data: bytes) -> None:
        """Another program writes a control file: no operation of ours, no refusal, no crash."""
        self.machine.write(path, data)

    def settings(self) -> dict[str, str]:
        """Every kernel parameter and every file of every queue, by path: what must read the same
        after a restore."""
        sysctls = {
            f"/proc/sys/{path}": value for path, value in self.machine.sysctls.values.items()
        }
        for name, part in self.machine.parts.items():
            sysctls |= {path: each.value for path, each in part.controls().items()}
            sysctls |= {f"{name}: {what}": value for what, value in part.settings().items()}
        return sysctls | {
            f"/sys/block/{each.name}/queue/{name}": value
            for each in self.machine.blocks.values()
            for name, value in each.queue.files().items()
        }

    # -- the protocol -----------------------------------------------------------------------

    def mark(self, environment: Mapping[str, str]) -> None:
        """Nothing to do: a pretended command ends within the call that runs it."""

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        machine, command = self.alive(), meant(argv)
        program = program_of(machine, command)
        if program is None:
            return CompletedCommand(
                command, 127, b"", f"{command[0]}: command not found\n".encode()
            )
        if command[0] == "sleep" and float(command[1]) > timeout:
            machine.pass_time(timeout)
            raise HostError(f"{self.name}: `{' '.join(command)}` was killed after {timeout:g} s")

        def act() -> CommandOutput:
            return program.command(machine, command[1:], stdin)

        def torn() -> object:
            return program.torn and program.torn(machine, command[1:], stdin)

        if changes(program, command):
            said = self.change(" ".join(command), act, torn=torn)
        else:
            said = act()
        return CompletedCommand(tuple(argv), said.exit, said.stdout.encode(), said.stderr.encode())

    def start(
        self, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> FakeProcess:
        """``folder`` is a real one: the pretended fio writes its result there when it ends."""
        machine, command = self.alive(), tuple(argv)
        if program_of(machine, command) is None:
            raise ToolMissing(
                f"{self.name}: {command[0]} cannot be started: it is not installed",
                advice="The simulated host has fio, bonnie++, IOzone, dd, iperf3 and listing.",
            )
        luck = random.Random(f"{self._seed}:{self._loads}")

        def begin() -> int:
            self._loads += 1
            return _begin(machine, command, folder=folder, environment=environment, luck=luck)

        pid = self.change(" ".join(command), begin)
        return FakeProcess(self, pid)

    def read(self, path: str) -> bytes:
        if self.refuse:
            self._refuse("read", path)
        try:  # no context manager: a study of a thousand hosts reads a million times
            return self.alive().read(path)
        except OSError as error:
            raise FileRefused(self.name, "read", path, error.errno or errno.EIO) from error

    def write(self, path: str, data: bytes) -> None:
        with self._refusal("write", path):
            self.change(f"write {path}", lambda: self.machine.write(path, data))

    def save(self, path: str, data: bytes, *, private: bool = True) -> None:
        def replaced() -> None:
            old = self.machine.files.get(self.machine.real(path))
            kept = old.mode if old else 0o644
            self.machine.put(path, data, mode=0o600 if private else kept)
            self.machine.files.pop(self.machine.real(beside(path)), None)

        with self._refusal("save", path):
            self.change(f"save {path}", replaced, torn=lambda: self.machine.put(beside(path), data))

    def append(self, path: str, data: bytes) -> None:
        def appended(more: bytes) -> None:
            old = self.machine.files.get(self.machine.real(path))
            if old is None:
                self.machine.put(path, more)
            else:
                old.data += more
                old.durable = True

        with self._refusal("append", path):
            self.change(
                f"append {path}",
                lambda: appended(data),
                torn=lambda: appended(data[: len(data) // 2]),
            )

    def remove(self, path: str) -> None:
        real = self.alive().real(path)
        with self._refusal("remove", path):
            if self.machine.kind(real) == "directory":
                raise OSError(errno.EISDIR, "is a folder")
            if real in self.machine.files:
                self.change(f"remove {path}", lambda: self.machine.files.pop(real))

    def list(self, path: str) -> list[str]:
        with self._refusal("list", path):
            return self.alive().names(path)

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        return perform(self, steps, self._see)

    def _see(self, probe: Probe) -> StepResult:
        """As :func:`look`, without two exceptions for each file that is not there: a study of a
        thousand hosts asks for half a million of those."""
        if probe.argv or self.refuse:
            return look(self, probe)
        found = self.alive().found(probe.path)
        if isinstance(found, bytes):
            return StepResult(found)
        return StepResult(b"", found, FileRefused.words(self.name, "read", probe.path, found))

    @contextmanager
    def guard(self, argv: Sequence[str], *, every: float) -> Iterator[None]:
        """Nobody watches: what a crash leaves is paid by the next restore, which is tested."""
        del argv, every
        yield

    def tunnel(self, path: str) -> AbstractContextManager[str]:
        """Nothing listens on a pretended machine."""
        return nullcontext(path)

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        machine = self.alive()
        if path in self._locks:
            raise LockedError(
                f"{self.name}: another iotrial is running: it holds {path}",
                advice="Wait until it ends.",
            )
        with self._refusal("lock", path):
            machine.put(path, b"")
        self._locks.add(path)
        try:
            yield
        finally:
            self._locks.discard(path)

    def clock(self) -> float:
        return self.machine.clock

    def sleep(self, seconds: float) -> None:
        self.alive().pass_time(seconds)

    # -- how it does it ---------------------------------------------------------------------

    def alive(self) -> FakeMachine:
        """The machine, for a controller that has not died."""
        if self._dead:
            raise HostCrashed
        return self.machine

    def change(
        self, what: str, act: Callable[[], _T], torn: Callable[[], object] | None = None
    ) -> _T:
        """Do one operation, or die at it."""
        self.alive()
        self.log.append(what)
        if self.operations != self.crash_after:
            return act()
        self._dead = True
        with suppress(OSError):
            if self.crash_how == "after":
                act()
            elif self.crash_how == "torn" and torn:
                torn()
        raise HostCrashed(what)

    @contextmanager
    def _refusal(self, act: str, path: str) -> Iterator[None]:
        """Refuse on demand, and turn the machine's OSError into FileRefused."""
        self._refuse(act, path)
        try:
            yield
        except OSError as error:
            raise FileRefused(self.name, act, path, error.errno or errno.EIO) from error

    def _refuse(self, act: str, path: str) -> None:
        wanted = f"read {path}" if act in ("read", "list") else path
        for pattern, code in self.refuse.items():
            if fnmatch.fnmatchcase(wanted, pattern):
                raise FileRefused(self.name, act, path, code)
