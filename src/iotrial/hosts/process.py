"""Processes beside us: a load, which is waited for and ended as a group, and a watcher, which is
told that we live and sees when we do not.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from iotrial.errors import HostError
from iotrial.hosts.bounds import GREETING_MOST, ErrorOutput


def end_group(group: int, sign: signal.Signals) -> None:
    """Signal a process group; one that is gone is no error."""
    with suppress(ProcessLookupError):
        os.killpg(group, sign)


def drain(descriptor: int) -> None:
    """Take what a wakeup pipe holds, so that one signal ends one wait and not every later one.

    The handler has set its flag by the time the caller looks: Python runs handlers before the
    next bytecode.
    """
    with suppress(BlockingIOError):
        while os.read(descriptor, 512):
            pass


def readable(descriptor: int, seconds: float, wakeup: int | None) -> bool:
    """Whether it can be read, or is within the time; False also when a signal arrives first."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if wakeup is not None:
        poll.register(wakeup, select.POLLIN)
    # Rounded up, so that a wait never ends before its time; at most a day, which poll takes.
    milliseconds = math.ceil(min(max(seconds, 0.0), 86400.0) * 1000)
    ready = {each for each, _ in poll.poll(milliseconds)}
    if wakeup is not None and wakeup in ready:
        drain(wakeup)
    return descriptor in ready


class LocalProcess:
    """A started load.  It is waited for through a pidfd (pidfd_open(2), Linux 5.3): no polling
    loop takes CPU from the measurement, and no SIGCHLD handler is needed.

    The leader stays unreaped until its group is ended, so that its number cannot become another
    process's before the last signal is sent.
    """

    def __init__(self, process: subprocess.Popen[bytes], wakeup: int | None) -> None:
        self._process = process
        self._wakeup = wakeup
        self._pidfd: int | None = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float) -> int | None:
        """As the protocol says.  What is left of the group when its leader has ended is killed:
        a straggler would load the machine during the next trial."""
        if self._pidfd is None:
            return self._process.returncode
        ended = readable(self._pidfd, seconds, self._wakeup)
        return self._reap(self._pidfd) if ended else None

    def kill(self, *, gently: bool) -> None:
        if self._pidfd is not None:
            end_group(self.pid, signal.SIGTERM if gently else signal.SIGKILL)

    def _reap(self, pidfd: int) -> int:
        end_group(self.pid, signal.SIGKILL)
        os.close(pidfd)
        self._pidfd = None
        return self._process.wait()


def pause(seconds: float, wakeup: int | None) -> None:
    """Let time pass; returns early when a signal arrives."""
    if wakeup is None:
        time.sleep(max(0.0, seconds))
        return
    ready, _, _ = select.select([wakeup], [], [], max(0.0, seconds))
    if ready:
        drain(wakeup)


# -- a watcher -------------------------------------------------------------------------------------

READY_WITHIN = 10.0
_SHOWN = 1000
LEAVES_WITHIN = 10.0
"""Seconds it gets to end after ``done``."""


@contextmanager
def watching(  # noqa: PLR0913 (each has its name)
    host: str,
    argv: Sequence[str],
    *,
    every: float,
    opening: bytes = b"",
    environment: Mapping[str, str] | None = None,
    lost: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Run ``argv`` as :meth:`~iotrial.model.host.Host.guard` says; ``host`` is for messages,
    ``opening`` what it is told first.  Where the host is ``lost`` when the context is left, the
    guard is not told that all is done.

    The heartbeat is a thread of its own: whatever takes long here (a file being laid out, a
    command that waits) must not look like death.
    """
    process = subprocess.Popen(
        tuple(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    stop = threading.Event()
    beat: threading.Thread | None = None
    try:
        if opening and process.stdin is not None:
            with suppress(OSError):  # it is gone: what it said tells
                process.stdin.write(opening)
                process.stdin.flush()
        _await_ready(host, process)
        beat = threading.Thread(
            target=_beat, args=(process.stdin, every, stop), daemon=True, name="heartbeat"
        )
        beat.start()
        yield
    finally:
        stop.set()
        if beat is not None:
            beat.join()
        _leave(process, b"" if lost() else b"done\n")


def _await_ready(host: str, process: subprocess.Popen[bytes]) -> None:
    """Until the line ``ready``.  What a login's start-up files print before is passed over."""
    assert process.stdout is not None  # noqa: S101 (asked for above; for the type checker)
    said, deadline = b"", time.monotonic() + READY_WITHIN
    while b"ready" not in said.splitlines() or not said.endswith(b"\n"):
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([process.stdout], [], [], left)
        more = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not more:
            break
        said += more
        if len(said) > GREETING_MOST:
            break
    else:
        return
    process.kill()
    complaint = ErrorOutput(process).last()
    process.wait()
    why = complaint or said[-_SHOWN:].decode("utf-8", "replace").strip()
    raise HostError(
        f"{host}: the guard that would restore it did not start: {why or 'no message'}",
        advice="It needs sh, flock and coreutils there. No setting was changed.",
    )


def _beat(pipe: IO[bytes] | None, every: float, stop: threading.Event) -> None:
    while not stop.wait(every):
        try:
            if pipe is not None:
                pipe.write(b".\n")
                pipe.flush()
        except (OSError, ValueError):
            return  # it is gone: whoever asks the host next will see that


def _leave(process: subprocess.Popen[bytes], words: bytes) -> None:
    with suppress(OSError, ValueError):
        if process.stdin is not None:
            process.stdin.write(words)
            process.stdin.close()
    try:
        process.wait(timeout=LEAVES_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
