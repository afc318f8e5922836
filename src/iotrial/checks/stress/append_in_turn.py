"""ocfs2 on a shared disk: hosts append to a file that each keeps open, one after the other.

Nobody is in anybody's way here: each writes when the line before it is written.  What ``O_APPEND``
promises (open(2)) must hold.
"""

from dataclasses import replace

from iotrial.checks.o2cb import made, still
from iotrial.checks.together import NEEDS, in_turn, mounted, unmounted
from iotrial.model.check import Case, Scene, Script

ORDER = 43


def steps(scene: Scene) -> Script:
    heart = yield from made(scene, scene.devices[0])
    points = yield from mounted(scene, "ocfs2")
    yield from in_turn(scene, points)
    yield from unmounted(scene, points)
    yield from still(scene, heart)


CASE = Case(
    "append-in-turn",
    "Hosts append in turn to a file on ocfs2 that each keeps open, and no line is lost",
    steps,
    replace(NEEDS, commands=("mkfs.ocfs2", "tunefs.ocfs2"), modules=("ocfs2",)),
)
