"""Parameters of modules in ``modprobe.d``.

They count when a module is loaded: a loaded one must be loaded again, one in the initramfs needs a
new initramfs, one built into the kernel takes them from its command line alone
(format ``cmdline``).
"""

from __future__ import annotations

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, header, is_word
from iotrial.keep.profile import Profile

_ELSEWHERE = {
    "nfs.tcp_slot_table_entries": ("sunrpc", "tcp_slot_table_entries"),
    "nfs.tcp_max_slot_table_entries": ("sunrpc", "tcp_max_slot_table_entries"),
    "nfs.max_session_slots": ("nfs", "max_session_slots"),
    "sysctl.sunrpc.tcp_slot_table_entries": ("sunrpc", "tcp_slot_table_entries"),
    "sysctl.sunrpc.tcp_max_slot_table_entries": ("sunrpc", "tcp_max_slot_table_entries"),
}
"""Parameters that a study knows by another name."""


def parameter(entry: KeptSetting) -> tuple[str, str] | None:
    """(module, parameter) of what a module can be loaded with."""
    family, _, rest = entry.tunable.partition(".")
    if family == "module":
        module, _, name = rest.partition(".")
        return module, name
    return _ELSEWHERE.get(entry.tunable)


def _takes(entry: KeptSetting) -> bool:
    return parameter(entry) is not None and is_word(entry.value)


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    path = f"/etc/modprobe.d/iotrial-{profile.name}.conf"
    undo = f"rm {path}, rebuild the initramfs, reload the module or reboot"
    options: dict[str, list[str]] = {}
    for entry in profile.entries:
        found = parameter(entry)
        if found is not None:
            options.setdefault(found[0], []).append(f"{found[1]}={entry.value}")
    lines = [f"options {module} {' '.join(words)}\n" for module, words in options.items()]
    text = header(profile, profile.entries, undo) + "".join(lines)
    names = ", ".join(options)
    notes = (
        f"{names}: takes effect when the module is loaded; reload it, or reboot",
        f"if the initramfs contains {names}: update-initramfs -u, or dracut --force",
        f"if {names} is built in: use the kernel's command line, see the format cmdline",
    )
    return (NativeFile(path, text, profile.entries, notes=notes),)


NATIVE = NativeFormat(
    "modprobe",
    "parameters of modules, /etc/modprobe.d",
    "modprobe.d(5)",
    order=30,
    takes=_takes,
    write=_write,
    readers=("systemd-modules-load.service", "systemd-udevd.service"),
    longest=1000,
)
