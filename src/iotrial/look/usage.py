"""Usage: evidence that a block device, or anything built on it, belongs to somebody.

fio's own check is a string match in mtab.  Here the kernel's tree is walked from the device
upwards: its partitions, what holds it (device-mapper, LVM, md, bcache), loop devices attached to
it, other paths to the same disk; and each of these is looked for among the mounts of every
namespace that can be seen, among the swaps, and by its content (blkid).  At the end the kernel is
asked for the device alone (O_EXCL), which it refuses when anybody has claimed it, even in a
namespace that cannot be seen from here.

File usage: evidence that a file belongs to somebody who would miss what is in it.

A file may be a disk: of a loop device with a mounted file system, of a virtual machine, of a swap
space, of a client over the network.  Whoever writes to it then writes below them.  All of that is
compared by file system and inode, so that neither another name of the file (a hard link, a bind
mount, a link, another root) nor one that is gone hides it.  A file on an overlay has two: its own,
and that of the upper layer, where it is really kept.

Holders: who has a device or file in hand without mounting it.

Programs that have it open for writing (a virtual machine's disk: /proc/PID/fd), and parts of the
kernel that serve it to others (NVMe over fabrics, SCSI targets, USB gadgets) or store in it (zram).
All is compared by number, never by name.  Programs are seen as far as we may look: all by root.

Backing: what loop devices are attached to, by number and not by name.

A loop's ``backing_file`` in sysfs is a path as it was: a node made with mknod(1), another name of
the same file, one that is gone or hidden by now.  The kernel knows the inode, and of a device node
its number (LOOP_GET_STATUS64 in loop(4)); perl asks for it.  Where there is none, or no root, what
lies at the path now is looked at instead.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from iotrial.look import reading
from iotrial.look.identity import BlockDevice, sight_folder, sight_number
from iotrial.look.mounts import MountEntry, SwapEntry, mount_of, parse_mountinfo, parse_swaps
from iotrial.model.host import Reader
from iotrial.model.target import DeviceIdentity

_NOTHING_FOUND = 2
_SEVERAL_FOUND = 8
_BUSY = 16  # EBUSY
_MISSING = 127
_SWAP_HEAD = 2**20  # more than the page that mkswap(8) writes its header to, on any architecture
# O_RDONLY | O_EXCL on a block device claims it for as long as it is open (block/bdev.c).
_CLAIM = "sysopen(F,$ARGV[0],128) or exit($!+0)"


@dataclass(frozen=True, slots=True)
class _RelatedDevice:
    """A device of the tree, and what it is to the target (``a partition of loop9``; the target
    itself: empty).  ``probed``: is its content the target's content?"""

    device: BlockDevice
    tie: str = ""
    probed: bool = True

    @property
    def title(self) -> str:
        return f"{self.device.name} ({self.tie})" if self.tie else self.device.name


def usages(host: Reader, identity: DeviceIdentity) -> tuple[str, ...]:
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


def busy(host: Reader, identity: DeviceIdentity) -> tuple[str, ...]:
    """The cheap part of :func:`usages`, for use before every trial: reads, no probing of
    content (which the load itself is changing) and this namespace only."""
    return _told(host, _whole_tree(host, identity.devno), own_mounts(host))


def used(host: Reader, devno: str) -> tuple[str, ...]:
    """What is built on a device, mounted or swapped on it, in any namespace."""
    return _told(host, tree(host, sight_number(host, devno)), all_mounts(host))


def tree(host: Reader, device: BlockDevice) -> tuple[_RelatedDevice, ...]:
    """The device first, then all that is built on it, and the disk a partition lies on."""
    return _tree(host, device, attached(host))


def _whole_tree(host: Reader, devno: str) -> tuple[_RelatedDevice, ...]:
    """The tree of a device; of a loop device also what it is attached to."""
    device, loops = sight_number(host, devno), attached(host)
    return (*_tree(host, device, loops), *_under(host, device, loops))


