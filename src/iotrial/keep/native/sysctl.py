"""Kernel parameters in ``sysctl.d``.

Read at boot by systemd-sysctl(8), in the order of the files' names whatever folder they lie in;
the last one that sets a key wins, and ``/etc/sysctl.conf`` where sysctl(8) --system reads it last.
A key whose parts hold dots is written with slashes (sysctl.d(5)).
"""

from __future__ import annotations

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, header
from iotrial.keep.profile import Profile
from iotrial.tunables.sysctl import dotted

_PREFIX = "sysctl."


def _takes(entry: KeptSetting) -> bool:
    # sunrpc's keys exist when its module is loaded: modprobe.d holds those.
    # A dash in front would have errors ignored.
    return entry.tunable.startswith(_PREFIX) and not _key(entry).startswith(("sunrpc.", "-"))


def _key(entry: KeptSetting) -> str:
    return dotted(entry.tunable.removeprefix(_PREFIX))


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    path = f"/etc/sysctl.d/99-iotrial-{profile.name}.conf"
    undo = f"rm {path}, set the former values with sysctl -w"
    lines = [f"{_key(entry)} = {entry.value}\n" for entry in profile.entries]
    text = header(profile, profile.entries, undo) + "".join(lines)
    return (NativeFile(path, text, profile.entries, load=(("sysctl", "--load", path),)),)


NATIVE = NativeFormat(
    "sysctl",
    "kernel parameters, /etc/sysctl.d",
    "sysctl.d(5), sysctl.conf(5)",
    order=10,
    takes=_takes,
    write=_write,
    readers=("systemd-sysctl.service",),
    longest=250,
)
