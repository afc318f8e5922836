"""ocfs2 on the array: two hosts mount it at once, and see each other's files, and leave no
heartbeat."""

from dataclasses import replace

from iotrial.checks.clustered import NEEDS, made_everywhere, shared_files
from iotrial.checks.o2cb import beating, made, still
from iotrial.model.check import MIB, Case, Scene, Script

ORDER = 40


def steps(scene: Scene) -> Script:
    node = yield from made_everywhere(scene)
    heart = yield from made(scene, node)
    yield from shared_files(
        *(node, "ocfs2", "fsck.ocfs2", "-f", "-n"), mounted=lambda: beating(scene, heart)
    )
    yield from still(scene, heart)


CASE = Case(
    "ocfs2",
    "Two hosts have ocfs2 on it mounted at once, and see each other's files",
    steps,
    replace(
        NEEDS,
        commands=(*NEEDS.commands, "mkfs.ocfs2", "tunefs.ocfs2", "fsck.ocfs2"),
        modules=(*NEEDS.modules, "ocfs2"),
        size=128 * MIB,
    ),
    limit=1200,
    source="functional test of 2015, 2.4 and 2.5",
)
