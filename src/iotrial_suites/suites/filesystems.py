"""Words for file systems, of one host and of several that have one mounted at once.

Of one: files that are looked at again, extended attributes, copies that share.  Extended attributes
are set and read by tar, which is everywhere; setfattr(1) is often not.

Of several: all work in it, then every byte is looked at, on every host.  Each makes files, renames
them into a folder of all, and appends lines to one file of all, under a lock of all: what
``O_APPEND`` promises is not kept between hosts.

Of ocfs2 in O2CB, the cluster of its own: a host that has it mounted writes a heartbeat into it, and
configfs has a folder of that: mounting makes it.  When it is unmounted the kernel has
``ocfs2_hb_ctl`` remove it.  One that is left goes on writing to the disk, whatever lies there next,
and has the device in use.

Sources: tar(1) (``--xattrs``, ``--pax-option``), xattr(7), ioctl_ficlonerange(2), cp(1); open(2)
(``O_APPEND``), rename(2), flock(1); o2cb(7), ocfs2_hb_ctl(8), ocfs2_leave_group() of
fs/ocfs2/stackglue.c.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from iotrial_suites.case import MIB, CaseContext, CaseFailed, CaseNeeds, CaseNotRun
from iotrial_suites.suites.vocabulary import (
    Doing,
    expect,
    join,
    mount,
    note,
    refused,
    run,
    start,
    undo,
    until,
)

# -- of one host ----------------------------------------------------------------------------------

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


# -- of several hosts -----------------------------------------------------------------------------

NEEDS = CaseNeeds(commands=("flock",), hosts=2, devices=1, size=128 * MIB, shared=True)
COUNT = 30
"""Files and lines of each host."""
SLOW = 240.0
"""Seconds for what asks the other hosts again and again."""
_WORK = """\
cd "$1" || exit
host=$2 count=$3 number=1
mkdir "of-$host" || exit
while [ "$number" -le "$count" ]; do
    printf 'file %s of host %s\\n' "$number" "$host" >"of-$host/new" &&
        mv "of-$host/new" "all/$host-$number" || exit
    { flock 9 && printf 'line %s of host %s\\n' "$number" "$host" >>lines; } 9>>lock || exit
    number=$((number + 1))
done
sync -f .
"""
"""Arguments: the folder, the host's number, how many."""
_LINES = 'cd "$1" && LC_ALL=C sort lines | sha256sum && wc -l <lines'
_FILES = """\
cd "$1/all" || exit
host=0
while [ "$host" -lt "$2" ]; do
    number=1
    while [ "$number" -le "$3" ]; do
        cat "$host-$number"
        number=$((number + 1))
    done
    host=$((host + 1))
done | sha256sum
ls | wc -l
"""


TURNS = 20
"""Lines that hosts append in turn."""
_TURNS = """\
cd "$1" || exit
turn=$2
exec 9>>in-turn || exit
while [ "$turn" -lt "$4" ]; do
    until [ -e "turns/$turn" ]; do sleep 0.1; done
    printf 'turn %05d\\n' "$turn" >&9 || exit
    while read -r word at; do
        [ "$word" != pos: ] || echo "$turn $at"
    done <"/proc/$$/fdinfo/9"
    turn=$((turn + 1))
    : >"turns/$turn"
    turn=$((turn + $3 - 1))
done
"""
"""Arguments: the folder, the host's number, how many hosts, how many turns.  The file stays open.
Prints of each turn where it came to its end, as proc(5) has it of the open file: nothing is asked
that would have the host look how long the file is."""
_TURN = len("turn 00000\n")


def needs(*commands: str, module: str) -> CaseNeeds:
    return replace(NEEDS, commands=(*NEEDS.commands, *commands), modules=(module,))


def mounted(scene: CaseContext, type: str) -> Doing[tuple[str, ...]]:  # noqa: A002 (as mount -t)
    """Mount it on every host; gives back the folder of each."""
    points = []
    for on, node in enumerate(scene.nodes):
        points.append((yield from mount(node.devices[0], type, on=on)))
    return tuple(points)


def worked(scene: CaseContext, points: tuple[str, ...]) -> Doing[None]:
    """Have all hosts work at once, to their end."""
    yield from run("mkdir", f"{points[0]}/all")
    under_way = []
    for on in range(len(scene.nodes)):
        argv = ("sh", "-c", _WORK, "iotrial-work", points[on], str(on), str(COUNT))
        under_way.append((yield from start(*argv, on=on, within=SLOW)))
    for each in under_way:
        yield from join(each, within=SLOW)


def looked(
    scene: CaseContext, points: tuple[str, ...], when: str, *, hosts: int = 0
) -> Doing[None]:
    """See that each host (or the first so many) has every byte that all have written."""
    many = len(scene.nodes)
    for on in range(hosts or many):
        name = scene.nodes[on].name
        said = yield from run("sh", "-c", _LINES, "iotrial-lines", points[on], on=on, within=SLOW)
        sum_, lines = said.stdout.split("-")
        expect(
            int(lines) == many * COUNT,
            f"{name} finds {lines.strip()} lines instead of {many * COUNT} {when}",
        )
        expect(sum_.strip() == lines_of(many), f"{name} finds other lines than were written {when}")
        argv = ("sh", "-c", _FILES, "iotrial-files", points[on], str(many), str(COUNT))
        said = yield from run(*argv, on=on, within=SLOW)
        sum_, files = said.stdout.split("-")
        expect(
            int(files) == many * COUNT,
            f"{name} finds {files.strip()} files instead of {many * COUNT} {when}",
        )
        expect(sum_.strip() == files_of(many), f"{name} finds other bytes in files {when}")


