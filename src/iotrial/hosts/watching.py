"""A watcher beside us: a process that is told that we live, and sees when we do not."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from iotrial.errors import HostError
from iotrial.hosts.bounds import GREETING_MOST, Complaints

READY_WITHIN = 10.0
_SHOWN = 1000
LEAVES_WITHIN = 10.0
"""Seconds it gets to end after ``done``."""


@contextmanager
def watching(
    host: str,
    argv: Sequence[str],
    *,
    every: float,
    environment: Mapping[str, str] | None = None,
    lost: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Run ``argv`` as :meth:`~iotrial.model.host.Host.guard` says; ``host`` is for messages.
    Where the host is ``lost`` when the context is left, the guard is not told that all is done.

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
    complaint = Complaints(process).last()
    process.wait()
    why = complaint or said[-_SHOWN:].decode("utf-8", "replace").strip()
    raise HostError(
        f"{host}: the guard that would restore it does not start: {why or 'it says nothing'}",
        advice="It needs sh, flock and coreutils there. Nothing was changed.",
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
