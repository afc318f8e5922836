"""Target: what the I/O is aimed at, who it is, and what lies between it and the metal, so that a
setting reaches the right layer.

Pure data; ``iotrial.look.topology`` reads it from a host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Scope = Literal[
    "host",  # one for the whole machine
    "device",  # the block device under test, as a file system on it sees it
    "disk",  # the disks at the bottom of it: paths of a multipath map, members, legs
    "scsi-host",  # their adapters (host0)
    "nvme",  # their NVMe controllers (nvme0)
    "remote-port",  # the Fibre Channel ports behind them
    "iscsi-session",  # the iSCSI sessions behind them
    "map",  # the multipath map, by name
    "array",  # the md array (md0)
    "volume",  # the logical volume (group/name)
    "crypt",  # the dm-crypt device, by the name of its mapping
    "mount",  # the mount point of the target
    "bdi",  # the backing device of its file system (major:minor), as NFS has one
    "nic",  # the network interface towards it
    "rx",  # each receive queue of that interface (eth0/queues/rx-0)
    "tx",  # each of its transmit queues
    "irq",  # each interrupt of adapters, controllers and interfaces on the way to it (number)
    "cpu",  # each CPU (cpu0)
    "cgroup",  # major:minor of the device, in the control group of the load
]
"""What a tunable belongs to.  :class:`Topology` knows what a target has
of each; a study may name it itself (``on = "eth0"``)."""

TargetKind = Literal["device", "file", "directory", "loop"]
FILESYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs")
"""Those that iotrial makes."""
MOUNT_POINT = "/iotrial-mount-point"
"""Stands for the one that a file system made by iotrial has not got yet."""


@dataclass(frozen=True, slots=True)
class MountSpec:
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
    that make it and ``remove`` those that remove it again, ``filesystem`` is made on the device,
    with the options ``format`` of mkfs, and mounted, ``mount`` is mounted at the directory.

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
    mount: MountSpec | None = None
    devices: tuple[str, ...] = ()
    armed: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    format: tuple[str, ...] = ()

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
class DeviceIdentity:
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
class PreparedTarget:
    """A target made ready: where the load points and which device its settings belong to.

    ``path`` is what the tool is given (device node, file, or directory); ``device`` the kernel
    name whose ``queue/`` is tuned (empty where there is none, such as a network mount);
    ``identity`` who that device was when it was made ready; ``inode`` which file or folder lay
    at the path then (file system and inode; '' none).  ``host`` is the name of the host where the
    target is a directory of several hosts ('': of one), ``capacity`` the bytes of a device that the
    load is aimed at (0: not known).
    """

    target: Target
    path: str
    device: str
    identity: DeviceIdentity | None
    inode: str = ""
    host: str = ""
    capacity: int = field(default=0, compare=False)  # the identity says it of a whole disk


@dataclass(frozen=True, slots=True)
class HostTarget:
    """``host`` is a name of the study's; ``target`` is one thing on it that a load is aimed at."""

    host: str
    target: Target

    @property
    def name(self) -> str:
        """Names it in results, and its folder in the trial's: ``box1/disk``."""
        return f"{self.host}/{self.target.name}"


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """One thing on the way.  ``scope`` and ``name`` are what tunables belong to (``disk``,
    ``sda``); ``below`` are the nodes (scope, name) it is built on; ``about`` are facts for people
    in their order:

    ==========  ================================================================================
    device      kernel name of a map or volume (``dm-3``)
    through     layers below the device that no setting belongs to (a linear one of dm)
    state       of disk, port, session, controller, interface, array, as the kernel spells it
    transport   fc, sas, ata, iscsi, usb, virtio, nvme-pcie, nvme-tcp …; ``speed`` of port or link
    model       ``level`` of an array; ``type`` and ``from`` of a mount; ``backing`` file of a loop
    portal      address of a storage server; ``target`` its name; ``wwpn`` of a remote port
    driver      of the PCI function ``pci``, in ``slot``, behind the bridge ``port``
    link        how its PCI link runs; ``link_most``, where that is less, how it could
    numa        the node it is on (not there: the machine has none); of a CPU where there are
                several
    thread      which thread of its core a CPU is, from the second on
    irqs        its interrupts, as ranges; ``of`` of an interrupt: who asked for it
    queues      how many hardware queues
    ==========  ================================================================================
    """

    scope: Scope
    name: str
    below: tuple[tuple[Scope, str], ...] = ()
    about: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """Every node of one target, the top first, each once."""

    nodes: tuple[TopologyNode, ...] = ()

    def names(self, scope: Scope) -> tuple[str, ...]:
        """What a tunable of this scope is set on; ``("",)`` for the host's own."""
        if scope == "host":
            return ("",)
        return tuple(node.name for node in self.nodes if node.scope == scope)

    @classmethod
    def of_disk(cls, name: str) -> Topology:
        """A plain disk that nothing more is known of ('': none at all)."""
        if not name:
            return cls()
        return cls((TopologyNode("device", name, (("disk", name),)), TopologyNode("disk", name)))

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no bytes that are not UTF-8: they become ``\\udcXX``."""
        return {
            "nodes": [
                {
                    "scope": node.scope,
                    "name": _plain(node.name),
                    "below": [[scope, _plain(name)] for scope, name in node.below],
                    "about": {name: _plain(value) for name, value in node.about},
                }
                for node in self.nodes
            ]
        }


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
