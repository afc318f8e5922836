"""An array is found by its UUID among all devices, and put together again, several times."""

from iotrial.checks.arrays import (
    MDADM,
    TWO,
    agrees,
    create,
    scribble,
    still,
    stop,
    whole,
    writable,
)
from iotrial.checks.vocabulary import run
from iotrial.model.check import Case, Scene, Script

ORDER = 12
TIMES = 3


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    uuid = (yield from agrees(node))["UUID"]
    for _ in range(TIMES):
        yield from stop(node)
        yield from run("mdadm", "--assemble", node, "--config=partitions", f"--uuid={uuid}")
        yield from writable(node)
        yield from whole(node, TWO)
        yield from still(node, written, "after it was found by its UUID")


CASE = Case(
    "reassemble-by-uuid", "A stopped array is found by its UUID, again and again", steps, MDADM
)
