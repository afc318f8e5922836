"""The dead-man's guard: started on the host that is changed, before anything is.

It is a shell text (``guard.sh``), because the changed machine need not have Python, and because it
must live on when we do not.  See ``docs/decisions/0010``.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.resources import files

from iotrial.errors import LockedError
from iotrial.hosts.places import holder, need_trusted, state_places
from iotrial.model.host import Connect, Host
from iotrial.model.study import StudyHost

PARTS = (("iotrial.hosts", "picks.sh"), ("iotrial.execute.settings", "debris.sh"))
BEATS = 6
"""Signs of life in the time of a lease: so many may be lost but one."""
SELDOM = 3600.0
"""Seconds between signs of life to a guard that needs none."""
PURPOSE = "(guard)"
"""What the lock's holder is called while a guard puts things back."""
PATIENCE = 60.0
_TAKEN = 2.0
"""Seconds: a guard that has the lock has said so by then."""
_STEP = 0.1


@cache
def script() -> str:
    """The text of the guard, whole."""
    parts = (*PARTS, ("iotrial.execute.settings", "guard.sh"))
    return "".join(files(package).joinpath(name).read_text("utf-8") for package, name in parts)


def epilog() -> str:
    """A program that restores a machine after a job of Slurm's, whole, in the shell's language."""
    text = files("iotrial.execute.settings").joinpath("epilog.sh").read_text("utf-8")
    return f"#!/bin/sh\nGUARD={shlex.quote(script())}\n{text}"


def guard_argv(journal_path: str, lock_path: str, lease: float) -> tuple[str, ...]:
    """The command that watches.  ``lease`` in seconds; 0: only our death counts."""
    seconds = str(math.ceil(lease))
    return ("sh", "-c", script(), "iotrial-guard", journal_path, lock_path, seconds)


def lease_of(host: Host, lease: float) -> float:
    """The lease that a host needs: a stopped controller on the host itself is alive and still
    owes, so there only its death counts; a link can be lost without anybody dying."""
    return lease if host.remote else 0.0


@contextmanager
def guarded(
    host: Host, journal_path: str, lock: str, lease: float, *, every: float | None = None
) -> Iterator[None]:
    """Have the host restore itself from this journal if we die in here or, with a ``lease`` in
    seconds, go out of reach for so long; we say every ``every`` seconds that we live.

    The journal is opened inside: one that nobody watches would stay.  Raises HostError where the
    guard does not start.
    """
    argv = guard_argv(journal_path, lock, lease)
    with host.guard(argv, every=every or (lease / BEATS if lease else SELDOM)):
        yield


@contextmanager
def locked(host: Host) -> Iterator[None]:
    """The host's one lock.  A guard that has it is waited for: it will soon have paid.

    Raises LockedError, at once where somebody else holds it; RefusedError where a folder of state
    is not ours, or could be replaced by others.
    """
    where = state_places(host)
    path = where.lock
    need_trusted(host, (path.rpartition("/")[0], where.journal, where.files))
    began = host.clock()
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(host.lock(path))
                break
            except LockedError:
                if host.clock() - began > _patience(holder(host)):
                    raise
            host.sleep(_STEP)
        yield


def with_lock(reach: Connect) -> Connect:
    """The same way to hosts, each of them locked for as long as it is open."""

    @contextmanager
    def entered(place: StudyHost) -> Iterator[Host]:
        with reach(place) as host, locked(host):
            yield host

    return entered


def _patience(held_by: str) -> float:
    """How long a lock is worth waiting for.  Nobody named: it was taken a moment ago."""
    if held_by.endswith(PURPOSE):
        return PATIENCE
    return 0.0 if held_by else _TAKEN
