"""Results folders, read by as many processes as there are CPUs: most of a push is reading, judging
and digesting them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from iotrial.errors import FormatError, IotrialError
from iotrial_store.content import StoreContent, content_of
from iotrial_store.errors import StoreError

MANY = 16
"""Folders for which processes are started."""
_AHEAD = 2
"""Folders for each process that are read before they are asked for: a bound of the memory."""
_READ = "Run it as a user who may read all of the folder, such as the one who measured."


@dataclass(frozen=True, slots=True)
class FolderProblem:
    """Why a folder cannot be read, and what to do; the exit code of that."""

    message: str
    advice: str
    exit_code: int

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


FolderContents = Iterator[tuple[Path, StoreContent | FolderProblem]]


@contextmanager
def contents_of(folders: Sequence[Path], tags: Sequence[str] = ()) -> Iterator[FolderContents]:
    """What each holds, in their order.

    To be entered before a store is opened, which starts threads: a process that is forked has
    their locks without them, so that where there are any this process reads alone.
    """
    processes = min(len(os.sched_getaffinity(0)), len(folders))
    if len(folders) < MANY or processes == 1:
        yield ((folder, _read(folder, tags)) for folder in folders)
        return
    first = _read(folders[0], tags)  # loads here what every process needs
    if sum(1 for _ in Path("/proc/self/task").iterdir()) > 1:
        yield chain([(folders[0], first)], ((each, _read(each, tags)) for each in folders[1:]))
        return
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), initializer=_begin)
    try:
        left = iter(folders[1:])
        with _ctrl_c_waits():  # processes are forked by the first submit
            begun = [
                (each, pool.submit(_read, each, tags)) for each in islice(left, _AHEAD * processes)
            ]
        yield chain([(folders[0], first)], _ahead(pool, deque(begun), left, tags))
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Ctrl-C comes at the end of it here, and never in processes forked in it: its exception is
    swallowed by what Python calls after a fork."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _ahead(
    pool: Executor,
    begun: deque[tuple[Path, Future[StoreContent | FolderProblem]]],
    left: Iterator[Path],
    tags: Sequence[str],
) -> FolderContents:
    """Another folder is begun for each that is taken.  Raises StoreError where a process that
    reads is killed."""
    try:
        while begun:
            folder, reading = begun.popleft()
            content = reading.result()
            for each in islice(left, 1):
                begun.append((each, pool.submit(_read, each, tags)))
            yield folder, content
    except BrokenExecutor as error:
        raise StoreError(
            f"a process that reads results folders was killed, at {folder} or one after it",
            advice="Free memory, then push the same again; nothing is added twice.",
        ) from error


def _begin() -> None:
    """No process outlives the one that pushes, which alone is told of Ctrl-C."""
    gc.freeze()  # what was imported stays, and results are without rings: a quarter of the time
    parent = multiprocessing.parent_process()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess | None) -> None:
    if parent is not None:
        parent.join()
        signal.raise_signal(signal.SIGKILL)


def _read(folder: Path, tags: Sequence[str]) -> StoreContent | FolderProblem:
    try:
        return content_of(folder, tags)
    except IotrialError as error:
        right = isinstance(error.__cause__, PermissionError)
        return FolderProblem(error.message, _READ if right else error.advice, error.exit_code)
    except OSError as error:
        right = isinstance(error, PermissionError)
        message = f"{error.filename or folder}: {error.strerror or error}"
        return FolderProblem(message, _READ if right else "", FormatError.exit_code)
