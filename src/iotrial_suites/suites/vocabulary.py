"""The words that cases are written in: each is a step, or a few, with the type of its answer.

``said = yield from run("mdadm", "--detail", node)`` is ``said = yield Run((…))``, typed.

One more is a load that checks itself: writes whose bytes are read again and compared, until told
to end.  ``verify_backlog`` is what makes it check: with ``time_based`` alone fio writes until its
time is over and then has none to read in (fio 3.33, ``do_verify`` ends where
``runtime_exceeded``).  So the end looks at how much was read again: a load that compared nothing
proves nothing.

Sources: fio(1); HOWTO of fio, "Verification".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from iotrial_suites.case import (
    AddNote,
    AwaitHost,
    CaseContext,
    CaseFailed,
    CommandResult,
    JoinCommand,
    LoseHost,
    MountDevice,
    OweUndo,
    RunCommand,
    StartCommand,
    StartedCommand,
    Step,
    WaitSeconds,
)

T = TypeVar("T")
Doing = Generator[Step, Any, T]

SUCCESS = (0,)


def run(
    *argv: str,
    on: int = 0,
    within: float = 120.0,
    exits: tuple[int, ...] | None = SUCCESS,
    stdin: str = "",
) -> Doing[CommandResult]:
    """Run a command that must succeed (or end as one of ``exits``; None: as it likes)."""
    said: CommandResult = yield RunCommand(argv, on, within, exits, stdin)
    return said


def refused(*argv: str, on: int = 0, within: float = 120.0) -> Doing[CommandResult]:
    """Run a command that must be refused."""
    said = yield from run(*argv, on=on, within=within, exits=None)
    expect(said.exit != 0, f"`{' '.join(argv)}` was to be refused, and succeeded")
    return said


def read(path: str, *, on: int = 0) -> Doing[str]:
    """The text of a file, without the blanks around it."""
    said = yield from run("cat", path, on=on)
    return said.stdout.strip()


def write(path: str, text: str, *, on: int = 0) -> Doing[None]:
    """Write into a control file, in one write(2)."""
    yield from run(*writing(path), on=on, stdin=text)


def writing(path: str) -> tuple[str, ...]:
    """The command that writes its stdin into a control file."""
    return ("dd", f"of={path}", "bs=64k", "conv=notrunc", "status=none")


def start(*argv: str, on: int = 0, within: float = 120.0) -> Doing[StartedCommand]:
    """Start a command and go on."""
    started: StartedCommand = yield StartCommand(argv, on, within)
    return started


def join(
    started: StartedCommand, *, within: float = 60.0, exits: tuple[int, ...] | None = SUCCESS
) -> Doing[CommandResult]:
    """Wait for the end of a command that was started."""
    said: CommandResult = yield JoinCommand(started, within, exits)
    return said


def pause(seconds: float) -> Doing[None]:
    yield WaitSeconds(seconds)


def undo(*argv: str, on: int = 0, at: str = "") -> Doing[None]:
    """Owe a command, before what it undoes is made; with ``at``, only while that path is there."""
    yield OweUndo(argv, on, at)


def mount(device: str, type: str, options: str = "", *, on: int = 0) -> Doing[str]:  # noqa: A002 (as mount -t)
    """Mount at a new folder; gives back the folder."""
    point: str = yield MountDevice(device, type, options, on)
    return point


def lose(*argv: str, on: int, within: float = 60.0) -> Doing[None]:
    """Run a command after which the host must be gone."""
    yield LoseHost(argv, on, within)


def back(on: int, *, within: float = 180.0) -> Doing[None]:
    """Wait for a host that was lost."""
    yield AwaitHost(on, within)


def note(text: str) -> Doing[None]:
    yield AddNote(text)


def expect(so: object, otherwise: str) -> None:
    """Fail the case with this sentence unless it is so."""
    if not so:
        raise CaseFailed(otherwise)


def until(
    look: Callable[[], Doing[T]],
    so: Callable[[T], object],
    otherwise: str,
    *,
    within: float = 30.0,
    every: float = 0.2,
) -> Doing[T]:
    """Look again and again until it is so; else fail with a sentence and what was seen last.

    ``within`` counts only the pauses: what the looks take comes on top.
    """
    waited = 0.0
    while True:
        seen = yield from look()
        if so(seen):
            return seen
        if waited >= within:
            raise CaseFailed(f"{otherwise}, for {within:g} s; last seen: {str(seen)[-400:]}")
        yield WaitSeconds(every)
        waited += every


_UNTIL = """\
stop=$1
shift
nice -n 19 "$@" &
load=$!
while [ ! -e "$stop" ] && kill -0 "$load" 2>/dev/null; do sleep 1; done
kill "$load" 2>/dev/null
wait "$load"
"""
"""Arguments: a file, then a command, which is ended when there is such a file.  It is
nice, as where processors are emulated it would leave none to the commands of the case."""
_STOPPED = 128
"""The exit status of a fio that a signal ended in good order."""
_MOST = 900
"""Seconds: nobody waits so long."""
_NANO = 1e9


@dataclass(frozen=True, slots=True)
class BackgroundLoad:
    """A load under way on host ``on``, which ends when there is the file ``stop``."""

    started: StartedCommand
    stop: str
    on: int


def begin(
    scene: CaseContext,
    *where: str,
    on: int = 0,
    size: str = "32m",
    depth: int = 4,
    name: str = "load",
) -> Doing[BackgroundLoad]:
    """Write at random in ``where`` (``--filename=``, ``--directory=``), and read it again."""
    stop = f"/run/{scene.name(name)}-{on}"
    yield from undo("rm", "-f", stop, on=on)
    started = yield from start(
        "sh", "-c", _UNTIL, "iotrial-load", stop,
        "fio", f"--name={name}", *where, "--rw=randwrite", "--bs=16k", f"--size={size}",
        "--direct=1", "--ioengine=libaio", f"--iodepth={depth}", "--verify=crc32c",
        "--verify_fatal=1", "--verify_backlog=64", "--time_based", f"--runtime={_MOST}",
        "--output-format=json", on=on, within=_MOST + 300,
    )  # fmt: skip
    return BackgroundLoad(started, stop, on)


def end(load: BackgroundLoad, *, within: float = 120.0) -> Doing[None]:
    """Have it end; see that no I/O of it failed, and that it compared what it wrote."""
    yield from run("touch", load.stop, on=load.on)
    said = yield from join(load.started, within=within, exits=(0, _STOPPED))
    told = result(said.stdout)
    if told is None:
        raise CaseFailed(f"fio says no result: {said.complaint}")
    expect(told.error == 0, f"the load failed (errno {told.error}): {said.complaint}")
    expect(told.compared, f"the load compared nothing of {told.written} writes")
    yield from note(
        f"the load: {told.written} writes, {told.compared} compared; the longest write took "
        f"{told.longest:.1f} s"
    )


def once(*where: str, on: int = 0, size: str = "8m", depth: int = 16) -> Doing[None]:
    """Write ``size`` once, asynchronously, past the cache, then read and compare all of it."""
    said = yield from run(
        "fio", "--name=once", *where, "--rw=randwrite", "--bs=16k", f"--size={size}",
        "--direct=1", "--ioengine=libaio", f"--iodepth={depth}", "--verify=crc32c",
        "--verify_fatal=1", "--output-format=json", on=on, within=300,
    )  # fmt: skip
    told = result(said.stdout)
    expect(told and told.error == 0, f"fio says no good result: {said.complaint}")
    expect(told and told.compared >= told.written > 0, f"not all that was written was read: {told}")


@dataclass(frozen=True, slots=True)
class _VerifyResult:
    """What fio says of a load: errno, numbers of writes and of reads that were compared, seconds of
    the write that took longest."""

    error: int
    written: int
    compared: int
    longest: float


def result(text: str) -> _VerifyResult | None:
    """Read from what fio printed, with other words before it; None: it printed no result.

    >>> result('fio: terminating on signal 15\\n{"jobs": [{"error": 0, "read": {"total_ios": 2}, '
    ...        '"write": {"total_ios": 3, "clat_ns": {"max": 5e8}}}]}')
    Told(error=0, written=3, compared=2, longest=0.5)
    """
    try:
        (job,) = json.loads(text[text.index("{") :])["jobs"]
        write = job["write"]
        longest = float(write["clat_ns"]["max"]) / _NANO
        return _VerifyResult(
            int(job["error"]), int(write["total_ios"]), int(job["read"]["total_ios"]), longest
        )
    except (ValueError, KeyError):
        return None
