"""A load on the far side of an SSH host: a session of its own carries its end and its files.

While the load runs, nobody there or here does anything: its shell waits for it, we wait for the
first byte of what that shell says.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from iotrial.errors import FileRefused, HostError, HostUnreachable
from iotrial.hosts.agent import encoded, load, prelude, said, text_of
from iotrial.hosts.bounds import (
    ADVICE,
    GREETING_MOST,
    LEFT_FREE,
    LEFT_MOST,
    Complaints,
    words,
)
from iotrial.hosts.complaints import missing
from iotrial.hosts.connection import Connection, pipes
from iotrial.hosts.leavings import results
from iotrial.hosts.process import drain, milliseconds
from iotrial.hosts.steps import code_of
from iotrial.units import format_bytes

STARTS_WITHIN = 60.0
LOOKS_EVERY = 16 << 20
"""Bytes after which it is looked whether there is still room."""
_STARTED, _REFUSED, _NOT_INSTALLED = 0, 1, 2


class Told:
    """Answers out of bytes that are here already.  Raises EOFError where they end too early."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self.position = 0

    def line(self) -> bytes:
        return self.until(b"\n")

    def exactly(self, count: int) -> bytes:
        if count < 0:
            raise ValueError(f"{count} bytes are to follow")
        if len(self._data) - self.position < count:
            raise EOFError
        self.position += count
        return bytes(self._data[self.position - count : self.position])

    def until(self, mark: bytes) -> bytes:
        end = self._data.find(mark, self.position)
        if end < 0:
            raise EOFError
        taken = bytes(self._data[self.position : end])
        self.position = end + len(mark)
        return taken


