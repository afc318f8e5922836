"""``fstab``: what is mounted, where, how (fstab(5))."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from iotrial_lint.sheet import Complaint, Entry, Sheet, lines

KIND = "fstab"
TITLE = "`fstab`"

_LEAST, _MOST = 3, 6


def knows(path: PurePosixPath) -> bool:
    return path.name == "fstab" or path.suffix == ".fstab" or path.parent.name == "fstab.d"


def parse(text: str, file: str = "") -> Sheet:
    """Each option is an entry; its section is (source, mount point, type)."""
    entries: list[Entry] = []
    complaints: list[Complaint] = []
    for number, line in lines(text):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        fields = re.split(r"[ \t]+", plain)
        if len(fields) < _LEAST:
            complaints.append(Complaint(number, "a line needs source, mount point and type"))
            continue
        behind = fields[4:_MOST]
        wrong = [word for word in behind if not word.isdigit() and not word.startswith("#")]
        if wrong and not any(word.startswith("#") for word in behind):
            what = f"{wrong[0][:40]!r} is no number; the last two fields are (dump, fsck)"
            complaints.append(Complaint(number, what))
        section = (fields[0], fields[1], fields[2])
        options = fields[3] if len(fields) > _LEAST else "defaults"
        for option in options.split(","):
            key, _, value = option.partition("=")
            entries.append(Entry(number, key, value, section, group=number))
    return Sheet("fstab", file, tuple(entries), (), tuple(complaints))
