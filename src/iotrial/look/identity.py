"""Identity: who a block device is, read from sysfs.

Names move: ``sda`` is another disk after a path flaps, and not every machine runs udev or has
/dev/disk.  So a path is followed to its device number, the number to /sys/dev/block, and there
the kernel says who it is: wwid and VPD page 0x80 for SCSI (Documentation/ABI/testing/
sysfs-block-device, sysfs-bus-scsi-devices), wwid for NVMe, ``serial`` for virtio, dm/uuid,
md/uuid, loop/backing_file.

Arming: does the study name the very disk that is there now?

Writing to a device needs ``destroy = "<serial or wwn>"`` in the study.  What is written there is
compared with what the kernel says at the moment of the trial.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iotrial.errors import TargetRefused
from iotrial.look import reading
from iotrial.model.host import Reader
from iotrial.model.step import Probe
from iotrial.model.target import DeviceIdentity, Scope
from iotrial.units import format_bytes

_SECTOR = 512  # sysfs counts 512-byte units whatever the device's own block size is
_VPD_HEAD = 4  # peripheral, page code, two bytes of length; then the serial (SPC-4, 7.8.15)

# Kind of identity → where sysfs may hold it; the first that says something counts.
SOURCES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("wwid", ("wwid", "device/wwid", "device/cid")),
    ("serial", ("device/vpd_pg80", "serial", "device/serial")),
    ("dm_uuid", ("dm/uuid",)),
    ("dm_name", ("dm/name",)),
    ("md_uuid", ("md/uuid",)),
    ("backing_file", ("loop/backing_file",)),
    ("backing_offset", ("loop/offset",)),
)
BLOCK: tuple[Scope, ...] = ("device", "disk", "array")
"""Scopes whose names are kernel names of block devices."""
_FOLDERS: Mapping[Scope, str] = {
    **dict.fromkeys(BLOCK, "/sys/block/{}"),
    "nic": "/sys/class/net/{}",
}
_WITNESSES = (
    ("address",),
    ("size", *(place for _, places in SOURCES for place in places if "vpd" not in place)),
)
"""Of an interface; of a block device.  Text only: the shell cannot hold the NULs of a VPD page."""
ATTRIBUTES = tuple(place for _, places in SOURCES for place in places)


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One block device of the kernel.  ``folder`` is its real folder in /sys, ``disk`` that of
    the whole disk (its own unless it is a partition); ``size`` in bytes."""

    name: str
    devno: str
    folder: str
    disk: str
    size: int
    read_only: bool

    @property
    def is_partition(self) -> bool:
        return self.folder != self.disk

    @property
    def disk_name(self) -> str:
        """The kernel name whose ``queue/`` serves this device: a partition has its parent's."""
        return self.disk.rpartition("/")[2]

    @property
    def node(self) -> str:
        """The node the kernel makes for it (``cciss!c0d0`` is /dev/cciss/c0d0)."""
        return "/dev/" + self.name.replace("!", "/")


def identify(host: Reader, path: str) -> DeviceIdentity:
    """Who the block device at ``path`` (/dev/loop9, /dev/disk/by-id/…, /dev/mapper/…) is now.

    For a partition: the ids of its disk, its own name, number and size, and its number and
    start as id ``partition``.  Raises TargetRefused when there is no block device.
    """
    return identity_of(host, sight(host, path))


def sight(host: Reader, path: str) -> BlockDevice:
    """The block device behind ``path``.  Raises TargetRefused when there is none."""
    found = reading.status(host, path)
    if found is None:
        raise TargetRefused(
            f"{path} does not exist",
            advice="Check the cabling and the name; /sys/block lists the disks.",
        )
    if not found.is_block_device:
        raise TargetRefused(
            f"{path} is a {found.kind}, not a block device",
            advice="Use `file = …` or `directory = …` in the study for a path on a filesystem.",
        )
    return sight_number(host, found.devno)


