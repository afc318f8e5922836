"""A mirror of two grows to three, and shrinks to two again, with all it holds."""

from dataclasses import replace

from iotrial.checks.arrays import (
    FAILS_A_DISK,
    MDADM,
    THREE,
    TWO,
    create,
    fail,
    remove,
    scribble,
    still,
    whole,
)
from iotrial.checks.vocabulary import run
from iotrial.model.check import Case, Scene, Script

ORDER = 40


def steps(scene: Scene) -> Script:
    third = scene.devices[2]
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    yield from run("mdadm", node, "--add", third)
    yield from run("mdadm", "--grow", node, "--raid-devices=3")
    yield from whole(node, THREE)
    yield from still(node, written, "with three members")
    yield from fail(node, third)
    yield from remove(node, third)
    yield from run("mdadm", "--grow", node, "--raid-devices=2")
    yield from whole(node, TWO)
    yield from still(node, written, "with two members again")


CASE = Case(
    "grow-devices",
    "A mirror grows from two members to three, and shrinks again",
    steps,
    replace(MDADM, devices=THREE),
    announces=FAILS_A_DISK,
)