def _tree(
    host: Reader, device: BlockDevice, loops: Sequence[_AttachedLoop]
) -> tuple[_RelatedDevice, ...]:
    start = [_RelatedDevice(device)]
    if device.is_partition:
        disk = sight_folder(host, device.disk)
        start.append(_RelatedDevice(disk, f"the disk of {device.name}", probed=False))
        start += _holders(host, disk)
    start += _twins(host, device)
    found: dict[str, _RelatedDevice] = {}
    waiting = start
    while waiting:
        relative = waiting.pop(0)
        if relative.device.devno in found:
            continue
        found[relative.device.devno] = relative
        if relative.probed:
            waiting += _above(host, relative.device, loops)
    return tuple(found.values())


def legs(host: Reader, device: BlockDevice) -> tuple[str, ...]:
    """Kernel names of what ``device`` is itself built on (multipath legs, array members)."""
    return tuple(reading.names(host, f"{device.disk}/slaves"))


def _above(
    host: Reader, device: BlockDevice, loops: Sequence[_AttachedLoop]
) -> list[_RelatedDevice]:
    return [
        *_partitions(host, device),
        *_holders(host, device),
        *_loops_on(host, device, loops),
    ]


def _partitions(host: Reader, device: BlockDevice) -> list[_RelatedDevice]:
    inside = [n for n in reading.names(host, device.folder) if n.startswith(device.name)]
    folders = [f"{device.folder}/{name}" for name in inside]
    said = reading.texts(host, [f"{folder}/partition" for folder in folders]) if folders else {}
    return [
        _RelatedDevice(sight_folder(host, folder), f"a partition of {device.name}")
        for folder in folders
        if said[f"{folder}/partition"]
    ]


def _holders(host: Reader, device: BlockDevice) -> list[_RelatedDevice]:
    found = []
    for name in reading.names(host, f"{device.folder}/holders"):
        devno = reading.text(host, f"{device.folder}/holders/{name}/dev")
        if devno:
            holder = sight_number(host, devno)
            found.append(_RelatedDevice(holder, f"built on {device.name}{_kind(host, holder)}"))
    return found


def _kind(host: Reader, holder: BlockDevice) -> str:
    """What a holder calls itself: ``: LVM-…``, ``: mpath-…``, ``: raid1``."""
    told = (
        reading.text(host, f"{holder.folder}/{at}") for at in ("dm/uuid", "dm/name", "md/level")
    )
    return next((f": {word}" for word in told if word), "")


def _loops_on(
    host: Reader, device: BlockDevice, loops: Sequence[_AttachedLoop]
) -> list[_RelatedDevice]:
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


def _under(
    host: Reader, device: BlockDevice, loops: Sequence[_AttachedLoop]
) -> tuple[_RelatedDevice, ...]:
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


def _twins(host: Reader, device: BlockDevice) -> list[_RelatedDevice]:
    """Other paths to the same disk that no multipath device has gathered: the same wwid.

    NVMe's own multipathing shows its paths as ``hidden`` disks; those are the target itself.
    There may be hundreds of disks, and each target is asked about before each trial: all of them
    in one round trip.
    """
    wwid = _wwid(device.disk, reading.texts(host, _named_in(device.disk)))
    if not wwid:
        return []
    folders = {name: f"/sys/block/{name}" for name in reading.names(host, "/sys/block")}
    said = reading.texts(host, [path for folder in folders.values() for path in _named_in(folder)])
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


def _in_block(host: Reader, name: str, tie: str) -> list[_RelatedDevice]:
    """A disk by its kernel name; none when it has just vanished."""
    devno = reading.text(host, f"/sys/block/{name}/dev")
    return [_RelatedDevice(sight_number(host, devno), tie)] if devno else []


# Deciding: pure over the tables.


