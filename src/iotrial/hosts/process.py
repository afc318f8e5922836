"""A load on this machine: a process group that is waited for and ended as a whole."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import time
from contextlib import suppress


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
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if self._wakeup is not None:
            poll.register(self._wakeup, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(milliseconds(seconds))}
        if self._wakeup in ready and self._wakeup is not None:
            drain(self._wakeup)
        return self._reap(self._pidfd) if self._pidfd in ready else None

    def kill(self, *, gently: bool) -> None:
        if self._pidfd is not None:
            end_group(self.pid, signal.SIGTERM if gently else signal.SIGKILL)

    def _reap(self, pidfd: int) -> int:
        end_group(self.pid, signal.SIGKILL)
        os.close(pidfd)
        self._pidfd = None
        return self._process.wait()


def milliseconds(seconds: float) -> int:
    """Rounded up, so that a wait never ends before its time; at most a day, which poll takes."""
    return math.ceil(min(max(seconds, 0.0), 86400.0) * 1000)


def pause(seconds: float, wakeup: int | None) -> None:
    """Let time pass; returns early when a signal arrives."""
    if wakeup is None:
        time.sleep(max(0.0, seconds))
        return
    ready, _, _ = select.select([wakeup], [], [], max(0.0, seconds))
    if ready:
        drain(wakeup)
