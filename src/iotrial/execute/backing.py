"""Backing: what loop devices are attached to, by number and not by name.

A loop's ``backing_file`` in sysfs is a path as it was: a node made with mknod(1), another name of
the same file, one that is gone or hidden by now.  The kernel knows the inode, and of a device node
its number (LOOP_GET_STATUS64 in loop(4)); perl asks for it.  Where there is none, or no root, what
lies at the path now is looked at instead.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from iotrial.execute import look
from iotrial.model.host import Host

_ASK = (
    'for(@ARGV){open(my $f,"<","/dev/$_") or next;my $b="\\0"x232;'
    'ioctl($f,0x4C05,$b) or next;printf("%s %s:%s %s\\n",$_,unpack("Q3",$b))}'
)
_FIELDS = 3


@dataclass(frozen=True, slots=True)
class Attached:
    """A loop device in use: its kernel name, the path of what it was attached to, and that by
    file system and inode, and by ``major:minor`` where it is a device ('': it is none)."""

    name: str
    path: str
    inode: str
    devno: str


def attached(host: Host) -> tuple[Attached, ...]:
    """Every loop device that is attached to something."""
    names = [name for name in look.names(host, "/sys/block") if name.startswith("loop")]
    files = {name: f"/sys/block/{name}/loop/backing_file" for name in names}
    said = look.texts(host, files.values()) if files else {}
    used = {name: said[file] for name, file in files.items() if said[file]}
    known = _asked(host, used) if used else {}
    return tuple(
        Attached(name, path, *(known.get(name) or _at(host, path))) for name, path in used.items()
    )


def _asked(host: Host, names: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Name → inode and number, as the kernel tells it."""
    lines = host.run(["perl", "-e", _ASK, *names]).text.splitlines()
    found = {}
    for words in (line.split() for line in lines):
        if len(words) == _FIELDS and words[2].isdigit():
            number = int(words[2])
            devno = f"{os.major(number)}:{os.minor(number)}" if number else ""
            found[words[0]] = (words[1], devno)
    return found


def _at(host: Host, path: str) -> tuple[str, str]:
    """What lies at a path now."""
    found = look.status(host, path)
    if found is None:
        return "", ""
    return found.inode_of, found.devno if found.is_block_device else ""