def _told(
    host: Reader, relatives: Sequence[_RelatedDevice], mounts: Sequence[tuple[str, MountEntry]]
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


def _pooled(host: Reader, relatives: Sequence[_RelatedDevice]) -> tuple[str, ...]:
    """Members of mounted btrfs file systems: the table of mounts names one of several."""
    pools = [f"/sys/fs/btrfs/{name}/devices" for name in reading.names(host, "/sys/fs/btrfs")]
    members = {name for pool in pools for name in reading.names(host, pool)}
    return tuple(
        f"{relative.title} belongs to a mounted btrfs"
        for relative in relatives
        if relative.device.name in members
    )


def built_on(relatives: Iterable[_RelatedDevice]) -> tuple[str, ...]:
    """Partitions, holders and loop devices are use, whether or not anything is mounted."""
    return tuple(
        f"{relative.device.name} is {relative.tie}"
        for relative in relatives
        if relative.tie and relative.probed
    )


def mounted(
    relatives: Iterable[_RelatedDevice],
    mounts: Sequence[tuple[str, MountEntry]],
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
    relatives: Iterable[_RelatedDevice], swaps: Sequence[SwapEntry], numbers: dict[str, str]
) -> tuple[str, ...]:
    """Swap spaces on any relative; also one whose node is gone, where the size may be its."""
    return tuple(
        f"{relative.title} {_swaps(swap, numbers)}"
        for relative in relatives
        for swap in swaps
        if numbers.get(swap.path) == relative.device.devno
        or (_lost(swap, numbers) and 0 <= relative.device.size - swap.size <= _SWAP_HEAD)
    )


def _lost(swap: SwapEntry, numbers: dict[str, str]) -> bool:
    return swap.kind == "partition" and swap.path not in numbers


def _swaps(swap: SwapEntry, numbers: dict[str, str]) -> str:
    if _lost(swap, numbers):
        return f"may be swap space: {swap.path} has its size, but that node no longer exists"
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


def _signatures(host: Reader, relatives: Iterable[_RelatedDevice]) -> tuple[str, ...]:
    pairs = [(r, _probe(host, r.device)) for r in relatives if r.probed]
    return tuple(f"{relative.title} {found}" for relative, found in pairs if found)


def _probe(host: Reader, device: BlockDevice) -> str:
    done = host.run(["blkid", "-p", "-o", "export", device.node])
    if done.exit == 0:
        found = signature(parse_blkid(done.text))
        return f"carries a {found}" if found else ""
    if done.exit == _SEVERAL_FOUND:
        return "carries more than one signature (ambiguous for blkid)"
    if done.exit == _NOTHING_FOUND and not done.stderr.strip():
        return ""
    why = "blkid is not installed" if done.exit == _MISSING else done.complaint
    return f"cannot be searched for filesystems: {why}"


def _claimed(host: Reader, device: BlockDevice) -> tuple[str, ...]:
    """Ask for the device alone.  Without perl the question is not asked: the walk has spoken."""
    done = host.run(["perl", "-e", _CLAIM, device.node])
    if done.exit != _BUSY:
        return ()
    return (f"{device.name} is held by an unknown user (open with O_EXCL: busy)",)


def _table(host: Reader, path: str) -> str:
    return host.read(path).decode("utf-8", "surrogateescape")


def own_mounts(host: Reader) -> list[tuple[str, MountEntry]]:
    return [("", mount) for mount in parse_mountinfo(_table(host, "/proc/self/mountinfo"))]


def all_mounts(host: Reader) -> list[tuple[str, MountEntry]]:
    """Mounts of every namespace whose processes can be seen, ours first, each table once."""
    found = own_mounts(host)
    seen = {(mount.devno, mount.source) for _, mount in found}
    for where, text in _other_tables(host):
        for mount in parse_mountinfo(text):
            if (mount.devno, mount.source) not in seen:
                seen.add((mount.devno, mount.source))
                found.append((where, mount))
    return found


def _other_tables(host: Reader) -> Iterator[tuple[str, str]]:
    known = set()
    for name in reading.names(host, "/proc"):
        if name.isdigit():
            table = reading.content(host, f"/proc/{name}/mountinfo")
            if table not in known:
                known.add(table)
                yield f"process {name}", table.decode("utf-8", "surrogateescape")


def _numbers(host: Reader, sources: Iterable[str]) -> dict[str, str]:
    """Source path → ``major:minor`` of the block device behind it."""
    whole = {source for source in sources if source.startswith("/")}
    paths = {part for source in whole for part in (source, *source.split(":")) if part}
    found = {path: reading.status(host, path) for path in sorted(paths)}
    return {path: seen.devno for path, seen in found.items() if seen and seen.is_block_device}


def file_usages(host: Reader, path: str) -> tuple[str, ...]:
    """Everything that speaks against writing to an existing file, one sentence each; none: free.

    ``path`` is real.  Raises FileRefused when the tables of mounts or swaps cannot be read.
    """
    mounts = [mount for _, mount in all_mounts(host)]
    inodes = _inodes(host, path, mounts)
    return (
        *_named_twice(host, path),
        *_in_tables(host, path, mounts),
        *(line for inode in inodes for line in servers(host, inode=inode)),
        *(line for inode in inodes for line in openers(host, inode=inode)),
    )


def file_busy(host: Reader, path: str) -> tuple[str, ...]:
    """The cheap part of :func:`file_usages`, for use before every trial: what the kernel's own
    tables say, in this namespace only."""
    return _in_tables(host, path, [mount for _, mount in own_mounts(host)])


def _in_tables(host: Reader, path: str, mounts: Sequence[MountEntry]) -> tuple[str, ...]:
    inodes = _inodes(host, path, mounts)
    return (
        *_looped(host, inodes, mounts),
        *_swapped(host, inodes),
        *_bound(host, path, inodes, mounts),
    )


def _inodes(host: Reader, path: str, mounts: Sequence[MountEntry]) -> tuple[str, ...]:
    """The file by file system and inode; on an overlay also in its upper layer."""
    found = reading.status(host, path)
    below = _upper(path, mounts)
    kept = reading.status(host, below) if below else None
    return tuple(dict.fromkeys(each.inode_of for each in (found, kept) if each))


def _upper(path: str, mounts: Sequence[MountEntry]) -> str:
    """Where a file on an overlay is really kept; '' for any other."""
    mount = mount_of(path, mounts)
    if mount is None or mount.fstype != "overlay":
        return ""
    told = (option.partition("=") for option in mount.options)
    upper = next((value for name, _, value in told if name == "upperdir"), "")
    inside = str(PurePosixPath(path).relative_to(mount.point))
    return f"{upper}{mount.root.rstrip('/')}/{inside}" if upper else ""


def _named_twice(host: Reader, path: str) -> tuple[str, ...]:
    said = host.run(["stat", "-c", "%h", path]).text.strip()
    if said.isdigit() and int(said) > 1:
        return (f"it has {said} hard links with the same content",)
    return ()


def _looped(host: Reader, inodes: Sequence[str], mounts: Sequence[MountEntry]) -> tuple[str, ...]:
    found = []
    for loop in attached(host):
        behind = (
            {loop.inode}
            if _upper(loop.path, mounts) == ""
            else {loop.inode, *_inodes(host, loop.path, mounts)}
        )
        if behind.intersection(inodes):
            devno = reading.text(host, f"/sys/block/{loop.name}/dev")
            found += [f"{loop.name} is attached to it", *(used(host, devno) if devno else ())]
    return tuple(dict.fromkeys(found))


def _swapped(host: Reader, inodes: Sequence[str]) -> tuple[str, ...]:
    table = host.read("/proc/swaps").decode("utf-8", "surrogateescape")
    files = [swap.path for swap in parse_swaps(table) if swap.kind == "file"]
    told = {path: reading.status(host, path) for path in files}
    return tuple(
        f"it is swap space ({path})"
        for path, found in told.items()
        if found and found.inode_of in inodes
    )


def _bound(
    host: Reader, path: str, inodes: Sequence[str], mounts: Sequence[MountEntry]
) -> tuple[str, ...]:
    """Mounts of the file itself, under another name."""
    own = mount_of(path, mounts)
    points = [
        mount.point
        for mount in mounts
        if mount.root != "/" and own and mount.devno == own.devno and mount.point != own.point
    ]
    told = {point: reading.status(host, point) for point in dict.fromkeys(points)}
    return tuple(
        f"it is mounted on {point}"
        for point, found in told.items()
        if found and found.is_file and found.inode_of in inodes and point != path
    )


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


def openers(host: Reader, *, devnos: Collection[str] = (), inode: str = "") -> tuple[str, ...]:
    """Programs that have one of the devices (``major:minor``), or the file, open for writing."""
    wanted = [*map(_hexadecimal, devnos), *filter(None, [inode])]
    argv = ["sh", "-c", _OPENED, "iotrial-openers", *wanted]
    found: dict[str, None] = {}
    for line in host.run(argv).text.splitlines():
        fields = line.split("|", 2)
        if len(fields) == 3 and int(fields[1], 8) & _WRITING:  # noqa: PLR2004 (as it says)
            link, _, goal = fields[2].partition(" -> ")
            pid = link.strip("'").split("/")[2]
            name = reading.text(host, f"/proc/{pid}/comm")
            found[f"process {pid} ({name}) has {goal.strip(chr(39))} open for writing"] = None
    return tuple(found)


def _hexadecimal(devno: str) -> str:
    major, _, minor = devno.partition(":")
    return f"{int(major):x}:{int(minor):x}"


def servers(host: Reader, *, devnos: Collection[str] = (), inode: str = "") -> tuple[str, ...]:
    """What serves one of the devices, or the file, to others, or stores in it."""
    argv = ["sh", "-c", _SERVING, "iotrial-servers", *(pattern for pattern, _ in _SERVED)]
    found = []
    for line in host.run(argv).text.splitlines():
        place, _, path = line.partition(":")
        there = reading.status(host, path.strip()) if path.strip().startswith("/") else None
        if there and (there.devno in devnos or there.inode_of == inode):
            found.append(f"it is {_how(place)} ({place})")
    return tuple(found)


def _how(place: str) -> str:
    heads = ((pattern.partition("*")[0], words) for pattern, words in _SERVED)
    return next(words for head, words in heads if place.startswith(head))


_ASK = (
    'for(@ARGV){open(my $f,"<","/dev/$_") or next;my $b="\\0"x232;'
    'ioctl($f,0x4C05,$b) or next;printf("%s %s:%s %s\\n",$_,unpack("Q3",$b))}'
)
_FIELDS = 3


@dataclass(frozen=True, slots=True)
class _AttachedLoop:
    """A loop device in use: its kernel name, the path of what it was attached to, and that by
    file system and inode, and by ``major:minor`` where it is a device ('': it is none)."""

    name: str
    path: str
    inode: str
    devno: str


def attached(host: Reader) -> tuple[_AttachedLoop, ...]:
    """Every loop device that is attached to something."""
    names = [name for name in reading.names(host, "/sys/block") if name.startswith("loop")]
    files = {name: f"/sys/block/{name}/loop/backing_file" for name in names}
    said = reading.texts(host, files.values()) if files else {}
    used = {name: said[file] for name, file in files.items() if said[file]}
    known = _asked(host, used) if used else {}
    return tuple(
        _AttachedLoop(name, path, *(known.get(name) or _at(host, path)))
        for name, path in used.items()
    )


def _asked(host: Reader, names: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Name → inode and number, as the kernel tells it."""
    lines = host.run(["perl", "-e", _ASK, *names]).text.splitlines()
    found = {}
    for words in (line.split() for line in lines):
        if len(words) == _FIELDS and words[2].isdigit():
            number = int(words[2])
            devno = f"{os.major(number)}:{os.minor(number)}" if number else ""
            found[words[0]] = (words[1], devno)
    return found


def _at(host: Reader, path: str) -> tuple[str, str]:
    """What lies at a path now."""
    found = reading.status(host, path)
    if found is None:
        return "", ""
    return found.inode_of, found.devno if found.is_block_device else ""
