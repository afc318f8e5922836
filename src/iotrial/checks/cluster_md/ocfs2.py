"""ocfs2 on the array: two hosts mount it at once, and see each other's files."""

from dataclasses import replace

from iotrial.checks.clustered import NEEDS, made_everywhere, shared_files
from iotrial.checks.vocabulary import run
from iotrial.model.check import MIB, Case, NotHere, Scene, Script

ORDER = 40


def steps(scene: Scene) -> Script:
    said = yield from run("ls", "/sys/kernel/config/cluster", exits=None)
    names = said.stdout.split()
    if not names:
        raise NotHere("O2CB has no cluster: /etc/ocfs2/cluster.conf, o2cb register-cluster")
    name = names[0]
    node = yield from made_everywhere(scene)
    yield from run(
        "mkfs.ocfs2", "-q", "-F", "-N", "2", "--cluster-stack=o2cb", f"--cluster-name={name}",
        "--fs-feature-level=max-compat", node,
    )  # fmt: skip
    yield from shared_files(node, "ocfs2", "fsck.ocfs2", "-f", "-n")


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