def sight_number(host: Reader, devno: str) -> BlockDevice:
    """The block device with number ``major:minor``.  Raises TargetRefused when there is none."""
    folder = reading.resolve(host, f"/sys/dev/block/{devno}")
    if not folder:
        raise TargetRefused(
            f"no block device has number {devno}",
            evidence=(f"/sys/dev/block/{devno} does not exist",),
            advice="The device was removed, or /sys is not mounted.",
        )
    return sight_folder(host, folder, devno)


def sight_folder(host: Reader, folder: str, devno: str = "") -> BlockDevice:
    """The block device whose folder in /sys is ``folder``."""
    said = reading.texts(host, [f"{folder}/{name}" for name in ("partition", "dev", "size", "ro")])
    return BlockDevice(
        name=folder.rpartition("/")[2],
        devno=devno or said[f"{folder}/dev"],
        folder=folder,
        disk=folder.rpartition("/")[0] if said[f"{folder}/partition"] else folder,
        size=int(said[f"{folder}/size"] or 0) * _SECTOR,
        read_only=said[f"{folder}/ro"] == "1",
    )


def whole(host: Reader, device: BlockDevice) -> BlockDevice:
    """The disk a partition lies on; any other device itself."""
    return sight_folder(host, device.disk) if device.is_partition else device


def identity_of(host: Reader, device: BlockDevice) -> DeviceIdentity:
    """The identity of a device already sighted."""
    return _identity_from(host, device, reading.contents(host, _told_by(device)))


def _told_by(device: BlockDevice) -> list[str]:
    """The files that say who a device is."""
    return [f"{device.disk}/{place}" for place in ATTRIBUTES]


def _identity_from(host: Reader, device: BlockDevice, known: Mapping[str, bytes]) -> DeviceIdentity:
    """The identity of a device from what its files say; only what few devices have is asked for
    now."""
    ids = dict(ids_from({place: known[f"{device.disk}/{place}"] for place in ATTRIBUTES}))
    if "backing_file" in ids:
        ids["backing_inode"] = _inode(host, ids["backing_file"])
    if device.name.startswith("md") and "md_uuid" not in ids:
        ids |= _legs(host, device)
    if device.is_partition:
        number = reading.text(host, f"{device.folder}/partition")
        ids["partition"] = f"{number}@{reading.text(host, f'{device.folder}/start')}"
    return DeviceIdentity(device.name, device.devno, device.size, tuple(ids.items()))


def disks(host: Reader) -> dict[str, DeviceIdentity]:
    """Every disk the kernel shows, but for the hidden paths of NVMe's own multipathing.  There may
    be hundreds: all are asked in one round trip."""
    folders = {name: f"/sys/block/{name}" for name in reading.names(host, "/sys/block")}
    attributes = ("hidden", "size", "dev", *ATTRIBUTES)
    wanted = [f"{folder}/{attribute}" for folder in folders.values() for attribute in attributes]
    known = reading.contents(host, wanted)
    found: dict[str, DeviceIdentity] = {}
    for name, folder in folders.items():
        said = {
            each: reading.clean(known[f"{folder}/{each}"]) for each in ("hidden", "size", "dev")
        }
        if said["hidden"] != "1" and said["size"] != "0":
            size = int(said["size"] or 0) * _SECTOR
            device = BlockDevice(name, said["dev"], folder, folder, size, read_only=False)
            found[name] = _identity_from(host, device, known)
    return found


def witness_probes(scope: Scope, device: str) -> tuple[Probe, ...]:
    """Files by whose text the guard can tell that the thing of this name is still the same one:
    without Python it cannot do what :func:`identify` does.  None for kinds without such files."""
    if scope not in _FOLDERS:
        return ()
    folder = _FOLDERS[scope].format(device.replace("/", "!"))
    return tuple(Probe(f"{folder}/{name}") for name in _WITNESSES[scope in BLOCK])


