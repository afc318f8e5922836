"""Settings of devices as udev rules.

A rule finds its device by what outlives a boot: its WWN, serial, DM or array UUID, hardware
address; by vendor and model where the profile says so; by the kernel's name only where there is
nothing else, and then it says that names move.  Values are written one rule a value, in the order
of their ranks, since a new scheduler resets what comes after it.

Sources: udev(7).  A match is a shell pattern, alternatives stand between ``|``: what a value has of
these is taken literally here.  In an assigned value ``$`` and ``%`` are doubled.  Blanks at the end
of an attribute are ignored where the pattern has none.
"""

from __future__ import annotations

import re

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, header
from iotrial.keep.profile import Profile
from iotrial.model.target import Scope
from iotrial.tunables import tunable

_SUBSYSTEMS: dict[Scope, str] = {
    "device": "block",
    "disk": "block",
    "array": "block",
    "scsi-host": "scsi_host",
    "nvme": "nvme",
    "remote-port": "fc_remote_ports",
    "iscsi-session": "iscsi_session",
    "nic": "net",
    "rx": "net",
    "tx": "net",
    "bdi": "bdi",
}
_FOLDERS = (
    "/sys/block/{device}/",
    "/sys/class/scsi_host/{device}/",
    "/sys/class/nvme/{device}/",
    "/sys/class/fc_remote_ports/{device}/",
    "/sys/class/iscsi_session/{device}/",
    "/sys/class/net/{device}/",
)
_MATCHES = {
    "wwid": ("ATTRS{{wwid}}",),
    "dm_uuid": ("ENV{{DM_UUID}}",),
    "md_uuid": ("ATTR{{md/uuid}}",),
    "serial": ("ATTRS{{serial}}",),
    "address": ("ATTR{{address}}",),
    "port_name": ("ATTR{{port_name}}",),
}
"""Kinds of identity, the surest first."""
_SPECIAL = re.compile(r"[*?\[]")
_UNWRITABLE = frozenset('"|\\')
"""What cannot be written between quotes, or is not itself there."""


def _takes(entry: KeptSetting) -> bool:
    knob = tunable(entry.tunable)
    return (
        knob.scope in _SUBSYSTEMS
        and not knob.reload
        and not knob.durable
        and not knob.change
        and not entry.device.startswith("loop")
        and _attribute(entry) != ""
        and _UNWRITABLE.isdisjoint(entry.value)
        and _UNWRITABLE.isdisjoint(_known_by(entry))
    )


def _attribute(entry: KeptSetting) -> str:
    """Where it stands below its device ('': udev cannot write it)."""
    path = tunable(entry.tunable).path
    for folder in _FOLDERS:
        if path.startswith(folder):
            inside = entry.device.partition("/")[2]  # rps: eth0/queues/rx-0
            return f"{inside}/{path.removeprefix(folder)}" if inside else path.removeprefix(folder)
    return ""


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    path = f"/etc/udev/rules.d/99-iotrial-{profile.name}.rules"
    undo = f"rm {path}, then: udevadm control --reload"
    label = f"iotrial_{profile.name.replace('-', '_')}_end"
    ordered = sorted(profile.entries, key=lambda each: (each.device, tunable(each.tunable).rank))
    rules = "".join(f"{_rule(entry)}\n" for entry in ordered)
    text = (
        f"{header(profile, ordered, undo)}"
        f'ACTION!="add|change", GOTO="{label}"\n{rules}LABEL="{label}"\n'
    )
    subsystems = sorted({_SUBSYSTEMS[tunable(entry.tunable).scope] for entry in ordered})
    triggers = [("udevadm", "trigger", f"--subsystem-match={each}") for each in subsystems]
    return (
        NativeFile(
            path,
            text,
            tuple(ordered),
            reload=(("udevadm", "control", "--reload"),),
            load=tuple(triggers),
            notes=tuple(note for entry in ordered if (note := _note(entry))),
        ),
    )


def _rule(entry: KeptSetting) -> str:
    scope = tunable(entry.tunable).scope
    parts = [f'SUBSYSTEM=="{_SUBSYSTEMS[scope]}"']
    if _SUBSYSTEMS[scope] == "block":
        parts.append('ENV{DEVTYPE}=="disk"')
    parts += _match(entry)
    parts.append(f'ATTR{{{_attribute(entry)}}}="{assigned(entry.value)}"')
    return ", ".join(parts)


def _match(entry: KeptSetting) -> list[str]:
    return [f'{place}=="{pattern(text)}"' for place, text in _identity(entry)]


def _identity(entry: KeptSetting) -> list[tuple[str, str]]:
    """The surest of what it is known by: (place, text) pairs."""
    ids = dict(entry.ids)
    for kind, places in _MATCHES.items():
        if ids.get(kind):
            return [(place.format(), ids[kind]) for place in places]
    if ids.get("vendor") and ids.get("model"):
        return [(f"ATTRS{{{each}}}", ids[each]) for each in ("vendor", "model")]
    if ids.get("model"):
        return [("ATTRS{model}", ids["model"])]
    return [("KERNEL", entry.device.partition("/")[0].replace("!", "/"))]


def _known_by(entry: KeptSetting) -> str:
    return "".join(text for _, text in _identity(entry))


def _note(entry: KeptSetting) -> str:
    if _match(entry)[0].startswith("KERNEL"):
        return (
            f"{entry.device} has no WWN, serial or UUID: its rule matches a name that another"
            " device may have after a boot"
        )
    return ""


def pattern(text: str) -> str:
    """A pattern that matches ``text`` and nothing else."""
    return _SPECIAL.sub(r"[\g<0>]", text.strip())


def assigned(text: str) -> str:
    """A value to assign: substitutions are written out."""
    return text.replace("$", "$$").replace("%", "%%")


NATIVE = NativeFormat(
    "udev",
    "settings of devices, /etc/udev/rules.d",
    "udev(7)",
    order=20,
    takes=_takes,
    write=_write,
    readers=("systemd-udevd.service", "systemd-udev-trigger.service"),
)