def in_turn(scene: CaseContext, points: tuple[str, ...]) -> Doing[None]:
    """Have the hosts append lines to one file in turn, each when that before is written; see that
    each line was written behind the one before, and that every host finds them all."""
    many = len(scene.nodes)
    yield from run("mkdir", f"{points[0]}/turns")
    yield from run("touch", f"{points[0]}/in-turn", f"{points[0]}/turns/0")
    under_way = []
    for on in range(many):
        argv = ("sh", "-c", _TURNS, "iotrial-turns", points[on], str(on), str(many), str(TURNS))
        under_way.append((yield from start(*argv, on=on, within=SLOW)))
    ends: dict[int, int] = {}
    for each in under_way:
        said = yield from join(each, within=SLOW)
        ends |= {int(turn): int(at) for turn, at in map(str.split, said.stdout.splitlines())}
    expect(len(ends) == TURNS, f"{len(ends)} of {TURNS} turns were taken")
    over = [turn for turn in range(TURNS) if ends[turn] < (turn + 1) * _TURN]
    if over:
        first = over[0]
        yield from note(f"the turns ended at byte {[ends[turn] for turn in range(TURNS)]}")
        raise CaseFailed(
            f"{len(over)} of {TURNS} lines, appended in turn, came over what another host had "
            f"appended: {scene.nodes[first % many].name} wrote turn {first} up to byte "
            f"{ends[first]}, where the file had {first * _TURN} before"
        )
    for on in range(many):
        said = yield from run("cat", f"{points[on]}/in-turn", on=on, within=SLOW)
        expect(
            said.stdout == turns_of(),
            f"{scene.nodes[on].name} finds other lines than were appended in turn",
        )


def turns_of() -> str:
    """The lines that were appended in turn."""
    return "".join(f"turn {turn:05}\n" for turn in range(TURNS))


def lines_of(hosts: int) -> str:
    """The checksum of the lines, sorted."""
    return _sum(sorted(_all("line", hosts)))


def files_of(hosts: int) -> str:
    """The checksum of the files, one after the other."""
    return _sum(_all("file", hosts))


def _all(word: str, hosts: int) -> list[str]:
    return [f"{word} {n} of host {on}\n" for on in range(hosts) for n in range(1, COUNT + 1)]


def _sum(words: list[str]) -> str:
    return hashlib.sha256("".join(words).encode()).hexdigest()


def unmounted(scene: CaseContext, points: tuple[str, ...]) -> Doing[None]:
    """Unmount it everywhere, the first host last."""
    for on in reversed(range(len(scene.nodes))):
        yield from run("umount", points[on], on=on, within=SLOW)


# -- ocfs2 in O2CB --------------------------------------------------------------------------------

CLUSTERS = "/sys/kernel/config/cluster"
GONE = 30.0
"""Seconds in which a heartbeat ends that nobody needs any more."""
END = """\
try=0
while [ -d "$1" ] && [ "$try" -lt 5 ]; do
    sleep 1
    try=$((try + 1))
done
[ ! -d "$1" ] || rmdir "$1"
"""
"""Argument: the folder of a heartbeat, which is given time to go by itself."""


def made(scene: CaseContext, device: str) -> Doing[str]:
    """ocfs2 on a device, for all hosts; gives back the folder of its heartbeat, which is owed to
    end on each."""
    said = yield from run("ls", CLUSTERS, exits=None)
    if not said.stdout.split():
        raise CaseNotRun("O2CB has no cluster: /etc/ocfs2/cluster.conf, o2cb register-cluster")
    name = said.stdout.split()[0]
    yield from run(
        "mkfs.ocfs2", "-q", "-F", "-N", str(len(scene.nodes)), "--cluster-stack=o2cb",
        f"--cluster-name={name}", "--fs-feature-level=max-compat", device, within=SLOW,
    )  # fmt: skip
    asked = ("tunefs.ocfs2", "--query", "%U", device)
    uuid = (yield from run(*asked, within=SLOW)).stdout.strip()
    expect(uuid, f"tunefs.ocfs2 says no UUID of {device}")
    heart = f"{CLUSTERS}/{name}/heartbeat/{uuid}"
    for on in range(len(scene.nodes)):
        yield from undo("sh", "-c", END, "iotrial-heart", heart, on=on, at=heart)
    return heart


def beating(scene: CaseContext, heart: str) -> Doing[None]:
    """See that every host, all of which have it mounted, has its heartbeat."""
    for on, node in enumerate(scene.nodes):
        said = yield from run("test", "-d", heart, on=on, exits=None)
        expect(said.exit == 0, f"{node.name} has it mounted without a heartbeat")


def still(scene: CaseContext, heart: str) -> Doing[None]:
    """See that no host, none of which has it mounted any more, has left its heartbeat."""
    for on, node in enumerate(scene.nodes):
        yield from until(
            lambda on=on: run("test", "-d", heart, on=on, exits=None),  # type: ignore[misc]
            lambda said: said.exit,
            f"{node.name} has it mounted no more, and its heartbeat goes on",
            within=GONE,
            every=1.0,
        )
