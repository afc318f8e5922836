"""A member is replaced by another while it is still there: redundancy is never lost."""

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
    state_of,
    still,
    sysfs,
    whole,
)
from iotrial.checks.vocabulary import expect, read, run, until
from iotrial.model.check import Case, Scene, Script

ORDER = 52


def steps(scene: Scene) -> Script:
    old, other, new = scene.devices[:3]
    node = yield from create(scene)
    written = yield from scribble(node)
    yield from whole(node, TWO)
    yield from run("mdadm", node, "--add", new)
    yield from run("mdadm", node, "--replace", old, "--with", new)
    degraded = yield from read(sysfs(node, "degraded"))
    expect(degraded == "0", "redundancy was lost while a member was replaced")
    yield from until(
        lambda: state_of(node, new),
        lambda state: "in_sync" in state,
        f"{new} does not take the place of {old}",
        within=60,
    )
    yield from until(
        lambda: state_of(node, old),
        lambda state: "faulty" in state,
        f"{old} is not let go",
        within=30,
    )
    yield from remove(node, old)
    yield from whole(node, TWO)
    yield from fail(node, other)
    yield from still(node, written, "on the new member alone")


CASE = Case(
    "replace",
    "A member is replaced by another without loss of redundancy",
    steps,
    replace(MDADM, devices=THREE),
    announces=FAILS_A_DISK,
)
