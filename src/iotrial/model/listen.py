"""Listen: an address of a host, and a port of it, where a tool's own server is to be reached.

Sources: RFC 4291 (addresses of IPv6), RFC 3986 section 3.2.2 (brackets around them).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address

LAST = 65535
_WITH_PORT = re.compile(
    r"(?:\[(?P<six>[^\[\]]*)\]|(?P<four>[^:\[\]]*)):(?P<port>[0-9]{1,5})", re.ASCII
)
_TUNNEL = "remove listen to use the host's SSH connection"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """``address`` is of IPv4 or IPv6, as text of :mod:`ipaddress`; ``port`` 0: to be chosen."""

    address: str
    port: int = 0

    @property
    def six(self) -> bool:
        """Whether it is of IPv6."""
        return ":" in self.address

    @property
    def loopback(self) -> bool:
        """Whether only the host itself reaches it."""
        return ip_address(self.address).is_loopback

    def at(self, port: int) -> ListenAddress:
        """The same address at another port."""
        return replace(self, port=port)

    def __str__(self) -> str:
        where = f"[{self.address}]" if self.six else self.address
        return f"{where}:{self.port}" if self.port else self.address


def parse(text: str) -> ListenAddress:
    """What ``ADDR`` or ``ADDR:PORT`` means; IPv6 stands in brackets before a port.

    Raises ValueError, which says why, and what to do.
    """
    found = _WITH_PORT.fullmatch(text)
    bare = (found["six"] or found["four"] or "") if found else text
    if text.startswith("[") and text.endswith("]"):
        bare = text[1:-1]
    try:
        address = ip_address(bare)
    except ValueError:
        what = f"{text!r} is not an IPv4 or IPv6 address; for example 10.0.0.7, or [fd00::7]:8765"
        raise ValueError(what) from None
    if why := _unfit(address):
        raise ValueError(why)
    port = int(found["port"]) if found else 0
    if found and not 1 <= port <= LAST:
        raise ValueError(f"{port} is not a port: 1 to {LAST}, or omit it for a free port")
    return ListenAddress(str(address), port)


def _unfit(address: IPv4Address | IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if mapped is not None:
        return f"{address} is IPv4: write {mapped}"
    if address.is_unspecified:
        return f"{address} is the wildcard address: any client could run jobs; {_TUNNEL}"
    if address.is_multicast:
        return f"{address} is a multicast address: name a unicast address of the host"
    if isinstance(address, IPv6Address) and (address.is_link_local or address.scope_id):
        return f"{address} is link-local, which fio does not support; {_TUNNEL}"
    return ""
