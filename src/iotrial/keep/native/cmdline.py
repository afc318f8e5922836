"""Parameters of built-in modules, and of the kernel: words for the kernel's command line.

Where the command line lives differs (GRUB, systemd-boot, zipl): the file is a note, and is never
put anywhere by itself.  What a study of boots measured has a format of its own (``boot``); this is
for hosts whose boot loader that one does not know.
"""

from __future__ import annotations

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, header, is_word
from iotrial.keep.native.modprobe import parameter
from iotrial.keep.profile import Profile
from iotrial.tunables.boot import KERNEL, UNSET, is_boot, word

_ALSO = {
    "mm.thp": "transparent_hugepage={}",
    "module.nvme_core.multipath": "nvme_core.multipath={}",
}


def _word(entry: KeptSetting) -> str:
    if entry.tunable in _ALSO:
        return _ALSO[entry.tunable].format(entry.value)
    if is_boot(entry.tunable):
        kept = entry.tunable != KERNEL and entry.value != UNSET
        return word(entry.tunable, entry.value) if kept else ""
    found = parameter(entry)
    return f"{found[0]}.{found[1]}={entry.value}" if found else ""


def _takes(entry: KeptSetting) -> bool:
    return bool(_word(entry)) and is_word(entry.value)


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    words = " ".join(dict.fromkeys(_word(entry) for entry in profile.entries))
    path = f"/etc/iotrial/{profile.name}.cmdline"
    text = header(profile, profile.entries, "remove the parameters, reboot") + f"{words}\n"
    note = (
        "grubby --update-kernel=ALL --args=… (RHEL, SUSE), GRUB_CMDLINE_LINUX in /etc/default/grub"
        " and update-grub (Debian), /etc/kernel/cmdline (systemd-boot); then reboot"
    )
    return (NativeFile(path, text, profile.entries, notes=(note,), people=True),)


NATIVE = NativeFormat(
    "cmdline",
    "words for the kernel's command line, as a note",
    "Documentation/admin-guide/kernel-parameters.rst",
    order=0,
    takes=_takes,
    write=_write,
    readers=(),
    longest=2000,
)
