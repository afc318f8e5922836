"""Rows of an interface, and what ethtool lists of it: how it is read and changed, what it takes.

The listings are those that ethtool 4 to 6 print for people (ethtool.c dump_*(), netlink/*.c); a
field that a driver does not offer is ``n/a`` since 5.12 and 0 before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iotrial.model.tunable import Domain, Tunable

MAN = "ethtool(8)"
UNMEASURED = "not measured"
VETH = "measured on a veth of 6.18"
LOCAL = "The storage is not reached over this interface."
LINK = "Many drivers take the link down for seconds: connections stall, and sessions may time out."

_LASTS = "until the interface goes, its driver is reloaded or the machine reboots"
_ON_OFF = ("on", "off")
_NOT_OFFERED = "n/a"

DomainOf = Callable[[bytes], Domain]


def row(name: str, summary: str, domain: DomainOf, **more: Any) -> Tunable:  # noqa: ANN401
    base = {
        "path": "",
        "scope": "nic",
        "layer": "network",
        "lasts": _LASTS,
        "moot": LOCAL,
        "source": f"{MAN}; {UNMEASURED}",
    }
    return Tunable(name=f"net.{name}", summary=summary, domain=domain, **{**base, **more})


def ethtool(get: str, put: str, label: str, word: str) -> dict[str, Any]:
    """How ethtool reads what it prints behind ``label``, and changes it by ``word``."""
    return {
        "read": ("ethtool", f"-{get}", "{device}"),
        "pick": "field",
        "key": f"{label}:",
        "change": (("ethtool", f"-{put}", "{device}", word, "{value}"),),
    }


def _refused(why: str) -> Domain:
    return Domain(rule=lambda _value: why)


def between(low: int | None, high: int | None) -> DomainOf:
    return lambda _raw: Domain(low=low, high=high)


def said(raw: bytes, label: str) -> list[str]:
    """What stands behind ``label:`` in each line that begins with it."""
    lines = (line.strip() for line in raw.decode("utf-8", "replace").splitlines())
    return [line[len(label) + 1 :].strip() for line in lines if line.startswith(f"{label}:")]


def offered(label: str, low: int, high: int | None = None) -> DomainOf:
    """Numbers of an ethtool listing; ``n/a`` is what the driver does not offer, and of two lines
    the first is the most it takes."""

    def domain(raw: bytes) -> Domain:
        found = said(raw, label)
        if _NOT_OFFERED in found[-1:]:
            return _refused(f"the driver of this interface does not offer {label}")
        most = found[0] if len(found) > 1 and found[0].isdigit() else ""
        return Domain(low=low, high=int(most) if most else high)

    return domain


def switch(label: str) -> DomainOf:
    """On or off of an ethtool listing."""

    def domain(raw: bytes) -> Domain:
        if [line.split()[:1] for line in said(raw, label)][-1:] == [[_NOT_OFFERED]]:
            return _refused(f"the driver of this interface does not offer {label}")
        return Domain(choices=_ON_OFF)

    return domain


def feature(label: str, *parts: str) -> DomainOf:
    """On or off of an offload.

    ``[fixed]``: this driver cannot change it.  ``[requested on]``: it is off only because another
    that it needs is off; setting it by hand would forget the request, which no file shows later.
    """

    def domain(raw: bytes) -> Domain:
        own = " ".join(said(raw, label))
        if "[fixed]" in own:
            now = own.split()[0]
            return Domain(
                rule=lambda value: (
                    ""
                    if value == now
                    else f"{label} is {now} [fixed]: the driver of this interface cannot change it"
                )
            )
        waiting = [n for n in (label, *parts) if "[requested" in " ".join(said(raw, n))]
        if waiting:
            return _refused(
                f"{waiting[0]} is off only because an offload that it needs is off; set manually"
                " it could not be restored: turn on what it needs first"
            )
        return Domain(choices=_ON_OFF)

    return domain
