"""ext4 on one host: asynchronous I/O, options, the backup of its superblock, data in inodes,
extended attributes; and it refuses copies that share blocks, which it does not have."""

from iotrial.checks.filesystems import (
    again,
    attributed,
    attributes,
    filled,
    inlined,
    same,
    wrecked,
)
from iotrial.checks.loads import once
from iotrial.checks.vocabulary import Doing, expect, mount, read, refused, run
from iotrial.model.check import MIB, Case, Needs, Scene, Script

ORDER = 30
_BLOCK = 1024
_BACKUP = 8193
"""The block of the first backup, with blocks of this size: mke2fs(8)."""
_CORRECTED = 1


def steps(scene: Scene) -> Script:
    device = scene.devices[0]
    yield from run(
        "mkfs.ext4", "-q", "-F", "-b", str(_BLOCK), "-O", "inline_data,metadata_csum",
        "-L", "iotrial-one", device,
    )  # fmt: skip
    point = yield from mount(device, "ext4")
    yield from _journal(device, there=True)
    yield from attributed(point)
    before = yield from filled(point)
    yield from inlined(point)
    yield from run("rm", f"{point}/grown")
    yield from once(f"--directory={point}")
    argv = ("cp", "--reflink=always", f"{point}/deep/er/file-1", f"{point}/shared")
    yield from refused(*argv)
    yield from run("rm", "-f", f"{point}/shared")
    yield from run("umount", point)

    yield from run("tune2fs", "-O", "^has_journal", "-L", "iotrial-two", device)
    expect((yield from _label(device)) == "iotrial-two", "tune2fs gave it a name, and it has none")
    yield from again(device, "ext4", point)
    yield from _journal(device, there=False)
    yield from same(point, before, "without a journal")
    yield from run("umount", point)
    yield from run("tune2fs", "-j", device)

    yield from wrecked(device, "ext4", point, at=_BLOCK, size=_BLOCK)
    mended = ("e2fsck", "-y", "-b", str(_BACKUP), "-B", str(_BLOCK), device)
    yield from run(*mended, exits=(_CORRECTED,))
    yield from again(device, "ext4", point)
    yield from _journal(device, there=True)
    yield from same(point, before, "after the superblock came from its backup")
    yield from attributes(point, "after the superblock came from its backup")
    yield from run("umount", point)
    yield from run("e2fsck", "-f", "-n", device)


def _label(device: str) -> Doing[str]:
    return (yield from run("blkid", "-p", "-o", "value", "-s", "LABEL", device)).stdout.strip()


def _journal(device: str, *, there: bool) -> Doing[None]:
    """See whether the kernel writes a journal for it: jbd2 has a folder for each."""
    name = device.removeprefix("/dev/")
    said = yield from run("ls", "/proc/fs/jbd2")
    words = "a" if there else "no"
    expect((f"{name}-" in said.stdout) is there, f"it is to have {words} journal: {said.stdout}")
    mounted = yield from read("/proc/mounts")
    expect(f"{device} " in mounted, f"{device} is not mounted")


CASE = Case(
    "ext4",
    "ext4 keeps data, attributes and options, also with its superblock from the backup",
    steps,
    Needs(
        commands=("fio", "mkfs.ext4", "tune2fs", "e2fsck", "blkid", "tar", "find"),
        modules=("ext4",),
        devices=1,
        size=64 * MIB,
    ),
)
