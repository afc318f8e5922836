"""A host dies while it writes: the other makes its half-written places alike, and goes on."""

from iotrial.checks.arrays import scribble
from iotrial.checks.clustered import (
    CRASH,
    LOSING,
    alike,
    comes_back,
    given_up,
    made_everywhere,
    members,
    same_on_members,
    whole,
)
from iotrial.checks.vocabulary import lose, pause, start
from iotrial.model.check import Case, Scene, Script

ORDER = 111
_WRITE = """\
while :; do
    dd if=/dev/urandom of="$1" bs=64k seek=256 count=256 oflag=direct conv=notrunc
done
"""


def steps(scene: Scene) -> Script:
    node = yield from made_everywhere(scene)
    written = yield from scribble(node, on=0)
    yield from start("sh", "-c", _WRITE, "iotrial-write", node, on=1, within=600)
    yield from pause(5)
    before = yield from members()
    yield from lose(*CRASH, on=1)
    yield from given_up(before)
    yield from whole(node, 2, on=0)
    # All places that it had been writing to are alike on both members now.
    yield from alike(node)
    yield from same_on_members(scene, written, node)
    yield from comes_back(scene, node, written)


CASE = Case(
    "lost-in-writes",
    "A host dies while it writes; members get alike, and it comes back",
    steps,
    LOSING,
    limit=1800,
)
