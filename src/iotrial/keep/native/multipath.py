"""dm-multipath's configuration, as a file of ``/etc/multipath/conf.d``.

``overrides`` win over the built-in table of devices, which wins over ``defaults``; the section
``multipaths`` of an administrator wins over both (multipath.conf(5)).
"""

from __future__ import annotations

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, header, is_phrase
from iotrial.keep.profile import Profile
from iotrial.tunables.multipath import FOLDER, UNSET, section_of


def _takes(entry: KeptSetting) -> bool:
    return section_of(_key(entry)) != "" and entry.value != UNSET and is_phrase(entry.value)


def _key(entry: KeptSetting) -> str:
    family, _, key = entry.tunable.partition(".")
    return key if family == "multipath" else ""


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    path = f"{FOLDER}/iotrial-kept-{profile.name}.conf"
    undo = f"rm {path}, then: multipathd reconfigure"
    sections: dict[str, list[KeptSetting]] = {}
    for entry in profile.entries:
        sections.setdefault(section_of(_key(entry)), []).append(entry)
    text = header(profile, profile.entries, undo)
    for section, entries in sections.items():
        lines = "".join(f'\t{_key(entry)} "{entry.value}"\n' for entry in entries)
        text += f"{section} {{\n{lines}}}\n"
    notes = ("if the initramfs contains multipath: update-initramfs -u, or dracut --force",)
    reload = (("multipathd", "reconfigure"),)
    return (NativeFile(path, text, profile.entries, reload, notes=notes),)


NATIVE = NativeFormat(
    "multipath",
    "dm-multipath, /etc/multipath/conf.d",
    "multipath.conf(5)",
    order=25,
    takes=_takes,
    write=_write,
    readers=("multipathd.service",),
    longest=1000,
)
