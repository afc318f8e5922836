"""Usage: evidence that a block device, or anything built on it, belongs to somebody.

fio's own check is a string match in mtab.  Here the kernel's tree is walked from the device
upwards: its partitions, what holds it (device-mapper, LVM, md, bcache), loop devices attached to
it, other paths to the same disk; and each of these is looked for among the mounts of every
namespace that can be seen, among the swaps, and by its content (blkid).  At the end the kernel is
asked for the device alone (O_EXCL), which it refuses when anybody has claimed it, even in a
namespace that cannot be seen from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iotrial.execute import look
from iotrial.execute.backing import Attached, attached
from iotrial.execute.holders import openers, servers
from iotrial.execute.identity import BlockDevice, sight_folder, sight_number
from iotrial.execute.mounts import Mount, Swap, parse_mountinfo, parse_swaps
from iotrial.model.host import Host
from iotrial.model.target import Identity

_NOTHING_FOUND = 2
_SEVERAL_FOUND = 8
_BUSY = 16  # EBUSY
_MISSING = 127
_SWAP_HEAD = 2**20  # more than the page that mkswap(8) writes its header to, on any architecture
# O_RDONLY | O_EXCL on a block device claims it for as long as it is open (block/bdev.c).
_CLAIM = "sysopen(F,$ARGV[0],128) or exit($!+0)"


@dataclass(frozen=True, slots=True)
class Relative:
    """A device of the tree, and what it is to the target (``a partition of loop9``; the target
    itself: empty).  ``probed``: is its content the target's content?"""

    device: BlockDevice
    tie: str = ""
    probed: bool = True

    @property
    def title(self) -> str:
        return f"{self.device.name} ({self.tie})" if self.tie else self.device.name


def usages(host: Host, identity: Identity) -> tuple[str, ...]:
    """Everything that speaks against touching this device now, one sentence each; none: free.

    Raises TargetRefused when the device is gone, FileRefused when the tables of mounts or swaps
    cannot be read: without them nobody can say that a disk is free.
    """
    relatives = _whole_tree(host, identity.devno)
    found = (*_told(host, relatives, all_mounts(host)), *_signatures(host, relatives))
    numbers = {relative.device.devno for relative in relatives if relative.probed}
    return (
        found
        or servers(host, devnos=numbers)
        or openers(host, devnos=numbers)
        or _claimed(host, relatives[0].device)
    )


def busy(host: Host, identity: Identity) -> tuple[str, ...]:
    """The cheap part of :func:`usages`, for use before every trial: reads, no probing of
    content (which the load itself is changing) and this namespace only."""
    return _told(host, _whole_tree(host, identity.devno), own_mounts(host))


def used(host: Host, devno: str) -> tuple[str, ...]:
    """What is built on a device, mounted or swapped on it, in any namespace."""
    return _told(host, tree(host, sight_number(host, devno)), all_mounts(host))


def tree(host: Host, device: BlockDevice) -> tuple[Relative, ...]:
    """The device first, then all that is built on it, and the disk a partition lies on."""
    return _tree(host, device, attached(host))


def _whole_tree(host: Host, devno: str) -> tuple[Relative, ...]:
    """The tree of a device; of a loop device also what it is attached to."""
    device, loops = sight_number(host, devno), attached(host)
    return (*_tree(host, device, loops), *_under(host, device, loops))


def _tree(host: Host, device: BlockDevice, loops: Sequence[Attached]) -> tuple[Relative, ...]:
    start = [Relative(device)]
    if device.is_partition:
        disk = sight_folder(host, device.disk)
        start.append(Relative(disk, f"the disk of {device.name}", probed=False))
        start += _holders(host, disk)
    start += _twins(host, device)
    found: dict[str, Relative] = {}
    waiting = start
    while waiting:
        relative = waiting.pop(0)
        if relative.device.devno in found:
            continue
        found[relative.device.devno] = relative
        if relative.probed:
            waiting += _above(host, relative.device, loops)
    return tuple(found.values())


def legs(host: Host, device: BlockDevice) -> tuple[str, ...]:
    """Kernel names of what ``device`` is itself built on (multipath legs, array members)."""
    return tuple(look.names(host, f"{device.disk}/slaves"))


def _above(host: Host, device: BlockDevice, loops: Sequence[Attached]) -> list[Relative]:
    return [
        *_partitions(host, device),
        *_holders(host, device),
        *_loops_on(host, device, loops),
    ]


def _partitions(host: Host, device: BlockDevice) -> list[Relative]:
    inside = [n for n in look.names(host, device.folder) if n.startswith(device.name)]
    folders = [f"{device.folder}/{name}" for name in inside]
    said = look.texts(host, [f"{folder}/partition" for folder in folders]) if folders else {}
    return [
        Relative(sight_folder(host, folder), f"a partition of {device.name}")
        for folder in folders
        if said[f"{folder}/partition"]
    ]


