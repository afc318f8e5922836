"""The load: start one tool execution, watch it to its end, and end it whatever happens.

A load carries a token in its environment (``IOTRIAL_LOAD``), inherited by all its children.  A
killed controller leaves its load running (seen with fio); the token is how a restore finds every
process of it again, without trusting a pid that may long be somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from iotrial.errors import HostError
from iotrial.execute.interruption import Interruption
from iotrial.model.host import Host, Process
from iotrial.model.step import Probe, Read

TOKEN = "IOTRIAL_LOAD"  # noqa: S105 (a name in the environment, no secret)
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL: fio writes its result when asked to stop."""
_LOOKS, _NAP = 200, 0.05
"""How often it is looked for processes that were killed, and the seconds between."""
EARLY = 0.3
"""Seconds before a moment that loads wait for: what is read then stands at the moment as well, and
reading it takes nothing from the start."""

_JSON_ERROR = re.compile(r'^\s*"error":\s*"(.+)"', re.MULTILINE)
"""Where iperf3 says why, in the middle of its JSON."""
_COUNT = re.compile(r"\d+(\+\d+ records| bytes) ")
"""dd's account, which comes after its complaint."""

GLANCES = (0.1, 0.5)
"""Seconds after the start at which it is looked what a load has opened, before the first tick."""

ROUNDING = 1e-6
"""Seconds: a clock that is this close to the next tick has reached it (floats do not add up)."""


@dataclass(frozen=True, slots=True)
class LoadExit:
    """How a load ended.  ``timed_out``: it outlived its limit, or all others, and was ended."""

    exit: int
    seconds: float
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class LoadWatch:
    """How a load is watched: ended after ``limit`` seconds, ``tick(elapsed)`` once a second,
    ended at once when ``interruption`` notes a signal, and within a second of ``over()``.  With
    ``begins``, on the host's clock, its seconds count from there, and the first tick is
    :data:`EARLY`; ``nap`` is how long until then is waited without looking whether to stop.
    ``begun()`` is said as soon as it was started; ``look()`` at :data:`GLANCES` and with every
    tick: where it raises, the load is ended."""

    limit: float
    tick: Callable[[float], None]
    interruption: Interruption
    over: Callable[[], bool] = lambda: False
    begins: float = 0.0
    begun: Callable[[], None] = lambda: None
    nap: float = 1.0
    look: Callable[[], None] | None = None


def execute_load(
    host: Host, argv: tuple[str, ...], *, folder: Path, token: str, watch: LoadWatch
) -> LoadExit:
    """Start ``argv`` in ``folder`` and wait for its end.

    Raises Interrupted after ending the load when the controller was told to stop.
    """
    began = host.clock()
    process = host.start(argv, folder=folder, environment={TOKEN: token, "LC_ALL": "C"})
    finished = False
    try:
        watch.begun()
        if watch.begins:
            _rest(host, process, watch)
            began = max(watch.begins, began)
            watch.tick(0.0)
        status, timed_out = _await(host, process, began, watch)
        finished = True
    finally:
        if not finished:
            end(host, process)
    watch.interruption.check()
    return LoadExit(status, max(0.0, host.clock() - began), timed_out)


def _rest(host: Host, process: Process, watch: LoadWatch) -> None:
    """Wait until shortly before it begins, or until told to stop, whoever else heard that."""
    until = watch.begins - EARLY
    while (left := until - host.clock()) > 0 and not watch.interruption.signal:
        if process.wait(min(left, watch.nap)) is not None:
            return


def last_words(folder: Path, ended: LoadExit) -> str:
    """What a load that failed said last, for people."""
    for name in ("stderr", "stdout"):
        path = folder / name
        text = path.read_text("utf-8", "replace") if path.exists() else ""
        lines = [line for line in text.splitlines() if line.strip() and not _COUNT.match(line)]
        lines += _JSON_ERROR.findall(text)
        if lines:
            return f"{lines[-1].strip()} (exit status {ended.exit}; see {name})"
    return f"exit status {ended.exit}"


