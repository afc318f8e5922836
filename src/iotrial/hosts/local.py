"""The machine we are on, as a host."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from iotrial.called import as_root
from iotrial.errors import FileRefused
from iotrial.hosts.bounds import converse, held, listed, missing, not_ours, timed_out, whole
from iotrial.hosts.process import LocalProcess, end_group, pause, watching
from iotrial.hosts.steps import perform
from iotrial.model.host import CompletedCommand
from iotrial.model.step import Step, StepResult

NOT_FOUND = 127
"""What a shell answers for a program that is not installed (POSIX.1-2017, 2.8.2)."""

NOT_EXECUTABLE = 126

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""``su`` without ``-`` leaves these off PATH on Debian, and losetup and blkid live there."""


@contextmanager
def wakeup_pipe() -> Iterator[int]:
    """The read end of a pipe that becomes readable when a signal reaches this process.

    Give it to :class:`LocalHost`.  Python itself retries an interrupted poll (PEP 475), so this
    is how a wait learns that a handler ran.  Only signals with a Python handler count.  Main
    thread only (``signal.set_wakeup_fd``).
    """
    readable, writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    former = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    try:
        yield readable
    finally:
        signal.set_wakeup_fd(former)
        os.close(readable)
        os.close(writable)


class LocalHost:
    """The machine we are on.  ``wakeup`` is a non-blocking descriptor that becomes readable when
    a signal arrives (:func:`wakeup_pipe`; None: waits do not return early).  ``purpose`` is what
    the lock file tells another iotrial that finds it held, such as the name of the study."""

    name = "local"
    remote = False
    unguarded = ""

    def __init__(self, *, wakeup: int | None = None, purpose: str = "") -> None:
        self._wakeup = wakeup
        self._purpose = purpose
        self._marks: dict[str, str] = {}

    @property
    def unprivileged(self) -> str:
        uid = os.geteuid()
        return f"this is user {uid}; as root it is {as_root()} …" if uid else ""

    def mark(self, environment: Mapping[str, str]) -> None:
        self._marks = dict(environment)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        command = tuple(argv)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment({**self._marks, "LC_ALL": "C"}),
                start_new_session=True,
            )
        except OSError as error:
            return _not_run(command, error)
        with process:  # closes the pipes and reaps, whatever happens
            try:
                stdout, stderr = converse(self.name, process, stdin, timeout)
            except subprocess.TimeoutExpired as error:
                raise timed_out(self.name, command, timeout) from error
            finally:
                if process.returncode is None:
                    end_group(process.pid, signal.SIGKILL)
        return CompletedCommand(command, process.returncode, stdout, stderr)

    def start(
        self, argv: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> LocalProcess:
        """As the protocol says.  Raises :class:`~iotrial.errors.ToolMissing` for a program that
        is not installed.  When the load ends, what is left of its group is killed with it."""
        with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
            try:
                process = subprocess.Popen(
                    tuple(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=folder,
                    env=_environment({**self._marks, **environment}),
                    start_new_session=True,
                )
            except (FileNotFoundError, PermissionError) as error:
                raise missing(self.name, argv[0]) from error
        return LocalProcess(process, self._wakeup)

    def read(self, path: str) -> bytes:
        with _refusal(self.name, "read", path):
            return whole(self.name, path)

    def write(self, path: str, data: bytes) -> None:
        with _refusal(self.name, "write", path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                written = os.write(descriptor, data)
            finally:
                os.close(descriptor)
            if written != len(data):
                # A second write(2) to sysfs would be a second setting.
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    def save(self, path: str, data: bytes, *, private: bool = True) -> None:
        target = Path(path)
        beside = target.with_name(f".{target.name}.new")
        with _refusal(self.name, "save", path):
            _make_folder(target.parent)
            _put(beside, data, os.O_TRUNC)
            if not private:
                _keep(target, beside)
            beside.replace(target)
            _sync_folder(target.parent)

    def append(self, path: str, data: bytes) -> None:
        target = Path(path)
        with _refusal(self.name, "append", path):
            _make_folder(target.parent)
            new = not target.exists()
            _put(target, data, os.O_APPEND)
            if new:
                _sync_folder(target.parent)

    def remove(self, path: str) -> None:
        with _refusal(self.name, "remove", path):
            try:
                Path(path).unlink()
            except FileNotFoundError:
                return
            _sync_folder(Path(path).parent)

    def list(self, path: str) -> list[str]:
        with _refusal(self.name, "list", path):
            return listed(self.name, path)

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        return perform(self, steps)

    def guard(self, argv: Sequence[str], *, every: float) -> AbstractContextManager[None]:
        return watching(self.name, argv, every=every, environment=_environment({"LC_ALL": "C"}))

    def tunnel(self, path: str) -> AbstractContextManager[str]:
        return nullcontext(path)

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """As the protocol says: flock(2), which the kernel frees with its holder.

        Raises :class:`~iotrial.errors.RefusedError` where the lock's folder is not ours alone:
        somebody else could then hold or remove the lock at will.
        """
        with _refusal(self.name, "lock", path):
            _make_folder(Path(path).parent)
            _own_folder(self.name, Path(path).parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
        try:
            _take(descriptor, self.name, path)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {self._purpose}\n".encode(), 0)
            yield
            # Emptied, not unlinked: another iotrial may have opened it already.
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def clock(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        pause(seconds, self._wakeup)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Our own environment with ``more``, and sbin on PATH."""
    path = os.environ.get("PATH", os.defpath).split(":")
    path += [folder for folder in _SBIN if folder not in path]
    return {**os.environ, "PATH": ":".join(path), **more}


def _not_run(command: tuple[str, ...], error: OSError) -> CompletedCommand:
    status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    return CompletedCommand(command, status, b"", f"{command[0]}: {error.strerror}\n".encode())


@contextmanager
def _refusal(host: str, act: str, path: str) -> Iterator[None]:
    """An OSError inside becomes FileRefused: same errno, and the path the caller named."""
    try:
        yield
    except OSError as error:
        raise FileRefused(host, act, path, error.errno or errno.EIO) from error


def _make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, 0700 and durable."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    _sync_folder(folder.parent)


def _put(path: Path, data: bytes, how: int) -> None:
    """Write all of ``data``, fsync, mode 0600.  ``how`` is O_TRUNC or O_APPEND."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how
    descriptor = os.open(path, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep(former: Path, new: Path) -> None:
    """Give a new file the owner and mode of the one it replaces; 0644 where there was none."""
    try:
        was = former.stat()
    except FileNotFoundError:
        new.chmod(0o644)
        return
    os.chown(new, was.st_uid, was.st_gid)
    new.chmod(stat.S_IMODE(was.st_mode))


def _sync_folder(folder: Path) -> None:
    """A new name is durable only when its folder is (fsync(2), NOTES)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _own_folder(host: str, folder: Path) -> None:
    """Raise RefusedError unless the folder is a real one, ours, and closed to others."""
    seen = folder.lstat()
    if (
        stat.S_ISDIR(seen.st_mode)
        and seen.st_uid == os.geteuid()
        and not stat.S_IMODE(seen.st_mode) & 0o077
    ):
        return
    raise not_ours(host, str(folder), seen.st_uid, stat.S_IMODE(seen.st_mode))


def _take(descriptor: int, host: str, path: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise held(host, path, os.pread(descriptor, 4096, 0)) from error
