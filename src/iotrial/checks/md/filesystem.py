"""A file system on an array: made, written, unmounted, mounted again, and nothing is lost."""

from dataclasses import replace

from iotrial.checks.arrays import MDADM, TWO, create, whole
from iotrial.checks.vocabulary import expect, mount, run
from iotrial.model.check import Case, Scene, Script

ORDER = 30
_SUMS = 'cd "$1" && find . -type f -exec sha256sum {} + | sort'
_FILL = """\
for number in 1 2 3 4 5 6 7 8; do
    dd if=/dev/urandom of="$1/file-$number" bs=256k count="$number" conv=fsync status=none || exit
done
"""


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    yield from run("mkfs.ext4", "-q", "-F", node)
    point = yield from mount(node, "ext4")
    yield from run("sh", "-c", _FILL, "iotrial-fill", point)
    before = yield from run("sh", "-c", _SUMS, "iotrial-sums", point)
    expect(before.stdout.count("file-") == 8, "not all files are there")  # noqa: PLR2004 (as filled)
    yield from run("umount", point)
    yield from run("mount", "-o", "ro", node, point)
    after = yield from run("sh", "-c", _SUMS, "iotrial-sums", point)
    expect(after.stdout == before.stdout, "files have other bytes after it was mounted again")
    yield from run("mount", "-o", "remount,rw", point)
    yield from run("sh", "-c", _FILL, "iotrial-fill", point)
    yield from run("umount", point)
    yield from run("e2fsck", "-f", "-n", node)
    yield from whole(node, TWO)


CASE = Case(
    "filesystem",
    "A file system on it is made, written, mounted again and sound",
    steps,
    replace(MDADM, commands=("mdadm", "mkfs.ext4", "e2fsck", "find")),
)
