"""A mirror is made; mdadm and the kernel agree on what it is, and it keeps what is written."""

from iotrial.checks.arrays import MDADM, TWO, create, scribble, still, whole
from iotrial.model.check import Case, Scene, Script

ORDER = 10


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    yield from still(node, written, "after it was in sync")


CASE = Case("create", "A mirror is made, gets in sync and keeps what is written", steps, MDADM)
