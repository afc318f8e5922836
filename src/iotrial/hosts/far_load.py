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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from iotrial.errors import FileRefused, HostError, HostUnreachable
from iotrial.hosts.agent import encoded, load, prelude, results, said, text_of
from iotrial.hosts.complaints import missing
from iotrial.hosts.connection import Connection, pipes
from iotrial.hosts.process import drain, milliseconds
from iotrial.hosts.steps import code_of

STARTS_WITHIN = 60.0
_STARTED, _REFUSED, _NOT_INSTALLED = 0, 1, 2


class Told:
    """Answers out of bytes that are here already.  Raises EOFError where they end too early."""

    def __init__(self, data: bytes | bytearray, start: int = 0) -> None:
        self._data = data
        self.position = start

    def line(self) -> bytes:
        return self.until(b"\n")

    def exactly(self, count: int) -> bytes:
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
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the session ends)
        self._ssh = subprocess.Popen(
            connection.session("-s iotrial-load"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._in, self._out = pipes(self._ssh)
        self._pid = self._began = 0

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
                status, words = text_of(told)
                break
            except EOFError:
                left = deadline - time.monotonic()
                if left <= 0 or (self._readable(left, None) and not self._more()):
                    self._fail()
        if status == _NOT_INSTALLED:
            self._close()
            raise missing(self._host, argv[0])
        if status == _REFUSED:
            self._close()
            raise FileRefused(self._host, "make", f"{there}/load-…", code_of(os.fsdecode(words)))
        self._pid, self._began = int(words), told.position

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
        self._data += more
        return bool(more)

    def _finish(self) -> None:
        try:
            status, files = results(Told(self._data, self._began))
        except EOFError:
            self._fail()
        except ValueError as error:
            self._close()
            raise HostError(
                f"{self._host}: what the load left cannot be taken over: {error}",
                advice="Nothing but iotrial may print in a session there: look at ~/.bashrc.",
            ) from error
        self._close()
        for name, content in files.items():
            if self._sent.get(name) != content:
                path = self._folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        self._status = status

    def _fail(self) -> NoReturn:
        with suppress(subprocess.TimeoutExpired):
            self._ssh.wait(1.0)
        self._errors.seek(0)
        words = self._errors.read().decode("utf-8", "replace").strip()
        self._close()
        raise HostUnreachable(
            f"{self._host}: the session of the load ended before the load"
            + (f": {words.splitlines()[-1].strip()}" if words else ""),
            advice="The guard there ends the load, or, when the host can be reached again,"
            " `iotrial restore` does.",
        )

    def _close(self) -> None:
        for pipe in (self._in, self._out, self._errors):
            with suppress(OSError):
                pipe.close()
        try:
            self._ssh.wait(1.0)
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
