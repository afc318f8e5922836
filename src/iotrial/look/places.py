"""Places: files and directories as targets, and the filesystem they really lie on.

fio as root *creates* a missing folder and then measures ``/``; a mount point that is not mounted
does the same more quietly.  So nothing is created here, the real mount is found in the kernel's
own table, and what /etc/fstab says must be there is there or the target is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from iotrial.errors import TargetRefused
from iotrial.look import reading
from iotrial.look.identity import BlockDevice, sight_number, whole
from iotrial.look.mounts import KERNEL, MountEntry, mount_of, parse_fstab, parse_mountinfo, under
from iotrial.model.host import Reader
from iotrial.model.target import Target
from iotrial.units import format_bytes

MIB = 2**20
_MARGIN = 64 * MIB
_MARGIN_SHARE = 0.05
_SLOWEST_FILL = 4 * MIB  # bytes/s: below this a disk is broken rather than slow


@dataclass(frozen=True, slots=True)
class PathLocation:
    """Where a path really is: its mount, the disk below (None: a network, memory or overlay
    filesystem) and the bytes left for ordinary use."""

    path: str
    mount: MountEntry
    disk: BlockDevice | None
    room: int

    def describe(self) -> str:
        return f"{self.path} is on {self.mount.describe()}, {format_bytes(self.room)} free"


def standing(host: Reader, path: str) -> PathLocation:
    """Where an existing real path lies.  Raises TargetRefused when no mount holds it, FileRefused
    when the table of mounts cannot be read."""
    mounts = parse_mountinfo(host.read("/proc/self/mountinfo").decode("utf-8", "surrogateescape"))
    mount = mount_of(path, mounts)
    if mount is None:
        raise TargetRefused(
            f"no mount holds {path}",
            evidence=("no line of /proc/self/mountinfo leads there",),
            advice="Possibly a chroot without a mount of /. Run where the mounts are visible.",
        )
    return PathLocation(path, mount, _disk_below(host, mount), reading.room(host, path))


def _disk_below(host: Reader, mount: MountEntry) -> BlockDevice | None:
    """The whole disk below a mount, by device number, or by source (btrfs has its own number)."""
    if mount.on_block_device:
        return whole(host, sight_number(host, mount.devno))
    found = reading.status(host, mount.source) if mount.source.startswith("/dev/") else None
    if found is None or not found.is_block_device:
        return None
    return whole(host, sight_number(host, found.devno))


def settle_folder(host: Reader, target: Target, folder: str) -> PathLocation:
    """The standing of an existing folder, named by its real path, on the mount it should be on.

    Raises TargetRefused: not absolute, missing, reached through a link, not a folder, in /dev or
    the like, or a mount that /etc/fstab promises is not there.
    """
    _need_absolute(target, folder)
    real = reading.resolve(host, folder)
    if not real:
        raise TargetRefused(
            f"the folder {folder} does not exist",
            target=target.name,
            evidence=(f"what exists of it: {reading.nearest(host, folder)}",),
            advice="Mount the file system or create the folder; iotrial does not create it,"
            " because it could be on the wrong file system.",
        )
    _need_real(target, folder, real)
    found = reading.status(host, real)
    if found is None or not found.is_folder:
        kind = found.kind if found else "nothing"
        raise TargetRefused(
            f"{folder} is a {kind}, not a folder",
            target=target.name,
            advice="Use `file = …` or `device = …` in the study, or name its folder.",
        )
    place = standing(host, real)
    _need_storage(target, place)
    _need_promised_mount(host, target, place)
    return place


def _need_absolute(target: Target, path: str) -> None:
    if not path.startswith("/"):
        raise TargetRefused(
            f"{path!r} is not an absolute path", target=target.name, advice="Start it with /."
        )


def _need_real(target: Target, path: str, real: str) -> None:
    if real != str(PurePosixPath(path)):
        raise TargetRefused(
            f"{path} leads elsewhere",
            target=target.name,
            evidence=(f"its real path is {real}",),
            advice=f"If this is the intended path, write {real} in the study.",
        )


def _need_storage(target: Target, place: PathLocation) -> None:
    if place.mount.fstype in KERNEL or place.mount.point == "/dev":
        raise TargetRefused(
            f"{target.path} would not be on storage",
            target=target.name,
            evidence=(place.describe(),),
            advice="For a device write device = …, and check its name.",
        )


def _need_promised_mount(host: Reader, target: Target, place: PathLocation) -> None:
    promised = parse_fstab(reading.text(host, "/etc/fstab"))
    for point in sorted(promised, key=len, reverse=True):
        deeper = len(point) > len(place.mount.point.rstrip("/"))
        if under(place.path, point) and deeper:
            raise TargetRefused(
                f"nothing is mounted on {point}",
                target=target.name,
                evidence=(f"/etc/fstab promises a mount on {point}", place.describe()),
                advice=f"mount {point}, or use a folder on {place.mount.point}",
            )


def need_room(target: Target, place: PathLocation, size: int) -> None:
    """Refuse when ``size`` more bytes would not leave a margin: 64 MiB, or 5 % of what is left."""
    margin = max(_MARGIN, int(place.room * _MARGIN_SHARE)) if size else 0
    if size + margin > place.room:
        raise TargetRefused(
            f"not enough space for {format_bytes(size)}",
            target=target.name,
            evidence=(place.describe(), f"reserve: {format_bytes(margin)}"),
            advice="Reduce the size, or free space.",
        )


def need_writable(target: Target, place: PathLocation) -> None:
    if place.mount.read_only:
        raise TargetRefused(
            f"{place.path} is mounted read-only",
            target=target.name,
            evidence=(place.describe(),),
            advice=f"mount -o remount,rw {place.mount.point}",
        )


def laid_size(size: int) -> int:
    """Files are laid out in whole MiB, since direct I/O ends on a block."""
    return -(-size // MIB) * MIB
