"""gfs2 on the array: two hosts mount it at once, and see each other's files."""

from dataclasses import replace

from iotrial.checks.clustered import NEEDS, SLOW, cluster_name, made_everywhere
from iotrial.checks.vocabulary import expect, mount, run
from iotrial.model.check import MIB, Case, Scene, Script

ORDER = 41
_FILL = 'dd if=/dev/urandom of="$1" bs=256k count=8 conv=fsync status=none && sha256sum <"$1"'


def steps(scene: Scene) -> Script:
    name = yield from cluster_name()
    node = yield from made_everywhere(scene)
    yield from run(
        "mkfs.gfs2", "-q", "-O", "-j", "2", "-J", "8", "-p", "lock_dlm",
        "-t", f"{name}:{scene.token}", node, within=SLOW,
    )  # fmt: skip
    first = yield from mount(node, "gfs2", on=0)
    points = (first, (yield from mount(node, "gfs2", on=1)))
    for on, other in ((0, 1), (1, 0)):
        argv = ("sh", "-c", _FILL, "iotrial-fill", f"{points[on]}/of-{on}")
        wrote = yield from run(*argv, on=on)
        argv = ("sh", "-c", 'sha256sum <"$1"', "iotrial-sum", f"{points[other]}/of-{on}")
        seen = yield from run(*argv, on=other)
        expect(
            seen.stdout == wrote.stdout, f"host {other} reads other bytes of a file of host {on}"
        )
    yield from run("rm", f"{points[1]}/of-0", on=1)
    there = yield from run("ls", points[0])
    expect("of-0" not in there.stdout, "a file that host 1 removed is still there for host 0")
    for on in (1, 0):
        yield from run("umount", points[on], on=on, within=SLOW)
    yield from run("fsck.gfs2", "-n", node, within=SLOW)
    yield from run("mount", "-t", "gfs2", node, points[0], within=SLOW)
    there = yield from run("ls", points[0])
    expect("of-1" in there.stdout, "a file is lost after it was mounted again")


CASE = Case(
    "gfs2",
    "Two hosts have gfs2 on it mounted at once, and see each other's files",
    steps,
    replace(
        NEEDS,
        commands=(*NEEDS.commands, "mkfs.gfs2", "fsck.gfs2"),
        modules=(*NEEDS.modules, "gfs2"),
        size=128 * MIB,
    ),
    limit=1200,
    source="functional test of 2015, 2.4 and 2.5, by the other file system of clusters",
)
