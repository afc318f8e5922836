"""A stopped array is put together again from its members, the same as before."""

from iotrial.checks.arrays import (
    MDADM,
    TWO,
    agrees,
    assemble,
    create,
    scribble,
    still,
    stop,
    whole,
)
from iotrial.checks.vocabulary import expect
from iotrial.model.check import Case, Scene, Script

ORDER = 11


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    before = yield from agrees(node)
    yield from stop(node)
    yield from assemble(node, *scene.devices)
    yield from whole(node, TWO)
    after = yield from agrees(node)
    expect(after.get("UUID") == before.get("UUID"), "it has another UUID than before")
    yield from still(node, written, "after it was assembled")


CASE = Case("assemble", "A stopped array is assembled from its members, unchanged", steps, MDADM)
