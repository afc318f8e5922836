"""gfs2 on the array: two hosts mount it at once, and see each other's files."""

from dataclasses import replace

from iotrial.checks.clustered import NEEDS, cluster_name, made_everywhere, shared_files
from iotrial.checks.vocabulary import run
from iotrial.model.check import MIB, Case, Scene, Script

ORDER = 41


def steps(scene: Scene) -> Script:
    name = yield from cluster_name()
    node = yield from made_everywhere(scene)
    yield from run(
        "mkfs.gfs2", "-q", "-O", "-j", "2", "-J", "8", "-p", "lock_dlm",
        "-t", f"{name}:{scene.token}", node,
    )  # fmt: skip
    yield from shared_files(node, "gfs2", "fsck.gfs2", "-n")


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
