"""Which QEMU is whose, and its end: by the command line that names the node's folder.

A number in a file may be another process's by now; a command line that names our file is ours.
Before a signal is sent it is read again, through a descriptor of that very process (pidfd_open(2)).
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from iotrial.errors import HostError

ENDS_WITHIN = 10.0


def running(folder: Path) -> dict[Path, list[int]]:
    """Pid file → processes that have it on their command line, of all nodes below ``folder``."""
    found: dict[Path, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (names, not paths)
        if name.isdigit():
            for path in _pid_files(int(name)):
                if folder in path.parents:
                    found.setdefault(path, []).append(int(name))
    return found


def end(folder: Path) -> tuple[int, ...]:
    """Kill every QEMU that has a pid file below ``folder``, wait until it is gone, and say their
    numbers.  Raises HostError for one that does not end."""
    ended: dict[int, None] = {}
    while found := [(path, pid) for path, pids in running(folder).items() for pid in pids]:
        for path, pid in found:
            _end(pid, path)
            ended[pid] = None
    return tuple(ended)


def _end(pid: int, pid_file: Path) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if pid_file not in _pid_files(pid):
            return  # it ended, and the number is another's now
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(ENDS_WITHIN * 1000):
            raise HostError(
                f"process {pid} does not end, though it was killed",
                advice="It waits for a disk; look at /proc/PID/stack, then down again.",
            )
    finally:
        os.close(descriptor)


def _pid_files(pid: int) -> Iterator[Path]:
    """What stands behind ``-pidfile`` on its command line; a process that has ended has none."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return
    for word, after in pairwise(words):
        if word == b"-pidfile":
            yield Path(os.fsdecode(after))
