"""Network interfaces: the one towards a server, what it is built on, and its queues.

Sources: Documentation/ABI/testing/sysfs-class-net (``lower_*``, speed, operstate), and
sysfs-class-net-queues; ip-route(8) for which interface leads to an address.
"""

from __future__ import annotations

import ipaddress
import re
from posixpath import basename

from iotrial.execute.topology.draft import Draft, Grown, Key
from iotrial.execute.topology.functions import metal

_VIRTUAL = "/sys/devices/virtual/net"
_LOWER = ("find", _VIRTUAL, "-mindepth", "2", "-maxdepth", "2", "-name", "lower_*")


def towards(draft: Draft, address: str) -> tuple[Key, ...]:
    """The interface of the route to an address; none where there is no route, or no address."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return ()
    said = " ".join(draft.seen.said("ip", "-o", "route", "get", address))
    found = re.search(r"(?:^|\s)dev (\S+)", said)
    return (interface(draft, found[1]),) if found else ()


def known(draft: Draft, name: str) -> bool:
    """Is there an interface of this name?"""
    return name in draft.seen.links("/sys/class/net")


def interface(draft: Draft, name: str) -> Key:
    """An interface and all that it is built on: members of a bond, the parent of a VLAN."""
    return draft.node("nic", name, lambda: _grow(draft, name))


def _grow(draft: Draft, name: str) -> Grown:
    folder = draft.seen.links("/sys/class/net").get(name, f"/sys/class/net/{name}")
    lower = tuple(interface(draft, each) for each in _below(draft, name))
    queues = () if lower else _queues(draft, name, folder)
    irqs, facts = metal(draft, folder)
    read = draft.seen.text
    about = (
        ("state", read(f"{folder}/operstate")),
        ("speed", _speed(read(f"{folder}/speed"))),
        *facts,
        ("queues", _count(queues)),
    )
    return (*lower, *queues, *irqs), about


def _below(draft: Draft, name: str) -> list[str]:
    """Bonds, VLANs and bridges are virtual, so one search finds what all of them lie on."""
    beginning = f"{_VIRTUAL}/{name}/lower_"
    found = [line for line in draft.seen.said(*_LOWER) if line.startswith(beginning)]
    return sorted(basename(line).removeprefix("lower_") for line in found)


def _queues(draft: Draft, name: str, folder: str) -> tuple[Key, ...]:
    found = draft.seen.names(f"{folder}/queues")
    ordered = sorted(found, key=lambda each: (each[:2], int(each.rpartition("-")[2])))
    return tuple(
        draft.leaf("rx" if each.startswith("rx-") else "tx", f"{name}/queues/{each}")
        for each in ordered
    )


def _count(queues: tuple[Key, ...]) -> str:
    scopes = [scope for scope, _ in queues]
    return f"{scopes.count('rx')} receive, {scopes.count('tx')} transmit" if scopes else ""


def _speed(text: str) -> str:
    """Mb/s; -1 or refused when it is down or virtual."""
    if not text.isdigit() or text == "0":
        return ""
    return f"{int(text) / 1000:g} Gbit/s" if int(text) >= 1000 else f"{text} Mbit/s"  # noqa: PLR2004
