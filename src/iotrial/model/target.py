"""Target: what the I/O is aimed at, and who it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TargetKind = Literal["device", "file", "directory", "loop"]
FILESYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs")
"""Those that iotrial makes."""
MOUNT_POINT = "/iotrial-mount-point"
"""Stands for the one that a file system made by iotrial has not got yet."""


@dataclass(frozen=True, slots=True)
class Mounting:
    """What is mounted at a target's directory: what mount(8) is given."""

    source: str
    type: str
    options: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A target as the study declares it.

    ``path`` is the device, file or directory; for ``loop`` the folder that will hold the backing
    file (empty: iotrial's own).  ``size`` in bytes (file, loop; 0 otherwise).  ``destroy`` is the
    serial or WWN that arms writing to a device.  ``hosts`` are the machines that have it, where the
    study names any.  What is made for it: ``create`` are commands
    that make it and ``remove`` those that remove it again, ``filesystem`` is made on the device
    and mounted, ``mount`` is mounted at the directory.

    Several loaded as one: ``devices`` are their paths, ``armed`` what arms each; ``of`` are the
    names of other targets (:mod:`iotrial.plan.parts` says what it comes to).
    """

    name: str
    kind: TargetKind
    path: str = ""
    size: int = 0
    destroy: str = ""
    hosts: tuple[str, ...] = ()
    create: tuple[tuple[str, ...], ...] = ()
    remove: tuple[tuple[str, ...], ...] = ()
    filesystem: str = ""
    mount: Mounting | None = None
    devices: tuple[str, ...] = ()
    armed: tuple[str, ...] = ()
    of: tuple[str, ...] = ()

    @property
    def made(self) -> bool:
        """Whether something is made for it, beside a loop device."""
        return bool(self.create or self.filesystem or self.mount)

    @property
    def under_load(self) -> Literal["device", "file", "directory"]:
        """What a load is aimed at."""
        if self.filesystem:
            return "directory"
        return "device" if self.kind == "loop" else self.kind


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a block device is, read from sysfs: never from a name that can move.

    ``ids`` maps a kind of identity (``wwid``, ``serial``, ``dm_uuid``, ``md_uuid``,
    ``backing_file``, ``backing_inode``) to what the kernel says.  ``devno`` is ``major:minor``.
    ``size`` in bytes.
    """

    kernel_name: str
    devno: str
    size: int
    ids: tuple[tuple[str, str], ...] = ()

    @property
    def stable(self) -> tuple[tuple[str, str], ...]:
        """What must be equal for two sightings to be the same disk."""
        return (*self.ids, ("size", str(self.size)))


@dataclass(frozen=True, slots=True)
class Aim:
    """A target made ready: where the load points and which device its settings belong to.

    ``path`` is what the tool is given (device node, file, or directory); ``device`` the kernel
    name whose ``queue/`` is tuned (empty where there is none, such as a network mount);
    ``identity`` who that device was when it was made ready; ``inode`` which file or folder lay
    at the path then (file system and inode; '' none).
    """

    target: Target
    path: str
    device: str
    identity: Identity | None
    inode: str = ""
