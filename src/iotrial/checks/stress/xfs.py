"""XFS on one host: asynchronous I/O, options, its second superblock, extended attributes, and
copies that share blocks."""

from iotrial.checks.filesystems import (
    again,
    attributed,
    attributes,
    filled,
    reflinked,
    same,
    wrecked,
)
from iotrial.checks.loads import once
from iotrial.checks.vocabulary import expect, mount, run
from iotrial.model.check import MIB, Case, Needs, Scene, Script

ORDER = 31
_ASKED = ("isize=1024", "bsize=2048", "reflink=1")


def steps(scene: Scene) -> Script:
    device = scene.devices[0]
    yield from run(
        "mkfs.xfs", "-q", "-f", "-b", "size=2048", "-i", "size=1024", "-m", "reflink=1",
        "-L", "one", device,
    )  # fmt: skip
    point = yield from mount(device, "xfs")
    told = (yield from run("xfs_info", point)).stdout
    for word in _ASKED:
        expect(word in told, f"it was made with {word}, and the kernel says: {told}")
    yield from attributed(point)
    before = yield from filled(point)
    yield from once(f"--directory={point}")
    yield from reflinked(point)
    yield from run("rm", f"{point}/original", f"{point}/copy")
    yield from run("umount", point)
    yield from run("xfs_admin", "-L", "two", device)
    said = yield from run("xfs_admin", "-l", device)
    expect('"two"' in said.stdout, f"its name is to be two: {said.stdout}")

    yield from wrecked(device, "xfs", point, at=0, size=512)
    yield from run("xfs_repair", device, within=300)
    yield from again(device, "xfs", point)
    yield from same(point, before, "after the superblock came from another group")
    yield from attributes(point, "after the superblock came from another group")
    yield from run("umount", point)
    yield from run("xfs_repair", "-n", device, within=300)


CASE = Case(
    "xfs",
    "XFS keeps data, attributes and shared blocks, also with its superblock from another group",
    steps,
    Needs(
        commands=("fio", "mkfs.xfs", "xfs_repair", "xfs_admin", "xfs_info", "tar", "find"),
        modules=("xfs",),
        devices=1,
        size=320 * MIB,
    ),
)
