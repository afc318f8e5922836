"""Making targets: commands that create them, file systems made on them, mounts.

Everything is in the journal before it is done (:mod:`iotrial.execute.settings.debris` says how each
kind is undone), and is undone in the reverse order: unmount, remove the mount point, wipe the file
system, run the study's ``remove``.

*Never the wrong disk*: a file system is made only where a load might write: a loop device of ours,
or a device that the study arms (:func:`iotrial.look.targets.ready`), free of any signature.  It
gets a UUID that is chosen and journalled before; only what has that UUID is wiped afterwards.
``create`` makes what is not there: what exists already is refused, since ``remove`` would take it.

A file system is made so that it does not go on working under the load (ext4 would initialise its
inode tables and journal in the background: mke2fs(8) lazy_itable_init, lazy_journal_init), and
without discarding: what lies below stays written.  Sources: mke2fs(8), mkfs.xfs(8), mkfs.btrfs(8),
mount(8), wipefs(8), blkid(8).

Laying out the file of a file target: random bytes, really written.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from iotrial.errors import TargetRefused, TrialError
from iotrial.execute.settings.journal import ResourceUndo, numbered
from iotrial.hosts.places import state_places
from iotrial.look import reading
from iotrial.look.identity import identify, identity_of, password, sight
from iotrial.look.inodes import need_same, settled
from iotrial.look.mounts import MountEntry, parse_mountinfo
from iotrial.look.places import _SLOWEST_FILL, MIB, laid_size
from iotrial.look.targets import need_lasting_name, ready
from iotrial.look.usage import busy
from iotrial.model.host import CompletedCommand, Host
from iotrial.model.target import MountSpec, PreparedTarget, Target
from iotrial.model.tool import LoadAccess
from iotrial.tunables.file import UNMARKED

MKFS: Mapping[str, tuple[str, ...]] = {
    **{
        kind: (
            *(f"mkfs.{kind}", "-q", "-U", "{uuid}"),
            *("-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", "{node}"),
        )
        for kind in ("ext2", "ext3", "ext4")
    },
    "xfs": ("mkfs.xfs", "-q", "-K", "-m", "uuid={uuid}", "{node}"),
    "btrfs": ("mkfs.btrfs", "-q", "-K", "-U", "{uuid}", "{node}"),
}
"""How each file system is made."""
MKFS_PACKAGES = {"xfs": "xfsprogs", "btrfs": "btrfs-progs"}
"""Debian's package of each; the others are in e2fsprogs."""

REMOVE = """\
at=$1
shift
"$@" && exit
status=$?
[ -e "$at" ] || exit 0
exit "$status"
"""
"""Arguments: the target's path, a command.  A removal that fails is no debt when what it would
remove is not there: it was never made, or removed before."""

WIPE = """\
[ -b "$1" ] || exit 0
there=$(blkid -p -s UUID -o value "$1") || exit 0
[ "$there" = "$2" ] || exit 0
exec wipefs -q -a "$1"
"""
"""Arguments: device, UUID.  Removes the signatures of the file system that has this UUID; of any
other one nothing."""

_MAKE_WITHIN = 1800.0
"""Seconds that a command may take that makes something."""
_APPEARS_WITHIN = 10.0
_STEP = 0.1


@dataclass
class TargetSite:
    """Where things are made.  ``owe`` puts a debt into the journal; ``token`` names this target
    in this session; ``gone_with`` collects the names of devices, mount points and backing devices
    that exist only until they are unmade."""

    host: Host
    owe: Callable[[ResourceUndo], None]
    token: str
    gone_with: set[str] = field(default_factory=set)


def make(site: TargetSite, target: Target, reach: LoadAccess) -> PreparedTarget:
    """Make what a device, file or directory target needs, and aim at it.

    Raises TargetRefused before anything is made, TrialError when making it fails.
    """
    if target.create:
        _create(site, target)
        target = _armed(site.host, target)
    if target.filesystem:
        below = ready(site.host, target, LoadAccess(reads=True, writes=True))
        if target.create:
            _goes(site, below)
        return on_filesystem(site, below, reach)
    if target.mount:
        _mount_at(site, target, target.mount)
    aim = ready(site.host, target, reach)
    if target.create and target.kind == "device":
        _goes(site, aim)
    return aim


def _goes(site: TargetSite, aim: PreparedTarget) -> None:
    """What a made device is called: its settings and limits go with it."""
    site.gone_with |= {aim.device, aim.identity.devno if aim.identity else ""} - {""}


# Before it is made.


# Commands of the study.


def _create(site: TargetSite, target: Target) -> None:
    if reading.status(site.host, target.path) is not None:
        raise TargetRefused(
            f"{target.path} exists, so this study can neither create nor remove it",
            target=target.name,
            advice=(
                "Remove it first if it is left over, or remove `create` and `remove` from"
                " the study."
            ),
        )
    for argv in reversed(target.remove):
        site.owe(_command(" ".join(argv), REMOVE, "iotrial-remove", target.path, *argv))
    for argv in target.create:
        _must(site.host.run([*UNMARKED, *argv], timeout=_MAKE_WITHIN), f"create {target.path}")
    until = site.host.clock() + _APPEARS_WITHIN
    while reading.status(site.host, target.path) is None:
        if site.host.clock() > until:
            raise TrialError(
                f"`create` did not create {target.path}",
                advice=(
                    "Check that its commands create the device or directory of the target;"
                    " run them manually."
                ),
            )
        site.host.sleep(_STEP)


