"""The bitmap of an array is changed: clustered, none, internal, none, and clustered again."""

from iotrial.checks.arrays import checksum, scribble
from iotrial.checks.clustered import ALONE, bitmap, create, detail, slots, whole
from iotrial.checks.vocabulary import Doing, expect, run
from iotrial.model.check import Case, Scene, Script

ORDER = 90


def steps(scene: Scene) -> Script:
    node, written = yield from to_none_again(scene)
    yield from run("mdadm", "--grow", node, "--bitmap=clustered")
    yield from clustered_again(scene, node, written)


def to_none_again(scene: Scene) -> Doing[tuple[str, str]]:
    """From clustered to none, internal and none; the array, and the checksum of what it holds."""
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    written = yield from scribble(node, on=0)
    for kind in ("none", "internal", "none"):
        yield from run("mdadm", "--grow", node, f"--bitmap={kind}")
        said = yield from detail(node)
        expect("Cluster Name" not in said, f"it has a cluster with bitmap {kind}")
        has = "Intent Bitmap" in said
        expect(has is (kind == "internal"), f"with bitmap {kind}: {said.get('Intent Bitmap')}")
    return node, written


def clustered_again(scene: Scene, node: str, written: str) -> Doing[None]:
    """See that it is, whole, and lost nothing."""
    said = yield from detail(node)
    expect("Clustered" in said.get("Intent Bitmap", ""), f"its bitmap: {said.get('Intent Bitmap')}")
    for device in scene.devices[:2]:
        expect(slots((yield from bitmap(device))), f"{device} has no bitmap of a cluster")
    yield from whole(node, 2, on=0)
    expect((yield from checksum(node, on=0)) == written, "it holds other bytes")


CASE = Case(
    "bitmap",
    "Its bitmap is changed from clustered to none, internal, none and back",
    steps,
    ALONE,
    limit=900,
    source="functional test of 2015, 2.9",
)
