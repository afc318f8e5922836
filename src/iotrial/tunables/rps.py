"""Family ``rps``: which CPUs work on what a receive queue of an interface got,
``/sys/class/net/NIC/queues/rx-N/``.

Sources: the kernel's Documentation/networking/scaling.rst and
Documentation/ABI/testing/sysfs-class-net-queues; masks: lib/bitmap-str.c bitmap_parse(); measured
on a veth of a 6.18 kernel (November 2026).
"""

from __future__ import annotations

import re

from iotrial.model.step import Change
from iotrial.model.tunable import Domain, Tunable

FAMILY = "rps"
TITLE = "receive packet steering: which CPUs work on what a queue received"

_SOURCE = (
    "kernel Documentation/networking/scaling.rst, Documentation/ABI/testing/sysfs-class-net-queues;"
    " measured on a veth of 6.18"
)
_LASTS = "until the queue goes (fewer channels, the driver reloaded) or the machine reboots"
_CHUNK = 8
"""Hexadecimal digits between commas: the kernel takes no more in one piece (EOVERFLOW)."""
_MOST_FLOWS = 2**29


def masks(raw: bytes) -> Domain:
    """A hexadecimal mask no longer than the one that was read."""
    digits = len(raw.decode("ascii", "replace").strip().replace(",", ""))

    def rule(value: str) -> str:
        if not re.fullmatch("[0-9A-Fa-f,]+", value):
            return f"{value!r} is not a hexadecimal mask, such as 3 for the first two"
        plain = value.replace(",", "").lstrip("0").lower() or "0"
        if plain != value:
            return f"{value!r} is read back as {plain!r}: write it so"
        return f"{value!r} is longer than the {digits} digits here" if len(plain) > digits else ""

    return Domain(rule=rule)


def written(mask: str) -> str:
    """A mask as the kernel takes it.

    >>> written("1000000ff")
    '1,000000ff'
    """
    first = len(mask) % _CHUNK
    chunks = [mask[:first]] if first else []
    return ",".join([*chunks, *(mask[at : at + _CHUNK] for at in range(first, len(mask), _CHUNK))])


def _write_cpus(device: str, value: str) -> tuple[Change, ...]:
    return (Change("write", path=f"/sys/class/net/{device}/rps_cpus", data=written(value)),)


def flows(_raw: bytes) -> Domain:
    """Powers of two, and 0: the kernel rounds all others up."""

    def rule(value: str) -> str:
        if not value.isdigit() or not value.isascii():
            return f"{value!r} is not a whole number"
        number = int(value)
        if number > _MOST_FLOWS:
            return f"{number} is above {_MOST_FLOWS}"
        if number & (number - 1):
            return f"{number} is rounded up to {2 ** number.bit_length()}: write that"
        return "" if str(number) == value else f"{value!r} is read back as '{number}': write it so"

    return Domain(rule=rule)


TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        name="rps.cpus",
        path="/sys/class/net/{device}/rps_cpus",
        summary="which CPUs may work on what this queue received; 0: the one that was interrupted",
        unit="hexadecimal mask of CPUs",
        layer="network",
        lasts=_LASTS,
        risk="A mask with CPUs that are isolated or not there is refused.",
        moot="The adapter has a queue for each CPU, or little is received.",
        source=_SOURCE,
        scope="rx",
        pick="mask",
        domain=masks,
        how=_write_cpus,
    ),
    Tunable(
        name="rps.flow_cnt",
        path="/sys/class/net/{device}/rps_flow_cnt",
        summary="how many flows of this queue are sent to the CPU where their reader runs (RFS)",
        unit="flows",
        layer="network",
        lasts=_LASTS,
        risk="Rounded up to a power of two.",
        moot="sysctl.net.core.rps_sock_flow_entries is 0.",
        source=_SOURCE,
        scope="rx",
        domain=flows,
    ),
)
