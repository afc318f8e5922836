"""An array with a clustered bitmap is made; mdadm, its members and the kernel agree that it is."""

from iotrial.checks.arrays import scribble
from iotrial.checks.clustered import (
    ALONE,
    SLOTS,
    bitmap,
    cluster_name,
    create,
    detail,
    slots,
    whole,
)
from iotrial.checks.vocabulary import expect
from iotrial.model.check import Case, Scene, Script

ORDER = 10


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    said = yield from detail(node)
    name = yield from cluster_name()
    expect(said.get("Cluster Name") == name, f"its cluster is {said.get('Cluster Name')!r}: {name}")
    expect("Clustered" in said.get("Intent Bitmap", ""), f"its bitmap: {said.get('Intent Bitmap')}")
    for device in scene.devices[:2]:
        found = slots((yield from bitmap(device)))
        expect(found == SLOTS, f"{device} has bitmaps of {found} hosts, not of {SLOTS}")
    yield from scribble(node, on=0)


CASE = Case(
    "create",
    "An array with a clustered bitmap is made, for this cluster, and gets in sync",
    steps,
    ALONE,
    limit=900,
    source="functional test of 2015, 2.1",
)
