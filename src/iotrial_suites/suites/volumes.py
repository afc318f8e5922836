"""Words for LVM: a volume group of scratch devices, volumes in it, and what the kernel has of them.

Commands see only the scratch devices (``--devices``), so nothing else is touched, and what
/etc/lvm says of filters does not matter.  Sources: lvm(8), lvmraid(7), lvcreate(8), vgreduce(8);
Documentation/admin-guide/device-mapper/dm-raid.rst (the status line).
"""

from __future__ import annotations

import re

from iotrial_suites.case import MIB, Needs, Scene
from iotrial_suites.suites.arrays import checksum, scribble
from iotrial_suites.suites.vocabulary import Doing, expect, run, undo, until

TWO, THREE = 2, 3
LVM = Needs(commands=("lvm", "dmsetup"), modules=("dm_mod", "dm_raid"), devices=TWO, size=64 * MIB)
SYNCED = 120.0


def config(scene: Scene) -> str:
    """LVM sees our devices, and none else."""
    ours = ",".join(f'"a|^{device}$|"' for device in scene.devices)
    return f'--config=devices{{ use_devicesfile=0 global_filter=[{ours},"r|.*|"] scan_lvs=0 }}'


def lvm(scene: Scene, *words: str, exits: tuple[int, ...] | None = (0,)) -> Doing[str]:
    """Run one of LVM's commands on our devices; gives back what it printed."""
    verb, *rest = words
    said = yield from run("lvm", verb, config(scene), *rest, exits=exits)
    return said.stdout


def group(scene: Scene) -> Doing[str]:
    """A volume group of all scratch devices; gives back its name."""
    name = scene.name("vg")
    for device in scene.devices:
        yield from undo("lvm", "pvremove", config(scene), "-ff", "-y", "-q", device, at=device)
    yield from undo("lvm", "vgremove", config(scene), "-f", "-y", "-q", name, at=f"/dev/{name}")
    yield from lvm(scene, "pvcreate", "-y", "-q", *scene.devices)
    yield from lvm(scene, "vgcreate", "-q", "-s", "1m", name, *scene.devices)
    return name


def node(vg: str, lv: str) -> str:
    return f"/dev/{vg}/{lv}"


def mapped(vg: str, lv: str) -> str:
    """As device-mapper calls it: every dash of a name is doubled."""
    return f"{vg.replace('-', '--')}-{lv.replace('-', '--')}"


def report(scene: Scene, vg: str, lv: str, field: str) -> Doing[str]:
    """One field of a volume."""
    said = yield from lvm(scene, "lvs", "-a", "--noheadings", "-o", field, f"{vg}/{lv}")
    return said.strip()


def status(vg: str, lv: str) -> Doing[str]:
    """What the kernel says of a volume."""
    return (yield from run("dmsetup", "status", mapped(vg, lv))).stdout.strip()


def in_sync(scene: Scene, vg: str, lv: str) -> Doing[None]:
    """Wait until all of a mirror is in sync: to the kernel, and to LVM."""
    yield from until(
        lambda: status(vg, lv),
        all_synced,
        f"{vg}/{lv} is not in sync",
        within=SYNCED,
    )
    share = yield from report(scene, vg, lv, "copy_percent")
    expect(share == "100.00", f"to the kernel {vg}/{lv} is in sync, and LVM says {share} %")


def all_synced(line: str) -> bool:
    """Whether a status line of dm-raid or dm-mirror says that all is in sync.

    >>> all_synced("0 8192 raid raid1 2 AA 8192/8192 idle 0 0 -")
    True
    >>> all_synced("0 8192 mirror 2 254:1 254:2 3/8 1 AA 3 disk 254:0 A")
    False
    """
    found = re.search(r" (\d+)/(\d+) ", line)
    if found is None or found[1] != found[2]:
        return False
    return " raid " not in line or " idle " in line


def healthy(line: str) -> str:
    """The letters of the legs: A alive, D or F dead, a alive and not in sync."""
    found = re.search(r" ([AaDFSRU]{2,}) ", line)
    return found[1] if found else ""


def written(vg: str, lv: str) -> Doing[str]:
    """Write random bytes to a volume; their checksum."""
    return (yield from scribble(node(vg, lv)))


def kept(vg: str, lv: str, sum_: str, when: str) -> Doing[None]:
    now = yield from checksum(node(vg, lv))
    expect(now == sum_, f"{vg}/{lv} holds other bytes {when}")
