"""Targets: may this load be aimed there?  Never the wrong disk.

:func:`ready` is asked before the first trial and :func:`same` before every other; both only look.
A refusal says the reason, the evidence, and what to do; nothing was changed when it is raised.

Naming: a device target is named by something that cannot move to another disk.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePosixPath

from iotrial.errors import TargetRefused
from iotrial.look import reading
from iotrial.look.identity import (
    BlockDevice,
    arms,
    disks,
    identity_of,
    password,
    portrait,
    sharers,
    sight,
    whole,
)
from iotrial.look.inodes import need_closed, need_kept, need_same
from iotrial.look.mounts import MEMORY
from iotrial.look.places import (
    PathLocation,
    laid_size,
    need_room,
    need_writable,
    settle_folder,
    standing,
)
from iotrial.look.reach import changes, why_changed, within
from iotrial.look.usage import busy, file_busy, file_usages, usages
from iotrial.model.host import Reader
from iotrial.model.target import DeviceIdentity, PreparedTarget, Target
from iotrial.model.tool import LoadAccess
from iotrial.model.trial import Doubt
from iotrial.units import format_bytes


def ready(host: Reader, target: Target, reach: LoadAccess) -> PreparedTarget:
    """Make a device, file or directory ready to be aimed at by a load that reaches so far.

    Looks and changes nothing.  Raises TargetRefused.  A target of kind ``loop`` is made by
    :func:`iotrial.execute.targets.loops.make_loop`, which answers with its Aim.
    """
    match target.kind:
        case "device":
            aim = _ready_device(host, target, reach)
        case "file":
            aim = _ready_file(host, target, reach)
        case "directory":
            aim = _ready_directory(host, target, reach)
        case "loop":
            raise TargetRefused(
                "a loop device is created, not looked up",
                target=target.name,
                advice="Use make_loop.",
            )
    within(host, aim, reach)
    return of_host(aim, host)


def of_host(aim: PreparedTarget, host: Reader) -> PreparedTarget:
    """The same, with the host's name where other hosts have the directory, too."""
    several = aim.target.kind == "directory" and len(aim.target.hosts) > 1
    return replace(aim, host=host.name) if several else aim


def same(host: Reader, aim: PreparedTarget) -> None:
    """Refuse when the aim is not what it was: another disk, another mount, or now in use.

    Cheap enough for every trial.  Raises TargetRefused.
    """
    on_device = aim.target.kind in ("device", "loop")
    device = _device_now(host, aim) if on_device else _below_now(host, aim)
    now = identity_of(host, whole(host, device)) if device else None
    if changed(aim.identity, now):
        raise TargetRefused(
            f"{aim.device or aim.path} is now another disk",
            target=aim.target.name,
            evidence=(f"it was: {_seen(aim.identity)}", f"it is:  {_seen(now)}"),
            advice="No load was started. Find the disk, then run again.",
        )
    if not on_device:
        need_same(host, aim)
        lasting = aim.target.kind == "file" and aim.target.destroy
        _need_unused(aim.target, file_busy(host, aim.path) if lasting else ())
    elif device:
        _need_unused(aim.target, busy(host, identity_of(host, device)))


def changed(before: DeviceIdentity | None, now: DeviceIdentity | None) -> bool:
    """Are two sightings of one name two different disks?"""
    if before is None or now is None:
        return before is not now
    return before.stable != now.stable


def _seen(identity: DeviceIdentity | None) -> str:
    return portrait(identity) if identity else "no block device"


def _device_now(host: Reader, aim: PreparedTarget) -> BlockDevice:
    try:
        return sight(host, aim.path)
    except TargetRefused as gone:
        raise _named(gone, aim.target) from None


def _below_now(host: Reader, aim: PreparedTarget) -> BlockDevice | None:
    folder = str(PurePosixPath(aim.path).parent) if aim.target.kind == "file" else aim.path
    return settle_folder(host, aim.target, folder).disk


def _named(refused: TargetRefused, target: Target) -> TargetRefused:
    """The same refusal with the target's name in the study."""
    reason = refused.message.split("\n", 1)[0]
    return TargetRefused(
        reason, target=target.name, evidence=refused.evidence, advice=refused.advice
    )


# Devices.


def _ready_device(host: Reader, target: Target, reach: LoadAccess) -> PreparedTarget:
    try:
        path = node(host, target)
        device = sight(host, path)
        identity = identity_of(host, device)
        disk = identity_of(host, whole(host, device)) if device.is_partition else identity
        evidence = usages(host, identity)
    except TargetRefused as refused:
        raise _named(refused, target) from None
    _need_medium(target, device, identity)
    # Use comes first: nobody should be told how to arm a disk that is in use.
    _need_unused(target, evidence)
    if reach.writes:
        _need_armed(host, target, device, identity)
    need_lasting_name(target, device, disk)
    there = reading.resolve(host, path)
    return PreparedTarget(target, there, device.disk_name, disk, capacity=device.size)