def _await(host: Host, process: Process, began: float, watch: LoadWatch) -> tuple[int, bool]:
    """The exit status, and whether the limit, or the end of all others, ended it."""
    due, glances = 1.0, [*GLANCES] if watch.look else []
    while True:
        elapsed = host.clock() - began
        status = process.wait(max(0.0, min(due, watch.limit, *glances[:1]) - elapsed))
        elapsed = host.clock() - began
        if status is not None:
            return status, False
        if watch.interruption.signal or elapsed >= watch.limit or watch.over():
            return end(host, process), not watch.interruption.signal
        ticks = elapsed >= due - ROUNDING
        if watch.look and (ticks or any(elapsed >= each - ROUNDING for each in glances)):
            watch.look()
            glances = [each for each in glances if each > elapsed + ROUNDING]
        if ticks:
            watch.tick(elapsed)
            due = float(int(elapsed + ROUNDING)) + 1.0


def end(host: Host, process: Process) -> int:
    """End a load and all its children: ask, wait ``GRACE`` seconds, insist."""
    process.kill(gently=True)
    deadline = host.clock() + GRACE
    while (left := deadline - host.clock()) > 0:
        status = process.wait(left)
        if status is not None:
            process.kill(gently=False)  # children that outlived their parent
            return status
    process.kill(gently=False)
    while (status := process.wait(GRACE)) is None:
        pass  # SIGKILL cannot be refused; a process in D state ends with its I/O
    return status


def end_loads(host: Host, token: str) -> list[str]:
    """End every process that carries ``token``.  Gives back what was done, in words."""
    done: dict[str, None] = {}
    found, starting = _marked(host, token)
    for _ in range(_LOOKS):
        if not found and not starting:
            break
        for pid in found:
            if (what := f"ended process {pid} of the load") not in done:
                done[what] = None
                host.run(["kill", "-KILL", str(pid)])
        host.sleep(_NAP)
        found, starting = _marked(host, token)
    if found:
        raise HostError(
            f"{host.name}: processes {found} of the load do not terminate",
            advice="They wait for I/O that does not complete. Fix the device, then restore again.",
        )
    return list(done)


def loads(host: Host, token: str) -> list[int]:
    """Process ids on the host whose environment has the entry ``IOTRIAL_LOAD=token``, and not one
    that merely holds it: ``IOTRIAL_LOAD=token-2`` and ``MY_IOTRIAL_LOAD=token`` are strangers'."""
    return _marked(host, token)[0]


def _marked(host: Host, token: str) -> tuple[list[int], bool]:
    """The same, and whether a process is in the middle of an execve(2), so that nothing can be
    read of its environment: it may be one of them."""
    if not token:
        return [], False
    wanted = f"{TOKEN}={token}".encode("utf-8", "surrogateescape")
    pids = [name for name in host.list("/proc") if name.isdigit()]
    found, bare = _with(host, pids, wanted)
    before = _addresses(host, bare)
    late, bare = _with(host, before, wanted)
    after = _addresses(host, bare)
    starting = any(where != before[pid] or where[-1] == b"0" for pid, where in after.items())
    return [int(pid) for pid in (*found, *late)], starting


def _with(host: Host, pids: Iterable[str], wanted: bytes) -> tuple[list[str], list[str]]:
    """Those of them whose environment has the entry ``wanted``, and those that have none at all
    (one that may not be read, or is gone, is neither)."""
    looked = list(pids)
    answers = host.batch([Read(Probe(f"/proc/{pid}/environ")) for pid in looked])
    told = {pid: each.raw for pid, each in zip(looked, answers, strict=True) if not each.errno}
    found = [pid for pid, said in told.items() if wanted in said.split(b"\0")]
    return found, [pid for pid, said in told.items() if not said]


def _addresses(host: Host, pids: Iterable[str]) -> dict[str, list[bytes]]:
    """Where the arguments and the environment of processes lie (proc_pid_stat(5), fields 48 to
    51), new at each execve(2) and 0 in the middle of it.  Not of the dead and of the kernel's."""
    looked = list(pids)
    found = {}
    answers = host.batch([Read(Probe(f"/proc/{pid}/stat")) for pid in looked])
    for pid, answer in zip(looked, answers, strict=True):
        state, parent, *rest = answer.raw.rpartition(b") ")[2].split() or [b"X", b""]
        if state not in (b"Z", b"X") and parent not in (b"0", b"2"):
            found[pid] = rest[43:47]
    return {pid: where for pid, where in found.items() if where}
