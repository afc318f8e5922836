"""A member fails, is removed, and comes back: by its bitmap, and from nothing."""

from iotrial.checks.arrays import (
    FAILS_A_DISK,
    MDADM,
    TWO,
    create,
    fail,
    lacking,
    remove,
    scribble,
    still,
    whole,
)
from iotrial.checks.vocabulary import run
from iotrial.model.check import Case, Scene, Script

ORDER = 50
TIMES = 3


def steps(scene: Scene) -> Script:
    first, second = scene.devices[:2]
    node = yield from create(scene, "--bitmap=internal")
    yield from scribble(node)
    yield from whole(node, TWO)
    for number in range(TIMES):
        device = (second, first)[number % 2]
        yield from fail(node, device)
        yield from lacking(node, TWO, 1)
        written = yield from scribble(node)  # what the returning member lacks
        yield from remove(node, device)
        yield from run("mdadm", node, "--re-add", device)
        yield from whole(node, TWO)
        yield from still(node, written, "after a member came back")
    yield from fail(node, second)
    yield from remove(node, second)
    yield from run("mdadm", "--zero-superblock", second)
    written = yield from scribble(node)
    yield from run("mdadm", node, "--add", second)
    yield from whole(node, TWO)
    # The member that was rebuilt from nothing must hold all of it alone.
    yield from fail(node, first)
    yield from still(node, written, "on the member that was rebuilt")


CASE = Case(
    "fail-and-re-add",
    "A member fails, is removed and comes back, by its bitmap and from nothing",
    steps,
    MDADM,
    announces=FAILS_A_DISK,
)
