"""Where the page is served, and who may ask for it.  Pure, but for what this machine is called.

A page on this machine can be reached by every program and every web page that runs on it.  So the
address has a random token, which is compared in constant time; and the name in the request's
``Host`` must be ours: a web page elsewhere may make its own name lead to 127.0.0.1 (DNS
rebinding), but not to a literal address or to ``localhost``.

Sources: RFC 9110 (7.2 Host, 15.5 status codes), RFC 6750 (bearer tokens).
"""

from __future__ import annotations

import errno
import hmac
import ipaddress
import re
import secrets
import socket
from dataclasses import dataclass

from iotrial.errors import UsageError

LOOPBACK = "127.0.0.1"
FREE = f"{LOOPBACK}:0"
"""Where it is served unless it is said: on a port that is free."""
_ADDRESS = re.compile(r"(?:(\[[0-9A-Fa-f:.%\w]+\]|[^:/\s\[\]]*):)?(\d{1,5})")
_HOST = re.compile(r"(\[[^\]]+\]|[^:\[\]]*)(?::\d{1,5})?")
MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """``name`` is as it was said, without brackets."""

    name: str
    port: int

    @property
    def shown(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


def is_address(text: str) -> bool:
    """Whether a word on the command line can be ADDR:PORT, :PORT or PORT."""
    return bool(_ADDRESS.fullmatch(text))


def parse(text: str) -> Address:
    """``127.0.0.1:8080``, ``[::1]:8080``, ``:8080`` and ``8080`` (on the loopback).

    Raises UsageError.
    """
    match = _ADDRESS.fullmatch(text)
    if not match or int(match[2]) > MOST_PORT:
        raise UsageError(
            f"--live {text}: not ADDR:PORT",
            advice=f"For example {LOOPBACK}:8080; port {FREE} selects a free port.",
        )
    return Address((match[1] or "").strip("[]") or LOOPBACK, int(match[2]))


def listen(address: Address) -> socket.socket:
    """A socket that listens there.  Raises UsageError, with what to do."""
    try:
        family, _, _, _, place = socket.getaddrinfo(
            address.name, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(place)
            found.listen(64)
            found.setblocking(False)  # noqa: FBT003 (the library's own)
        except OSError:
            found.close()
            raise
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a name"
        raise UsageError(
            f"--live: the page cannot be served on {address.shown}: {why}",
            advice=_advice(error, address),
        ) from error
    return found


def _advice(error: Exception, address: Address) -> str:
    match getattr(error, "errno", 0):
        case errno.EADDRINUSE:
            return (
                "Another process listens there. Name another port, or select a free one: --live"
                f" {address.name}:0"
            )
        case errno.EACCES | errno.EPERM:
            return "Ports below 1024 need root. Name a higher port."
    return f"Name an address of this host; --live alone uses {LOOPBACK} and a free port."


def is_loopback(found: socket.socket) -> bool:
    return ipaddress.ip_address(found.getsockname()[0].partition("%")[0]).is_loopback


def url(found: socket.socket, address: Address, token: str) -> str:
    """The page's address.  Where it listens everywhere, by this machine's name."""
    here = found.getsockname()[0].partition("%")[0]
    name = socket.gethostname() if ipaddress.ip_address(here).is_unspecified else address.name
    return f"http://{Address(name, found.getsockname()[1]).shown}/?token={token}"


def new_token() -> str:
    """128 random bits."""
    return secrets.token_urlsafe(16)


def may_ask(token: str, given: str) -> bool:
    """In a time that does not tell how much of it is right."""
    return hmac.compare_digest(token.encode(), given.encode("utf-8", "surrogateescape"))


def is_ours(host: str, known: frozenset[str]) -> bool:
    """Whether a request's ``Host`` is one of our own names, ``localhost`` or a literal address."""
    match = _HOST.fullmatch(host)
    if not match:
        return False
    name = match[1].strip("[]").rstrip(".").lower()
    if name == "localhost" or name in known:
        return True
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def names(address: Address) -> frozenset[str]:
    """What this page may be called: as the address says, or as this machine is called."""
    return frozenset({address.name.lower(), socket.gethostname().lower()})
