"""Mount options as a drop-in of the mount's unit.

systemd makes a unit of every line of fstab; a drop-in in ``/etc/systemd/system`` gives it other
options, and taking it away gives back what fstab says.  ``Options=`` is the whole list, so the
options that the study found are needed; a file system that the initramfs mounts (``/``) does not
look here.  For a host without systemd the note holds fstab's fourth field.
"""

from __future__ import annotations

from collections.abc import Iterable

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, by_device, header
from iotrial.keep.profile import Profile
from iotrial.tunables import tunable

_INITIAL = ("/", "/usr")
_LONGEST_NAME = 255


def _takes(entry: KeptSetting) -> bool:
    return (
        entry.tunable.startswith("mount.")
        and entry.tunable != "mount.mounted"
        and entry.device not in _INITIAL
        and bool(dict(entry.ids).get("options"))
        and len(f"{escaped(entry.device)}.mount.d".encode()) <= _LONGEST_NAME
    )


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    return tuple(_file(profile, point, entries) for point, entries in by_device(profile))


def _file(profile: Profile, point: str, entries: tuple[KeptSetting, ...]) -> NativeFile:
    unit = f"{escaped(point)}.mount"
    path = f"/etc/systemd/system/{unit}.d/50-iotrial-{profile.name}.conf"
    options = changed(dict(entries[0].ids)["options"], entries)
    text = (
        header(profile, entries, f"rm {path}, then: systemctl daemon-reload, and mount again")
        + f"[Mount]\nOptions={options.replace('%', '%%')}\n"
    )
    notes = (
        f"{point}: without systemd, the fourth field of its line in fstab: {options}",
        f"{point}: takes effect at the next mount: systemctl restart {unit}",
    )
    return NativeFile(path, text, entries, (("systemctl", "daemon-reload"),), notes=notes)


def changed(options: str, entries: Iterable[KeptSetting]) -> str:
    """The list of options with each entry in place of what it contradicts."""
    words = [word for word in options.split(",") if word]
    for entry in entries:
        # What the tunable itself would tell mount(8): its names, and its word.
        (act,) = tunable(entry.tunable).acts(entry.device, entry.value)
        family, word = act.argv[5].split(","), act.argv[6]
        words = [each for each in words if each.partition("=")[0] not in family]
        words += [word] if word else []
    return ",".join(words) or "defaults"


def escaped(path: str) -> str:
    """The name of a path's unit, as ``systemd-escape --path`` makes it (systemd.unit(5))."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return "-"
    text = "/".join(parts)
    found = []
    for at, byte in enumerate(text.encode("utf-8", "surrogateescape")):
        sign = chr(byte)
        if sign == "/":
            found.append("-")
        elif sign.isascii() and (sign.isalnum() or sign in ":_" or (sign == "." and at)):
            found.append(sign)
        else:
            found.append(f"\\x{byte:02x}")
    return "".join(found)


NATIVE = NativeFormat(
    "mount",
    "mount options, drop-ins of /etc/systemd/system",
    "systemd.mount(5), systemd.unit(5)",
    order=50,
    takes=_takes,
    write=_write,
    readers=(),
)
