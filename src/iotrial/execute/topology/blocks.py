"""Block devices: from the one under test down to the disks.

Device-mapper and md are virtual devices with ``slaves/``, so one search finds what every one of
them is built on.  A dm device says by its uuid what it is: ``mpath-`` a multipath map, ``LVM-``
a logical volume whose name holds group and volume, ``-`` doubled (lib/device_mapper's
dm_split_lvm_name()).  NVMe's own multipathing shows the paths as hidden disks, nvme0c1n1 being
one of nvme0n1.
"""

from __future__ import annotations

import re
from functools import lru_cache
from posixpath import basename

from iotrial.execute.topology.adapters import hung_on
from iotrial.execute.topology.draft import Draft, Facts, Grown, Key

_VIRTUAL = "/sys/devices/virtual/block"
_SLAVES = ("find", _VIRTUAL, "-mindepth", "3", "-maxdepth", "3", "-path", "*/slaves/*")
_HEAD = re.compile(r"^nvme(\d+)n(\d+)$")
_UUID = 36  # the group's half of an LVM uuid: LVM- and 32 characters


def devices(draft: Draft) -> dict[str, str]:
    """Every block device, partitions too: its name and its folder in /sys."""
    return draft.seen.links("/sys/class/block")


def folder_of(draft: Draft, name: str) -> str:
    return devices(draft).get(name, f"/sys/class/block/{name}")


def slaves(draft: Draft) -> dict[str, tuple[str, ...]]:
    """What each device-mapper and md device is built on."""
    return _legs(draft.seen.output(*_SLAVES))


@lru_cache(maxsize=16)
def _legs(listed: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for line in listed.splitlines():
        upper, _, lower = line.removeprefix(f"{_VIRTUAL}/").partition("/slaves/")
        found.setdefault(upper, []).append(lower)
    return {upper: tuple(sorted(lower, key=in_order)) for upper, lower in found.items()}


def in_order(name: str) -> tuple[int, str]:
    """sda before sdaa, dm-2 before dm-10."""
    return (len(name), name)


def partitions(draft: Draft, disk: str) -> tuple[str, ...]:
    """Partitions of a disk, which are folders in its folder."""
    above = folder_of(draft, disk)
    found = (name for name, folder in devices(draft).items() if folder == f"{above}/{name}")
    return tuple(sorted(found, key=in_order))


def paths(draft: Draft, name: str) -> tuple[str, ...]:
    """The hidden paths of an NVMe namespace that the kernel multipaths itself."""
    head = _HEAD.match(name)
    if not head:
        return ()
    pattern = re.compile(rf"nvme{head[1]}c\d+n{head[2]}")
    return tuple(sorted((n for n in devices(draft) if pattern.fullmatch(n)), key=in_order))


def device(draft: Draft, name: str) -> Key:
    """The device under test and all below it."""
    return draft.node("device", name, lambda: _device(draft, name))


def _device(draft: Draft, name: str) -> Grown:
    through: list[str] = []
    below = _layer(draft, name, through, ())
    folder = folder_of(draft, name)
    backing = draft.seen.text(f"{folder}/loop/backing_file")
    about = (("through", ", ".join(through)), ("backing", backing))
    return below, about


def _layer(draft: Draft, name: str, through: list[str], above: tuple[str, ...]) -> tuple[Key, ...]:
    """The nodes that ``name`` is or is built on.  ``through`` collects layers that no setting
    belongs to (a crypt device, a partition of a map); ``above`` are the devices on the way."""
    folder = folder_of(draft, name)
    parent = basename(folder.rpartition("/")[0])
    if parent in devices(draft):  # a partition: its disk has the queue
        return _layer(draft, parent, through, above)
    legs = () if name in above else slaves(draft).get(name, ())
    uuid, title = _mapped(draft, name)

    def grow(*about: tuple[str, str]) -> Grown:
        way = (*above, name)
        return tuple(key for leg in legs for key in _layer(draft, leg, through, way)), about

    if uuid.startswith("mpath-"):
        return (draft.node("map", title, lambda: grow(("device", name))),)
    if uuid.startswith("LVM-") and not _same_group(draft, uuid, above):
        return (draft.node("volume", volume(title), lambda: grow(("device", name))),)
    if name.startswith("md") and legs:
        return (draft.node("array", name, lambda: grow(*_array(draft, folder))),)
    if legs:
        if not uuid.startswith("LVM-"):
            through.append(f"{_kind(uuid)} {title or name} = {name}".strip())
        return grow()[0]
    hidden = paths(draft, name)
    return tuple(disk(draft, each) for each in hidden or (name,))


def _mapped(draft: Draft, name: str) -> tuple[str, str]:
    """Uuid and name of a device-mapper device."""
    if not name.startswith("dm-"):
        return "", ""
    folder = folder_of(draft, name)
    return draft.seen.text(f"{folder}/dm/uuid"), draft.seen.text(f"{folder}/dm/name")


def _same_group(draft: Draft, uuid: str, above: tuple[str, ...]) -> bool:
    """Is there a volume of the same group above: is this a part of it (``pool``, ``rimage``)?"""
    uppers = (draft.seen.text(f"{folder_of(draft, upper)}/dm/uuid") for upper in above)
    return any(upper[:_UUID] == uuid[:_UUID] for upper in uppers)


def volume(title: str) -> str:
    """Group and name of a logical volume.

    >>> volume("vg--a-lv--b")
    'vg-a/lv-b'
    """
    parts = re.split(r"(?<!-)-(?!-)", title, maxsplit=1)
    return "/".join(part.replace("--", "-") for part in parts)


def _kind(uuid: str) -> str:
    """CRYPT-LUKS2-… → crypt; part1-mpath-… → part1."""
    return uuid.partition("-")[0].lower() if "-" in uuid else ""


def _array(draft: Draft, folder: str) -> Facts:
    read = draft.seen.text
    missing = read(f"{folder}/md/degraded")
    return (
        ("level", read(f"{folder}/md/level")),
        ("state", f"degraded by {missing}" if missing not in ("", "0") else ""),
    )


def disk(draft: Draft, name: str) -> Key:
    """A disk at the bottom, and what it hangs on."""
    return draft.node("disk", name, lambda: _disk(draft, name))


def _disk(draft: Draft, name: str) -> Grown:
    folder = folder_of(draft, name)
    below, facts = hung_on(draft, folder)
    read = draft.seen.text
    queues = draft.seen.names(f"{folder}/mq")
    about = (
        ("model", " ".join(read(f"{folder}/device/model").split())),
        ("state", read(f"{folder}/device/state")),
        ("ana", read(f"{folder}/ana_state")),
        *facts,
        ("queues", str(len(queues)) if queues else ""),
    )
    return below, about