def _command(name: str, script: str, *words: str) -> ResourceUndo:
    argv = ("sh", "-c", script, *words)
    return ResourceUndo("command", {"name": name, **numbered(argv)})


def _armed(host: Host, target: Target) -> Target:
    """The target with its id in place of its path as ``destroy``.

    Nobody can know the UUID of an array before it is made; its path is enough where it did not
    exist before the study's own commands made it."""
    if target.kind != "device" or not target.destroy or target.destroy != target.path:
        return target
    return replace(target, destroy=password(identify(host, target.path)))


# File systems.


def on_filesystem(site: TargetSite, below: PreparedTarget, reach: LoadAccess) -> PreparedTarget:
    """Make the target's file system on the device ``below`` it, mount it in a folder of iotrial's
    own, and aim there.  The device may be written to: :func:`ready` has said so, or it is a loop
    device of ours."""
    target, host = below.target, site.host
    kind, ours = target.filesystem, target.kind == "loop"
    ident = str(uuid.uuid4())
    if not ours:
        name = f"{kind} on {below.path}"
        site.owe(_command(name, WIPE, "iotrial-wipe", below.path, ident))
    argv = mkfs(kind, target.format, below.path, ident)
    _must(host.run(argv, timeout=_MAKE_WITHIN), f"create {kind} on {below.path}")
    point = _own_point(site, below)
    _folders(site, point)
    _mount(site, point, MountSpec(below.path, kind))
    return ready(host, _as_folder(target, point), reach)


def mkfs(kind: str, options: Sequence[str], node: str, ident: str) -> list[str]:
    """The command, with a study's own options.  mke2fs keeps the last ``-E`` alone, so what is
    given there joins ours."""
    *argv, last = (word.format(uuid=ident, node=node) for word in MKFS[kind])
    given = list(options)
    while "-E" in given[:-1] and "-E" in argv:
        at = given.index("-E")
        argv[argv.index("-E") + 1] += f",{given[at + 1]}"
        del given[at : at + 2]
    return [*argv, *given, last]


def _as_folder(target: Target, point: str) -> Target:
    """What is aimed at, once it is mounted: a folder, and whatever is in it goes with it."""
    kind = target.filesystem
    return Target(target.name, "directory", path=point, hosts=target.hosts, filesystem=kind)


def _own_point(site: TargetSite, below: PreparedTarget) -> str:
    """Beside the file of our loop device; else among iotrial's own files."""
    folder = state_places(site.host).files
    if below.target.kind == "loop" and below.identity:
        folder = str(PurePosixPath(dict(below.identity.ids)["backing_file"]).parent)
    real = reading.resolve(site.host, reading.nearest(site.host, folder))
    rest = PurePosixPath(folder).relative_to(reading.nearest(site.host, folder))
    return str(PurePosixPath(real) / rest / f"iotrial-{site.token}")


# Mounts.


def _mount_at(site: TargetSite, target: Target, what: MountSpec) -> None:
    """Mount at the directory of a target; a missing mount point is made."""
    _need_free_point(site.host, target)
    if what.source.startswith("/dev/"):
        _need_free_source(site.host, target, what)
    _folders(site, target.path)
    _mount(site, target.path, what)


def _need_free_point(host: Host, target: Target) -> None:
    there = _mounts(host, target.path)
    if there:
        raise TargetRefused(
            f"{target.path} is already a mount point",
            target=target.name,
            evidence=tuple(each.describe() for each in there),
            advice="Remove `mount` to measure that file system, or unmount it.",
        )
    if reading.names(host, target.path):
        raise TargetRefused(
            f"{target.path} is not empty, and a mount would hide its content",
            target=target.name,
            advice="Name an empty folder, or one that does not exist.",
        )


def _need_free_source(host: Host, target: Target, what: MountSpec) -> None:
    device = sight(host, what.source)
    identity = identity_of(host, device)
    named = replace(target, path=what.source)
    need_lasting_name(named, device, identity)
    evidence = busy(host, identity)
    if evidence:
        raise TargetRefused(
            f"{what.source} is in use",
            target=target.name,
            evidence=evidence,
            advice="Remove `mount` and name the directory where it is mounted.",
        )


def _folders(site: TargetSite, path: str) -> None:
    """Make a folder and its missing parents, each owed."""
    missing = [path, *map(str, PurePosixPath(path).parents)]
    missing = [folder for folder in missing if reading.status(site.host, folder) is None]
    for folder in reversed(missing):
        site.owe(ResourceUndo("folder", {"folder": folder}))
        _must(site.host.run(["mkdir", folder]), f"create folder {folder}")