def _need_medium(target: Target, device: BlockDevice, identity: DeviceIdentity) -> None:
    if device.size == 0:
        raise TargetRefused(
            f"{target.path} is empty: no medium, or a loop device without a file",
            target=target.name,
            evidence=(portrait(identity),),
            advice="Insert a medium, or attach a file with losetup; or use a loop target.",
        )


def _need_armed(
    host: Reader, target: Target, device: BlockDevice, identity: DeviceIdentity
) -> None:
    """Writing needs a device that can be written and a study that names this very disk."""
    if device.read_only:
        raise TargetRefused(
            f"{target.path} is read-only and the load writes",
            target=target.name,
            evidence=(portrait(identity),),
            advice=f"blockdev --setrw {device.node}, if that is meant",
        )
    kind = arms(target.destroy, identity)
    if not kind:
        raise TargetRefused(
            _unarmed(target),
            target=target.name,
            evidence=(f"there now: {portrait(identity)}",),
            advice=_how_to_arm(identity),
        )
    disk = identity_of(host, whole(host, device))
    also = sharers(kind, disk, disks(host))
    if also:
        raise TargetRefused(
            f'destroy = "{target.destroy}" does not name one disk: {", ".join(also)} has the '
            f"same {kind}",
            target=target.name,
            evidence=(f"there now: {portrait(identity)}",),
            advice="Use an id of one disk only, such as its wwid; if these are paths to "
            "one disk, set the multipath device.",
        )


def _unarmed(target: Target) -> str:
    if not target.destroy:
        return f"the load writes to {target.path}, but the study does not permit it"
    return f'destroy = "{target.destroy}" is not the disk at {target.path}'


def _how_to_arm(identity: DeviceIdentity) -> str:
    word = password(identity)
    if not word:
        return (
            "This device has no serial, wwid or uuid for a safe identification. Use a file or a"
            " loop target on it, or a workload that only reads."
        )
    return (
        "If all data on this disk may be lost, write in the study: "
        f"destroy = {json.dumps(word, ensure_ascii=False)}"
    )


def _need_unused(target: Target, evidence: tuple[str, ...]) -> None:
    if not evidence:
        return
    raise TargetRefused(
        f"{target.path or 'the device'} is in use",
        target=target.name,
        evidence=evidence,
        advice=_how_to_free(target, evidence),
    )


def _how_to_free(target: Target, evidence: tuple[str, ...]) -> str:
    if any(" is built on " in line for line in evidence):
        return "Set the upper device as the target; no arming overrides this."
    if target.kind == "file":
        return "Use another file, or one that does not exist. No arming overrides this."
    if all(" carries a " in line for line in evidence):
        return (
            f"If what is on it is worthless: wipefs --all {target.path}; otherwise use another"
            " disk, or a file target on it. No arming overrides this."
        )
    return "Use another disk, or a file target on this one. No arming overrides this."


# Files and directories.


def _ready_file(host: Reader, target: Target, reach: LoadAccess) -> PreparedTarget:
    path = PurePosixPath(target.path)
    place = settle_folder(host, target, str(path.parent))
    real = str(PurePosixPath(place.path) / path.name)
    found = reading.status(host, real)
    _need_no_link(host, target, real)
    if found and not found.is_file:
        raise TargetRefused(
            f"{target.path} is a {found.kind}, not a file",
            target=target.name,
            advice="Use `device = …` or `directory = …` in the study.",
        )
    if reach.storage:
        need_closed(host, target, place.path) if found else need_kept(host, target, place.path)
    there = found.size if found else 0
    if found is None or changes(reach, there) or there < target.size:
        _need_expendable(target, real, found, why_changed(reach, there))
        _need_unused(target, file_usages(host, real) if found else ())
        need_writable(target, place)
        need_room(target, place, max(0, laid_size(target.size) - there))
    return _aim_at(host, target, real, place, found)


def _need_no_link(host: Reader, target: Target, path: str) -> None:
    """Refuse a link, also a dangling one: through it a load would make a file somewhere else."""
    link = reading.resolve(host, path)
    folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
    if link == path or (not link and name not in reading.names(host, folder)):
        return
    raise TargetRefused(
        f"{target.path} leads elsewhere",
        target=target.name,
        evidence=(f"its real path is {link}" if link else "it is a dangling link",),
        advice="Write the real path in the study.",
    )