def _holders(host: Host, device: BlockDevice) -> list[Relative]:
    found = []
    for name in look.names(host, f"{device.folder}/holders"):
        devno = look.text(host, f"{device.folder}/holders/{name}/dev")
        if devno:
            holder = sight_number(host, devno)
            found.append(Relative(holder, f"built on {device.name}{_kind(host, holder)}"))
    return found


def _kind(host: Host, holder: BlockDevice) -> str:
    """What a holder calls itself: ``: LVM-…``, ``: mpath-…``, ``: raid1``."""
    told = (look.text(host, f"{holder.folder}/{at}") for at in ("dm/uuid", "dm/name", "md/level"))
    return next((f": {word}" for word in told if word), "")


def _loops_on(host: Host, device: BlockDevice, loops: Sequence[Attached]) -> list[Relative]:
    """Loop devices that are attached to the device, by whatever node; to the file that it is
    itself attached to; or to nobody knows what, a node that is gone."""
    own = next((each for each in loops if each.name == device.name), None)
    found = []
    for each in loops:
        if each.name == device.name:
            continue
        if each.devno == device.devno:
            found += _in_block(host, each.name, f"attached to {device.node}")
        elif own and each.inode and each.inode == own.inode:
            found += _in_block(host, each.name, f"attached to the same file, {own.path}")
    return found


def _under(host: Host, device: BlockDevice, loops: Sequence[Attached]) -> tuple[Relative, ...]:
    """What a loop device is attached to, where that is a device: it, and all that is built on it
    beside the loop."""
    own = next((each for each in loops if each.name == device.name), None)
    if own is None or not own.devno or own.devno == device.devno:
        return ()
    lower = sight_number(host, own.devno)
    mine = {each.device.devno for each in _tree(host, device, loops)}
    every = [*_tree(host, lower, loops), *_under(host, lower, loops)]
    return tuple(
        replace(each, tie=each.tie or f"under {device.name}", probed=bool(each.tie) and each.probed)
        for each in every
        if each.device.devno not in mine
    )


def _twins(host: Host, device: BlockDevice) -> list[Relative]:
    """Other paths to the same disk that no multipath device has gathered: the same wwid.

    NVMe's own multipathing shows its paths as ``hidden`` disks; those are the target itself.
    There may be hundreds of disks, and each target is asked about before each trial: all of them
    in one round trip.
    """
    wwid = _wwid(device.disk, look.texts(host, _named_in(device.disk)))
    if not wwid:
        return []
    folders = {name: f"/sys/block/{name}" for name in look.names(host, "/sys/block")}
    said = look.texts(host, [path for folder in folders.values() for path in _named_in(folder)])
    found = []
    for name, folder in folders.items():
        other = name != device.disk_name and said[f"{folder}/hidden"] != "1"
        if other and _wwid(folder, said) == wwid:
            found += _in_block(host, name, f"another path to {wwid}")
    return found


def _named_in(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in ("hidden", "wwid", "device/wwid")]


def _wwid(folder: str, said: Mapping[str, str]) -> str:
    return said[f"{folder}/wwid"] or said[f"{folder}/device/wwid"]


def _in_block(host: Host, name: str, tie: str) -> list[Relative]:
    """A disk by its kernel name; none when it has just vanished."""
    devno = look.text(host, f"/sys/block/{name}/dev")
    return [Relative(sight_number(host, devno), tie)] if devno else []


# Deciding: pure over the tables.


def _told(
    host: Host, relatives: Sequence[Relative], mounts: Sequence[tuple[str, Mount]]
) -> tuple[str, ...]:
    """What the kernel's own tables say: built upon, mounted, swapped on."""
    swaps = parse_swaps(_table(host, "/proc/swaps"))
    sources = {m.source for _, m in mounts if not m.on_block_device} | {s.path for s in swaps}
    numbers = _numbers(host, sources)
    return (
        *built_on(relatives),
        *mounted(relatives, mounts, numbers),
        *_pooled(host, relatives),
        *swapped(relatives, swaps, numbers),
    )


def _pooled(host: Host, relatives: Sequence[Relative]) -> tuple[str, ...]:
    """Members of mounted btrfs file systems: the table of mounts names one of several."""
    pools = [f"/sys/fs/btrfs/{name}/devices" for name in look.names(host, "/sys/fs/btrfs")]
    members = {name for pool in pools for name in look.names(host, pool)}
    return tuple(
        f"{relative.title} belongs to a mounted btrfs"
        for relative in relatives
        if relative.device.name in members
    )


def built_on(relatives: Iterable[Relative]) -> tuple[str, ...]:
    """Partitions, holders and loop devices are use, whether or not anything is mounted."""
    return tuple(
        f"{relative.device.name} is {relative.tie}"
        for relative in relatives
        if relative.tie and relative.probed
    )


