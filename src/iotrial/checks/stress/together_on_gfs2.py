"""gfs2 on a shared disk: all hosts create, rename and append at once, and no byte is lost.

They append under a lock: ``gfs2_file_write_iter`` of Linux 6.1 asks how long a file is before it
locks it to write (fs/gfs2/file.c), so that without one hosts may write to the same place.
"""

from iotrial.checks.clustered import cluster_name
from iotrial.checks.together import SLOW, looked, mounted, needs, unmounted, worked
from iotrial.checks.vocabulary import run
from iotrial.model.check import Case, NotHere, Scene, Script

ORDER = 41


def steps(scene: Scene) -> Script:
    said = yield from run("dlm_tool", "status", exits=None)
    if "quorate 1" not in said.stdout:
        raise NotHere("dlm is not quorate here: corosync, dlm_controld")
    name = yield from cluster_name()
    disk = scene.devices[0]
    yield from run(
        "mkfs.gfs2", "-q", "-O", "-j", str(len(scene.nodes)), "-J", "8", "-p", "lock_dlm",
        "-t", f"{name}:{scene.token}", disk, within=SLOW,
    )  # fmt: skip
    points = yield from mounted(scene, "gfs2")
    yield from worked(scene, points)
    yield from looked(scene, points, "when all are done")
    yield from unmounted(scene, points)
    yield from run("fsck.gfs2", "-n", disk, within=SLOW)
    yield from run("mount", "-t", "gfs2", disk, points[0], within=SLOW)
    yield from looked(scene, points, "after it was mounted again", hosts=1)


CASE = Case(
    "together-on-gfs2",
    "All hosts create, rename and append on gfs2 at once, and each finds every byte of all",
    steps,
    needs("mkfs.gfs2", "fsck.gfs2", "dlm_tool", "corosync-cmapctl", module="gfs2"),
)
