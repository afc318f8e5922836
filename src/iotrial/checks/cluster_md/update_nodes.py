"""The number of hosts that an array has bitmaps for is changed when it is assembled."""

from iotrial.checks.arrays import scribble
from iotrial.checks.clustered import ALONE, SLOTS, assemble, bitmap, create, slots, stop, whole
from iotrial.checks.vocabulary import expect
from iotrial.model.check import Case, Scene, Script

ORDER = 60
_MORE = SLOTS + 2


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    yield from scribble(node, on=0)
    yield from stop(node, on=0)
    yield from assemble(scene, node, "--update=nodes", f"--nodes={_MORE}", on=0, again=True)
    for device in scene.devices[:2]:
        found = slots((yield from bitmap(device)))
        expect(found == _MORE, f"{device} has bitmaps of {found} hosts, not of {_MORE}")
    yield from whole(node, 2, on=0)


CASE = Case(
    "update-nodes",
    "It is assembled for more hosts, and has a bitmap for each",
    steps,
    ALONE,
    limit=900,
    source="functional test of 2015, 2.6",
)
