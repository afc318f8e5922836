"""A host dies while all write to a clustered mirror: the others' load goes on, and compares.

Each host writes to a place of its own, as applications on clustered md do.  What the dead one had
half written may hold either; it must be alike on both members.
"""

from dataclasses import replace

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
from iotrial.checks.loads import Load, begin, end
from iotrial.checks.vocabulary import Doing, lose, pause
from iotrial.model.check import Case, Scene, Script

ORDER = 15
_PLACES = ("8m", "32m")
"""Where each of two hosts writes; what lies before is written once."""


def steps(scene: Scene) -> Script:
    node = yield from made_everywhere(scene)
    written = yield from scribble(node, on=0)
    survivor = yield from _load(scene, node, on=0, name="survivor")
    yield from _load(scene, node, on=1, name="lost")
    yield from pause(5)
    before = yield from members()
    yield from lose(*CRASH, on=1)
    yield from given_up(before)
    yield from whole(node, 2, on=0)
    yield from pause(5)
    yield from end(survivor)
    yield from alike(node)
    yield from same_on_members(scene, written, node)
    yield from comes_back(scene, node, written)
    first = yield from _load(scene, node, on=0, name="again")
    second = yield from _load(scene, node, on=1, name="again")
    yield from pause(5)
    yield from end(first)
    yield from end(second)
    yield from alike(node)


def _load(scene: Scene, node: str, *, on: int, name: str) -> Doing[Load]:
    where = (f"--filename={node}", f"--offset={_PLACES[on]}")
    return (yield from begin(scene, *where, on=on, size="16m", name=name))


CASE = Case(
    "host-loss",
    "A host dies while all write to a clustered mirror; the load of the others compares, and ends",
    steps,
    replace(LOSING, commands=(*LOSING.commands, "fio")),
    limit=1800,
)
