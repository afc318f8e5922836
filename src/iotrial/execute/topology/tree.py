"""The whole tree of a target: mount, device, disks, adapters, interfaces, interrupts, CPUs.

Sources: proc_pid_mountinfo(5) for the mount; fs/nfs/super.c and block/genhd.c for the names of
backing devices (``0:NN`` of the super block, ``major:minor`` of the whole disk), fs/btrfs/sysfs.c
for the link to that of btrfs, which has a name of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from posixpath import basename

from iotrial.execute.mounts import Mount, mount_of, parse_mountinfo
from iotrial.execute.topology.blocks import (
    device,
    devices,
    folder_of,
    in_order,
    partitions,
    slaves,
)
from iotrial.execute.topology.draft import Draft, Grown, Key
from iotrial.execute.topology.functions import members
from iotrial.execute.topology.network import towards
from iotrial.execute.topology.seen import Seen, build
from iotrial.model.host import Host
from iotrial.model.target import Aim, Target
from iotrial.model.topology import Topology

_BTRFS = ("find", "/sys/fs/btrfs", "-mindepth", "3", "-maxdepth", "3", "-path", "*/devices/*")
_NEVER_SHOWN = ("ram", "zram", "fd", "sr")


def topology(host: Host, aim: Aim) -> Topology:
    """What lies between this target and the metal.  Whatever cannot be read is left out."""
    return topologies(host, (aim,))[0]


def topologies(host: Host, aims: Sequence[Aim]) -> tuple[Topology, ...]:
    """Those of several targets, in the same round trips."""
    return build(host, lambda seen: tuple(_of(seen, aim) for aim in aims))


def devices_here(host: Host) -> tuple[Topology, ...]:
    """Those of all block devices that are not a part of another one; without the CPUs, which
    are the same for all."""
    return build(host, lambda seen: tuple(_done(_way(seen, aim)) for aim in _uppermost(seen)))


def _uppermost(seen: Seen) -> list[Aim]:
    draft = Draft(seen)
    known = devices(draft)
    within = {name: basename(folder.rpartition("/")[0]) for name, folder in known.items()}
    parts = {name for name, disk in within.items() if disk in known}
    built_on = {leg for legs in slaves(draft).values() for leg in legs}
    below = built_on | {within[leg] for leg in built_on & parts}
    names = [
        name
        for name in sorted(set(known) - parts - below, key=in_order)
        if not name.startswith(_NEVER_SHOWN)
        and seen.text(f"{known[name]}/hidden") != "1"
        and seen.text(f"{known[name]}/size") not in ("", "0")
    ]
    return [
        Aim(Target(name, "device", f"/dev/{name}"), f"/dev/{name}", name, None) for name in names
    ]


def _of(seen: Seen, aim: Aim) -> Topology:
    draft = _way(seen, aim)
    for cpu in members(seen.text("/sys/devices/system/cpu/online")):
        draft.leaf("cpu", f"cpu{cpu}")
    return _done(draft)


def _done(draft: Draft) -> Topology:
    return Topology(tuple(draft.nodes.values()))


def _way(seen: Seen, aim: Aim) -> Draft:
    draft = Draft(seen)
    mounts = parse_mountinfo(seen.text("/proc/self/mountinfo"))
    for mount in _mounts(draft, aim, mounts):
        draft.node("mount", mount.point, partial(_mount, draft, aim, mount))
    if aim.device:
        device(draft, aim.device)
        number = seen.text(f"{folder_of(draft, aim.device)}/dev")
        if number:
            draft.leaf("bdi", number)
            draft.leaf("cgroup", number)
    return draft


def _mounts(draft: Draft, aim: Aim, mounts: Sequence[Mount]) -> list[Mount]:
    """The mount that a file or directory lies on; of a device all that show it, each file system
    once."""
    if aim.target.kind in ("file", "directory"):
        found = mount_of(aim.path, mounts)
        return [found] if found else []
    if not aim.device:
        return []
    names = (aim.device, *partitions(draft, aim.device))
    numbers = {draft.seen.text(f"{folder_of(draft, name)}/dev") for name in names} - {""}
    once: dict[str, Mount] = {}
    for mount in mounts:
        if mount.devno in numbers:
            once.setdefault(mount.devno, mount)
    return list(once.values())


def _mount(draft: Draft, aim: Aim, mount: Mount) -> Grown:
    below = [*_backing(draft, aim, mount)]
    if aim.device:
        below.append(device(draft, aim.device))
    else:
        below += towards(draft, _server(mount))
    return tuple(below), (("type", mount.fstype), ("from", mount.source))


def _server(mount: Mount) -> str:
    """The address that NFS and SMB show among their options."""
    options = (option.partition("=") for option in mount.options)
    return next((value for name, _, value in options if name == "addr"), "")


def _backing(draft: Draft, aim: Aim, mount: Mount) -> tuple[Key, ...]:
    """The backing device of a file system: its own, or that of the disk."""
    own = mount.devno if mount.devno in draft.seen.names("/sys/class/bdi") else ""
    number = draft.seen.text(f"{folder_of(draft, aim.device)}/dev") if aim.device else ""
    name = own or (_btrfs(draft, aim) if mount.fstype == "btrfs" else "") or number
    return (draft.leaf("bdi", name),) if name else ()


def _btrfs(draft: Draft, aim: Aim) -> str:
    """/sys/fs/btrfs/UUID/devices/vda2 says whose it is, UUID/bdi its backing device."""
    names = {aim.device, *partitions(draft, aim.device)}
    for line in draft.seen.said(*_BTRFS):
        if basename(line) in names:
            links = draft.seen.links(line.partition("/devices/")[0])
            return basename(links.get("bdi", ""))
    return ""
