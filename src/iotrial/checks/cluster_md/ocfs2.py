"""ocfs2 on the array: two hosts mount it at once, and see each other's files."""

from dataclasses import replace

from iotrial.checks.clustered import NEEDS, SLOW, made_everywhere
from iotrial.checks.vocabulary import expect, mount, run
from iotrial.model.check import MIB, Case, NotHere, Scene, Script

ORDER = 40
_FILL = 'dd if=/dev/urandom of="$1" bs=256k count=8 conv=fsync status=none && sha256sum <"$1"'


def steps(scene: Scene) -> Script:
    said = yield from run("ls", "/sys/kernel/config/cluster", exits=None)
    names = said.stdout.split()
    if not names:
        raise NotHere("O2CB has no cluster: /etc/ocfs2/cluster.conf, o2cb register-cluster")
    name = names[0]
    node = yield from made_everywhere(scene)
    yield from run(
        "mkfs.ocfs2", "-q", "-F", "-N", "2", "--cluster-stack=o2cb", f"--cluster-name={name}",
        "--fs-feature-level=max-compat", node, within=SLOW,
    )  # fmt: skip
    first = yield from mount(node, "ocfs2", on=0)
    points = (first, (yield from mount(node, "ocfs2", on=1)))
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
    yield from run("fsck.ocfs2", "-f", "-n", node, within=SLOW)
    yield from run("mount", "-t", "ocfs2", node, points[0], within=SLOW)
    there = yield from run("ls", points[0])
    expect("of-1" in there.stdout, "a file is lost after it was mounted again")


CASE = Case(
    "ocfs2",
    "Two hosts have ocfs2 on it mounted at once, and see each other's files",
    steps,
    replace(
        NEEDS,
        commands=(*NEEDS.commands, "mkfs.ocfs2", "mounted.ocfs2", "fsck.ocfs2"),
        modules=(*NEEDS.modules, "ocfs2"),
        size=128 * MIB,
    ),
    limit=1200,
    source="functional test of 2015, 2.4 and 2.5",
)
