"""Ports of a host: which are taken, which are chosen, and who it is that listens at one.

fio's server binds beside another one (SO_REUSEPORT, fio 3.33), and both share whoever connects.  So
nobody is left to find out by binding: the kernel's own table is read before and after.

Sources: proc(5), /proc/net/tcp; proc_net_tcp.rst and net/ipv4/tcp_ipv4.c of the kernel (the
address in the byte order of the host, word by word); socket(7).
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Literal

from iotrial.errors import FileRefused, RefusedError
from iotrial.model.host import Reader
from iotrial.model.listen import LAST, ListenAddress

FIRST, COUNT = 20_000, 10_000
"""Where ports are chosen from: below those that Linux gives to clients (32768 to 60999)."""
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A socket that listens, by the number of its ``inode``."""

    address: str
    port: int
    inode: int


def rows(text: str, order: Literal["little", "big"] = sys.byteorder) -> list[ListeningSocket]:
    """Those of a table that listen; ``order`` is that of the host's bytes."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 10 or words[3] != _LISTENS:  # noqa: PLR2004 (up to the inode)
            continue
        address, _, port = words[1].partition(":")
        raw = b"".join(
            int(address[at : at + 8], 16).to_bytes(4, order) for at in range(0, len(address), 8)
        )
        named = IPv4Address(raw) if len(raw) == 4 else IPv6Address(raw)  # noqa: PLR2004 (bytes)
        found.append(ListeningSocket(str(named), int(port, 16), int(words[9])))
    return found


def listening(host: Reader) -> list[ListeningSocket]:
    """Every socket of TCP that listens on ``host``.  Raises HostUnreachable."""
    found = []
    for path in _TABLES:
        with suppress(FileRefused):  # a kernel without IPv6
            found += rows(host.read(path).decode("ascii", "replace"))
    return found


def taken(places: Iterable[ListenAddress], there: Sequence[ListeningSocket]) -> str:
    """Why nothing is to be started at ``places``, or ''."""
    for place in places:
        for row in there:
            if row.port == place.port:
                return f"port {row.port} on {row.address} is in use"
    return ""


def chosen(
    listen: ListenAddress, count: int, there: Sequence[ListeningSocket], seed: str
) -> list[ListenAddress]:
    """``count`` places: from the port that ``listen`` names on, or ones where nobody listens, the
    same for the same ``seed`` while they are free.

    Raises RefusedError where there are not so many.
    """
    if listen.port:
        ports = list(range(listen.port, listen.port + count))
    else:
        used, start = {row.port for row in there}, zlib.crc32(seed.encode()) % COUNT
        every = (FIRST + (start + at) % COUNT for at in range(COUNT))
        ports = [port for port in every if port not in used][:count]
    if len(ports) < count or ports[-1] > LAST:
        raise RefusedError(
            f"{count} loads need one port each, more than are available from {listen} on",
            advice="Use a lower port in listen, or none.",
        )
    return [listen.at(port) for port in ports]


def ours(host: Reader, place: ListenAddress, there: Sequence[ListeningSocket], mark: str) -> bool:
    """Whether one socket alone listens at the port of ``place``, at that address, held by processes
    alone that have ``mark`` in their environment."""
    found = [row for row in there if row.port == place.port]
    if [row.address for row in found] != [place.address]:
        return False
    pattern = rf"socket:\[{found[0].inode}\]"
    script = 'find /proc/[0-9]*/fd -maxdepth 1 -lname "$1" 2>/dev/null'
    held = host.run(["sh", "-c", script, "iotrial-ports", pattern]).text.split()
    holders = {path.split("/")[2] for path in held}
    return bool(holders) and all(_has(host, pid, mark) for pid in holders)


def _has(host: Reader, pid: str, mark: str) -> bool:
    try:
        return mark.encode() in host.read(f"/proc/{pid}/environ").split(b"\0")
    except FileRefused:
        return False