class FarProcess:
    """A load, once :meth:`start` was called, in a session over ``connection``.  What lies in
    ``folder``, the controller's, goes with the load; what the load left there comes back when it
    ended.  ``signalled`` signals the group of this number, gently or not.
    """

    def __init__(
        self,
        host: str,
        connection: Connection,
        *,
        folder: Path,
        wakeup: int | None,
        signalled: Callable[[int, bool], None],
    ) -> None:
        self._host = host
        self._sign = connection.sign
        self._folder = folder
        self._wakeup = wakeup
        self._signalled = signalled
        self._status: int | None = None
        self._data = bytearray()
        self._sent = _files(folder)
        self._ssh = subprocess.Popen(
            connection.session("-s iotrial-load"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._complaints = Complaints(self._ssh)
        # Beside what it becomes: a disk with room for that has room for this.
        self._left = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed with the session)
        self._came = 0
        self._in, self._out = pipes(self._ssh)
        self._pid, self._started = 0, False

    def start(self, argv: Sequence[str], environment: Mapping[str, str], there: str) -> None:
        """Have it run, in a new folder below ``there``.

        Raises :class:`~iotrial.errors.ToolMissing` for a program that is not installed there.
        """
        sign = said("printf", "%s", self._sign.decode())
        request = f"{sign}\n{load(there, self._sent, environment, argv)}"
        text = prelude().encode() + encoded(request)
        with suppress(BrokenPipeError):
            self._in.write(text)
            self._in.close()
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            told = Told(self._data)
            try:
                told.until(self._sign)  # behind what the login's files print
                status, number = text_of(told)
                break
            except EOFError:
                left = deadline - time.monotonic()
                if left <= 0 or (self._readable(left, None) and not self._more()):
                    self._fail()
                if len(self._data) > GREETING_MOST:
                    self._refuse(words("start a load", len(self._data), GREETING_MOST))
        if status == _NOT_INSTALLED:
            self._close()
            raise missing(self._host, argv[0])
        if status == _REFUSED:
            self._close()
            raise FileRefused(self._host, "make", f"{there}/load-…", code_of(os.fsdecode(number)))
        self._pid = int(number)
        self._left.write(self._data[told.position :])
        self._started = True

    @property
    def pid(self) -> int:
        return self._pid

    def wait(self, seconds: float) -> int | None:
        """As the protocol says.  A load ended when all that it left is here.

        Raises HostUnreachable when the connection is lost.
        """
        deadline = time.monotonic() + max(0.0, seconds)
        while self._status is None:
            left = deadline - time.monotonic()
            ready = self._readable(left, self._wakeup)
            if ready and not self._more():
                self._finish()
            elif not ready:
                return None
        return self._status

    def kill(self, *, gently: bool) -> None:
        if self._status is None:
            self._signalled(self._pid, gently)

    def _readable(self, seconds: float, wakeup: int | None) -> bool:
        """Whether there is more from there; False when time is up or a signal arrived."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        if wakeup is not None:
            poll.register(wakeup, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(milliseconds(seconds))}
        if wakeup is not None and wakeup in ready:
            drain(wakeup)
        return self._out.fileno() in ready

    def _more(self) -> bool:
        more = os.read(self._out.fileno(), 1 << 16)
        self._came += len(more)
        if not self._started:
            self._data += more
            return bool(more)
        self._left.write(more)
        if self._came > LEFT_MOST:
            self._refuse(words("what the load left", self._came, LEFT_MOST))
        if self._came % LOOKS_EVERY < len(more) and _free(self._folder) < LEFT_FREE:
            self._refuse(
                f"{format_bytes(self._came)} of what the load left came, and there is no room for"
                f" more: {self._folder} has less than {format_bytes(LEFT_FREE)} left"
            )
        return bool(more)

    def _refuse(self, why: str) -> NoReturn:
        """End the session; the guard there ends the load."""
        self._ssh.kill()
        self._close()
        raise HostError(f"{self._host}: {why}", advice=ADVICE)

    def _finish(self) -> None:
        try:
            status = self._taken_over()
        except EOFError:
            self._fail()
        except ValueError as error:
            self._close()
            raise HostError(
                f"{self._host}: what the load left cannot be taken over: {error}",
                advice="Nothing but iotrial may print in a session there: look at ~/.bashrc.",
            ) from error
        self._close()
        self._status = status

    def _taken_over(self) -> int:
        """Twice through what came: nothing is taken over of what is not whole."""
        self._left.flush()
        if not self._came or not os.fstat(self._left.fileno()).st_size:
            raise EOFError
        same = set()
        status, files = results(self._left)
        for name, pieces in files:
            if name in self._sent and _is(self._sent[name], pieces):
                same.add(name)
        for name, pieces in results(self._left)[1]:
            if name not in same:
                self._take(name, pieces)
        return status

    def _take(self, name: str, pieces: Iterator[bytes]) -> None:
        """One file to the disk.  A name may be too long here, or that of a folder: this ends what
        is done on this host, and not on the others."""
        path = self._folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
        except OSError as error:
            self._close()
            raise HostError(
                f"{self._host}: {name[:300]}, a file that the load left, cannot be written here:"
                f" {error.strerror}",
                advice=f"Look at what lies in {self._folder}, and at the room on its disk.",
            ) from error

    def _fail(self) -> NoReturn:
        with suppress(subprocess.TimeoutExpired):
            self._ssh.wait(1.0)
        why = self._complaints.last()
        self._close()
        raise HostUnreachable(
            f"{self._host}: the session of the load ended before the load"
            + (f": {why}" if why else ""),
            advice="The guard there ends the load, or, when the host can be reached again,"
            " `iotrial restore` does.",
        )

    def _close(self) -> None:
        for pipe in (self._in, self._out, self._left):
            with suppress(OSError):
                pipe.close()
        try:
            self._ssh.wait(1.0)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()


def _is(data: bytes, pieces: Iterator[bytes]) -> bool:
    """Whether the pieces make exactly ``data``."""
    at = 0
    for piece in pieces:
        if data[at : at + len(piece)] != piece:
            return False
        at += len(piece)
    return at == len(data)


def _free(folder: Path) -> int:
    seen = os.statvfs(folder)
    return seen.f_bavail * seen.f_frsize


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
