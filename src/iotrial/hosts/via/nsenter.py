"""The namespaces of a process of this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from iotrial.hosts.ssh import through
from iotrial.model.host import Connector

_ALWAYS = ("mount", "uts", "ipc", "net")


def words(to: str) -> list[str]:
    """The number of a process → what executes a command in its namespaces; its PID namespace is
    entered where it has one of its own, for the ``/proc`` there shows no other processes."""
    apart = False
    with suppress(OSError):
        apart = Path(f"/proc/{to}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()
    entered = (*_ALWAYS, "pid") if apart else _ALWAYS
    return ["nsenter", "--target", to, *(f"--{each}" for each in entered), "--"]


def check(to: str) -> str:
    return "" if to.isascii() and to.isdecimal() else f"{to!r} is not a process number"


HOST = Connector(
    "nsenter",
    "the namespaces of a process of this machine: nsenter://PID",
    through(words),
    check,
)
