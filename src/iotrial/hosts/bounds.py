"""How much a host may say: no answer is taken without end, whoever gives it; and what hosts of
every kind say when something cannot be had, in one wording.

What is asked of a host through the seam is small: the largest are a kernel's log (1 MiB by
default, 16 MiB at most where somebody asked for it) and what ``multipath -v3`` or ``sg_logs`` print
of a thousand paths (some MiB).  What a load leaves is larger: fio's logs of a long trial are some
100 MiB, and go to the disk as they come.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from iotrial.errors import HostError, LockedError, RefusedError, ToolMissing
from iotrial.units import format_bytes

ANSWER_MOST = 24 << 20
"""Bytes of one file, and of what one command says on stdout and stderr together."""
WIRE_MOST = ANSWER_MOST * 4 // 3 + (1 << 20)
"""Bytes of one answer of an agent: the same in base64, and what is around it."""
NAMES_MOST = 200_000
"""Names in a folder."""
LEFT_MOST = 8 << 30
"""Bytes of what a load leaves there, as it comes (base64)."""
LEFT_FREE = 256 << 20
"""Bytes that stay free of the disk it comes to: journal and trials must still be written."""
GREETING_MOST = 1 << 20
"""Bytes that a login's start-up files may print before what was asked for."""
COMPLAINTS_MOST = 4 << 20
"""Bytes that ssh(1) may complain on its stderr; a debugging one (-vvv) says some 100 KiB."""
_KEPT = 16 << 10
_CHUNK = 1 << 16


def too_much(host: str, asked: str, came: int, most: int) -> HostError:
    """What is raised for an answer that does not end."""
    return HostError(f"{host}: {words(asked, came, most)}", advice=ADVICE)


ADVICE = "Run the command manually to see its output; reduce the output, or remove its cause."


def words(asked: str, came: int, most: int) -> str:
    return (
        f"output of `{asked[:120]}` exceeds the limit: {format_bytes(came)} received, limit"
        f" {format_bytes(most)}"
    )


