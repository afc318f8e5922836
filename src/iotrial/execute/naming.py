"""Naming: a device target is named by something that cannot move to another disk."""

from __future__ import annotations

import json

from iotrial.errors import TargetRefused
from iotrial.execute.arming import arms, password, portrait
from iotrial.execute.identity import BlockDevice, disks
from iotrial.model.host import Host
from iotrial.model.target import Identity, Target


def node(host: Host, target: Target) -> str:
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
            advice="Name one of these by its serial or WWN, as it stands here.",
        )
    raise TargetRefused(
        f"{target.path!r} does not name one disk: {', '.join(named)} have it",
        evidence=known,
        advice="Write an id that only one has; for paths to one disk, the multipath device's.",
    )


def need_lasting_name(target: Target, device: BlockDevice, disk: Identity) -> None:
    """sda is whichever disk answered first at this boot: not a name to aim at by, where there is
    a better one.  A loop device is known by its file, an md array by its own superblock.
    Raises TargetRefused."""
    word = password(disk)
    moving = target.path == device.node and not device.name.startswith(("loop", "md"))
    if moving and word:
        raise TargetRefused(
            f"{target.path} is a name that can move to another disk",
            target=target.name,
            evidence=(f"there now: {portrait(disk)}",),
            advice=f"Write in the study: device = {json.dumps(word, ensure_ascii=False)}"
            + (" (a partition: its link in /dev/disk/by-id)" if device.is_partition else ""),
        )
