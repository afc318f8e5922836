"""Arming: does the study name the very disk that is there now?

Writing to a device needs ``destroy = "<serial or wwn>"`` in the study.  What is written there is
compared with what the kernel says at the moment of the trial.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotrial.model.target import Identity
from iotrial.units import format_bytes

# Kinds of identity that name one disk, the surest first.  An inode or a size arms nothing.
ARMING = ("wwid", "dm_uuid", "md_uuid", "backing_file", "serial", "md_legs", "dm_name")
_PREFIXES = ("naa.", "eui.", "uuid.", "wwn-", "0x", "mpath-")


def arms(destroy: str, identity: Identity) -> str:
    """The kind of identity that ``destroy`` names, or ''.

    Blanks are counted as one (vendors pad), and prefixes that udev, multipath and sysfs write
    differently (``naa.5000…``, ``0x5000…``) do not matter.
    """
    asked = normal(destroy)
    ids = dict(identity.ids)
    known = (kind for kind in ARMING if kind in ids)
    return next((kind for kind in known if asked and normal(ids[kind]) == asked), "")


def normal(text: str) -> str:
    """One spelling for what sysfs, udev and multipath spell in several ways."""
    short = " ".join(text.split())
    if short.startswith("/"):
        return short
    short = short.lower()
    for prefix in _PREFIXES:
        short = short.removeprefix(prefix)
    return short


def password(identity: Identity) -> str:
    """What to write as ``destroy`` to arm this device; '' when nothing names it."""
    ids = dict(identity.ids)
    return next((ids[kind] for kind in ARMING if kind in ids), "")


def portrait(identity: Identity) -> str:
    """One line that says who a device is: ``sda: 931 GiB, wwid naa.5000…, serial S3Z…``."""
    ids = [f"{kind} {value}" for kind, value in identity.ids]
    return f"{identity.kernel_name}: " + ", ".join([format_bytes(identity.size), *ids])


def sharers(kind: str, identity: Identity, others: Mapping[str, Identity]) -> Sequence[str]:
    """Names of other disks with the same id of this kind: NVMe namespaces share the serial of
    their controller, some arrays give one serial to every volume."""
    mine = dict(identity.ids).get(kind, "")
    return sorted(
        name
        for name, other in others.items()
        if name != identity.kernel_name and dict(other.ids).get(kind) == mine
    )
