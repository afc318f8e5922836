"""ocfs2 on one host, without a cluster: asynchronous I/O, options, a backup of its superblock, data
in inodes, extended attributes, and copies that share blocks."""

from iotrial.checks.filesystems import (
    again,
    attributed,
    attributes,
    filled,
    inlined,
    reflinked,
    same,
    wrecked,
)
from iotrial.checks.loads import once
from iotrial.checks.vocabulary import expect, mount, run
from iotrial.model.check import MIB, Case, Needs, Scene, Script

ORDER = 32
_BLOCK = 4096
_SUPERBLOCK = 2
"""Its block: OCFS2_SUPER_BLOCK_BLKNO.  The first backup is at 1 GiB."""
_SOUND, _CORRECTED = 0, 1


def steps(scene: Scene) -> Script:
    device = scene.devices[0]
    yield from run(
        "mkfs.ocfs2", "-q", "-F", "-M", "local", "-L", "one", "-b", str(_BLOCK), "-C", "4096",
        "-J", "size=8M", "--fs-features=inline-data,xattr,refcount", device, within=300,
    )  # fmt: skip
    point = yield from mount(device, "ocfs2")
    yield from attributed(point)
    before = yield from filled(point)
    yield from inlined(point)
    yield from once(f"--directory={point}")
    yield from reflinked(point)
    yield from run("rm", f"{point}/original", f"{point}/copy", f"{point}/grown")
    yield from run("umount", point)
    yield from run("tunefs.ocfs2", "-L", "two", device)
    said = yield from run("tunefs.ocfs2", "--query", "%V", device)
    expect("two" in said.stdout, f"its name is to be two: {said.stdout}")

    yield from wrecked(device, "ocfs2", point, at=_SUPERBLOCK * _BLOCK, size=_BLOCK)
    mended = ("fsck.ocfs2", "-f", "-y", "-r", "1", device)
    yield from run(*mended, exits=(_SOUND, _CORRECTED), within=300)
    yield from again(device, "ocfs2", point)
    yield from same(point, before, "after the superblock came from its backup")
    yield from attributes(point, "after the superblock came from its backup")
    yield from run("umount", point)
    yield from run("fsck.ocfs2", "-f", "-n", device, within=300)


CASE = Case(
    "ocfs2",
    "ocfs2 keeps data, attributes and shared blocks, also with its superblock from the backup",
    steps,
    Needs(
        commands=("fio", "mkfs.ocfs2", "fsck.ocfs2", "tunefs.ocfs2", "tar", "find"),
        modules=("ocfs2",),
        devices=1,
        size=1100 * MIB,
    ),
)
