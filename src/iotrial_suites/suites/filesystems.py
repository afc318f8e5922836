"""Words for file systems: files that are looked at again, extended attributes, copies that share.

Extended attributes are set and read by tar, which is everywhere; setfattr(1) is often not.
Sources: tar(1) (``--xattrs``, ``--pax-option``), xattr(7), ioctl_ficlonerange(2), cp(1).
"""

from __future__ import annotations

from iotrial_suites.suites.vocabulary import Doing, expect, refused, run

_FILL = """\
cd "$1" || exit
mkdir -p deep/er || exit
for number in 1 2 3 4 5 6; do
    head -c "$((number * 50021))" /dev/urandom >"deep/er/file-$number" || exit
done
printf 'a few bytes' >small
ln -s small link
sync -f .
"""
_SUMS = 'cd "$1" && find . -type f ! -name "once.*" -exec sha256sum {} + | sort && readlink link'
_VALUE = "0123456789abcdef" * 16
ATTRIBUTES = {"user.iotrial-short": "yes", "user.iotrial-long": _VALUE}
_SET = """\
cd "$1" || exit
shift
: >bearer
tar --format=posix "--pax-option=$1" -cf - bearer | tar --xattrs -xf -
"""
_GET = 'cd "$1" && tar --xattrs -cf - bearer | tr -s "\\\\0\\\\n" "\\\\n\\\\n"'
_MIB = 8
_SHARED = """\
cd "$1" || exit
head -c 8388608 /dev/urandom >original && sync -f . || exit
before=$(stat -f -c %f .)
cp --reflink=always original copy || exit
sync -f .
after=$(stat -f -c %f .)
cmp original copy || exit
sha256sum <original
dd if=/dev/urandom of=copy bs=64k seek=3 count=4 conv=notrunc,fsync status=none || exit
sha256sum <original
cmp -s original copy && echo same
echo "$(((before - after) * $(stat -f -c %S .)))"
"""
"""Argument: a folder.  Prints the original's checksum before and after its copy is changed, and how
many bytes the copy took."""


def filled(point: str, *, on: int = 0) -> Doing[str]:
    """Make files and a link; gives back the checksums of all."""
    yield from run("sh", "-c", _FILL, "iotrial-fill", point, on=on)
    return (yield from sums(point, on=on))


def sums(point: str, *, on: int = 0) -> Doing[str]:
    """The checksums of all files, and where the link goes."""
    return (yield from run("sh", "-c", _SUMS, "iotrial-sums", point, on=on)).stdout


def again(device: str, type: str, point: str, *, options: str = "") -> Doing[None]:  # noqa: A002 (as mount -t)
    """Mount at the same folder, after it was unmounted."""
    more = ("-o", options) if options else ()
    yield from run("mount", "-t", type, *more, device, point)


def same(point: str, before: str, when: str) -> Doing[None]:
    """See that every file is as it was."""
    now = yield from sums(point)
    expect(now == before, f"files are not as they were {when}")


def wrecked(device: str, type: str, point: str, *, at: int, size: int) -> Doing[None]:  # noqa: A002
    """Overwrite the superblock, of so many bytes from there on; see that it is not mounted then."""
    yield from run(
        "dd", "if=/dev/zero", f"of={device}", "bs=512", f"seek={at // 512}",
        f"count={size // 512}", "oflag=direct", "conv=notrunc,fsync", "status=none",
    )  # fmt: skip
    yield from run("blockdev", "--flushbufs", device)
    yield from refused("mount", "-t", type, device, point)


def attributed(point: str) -> Doing[None]:
    """Set extended attributes of a file: a short one, and one of 256 bytes."""
    words = ",".join(f"SCHILY.xattr.{name}:={value}" for name, value in ATTRIBUTES.items())
    yield from run("sh", "-c", _SET, "iotrial-attributes", point, words)


def attributes(point: str, when: str) -> Doing[None]:
    """See that they are there."""
    said = yield from run("sh", "-c", _GET, "iotrial-look", point)
    for name, value in ATTRIBUTES.items():
        expect(f"{name}={value}\n" in said.stdout, f"the attribute {name} is not there {when}")


def reflinked(point: str) -> Doing[None]:
    """Copy a file by sharing its blocks: it takes no room, and a change of the copy is its own."""
    said = yield from run("sh", "-c", _SHARED, "iotrial-shared", point)
    before, after, *same_, took = said.stdout.splitlines()
    expect(before == after, "a change of a copy that shares blocks changed the original")
    expect(not same_, "a copy that was changed is as it was")
    half = _MIB * 2**20 // 2
    expect(int(took) < half, f"a copy that is to share its {_MIB} MiB took {took} bytes")


def blocks(path: str) -> Doing[int]:
    """How many blocks of 512 bytes a file takes beside its inode."""
    return int((yield from run("stat", "-c", "%b", path)).stdout)


def inlined(point: str) -> Doing[None]:
    """See that a small file takes no block, and that it is whole when it has become too large."""
    small = f"{point}/small"
    # One, though it takes none: so that nobody thinks the file is a hole (ext4_file_getattr).
    expect((yield from blocks(small)) <= 1, "a file of a few bytes takes blocks of its own")
    grown = f"{point}/grown"
    argv = ("sh", "-c", 'cp "$1" "$2" && head -c 9000 /dev/zero >>"$2" && sync -f "$2"')
    yield from run(*argv, "iotrial-grow", small, grown)
    expect((yield from blocks(grown)) > 1, "a file of 9000 bytes is said to take no block")
    said = yield from run("head", "-c", "11", grown)
    expect(said.stdout == "a few bytes", f"a file that outgrew its inode begins {said.stdout!r}")