def mounted(
    relatives: Iterable[Relative],
    mounts: Sequence[tuple[str, Mount]],
    numbers: dict[str, str],
) -> tuple[str, ...]:
    """Mounts of any relative, by device number, or by source where the filesystem has a number
    of its own (btrfs).  ``mounts`` are pairs (where it was seen, mount); ``numbers`` maps a
    source path to ``major:minor``."""
    found = []
    for relative in relatives:
        devno = relative.device.devno
        for where, mount in mounts:
            parts = (mount.source, *mount.source.split(":"))
            by_source = any(numbers.get(part) == devno for part in parts)
            if mount.devno == devno or by_source:
                seen = f", seen by {where}" if where else ""
                found.append(f"{relative.title} is mounted on {mount.point} ({mount.fstype}{seen})")
    return tuple(dict.fromkeys(found))


def swapped(
    relatives: Iterable[Relative], swaps: Sequence[Swap], numbers: dict[str, str]
) -> tuple[str, ...]:
    """Swap spaces on any relative; also one whose node is gone, where the size may be its."""
    return tuple(
        f"{relative.title} {_swaps(swap, numbers)}"
        for relative in relatives
        for swap in swaps
        if numbers.get(swap.path) == relative.device.devno
        or (_lost(swap, numbers) and 0 <= relative.device.size - swap.size <= _SWAP_HEAD)
    )


def _lost(swap: Swap, numbers: dict[str, str]) -> bool:
    return swap.kind == "partition" and swap.path not in numbers


def _swaps(swap: Swap, numbers: dict[str, str]) -> str:
    if _lost(swap, numbers):
        return f"may be swap space: {swap.path} has its size, and no such node is there any more"
    return f"is swap space ({swap.path})"


def parse_blkid(text: str) -> dict[str, str]:
    """``blkid -p -o export``: one NAME=value a line."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def signature(told: dict[str, str]) -> str:
    """``ext4 filesystem``, ``dos partition table`` …; '' when only the place in a partition
    table is known, which blkid says of an empty partition too."""
    if "TYPE" in told:
        usage = told.get("USAGE", "other")
        label = f" labelled {told['LABEL']}" if told.get("LABEL") else ""
        return f"{told['TYPE']} {'signature' if usage == 'other' else usage}{label}"
    return f"{told['PTTYPE']} partition table" if "PTTYPE" in told else ""


# Reading.


def _signatures(host: Host, relatives: Iterable[Relative]) -> tuple[str, ...]:
    pairs = [(r, _probe(host, r.device)) for r in relatives if r.probed]
    return tuple(f"{relative.title} {found}" for relative, found in pairs if found)


def _probe(host: Host, device: BlockDevice) -> str:
    done = host.run(["blkid", "-p", "-o", "export", device.node])
    if done.exit == 0:
        found = signature(parse_blkid(done.text))
        return f"carries a {found}" if found else ""
    if done.exit == _SEVERAL_FOUND:
        return "carries more than one signature (blkid is in two minds)"
    if done.exit == _NOTHING_FOUND and not done.stderr.strip():
        return ""
    why = "blkid is not installed" if done.exit == _MISSING else done.complaint
    return f"cannot be searched for filesystems: {why}"


def _claimed(host: Host, device: BlockDevice) -> tuple[str, ...]:
    """Ask for the device alone.  Without perl the question is not asked: the walk has spoken."""
    done = host.run(["perl", "-e", _CLAIM, device.node])
    if done.exit != _BUSY:
        return ()
    return (f"{device.name} is held by somebody the kernel does not name (open with O_EXCL: busy)",)


def _table(host: Host, path: str) -> str:
    return host.read(path).decode("utf-8", "surrogateescape")


def own_mounts(host: Host) -> list[tuple[str, Mount]]:
    return [("", mount) for mount in parse_mountinfo(_table(host, "/proc/self/mountinfo"))]


def all_mounts(host: Host) -> list[tuple[str, Mount]]:
    """Mounts of every namespace whose processes can be seen, ours first, each table once."""
    found = own_mounts(host)
    seen = {(mount.devno, mount.source) for _, mount in found}
    for where, text in _other_tables(host):
        for mount in parse_mountinfo(text):
            if (mount.devno, mount.source) not in seen:
                seen.add((mount.devno, mount.source))
                found.append((where, mount))
    return found


def _other_tables(host: Host) -> Iterator[tuple[str, str]]:
    known = set()
    for name in look.names(host, "/proc"):
        if name.isdigit():
            table = look.content(host, f"/proc/{name}/mountinfo")
            if table not in known:
                known.add(table)
                yield f"process {name}", table.decode("utf-8", "surrogateescape")


def _numbers(host: Host, sources: Iterable[str]) -> dict[str, str]:
    """Source path → ``major:minor`` of the block device behind it."""
    whole = {source for source in sources if source.startswith("/")}
    paths = {part for source in whole for part in (source, *source.split(":")) if part}
    found = {path: look.status(host, path) for path in sorted(paths)}
    return {path: seen.devno for path, seen in found.items() if seen and seen.is_block_device}
