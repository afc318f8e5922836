"""A tuned profile.

tuned reads ``/etc/tuned/NAME/tuned.conf``; later ones ``/etc/tuned/profiles/NAME/tuned.conf`` too,
and first: the file is written to both places.  A disk is found by udev properties, others by name.
Switching to the profile (``tuned-adm profile NAME``) drops the one that is active: ``include=``
keeps what that one does.

Sources: tuned.conf(5), tuned-profiles(7), and of tuned/plugins those for sysctl, sysfs, disk, net,
cpu, vm and modules.
"""

from __future__ import annotations

import re

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, header, is_interface, is_phrase, is_word
from iotrial.keep.native.modprobe import parameter
from iotrial.keep.profile import Profile
from iotrial.tunables import tunable
from iotrial.tunables.sysctl import dotted

_HEXADECIMAL = re.compile("[0-9a-fA-F]+")
Section = tuple[str, tuple[str, ...]]
"""Its name, and the lines that say which devices it is about."""
_VM = {"mm.thp": "transparent_hugepages", "mm.thp_defrag": "transparent_hugepage.defrag"}
_CPU = {
    "cpu.governor": "governor",
    "cpu.energy_preference": "energy_performance_preference",
    "cpu.no_turbo": "no_turbo",
}
_DISK = {"queue.scheduler": "elevator", "queue.read_ahead_kb": "readahead"}
_NET = {
    "net.ring_rx": ("ring", "rx"),
    "net.ring_tx": ("ring", "tx"),
    "net.pause_autoneg": ("pause", "autoneg"),
    "net.pause_rx": ("pause", "rx"),
    "net.pause_tx": ("pause", "tx"),
    "net.rx_usecs": ("coalesce", "rx-usecs"),
    "net.tx_usecs": ("coalesce", "tx-usecs"),
    "net.rx_frames": ("coalesce", "rx-frames"),
    "net.tx_frames": ("coalesce", "tx-frames"),
    "net.adaptive_rx": ("coalesce", "adaptive-rx"),
    "net.gro": ("features", "gro"),
    "net.gso": ("features", "gso"),
    "net.tso": ("features", "tso"),
    "net.lro": ("features", "lro"),
}


def _takes(entry: KeptSetting) -> bool:
    # A value may be a call of a function of tuned's (``${f:exec:…}``); names may be patterns.
    named = is_interface(entry.device) if entry.tunable in _NET else is_word(entry.device or "x")
    return named and is_phrase(entry.value) and _line(entry) is not None


def _line(entry: KeptSetting) -> tuple[Section, str, str] | None:
    """Section, key and value of a setting; None for what tuned cannot hold."""
    name, value = entry.tunable, entry.value
    if name.startswith("sysctl."):
        # tuned makes a slash of every dot: a name with a dot in it cannot be said.
        key = dotted(name.removeprefix("sysctl."))
        return None if "/" in key else (("sysctl", ()), key, value)
    for section, keys in (("vm", _VM), ("cpu", _CPU)):
        if name in keys:
            return (section, ()), keys[name], value
    if (found := parameter(entry)) is not None:
        return ("modules", ()), found[0], f"{found[1]}={value}"
    return _of_device(entry)


def _of_device(entry: KeptSetting) -> tuple[Section, str, str] | None:
    name, value = entry.tunable, entry.value
    if name in _NET:
        kind, key = _NET[name]
        which = ("type=net", f"devices={entry.device}")
        return (f"net_{entry.device}", which), kind, f"{key} {value}"
    if name in _DISK and (ids := dict(entry.ids)).get("wwid", "").startswith("naa."):
        number = ids["wwid"].removeprefix("naa.")
        if not _HEXADECIMAL.fullmatch(number):
            return None
        wwn = f"0x{number}"
        which = ("type=disk", f"devices_udev_regex=(ID_WWN_WITH_EXTENSION={wwn})")
        return (f"disk_{entry.device}", which), _DISK[name], value
    knob = tunable(name)
    if knob.path.startswith("/sys/") and not (knob.how or knob.change or knob.reload):
        return ("sysfs", ()), knob.path.format(device=entry.device), value
    return None


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    sections: dict[Section, dict[str, list[str]]] = {}
    for entry in profile.entries:
        if (line := _line(entry)) is not None:
            section, key, value = line
            sections.setdefault(section, {}).setdefault(key, []).append(value)
    name = f"iotrial-{profile.name}"
    undo = f"tuned-adm profile THE_FORMER_ONE, then remove the folder {name}"
    text = (
        f"{header(profile, profile.entries, undo)}[main]\nsummary=iotrial keep {profile.name}\n"
        "# include=THE_FORMER_ONE\n"
    )
    for (title, which), keys in sections.items():
        text += f"\n[{title}]\n" + "".join(f"{line}\n" for line in which)
        text += "".join(f"{key}={_joined(title, values)}\n" for key, values in keys.items())
    notes = (
        f"set include= to the active profile (tuned-adm active), then: tuned-adm profile {name}",
    )
    places = (f"/etc/tuned/profiles/{name}/tuned.conf", f"/etc/tuned/{name}/tuned.conf")
    return tuple(NativeFile(place, text, profile.entries, notes=notes) for place in places)


def _joined(section: str, values: list[str]) -> str:
    """Several parameters of a module, or of one call of ethtool, are one value."""
    return " ".join(values) if section == "modules" or section.startswith("net_") else values[-1]


NATIVE = NativeFormat(
    "tuned",
    "a tuned profile",
    "tuned.conf(5)",
    order=0,
    takes=_takes,
    write=_write,
    readers=(),
)