def mount_at_new(site: TargetSite, point: str, what: MountSpec) -> None:
    """Mount in a folder that is made for it.  Both are owed before they are."""
    _folders(site, point)
    _mount(site, point, what)


def _mount(site: TargetSite, point: str, what: MountSpec) -> None:
    """Mount, owed by every name that the kernel may call the source by."""
    names = _names(site.host, what.source)
    for name in names:
        site.owe(ResourceUndo("mount", {"point": point, "source": name}))
    argv = ["mount", "-t", what.type, *(["-o", what.options] if what.options else [])]
    _must(site.host.run([*argv, what.source, point], timeout=_MAKE_WITHIN), f"mount {what.source}")
    there = _mounts(site.host, point)
    for each in there:
        if each.source not in names:
            site.owe(ResourceUndo("mount", {"point": point, "source": each.source}))
        if not each.on_block_device:
            site.gone_with.add(each.devno)
    site.gone_with.add(point)


def mount_again(host: Host, target: Target, point: str) -> None:
    """Unmount what was mounted for ``target`` at ``point`` and mount it again.  It is owed already.

    Raises TrialError when it is in use, or has become another device by its number.  One that is
    on no block device (NFS) may have another number each time.
    """
    before = _mounts(host, point)
    if not before or not (target.mount or target.filesystem):
        raise TrialError(f"{point} is not mounted by iotrial")
    what = target.mount or MountSpec(before[-1].source, target.filesystem)
    _must(host.run(["umount", point], timeout=_MAKE_WITHIN), f"unmount {point}")
    argv = ["mount", "-t", what.type, *(["-o", what.options] if what.options else [])]
    _must(host.run([*argv, what.source, point], timeout=_MAKE_WITHIN), f"mount {what.source}")
    after = _mounts(host, point)
    if [_device_of(each) for each in after] != [_device_of(each) for each in before]:
        raise TrialError(f"{point} has another device number since the remount")


def _device_of(there: MountEntry) -> str:
    return there.devno if there.on_block_device else f"{there.fstype} {there.source}"


def _names(host: Host, source: str) -> tuple[str, ...]:
    """mount(8) resolves links, and calls /dev/dm-3 /dev/mapper/NAME; a server's path loses its
    last slash."""
    found = [source, source.rstrip("/")] if ":" in source else [source]
    if source.startswith("/"):
        real = reading.resolve(host, source)
        found.append(real)
        mapped = reading.text(host, f"/sys/class/block/{PurePosixPath(real).name}/dm/name")
        found.append(f"/dev/mapper/{mapped}" if mapped else "")
    return tuple(dict.fromkeys(filter(None, found)))


def _mounts(host: Host, point: str) -> list[MountEntry]:
    text = host.read("/proc/self/mountinfo").decode("utf-8", "surrogateescape")
    return [mount for mount in parse_mountinfo(text) if mount.point == point]


def _must(done: CompletedCommand, what: str) -> None:
    if done.exit != 0:
        raise TrialError(
            f"could not {what}: {done.complaint}",
            advice=f"The command was: {' '.join(done.argv)}",
        )


def fill(host: Host, path: str, size: int) -> None:
    """Write ``path`` once with random bytes, ``size`` rounded up to whole MiB, to the disk.

    Random because zeros are compressed or deduplicated by some storage, and written because
    reads of holes and unwritten extents are answered without the disk.  A file that is not there
    is made by us or not at all (O_EXCL), and a link is never followed.  Raises TrialError.
    """
    count = laid_size(size) // MIB
    copy = ["dd", "if=/dev/urandom", f"of={path}", "bs=1M", f"count={count}"]
    how = ["oflag=nofollow", "conv=nocreat,fsync"]
    timeout = 60.0 + size / _SLOWEST_FILL
    done = _made(host, path)
    if done.exit == 0:
        done = host.run([*copy, "oflag=direct", *how], timeout=timeout)
    if done.exit != 0 and "Invalid argument" in done.stderr.decode("utf-8", "replace"):
        done = host.run([*copy, *how], timeout=timeout)  # a filesystem without O_DIRECT
    if done.exit != 0:
        raise TrialError(
            f"{path} could not be laid out: {done.complaint}",
            advice="Check free space and permissions.",
        )


def _made(host: Host, path: str) -> CompletedCommand:
    """The file is there: as it was, or new and empty."""
    there = ["stat", "-c", "%F", path]
    if (done := host.run(there)).exit == 0:
        return done
    return host.run(["dd", "if=/dev/null", f"of={path}", "count=0", "conv=excl", "oflag=nofollow"])


def lay_out(host: Host, aim: PreparedTarget) -> PreparedTarget:
    """Lay out the file of a file target: random bytes, really written, its size rounded up to
    whole MiB.  The file must be owed already, and what is there must be what was looked at.
    Gives back the aim at it.  Raises TrialError, TargetRefused."""
    need_same(host, aim)
    fill(host, aim.path, aim.target.size)
    return settled(host, aim)
