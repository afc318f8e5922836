"""ocfs2 on a shared disk: all hosts create, rename and append at once, and no byte is lost.

They append under a lock, and each opens the file under it: stress/append-in-turn shows why.
"""

from iotrial.checks.o2cb import beating, made, still
from iotrial.checks.together import SLOW, looked, mounted, needs, unmounted, worked
from iotrial.checks.vocabulary import run
from iotrial.model.check import Case, Scene, Script

ORDER = 42


def steps(scene: Scene) -> Script:
    disk = scene.devices[0]
    heart = yield from made(scene, disk)
    points = yield from mounted(scene, "ocfs2")
    yield from beating(scene, heart)
    yield from worked(scene, points)
    yield from looked(scene, points, "when all are done")
    yield from unmounted(scene, points)
    yield from still(scene, heart)
    yield from run("fsck.ocfs2", "-f", "-n", disk, within=SLOW)
    yield from run("mount", "-t", "ocfs2", disk, points[0], within=SLOW)
    yield from looked(scene, points, "after it was mounted again", hosts=1)
    yield from run("umount", points[0], within=SLOW)
    yield from still(scene, heart)


CASE = Case(
    "together-on-ocfs2",
    "All hosts create, rename and append on ocfs2 at once, and each finds every byte of all",
    steps,
    needs("mkfs.ocfs2", "tunefs.ocfs2", "fsck.ocfs2", module="ocfs2"),
)
