"""Holders: who has a device or file in hand without mounting it.

Programs that have it open for writing (a virtual machine's disk: /proc/PID/fd), and parts of the
kernel that serve it to others (NVMe over fabrics, SCSI targets, USB gadgets) or store in it (zram).
All is compared by number, never by name.  Programs are seen as far as we may look: all by root.
"""

from __future__ import annotations

from collections.abc import Collection

from iotrial.execute import look
from iotrial.model.host import Host

_OPENED = """\
printf '%s\\0' /proc/[0-9]*/fd/* | xargs -0 stat -L --printf '%t:%T|%d:%i|%n\\n' 2>/dev/null |
while IFS='|' read -r number inode name; do
    for each; do
        case $each in
            "$number" | "$inode") stat -c "$each|%a|%N" "$name" 2>/dev/null ;;
        esac
    done
done
"""
"""Arguments: device numbers in hexadecimal, inodes with their file systems.  Says of every file
that a process has open and that is one of them: which, the bits of the link, and its names."""
_SERVED = (
    ("/sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path", "served by NVMe target"),
    ("/sys/kernel/config/target/core/*/*/udev_path", "served by SCSI target"),
    ("/sys/kernel/config/usb_gadget/*/functions/*/lun.*/file", "served as USB disk"),
    ("/sys/block/zram*/backing_dev", "the store of"),
)
_SERVING = 'for each; do for file in $each; do grep -Hs . "$file"; done; done; exit 0'
_WRITING = 0o200


def openers(host: Host, *, devnos: Collection[str] = (), inode: str = "") -> tuple[str, ...]:
    """Programs that have one of the devices (``major:minor``), or the file, open for writing."""
    wanted = [*map(_hexadecimal, devnos), *filter(None, [inode])]
    argv = ["sh", "-c", _OPENED, "iotrial-openers", *wanted]
    found: dict[str, None] = {}
    for line in host.run(argv).text.splitlines():
        fields = line.split("|", 2)
        if len(fields) == 3 and int(fields[1], 8) & _WRITING:  # noqa: PLR2004 (as it says)
            link, _, goal = fields[2].partition(" -> ")
            pid = link.strip("'").split("/")[2]
            name = look.text(host, f"/proc/{pid}/comm")
            found[f"process {pid} ({name}) has {goal.strip(chr(39))} open for writing"] = None
    return tuple(found)


def _hexadecimal(devno: str) -> str:
    major, _, minor = devno.partition(":")
    return f"{int(major):x}:{int(minor):x}"


def servers(host: Host, *, devnos: Collection[str] = (), inode: str = "") -> tuple[str, ...]:
    """What serves one of the devices, or the file, to others, or stores in it."""
    argv = ["sh", "-c", _SERVING, "iotrial-servers", *(pattern for pattern, _ in _SERVED)]
    found = []
    for line in host.run(argv).text.splitlines():
        place, _, path = line.partition(":")
        there = look.status(host, path.strip()) if path.strip().startswith("/") else None
        if there and (there.devno in devnos or there.inode_of == inode):
            found.append(f"it is {_how(place)} ({place})")
    return tuple(found)


def _how(place: str) -> str:
    heads = ((pattern.partition("*")[0], words) for pattern, words in _SERVED)
    return next(words for head, words in heads if place.startswith(head))
