"""Single files of /sys and /proc, written at boot by systemd-tmpfiles(8).

For what belongs to the machine and to no device that udev announces: huge pages, the processors'
frequencies (one line with a pattern where all of them are alike).  The argument's ``%`` is doubled
and a backslash is an escape (tmpfiles.d(5)).
"""

from __future__ import annotations

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, header
from iotrial.keep.profile import Profile
from iotrial.tunables import tunable

_CPU = "cpu"


def _takes(entry: KeptSetting) -> bool:
    knob = tunable(entry.tunable)
    if knob.change or knob.how or knob.read or knob.durable or knob.reload:
        return False
    # A dash alone is no argument.
    return entry.value != "-" and knob.path.startswith(("/sys/kernel/", "/sys/devices/system/cpu/"))


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    path = f"/etc/tmpfiles.d/iotrial-{profile.name}.conf"
    undo = f"rm {path}, write the former values"
    text = header(profile, profile.entries, undo) + "".join(
        f"w {place} - - - - {_argument(value)}\n" for place, value in _lines(profile.entries)
    )
    load = (("systemd-tmpfiles", "--create", path),)
    return (NativeFile(path, text, profile.entries, load=load),)


def _lines(entries: tuple[KeptSetting, ...]) -> list[tuple[str, str]]:
    """(path, value); what all processors share is one line."""
    values: dict[str, set[str]] = {}
    for entry in entries:
        values.setdefault(entry.tunable, set()).add(entry.value)
    found: dict[tuple[str, str], None] = {}
    for entry in entries:
        knob = tunable(entry.tunable)
        alike = knob.scope == _CPU and len(values[entry.tunable]) == 1
        device = "cpu[0-9]*" if alike else entry.device
        found[knob.path.format(device=device), entry.value] = None
    return list(found)


def _argument(value: str) -> str:
    return value.replace("\\", "\\\\").replace("%", "%%")


NATIVE = NativeFormat(
    "tmpfiles",
    "files of /sys that belong to no device, /etc/tmpfiles.d",
    "tmpfiles.d(5)",
    order=40,
    takes=_takes,
    write=_write,
    readers=("systemd-tmpfiles-setup-dev.service", "systemd-tmpfiles-setup.service"),
)
