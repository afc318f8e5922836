"""An array is started without one of its members, works, and takes the member back."""

from iotrial.checks.arrays import (
    MDADM,
    TWO,
    create,
    lacking,
    scribble,
    still,
    stop,
    whole,
    writable,
)
from iotrial.checks.vocabulary import run
from iotrial.model.check import Case, Scene, Script

ORDER = 53


def steps(scene: Scene) -> Script:
    first, second = scene.devices[:2]
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    yield from stop(node)
    yield from run("mdadm", "--assemble", "--run", node, first)
    yield from writable(node)
    yield from lacking(node, TWO, 1)
    yield from still(node, written, "without one of its members")
    written = yield from scribble(node)
    yield from run("mdadm", node, "--add", second)
    yield from whole(node, TWO)
    yield from still(node, written, "after the member came back")


CASE = Case("degraded-start", "An array starts without a member, and takes it back", steps, MDADM)
