"""This machine as root, or as another user, by sudo(8)."""

from __future__ import annotations

import re

from iotrial.hosts.ssh import through
from iotrial.model.host import Connector

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?")


def words(to: str) -> list[str]:
    return ["sudo", "-n", *(("-u", to) if to else ()), "--"]


def check(to: str) -> str:
    return "" if not to or _USER.fullmatch(to) else f"{to!r} is not a user"


HOST = Connector(
    "sudo",
    "this machine as root, or as another user: sudo:// or sudo://USER",
    through(words),
    check,
)
