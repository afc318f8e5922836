"""Members fail, are removed and come back, time and again, while both hosts have the array.

It is what failed in 2015: `add new device failed … Invalid argument`, `--re-add … not possible`.
"""

from iotrial.checks.arrays import FAILS_A_DISK, fail, remove, scribble
from iotrial.checks.clustered import (
    NEEDS,
    degraded,
    everywhere,
    made_everywhere,
    same_everywhere,
    same_on_members,
    whole,
)
from iotrial.checks.vocabulary import Doing, run
from iotrial.model.check import Case, Scene, Script

ORDER = 100
TIMES = 3


def steps(scene: Scene) -> Script:
    node = yield from made_everywhere(scene)
    for number in range(TIMES):
        on = number % len(scene.nodes)
        written = yield from one_round(scene, node, scene.nodes[on].devices[number % 2], on=on)
        yield from same_everywhere(scene, node, written, f"in round {number + 1}")
    device = scene.devices[1]
    yield from fail(node, device, on=0)
    yield from remove(node, device, on=0)
    yield from run("mdadm", "--zero-superblock", device)
    written = yield from scribble(node, on=0)
    yield from run("mdadm", node, "--add", device)
    for on in everywhere(scene):
        yield from whole(node, 2, on=on)
    yield from same_on_members(scene, written, node)


def one_round(scene: Scene, node: str, device: str, *, on: int) -> Doing[str]:
    """A member fails on one host, all show it; what it lacks is written; it is back everywhere.
    Gives back the checksum of what was written."""
    yield from fail(node, device, on=on)
    for each in everywhere(scene):
        yield from degraded(node, 2, on=each)
    yield from remove(node, device, on=on)
    written = yield from scribble(node, on=on)
    yield from run("mdadm", node, "--re-add", device, on=on)
    for each in everywhere(scene):
        yield from whole(node, 2, on=each)
    yield from same_on_members(scene, written, node)
    return written


CASE = Case(
    "re-add-everywhere",
    "Members fail and come back, repeatedly, while both hosts have it",
    steps,
    NEEDS,
    announces=FAILS_A_DISK,
    limit=1800,
    source="functional test of 2015, 2.10, which failed here",
)
