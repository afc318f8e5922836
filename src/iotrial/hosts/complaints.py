"""What hosts of every kind say when something cannot be had: one wording, wherever it happens."""

from __future__ import annotations

from collections.abc import Sequence

from iotrial.errors import HostError, LockedError, RefusedError, ToolMissing

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
        advice="Run it by hand to see what it waits for (a lost disk, a hung mount?).",
    )


def missing(host: str, program: str) -> ToolMissing:
    return ToolMissing(
        f"{host}: {program} cannot be started: it is not installed",
        advice=f"Install {program}, then run the study again: it goes on where it stopped.",
    )


def not_ours(host: str, folder: str, owner: int, mode: int) -> RefusedError:
    return RefusedError(
        f"{host}: {folder} is not a folder of ours alone: owner {owner}, mode {mode:04o}",
        advice="Nothing of it was read or executed. See who made it. If it is yours: chown it to"
        " yourself and chmod it 0700. Or name another folder: IOTRIAL_STATE=FOLDER.",
    )


def held(host: str, path: str, content: bytes) -> LockedError:
    """``content`` of the lock file: the pid of its holder and what that is about."""
    holder, _, purpose = content.decode("utf-8", "replace").partition(" ")
    doing = f" ({purpose.strip()})" if purpose.strip() else ""
    return LockedError(
        f"{host}: another iotrial is at work here: pid {holder.strip() or 'unknown'}{doing}"
        f" holds {path}",
        advice="Wait until it ends, or stop it where it was started: it puts everything back first."
        if _FROM in purpose
        else f"Wait until it ends, or stop it with `kill {holder.strip() or 'PID'}`:"
        " it puts everything back first.",
    )
