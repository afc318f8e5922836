"""Loads of the fake host: a command line becomes a process with an end and a result."""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from iotrial.hosts.fake import fio as fake_fio
from iotrial.hosts.fake.below import block_below
from iotrial.hosts.fake.commands import program_of
from iotrial.hosts.fake.disk import SECTOR, Block
from iotrial.hosts.fake.fio import Command, Work
from iotrial.hosts.fake.loads import imitate
from iotrial.hosts.fake.loads.pace import Acted
from iotrial.hosts.fake.machine import Machine, Said, Task
from iotrial.units import parse_bytes

Moves = dict[str, tuple[float, float, float, float]]


class Plan(NamedTuple):
    """How long a load takes, what it moves a second, what it leaves when it ends by itself (and
    its exit status), and for how long it waits before all that."""

    seconds: float
    moves: Moves
    finish: Callable[[], int]
    waits: float = 0.0


def begin(
    machine: Machine,
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
            Task(
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


def _plan(machine: Machine, argv: tuple[str, ...], folder: Path, luck: random.Random) -> Plan:
    if argv[3:4] == ("iotrial-join",):  # sh -c SCRIPT iotrial-join GROUP ARGUMENT…
        if not machine.kind(f"{argv[4]}/cgroup.procs"):
            said = Said(2, "", f"sh: cannot create {argv[4]}/cgroup.procs: Directory nonexistent\n")
            return Plan(0.0, {}, lambda: _leave(folder, said))
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
        said = Said(1, "", f"{error}\n")
        return Plan(0.0, {}, lambda: _leave(folder, said))
    works = [
        fake_fio.work(job, block.queue.scheduler if block else "none", luck)
        for job, block in zip(command.jobs, blocks, strict=True)
    ]
    moves = _moves(works, blocks)
    seconds = max(each.job.ramp + each.seconds for each in works)
    disk = next(iter(moves), "")
    return Plan(seconds, moves, lambda: _report(machine, command, works, disk, folder))


def _acted(acted: Acted, folder: Path) -> Plan:
    """A load of another tool that is imitated."""

    def finish() -> int:
        for name, said in acted.said.items():
            (folder / name).write_text(said, "utf-8")
        if not acted.exit:
            acted.done()
        return acted.exit

    return Plan(acted.seconds, acted.moves, finish)


def _other(machine: Machine, argv: tuple[str, ...], folder: Path) -> Plan:
    """Anything that is no load: it moves nothing."""
    program = PurePosixPath(argv[0]).name
    if program == "sleep":
        return Plan(float(argv[1]), {}, lambda: 0)
    known = program_of(machine, argv)
    words = f"sh: {program}: not found\n"
    said = known.command(machine, argv[1:], b"") if known else Said(127, "", words)
    return Plan(0.0, {}, lambda: _leave(folder, said))


def _together(machine: Machine, script: str, folder: Path, luck: random.Random) -> Plan:
    """Several loads at once, each in its folder: lines ``one FOLDER ARGUMENT… & …``, or ``early``
    where it waits by itself."""
    plans = [
        (folder / name, _plan(machine, argv, folder / name, luck)) for name, argv in _loads(script)
    ]
    moves: Moves = {}
    for _, plan in plans:
        for disk, each in plan.moves.items():
            before = moves.get(disk, (0.0, 0.0, 0.0, 0.0))
            a, b, c, d = (one + more for one, more in zip(before, each, strict=True))
            moves[disk] = (a, b, c, d)

    def finish() -> int:
        worst = 0
        for place, plan in plans:
            status = plan.finish()
            (place / "exitcode").write_text(f"{status}\n", "ascii")
            worst = max(worst, status)
        return worst

    return Plan(max(plan.seconds for _, plan in plans), moves, finish)


@lru_cache(maxsize=256)  # it follows from the script alone, and hosts that are alike get the same
def _loads(script: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The loads of a script: folder and arguments."""
    lines = (line.partition(" & all=")[0] for line in script.splitlines())
    words = (shlex.split(line) for line in lines if line.startswith(("one ", "early ")))
    return tuple((name, tuple(argv)) for _, name, *argv in words)


def _left(moment: str) -> float:
    """Seconds until a moment by the real clock, which the controller reckons it by; 0: at once."""
    return max(0.0, int(moment) / 1e9 - time.time())


def _leave(folder: Path, said: Said) -> int:
    (folder / "stdout").write_text(said.stdout, "utf-8")
    (folder / "stderr").write_text(said.stderr, "utf-8")
    return said.exit


def _report(
    machine: Machine, command: Command, works: Sequence[Work], disk: str, folder: Path
) -> int:
    """Write fio's result.  A folder that is gone by then is fio's failure, as in reality."""
    try:
        result = fake_fio.result(command, works, disk, machine.clock)
        (folder / (command.output or "stdout")).write_bytes(result)
    except OSError:
        return 1
    return 0


def _open(machine: Machine, job: fake_fio.Job) -> Block | None:
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


def _moves(works: Sequence[Work], blocks: Sequence[Block | None]) -> Moves:
    """Reads, sectors read, writes and sectors written a second, by block device."""
    moves: Moves = {}
    for each, block in zip(works, blocks, strict=True):
        if block is not None:
            reads, writes = each.rate * each.job.reads, each.rate * (1 - each.job.reads)
            sectors = each.job.block / SECTOR
            mine = (reads, reads * sectors, writes, writes * sectors)
            before = moves.get(block.name, (0.0, 0.0, 0.0, 0.0))
            moves[block.name] = (
                before[0] + mine[0],
                before[1] + mine[1],
                before[2] + mine[2],
                before[3] + mine[3],
            )
    return moves