def ids_from(said: Mapping[str, bytes]) -> tuple[tuple[str, str], ...]:
    """Kinds of identity from what sysfs says (attribute → bytes, absent or empty: not said).

    A device-mapper name counts only where there is no uuid (a table made by hand), an offset
    only where it is not 0, an md uuid only where it is not all zeros (no superblock).
    """
    found: dict[str, str] = {}
    for kind, places in SOURCES:
        values = (_value(place, said.get(place, b"")) for place in places)
        first = next((value for value in values if value), "")
        if first:
            found[kind] = first
    if "dm_uuid" in found:
        found.pop("dm_name", None)
    if found.get("backing_offset") == "0":
        del found["backing_offset"]
    if not found.get("md_uuid", "1").strip("0-"):
        del found["md_uuid"]
    return tuple(found.items())


def _value(place: str, data: bytes) -> str:
    if place.endswith("vpd_pg80"):
        length = int.from_bytes(data[2:_VPD_HEAD], "big")
        data = data[_VPD_HEAD : _VPD_HEAD + length]
    return reading.clean(data)


def _inode(host: Reader, backing_file: str) -> str:
    """Filesystem and inode number of a backing file; ``gone`` when it was unlinked."""
    found = reading.status(host, backing_file)
    return f"{found.filesystem}:{found.inode}" if found else "gone"


def _legs(host: Reader, device: BlockDevice) -> dict[str, str]:
    """Older kernels do not show md's uuid: the array is then known by its members."""
    legs = reading.names(host, f"{device.disk}/slaves")
    known = [_leg(host, f"{device.disk}/slaves/{leg}") for leg in legs]
    return {"md_legs": " ".join(sorted(known))} if known else {}


def _leg(host: Reader, link: str) -> str:
    devno = reading.text(host, f"{link}/dev")
    leg = identity_of(host, sight_number(host, devno))
    return ",".join(value for kind, value in leg.ids if kind != "serial") or leg.kernel_name


# Kinds of identity that name one disk, the surest first.  An inode or a size arms nothing.
ARMING = ("wwid", "dm_uuid", "md_uuid", "backing_file", "serial", "md_legs", "dm_name")
_PREFIXES = ("naa.", "eui.", "uuid.", "wwn-", "0x", "mpath-")


def arms(destroy: str, identity: DeviceIdentity) -> str:
    """The kind of identity that ``destroy`` names, or ''.

    Blanks are counted as one (vendors pad), and prefixes that udev, multipath and sysfs write
    differently (``naa.5000…``, ``0x5000…``) do not matter.
    """
    asked = normal(destroy)
    ids = dict(identity.ids)
    known = (kind for kind in ARMING if kind in ids)
    return next((kind for kind in known if asked and normal(ids[kind]) == asked), "")


def normal(text: str) -> str:
    """One spelling for what sysfs, udev and multipath spell in several ways."""
    short = " ".join(text.split())
    if short.startswith("/"):
        return short
    short = short.lower()
    for prefix in _PREFIXES:
        short = short.removeprefix(prefix)
    return short


def password(identity: DeviceIdentity) -> str:
    """What to write as ``destroy`` to arm this device; '' when nothing names it."""
    ids = dict(identity.ids)
    return next((ids[kind] for kind in ARMING if kind in ids), "")


def portrait(identity: DeviceIdentity) -> str:
    """One line that says who a device is: ``sda: 931 GiB, wwid naa.5000…, serial S3Z…``."""
    ids = [f"{kind} {value}" for kind, value in identity.ids]
    return f"{identity.kernel_name}: " + ", ".join([format_bytes(identity.size), *ids])


def sharers(
    kind: str, identity: DeviceIdentity, others: Mapping[str, DeviceIdentity]
) -> Sequence[str]:
    """Names of other disks with the same id of this kind: NVMe namespaces share the serial of
    their controller, some arrays give one serial to every volume."""
    mine = dict(identity.ids).get(kind, "")
    return sorted(
        name
        for name, other in others.items()
        if name != identity.kernel_name and dict(other.ids).get(kind) == mine
    )
