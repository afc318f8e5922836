"""A container of Podman on this machine."""

from __future__ import annotations

import re

from iotrial.hosts.ssh import through
from iotrial.model.host import Connector

_TO = re.compile(r"(?:([A-Za-z0-9_][A-Za-z0-9_.:-]*)@)?([A-Za-z0-9][A-Za-z0-9_.-]*)")


def words(program: str, to: str) -> list[str]:
    """``[USER@]CONTAINER`` → what ``program`` executes a command in it with."""
    found = _TO.fullmatch(to)
    user = ["--user", found[1]] if found and found[1] else []
    return [program, "exec", "-i", *user, found[2] if found else to]


def check(to: str) -> str:
    return "" if _TO.fullmatch(to) else f"{to!r} is not [USER@]CONTAINER"


HOST = Connector(
    "podman",
    "a container of Podman on this machine: podman://[USER@]CONTAINER",
    through(lambda to: words("podman", to)),
    check,
)