def _need_expendable(
    target: Target, path: str, found: reading.FileStatus | None, why: tuple[str, ...] = ()
) -> None:
    """A file that is there is somebody's: written, or made longer, only when the study names it.

    Files that iotrial lays out are owed, and gone again before the next session looks here.
    """
    if found is None or target.destroy == path:
        return
    raise TargetRefused(
        f"{path} exists, and the load would write to it",
        target=target.name,
        evidence=(
            f"{format_bytes(found.size)}, inode {found.inode}, owner {found.owner}",
            *why,
        ),
        advice="Name a file that does not exist, or, if its content is worthless, write in the "
        f"study: destroy = {json.dumps(path, ensure_ascii=False)}",
    )


def _ready_directory(host: Reader, target: Target, reach: LoadAccess) -> PreparedTarget:
    place = settle_folder(host, target, target.path)
    if reach.storage:
        need_closed(host, target, place.path)
    if reach.writes:
        need_writable(target, place)
        need_room(target, place, target.size)
    return _aim_at(host, target, place.path, place, reading.itself(host, place.path))


def _aim_at(
    host: Reader, target: Target, path: str, place: PathLocation, found: reading.FileStatus | None
) -> PreparedTarget:
    inode = found.inode_of if found else ""
    if place.disk is None:
        return PreparedTarget(target, path, "", None, inode)
    return PreparedTarget(target, path, place.disk.name, identity_of(host, place.disk), inode)


# Doubts.


def doubts(host: Reader, aim: PreparedTarget) -> tuple[Doubt, ...]:
    """What to hold against trials on this target, however well they go."""
    found = []
    if aim.target.kind in ("file", "directory"):
        folder = str(PurePosixPath(aim.path).parent)
        found += _of_place(standing(host, folder if aim.target.kind == "file" else aim.path))
    if aim.identity is not None:
        found += _of_disk(host, aim.identity)
    return tuple(found)


def _of_place(place: PathLocation) -> list[Doubt]:
    if place.mount.fstype in MEMORY:
        what = f"{place.path} is {place.mount.fstype}: this measures memory, not storage"
        return [Doubt("target-memory", what, "Use a folder on a disk.")]
    if place.disk is None:
        what = f"no block device found below {place.mount.describe()}"
        return [Doubt("target-device", what, "Queue settings cannot be varied here.")]
    return []


def _of_disk(host: Reader, identity: DeviceIdentity) -> list[Doubt]:
    found = []
    if not identity.ids:
        what = f"{identity.kernel_name} has no serial or wwid: a replacement of the same size"
        advice = "Do not unplug or attach disks while the study runs."
        found.append(Doubt("target-identity", what + " would not be detected", advice))
    backing = dict(identity.ids).get("backing_file", "")
    if backing:
        folder = str(PurePosixPath(backing).parent)
        found += _of_place(standing(host, reading.nearest(host, folder)))
    if reading.text(host, f"/sys/block/{identity.kernel_name}/loop/dio") == "0":
        what = (
            f"I/O to {identity.kernel_name} passes through the page cache of its backing file"
            " system"
        )
        advice = "Attach it with losetup --direct-io=on on a filesystem that can do direct I/O."
        found.append(Doubt("loop-cached", what, advice))
    return found


def node(host: Reader, target: Target) -> str:
    """The path of a device target; one that is named by its id is looked for in sysfs, since not
    every machine has udev's links.  Raises TargetRefused for an id that none or several have."""
    if target.path.startswith("/"):
        return target.path
    there = disks(host)
    named = [name for name, identity in there.items() if arms(target.path, identity)]
    if len(named) == 1:
        return f"/dev/{named[0].replace('!', '/')}"
    known = [portrait(identity) for identity in there.values() if identity.ids]
    if not named:
        raise TargetRefused(
            f"no disk here has the serial, WWN or UUID {target.path!r}",
            evidence=known,
            advice="Name one of these by its serial or WWN, as listed.",
        )
    raise TargetRefused(
        f"{target.path!r} does not name one disk: {', '.join(named)} have it",
        evidence=known,
        advice="Use an id of one disk only; for paths to one disk, that of the multipath device.",
    )


def need_lasting_name(target: Target, device: BlockDevice, disk: DeviceIdentity) -> None:
    """sda is whichever disk answered first at this boot: not a name to aim at by, where there is
    a better one.  A loop device is known by its file, an md array by its own superblock.
    Raises TargetRefused."""
    word = password(disk)
    moving = target.path == device.node and not device.name.startswith(("loop", "md"))
    if moving and word:
        raise TargetRefused(
            f"{target.path} is not a persistent name",
            target=target.name,
            evidence=(f"there now: {portrait(disk)}",),
            advice=f"Write in the study: device = {json.dumps(word, ensure_ascii=False)}"
            + (" (a partition: its link in /dev/disk/by-id)" if device.is_partition else ""),
        )