def whole(host: str, path: str) -> bytes:
    """A file's content.  Raises OSError, and HostError where it does not end.

    Without waiting for the other end of a pipe, which may never come.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        found = bytearray()
        while len(found) <= ANSWER_MOST:
            try:
                more = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                more = b""
            if not more:
                return bytes(found)
            found += more
    finally:
        os.close(descriptor)
    raise too_much(host, f"read {path}", len(found), ANSWER_MOST)


def listed(host: str, path: str) -> list[str]:
    """The names in a folder.  Raises as :func:`whole`."""
    found = []
    with os.scandir(path) as entries:
        for entry in entries:
            found.append(entry.name)
            if len(found) > NAMES_MOST:
                raise too_many(host, path)
    return sorted(found)


def too_many(host: str, path: str) -> HostError:
    """What is raised for a folder with too many names."""
    return HostError(f"{host}: {path} contains more than {NAMES_MOST} names", advice=ADVICE)


def converse(
    host: str, process: subprocess.Popen[bytes], stdin: bytes, within: float
) -> tuple[bytes, bytes]:
    """What a process says on stdout and stderr until it ends.

    Raises subprocess.TimeoutExpired, and HostError where it says too much.
    """
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 (types)
    deadline, left, came = time.monotonic() + within, memoryview(stdin), 0
    said: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as wait:
        wait.register(process.stdout, selectors.EVENT_READ)
        wait.register(process.stderr, selectors.EVENT_READ)
        if stdin:
            os.set_blocking(process.stdin.fileno(), False)
            wait.register(process.stdin, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while wait.get_map():
            if time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(process.args, within)
            for key, _ in wait.select(max(0.0, deadline - time.monotonic())):
                if key.fileobj is process.stdin:
                    left = _fed(process.stdin, left)
                    if not left:
                        wait.unregister(process.stdin)
                        _shut(process.stdin)
                    continue
                more = os.read(key.fd, _CHUNK)
                came += len(more)
                if not more:
                    wait.unregister(key.fileobj)
                elif came > ANSWER_MOST:
                    raise too_much(host, " ".join(map(str, _argv(process))), came, ANSWER_MOST)
                said[_pipe(key.fileobj, process)] += more
    process.wait(max(0.0, deadline - time.monotonic()))
    return bytes(said[process.stdout]), bytes(said[process.stderr])


def _argv(process: subprocess.Popen[bytes]) -> tuple[object, ...]:
    return tuple(process.args) if isinstance(process.args, (tuple, list)) else (process.args,)


def _pipe(found: object, process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout and process.stderr  # noqa: S101, PT018 (for the type checker)
    return process.stdout if found is process.stdout else process.stderr


def _fed(pipe: IO[bytes], left: memoryview) -> memoryview:
    try:
        return left[os.write(pipe.fileno(), left[:_CHUNK]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return memoryview(b"")


def _shut(pipe: IO[bytes]) -> None:
    with suppress(BrokenPipeError):
        pipe.close()


class ErrorOutput:
    """What a process says on its stderr: read as it comes, of which the end is kept; a process
    that does not stop is ended."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._kept: deque[bytes] = deque()
        self._flooded = False
        self._reader = threading.Thread(target=self._read, daemon=True, name="complaints")
        self._reader.start()

    def _read(self) -> None:
        pipe, came, kept = self._process.stderr, 0, 0
        if pipe is None:
            return
        with pipe, suppress(OSError, ValueError):
            while more := os.read(pipe.fileno(), _KEPT):
                came, kept = came + len(more), kept + len(more)
                self._kept.append(more)
                while kept - len(self._kept[0]) >= _KEPT:
                    kept -= len(self._kept.popleft())
                if came > COMPLAINTS_MOST:
                    self._flooded = True
                    self._process.kill()
                    return

    def last(self) -> str:
        """The last line of a process that has ended, or ''."""
        self._reader.join(1.0)
        if self._flooded:
            most = format_bytes(COMPLAINTS_MOST)
            return f"its {_argv(self._process)[0]} wrote more than {most} to stderr"
        text = b"".join(self._kept).decode("utf-8", "replace").strip()
        return text.splitlines()[-1].strip() if text else ""


# -- what cannot be had ----------------------------------------------------------------------------

_FROM = "started on "


def started_on(purpose: str, machine: str, pid: int) -> str:
    """What a lock on a machine elsewhere says of its holder: who is to be stopped is here.

    >>> started_on("scheduler", "desk", 812)
    'scheduler, started on desk, pid 812'
    """
    return f"{purpose}, {_FROM}{machine}, pid {pid}"


def timed_out(host: str, argv: Sequence[str], timeout: float) -> HostError:
    return HostError(
        f"{host}: `{' '.join(argv)}` was still running after {timeout:g} s and was killed",
        advice="Run it manually to see what it waits for (a lost disk, a hung mount).",
    )


def missing(host: str, program: str) -> ToolMissing:
    return ToolMissing(
        f"{host}: {program} cannot be started: it is not installed",
        advice=f"Install {program}, then run the study again to resume.",
    )


def not_ours(host: str, folder: str, owner: int, mode: int) -> RefusedError:
    return RefusedError(
        f"{host}: {folder} is not private to this user: owner {owner}, mode {mode:04o}",
        advice="No file in it was read or executed. Find who created it. If it is yours: chown"
        " it to yourself and chmod it 0700. Or use another folder: IOTRIAL_STATE=FOLDER.",
    )


def held(host: str, path: str, content: bytes) -> LockedError:
    """``content`` of the lock file: the pid of its holder and what that is about."""
    holder, _, purpose = content.decode("utf-8", "replace").partition(" ")
    doing = f" ({purpose.strip()})" if purpose.strip() else ""
    return LockedError(
        f"{host}: another iotrial is running: pid {holder.strip() or 'unknown'}{doing} holds"
        f" {path}",
        advice=(
            "Wait until it ends, or stop it where it was started: it restores all settings first."
        )
        if _FROM in purpose
        else f"Wait until it ends, or stop it with `kill {holder.strip() or 'PID'}`: it restores"
        " all settings first.",
    )
