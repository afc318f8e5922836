"""The folder of one connection's socket, on this machine: new, ours alone, and swept when its
owner is dead.

A controller that is killed leaves it behind.  Whoever is alive holds a lock on the file ``alive``
in it, which the kernel frees with its holder: a folder of ours that nobody holds goes with the next
connection.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from iotrial.hosts.local import LocalHost
from iotrial.hosts.trust import need_safe_above

_PREFIX = "iotrial-"
_NAME = re.compile(_PREFIX + r"[a-z0-9_]{8}")
"""As mkdtemp makes them."""
_ALIVE, _NEW = "alive", "alive.new"
_LONGEST = 80
"""Bytes of the folder's path: the socket's name and what ssh hangs on it while it binds must fit
into the 108 of unix(7)."""
_YOUNG = 3600.0
"""Seconds: who makes a folder locks it at once; one that is empty for so long is nobody's."""


def control_folder() -> tuple[Path, int]:
    """A new folder of ours alone, with a short path, and the descriptor to keep open as long as it
    is used.  Those of the dead go.

    Raises RefusedError where others could put another folder in its place.
    """
    base = tempfile.gettempdir()
    base = base if len(base) <= _LONGEST else "/tmp"  # noqa: S108 (mkdtemp: 0700, a new name)
    need_safe_above(LocalHost(), f"{base}/{_PREFIX}")
    for folder in _dead(Path(base)):
        shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    alive = os.open(folder / _NEW, flags, 0o600)
    fcntl.flock(alive, fcntl.LOCK_EX)
    # Locked before it has its name: nobody who sweeps finds it free in between.
    (folder / _NEW).rename(folder / _ALIVE)
    return folder, alive


def _dead(base: Path) -> Iterator[Path]:
    """Folders of this user's that such a controller made and does not hold any more."""
    for entry in os.scandir(base):
        if not _NAME.fullmatch(entry.name):
            continue
        with suppress(OSError):
            seen = entry.stat(follow_symlinks=False)
            ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
            if ours and stat.S_IMODE(seen.st_mode) == stat.S_IRWXU and _is_dead(Path(entry), seen):
                yield Path(entry)


def _is_dead(folder: Path, seen: os.stat_result) -> bool:
    try:
        alive = os.open(folder / _ALIVE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        empty = set(os.listdir(folder)) <= {_NEW}  # noqa: PTH208
        return empty and time.time() - seen.st_mtime > _YOUNG
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(alive)
    return True
