"""A spare takes the place of a member that fails, by itself."""

from dataclasses import replace

from iotrial.checks.arrays import (
    FAILS_A_DISK,
    MDADM,
    THREE,
    TWO,
    create,
    fail,
    scribble,
    state_of,
    still,
    whole,
)
from iotrial.checks.vocabulary import expect
from iotrial.model.check import Case, Scene, Script

ORDER = 51


def steps(scene: Scene) -> Script:
    first, second, spare = scene.devices[:3]
    node = yield from create(scene, "--spare-devices=1", members=scene.devices)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    state = yield from state_of(node, spare)
    expect("spare" in state, f"{spare} is to be a spare, and is {state}")
    yield from fail(node, first)
    yield from whole(node, TWO)
    state = yield from state_of(node, spare)
    expect("in_sync" in state, f"the spare {spare} did not take over: it is {state}")
    yield from fail(node, second)
    yield from still(node, written, "on the spare alone")


CASE = Case(
    "spare",
    "A spare takes over from a member that fails",
    steps,
    replace(MDADM, devices=THREE),
    announces=FAILS_A_DISK,
)
