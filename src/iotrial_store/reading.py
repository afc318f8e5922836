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
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from iotrial.errors import FormatError, IotrialError
from iotrial_store.content import StoreContent, content_of

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


def contents_of(
    folders: Sequence[Path], tags: Sequence[str] = ()
) -> Iterator[tuple[Path, StoreContent | FolderProblem]]:
    """What each holds, in their order."""
    processes = min(len(os.sched_getaffinity(0)), len(folders))
    if len(folders) < MANY or processes == 1:
        for folder in folders:
            yield folder, _read(folder, tags)
        return
    yield folders[0], _read(folders[0], tags)  # loads here what every process needs
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), initializer=_begin)
    try:
        left = iter(folders[1:])
        asked: deque[tuple[Path, Future[StoreContent | FolderProblem]]] = deque()
        while True:
            for folder in islice(left, processes * _AHEAD - len(asked)):
                asked.append((folder, pool.submit(_read, folder, tags)))
            if not asked:
                return
            folder, reading = asked.popleft()
            yield folder, reading.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Ctrl-C is the business of the process that pushes, and none outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # what was imported stays, and results are without rings: a quarter of the time
    gc.set_threshold(50_000, 20, 20)
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
        message = f"{error.filename or folder}: {error.strerror}"
        return FolderProblem(message, _READ if right else "", FormatError.exit_code)
