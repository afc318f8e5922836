"""A host dies while it resyncs the array: the other does what is left of it."""

from iotrial.checks.arrays import scribble, sysfs
from iotrial.checks.clustered import (
    CRASH,
    LOSING,
    LOST,
    SYNCED,
    assemble,
    comes_back,
    create,
    given_up,
    members,
    shown,
    slowed,
    whole,
)
from iotrial.checks.vocabulary import expect, lose, read, until
from iotrial.model.check import Case, Scene, Script

ORDER = 110


def steps(scene: Scene) -> Script:
    # The first resync, all of it still to do, by the host that is to die.
    yield from slowed(on=1)
    node = yield from create(scene, on=1)
    yield from assemble(scene, node, on=0)
    before = yield from until(
        lambda: shown(node, on=1),
        lambda text: "resync" in text,
        f"{node} is not resynced by the host that is to die",
        within=60,
    )
    expect("REMOTE" not in before, f"another host resyncs it: {before}")
    there = yield from members()
    yield from lose(*CRASH, on=1)
    written = yield from scribble(node, on=0)
    yield from given_up(there)
    yield from until(
        lambda: shown(node, on=0),
        lambda text: "REMOTE" not in text and "PENDING" not in text,
        "it still waits for the host that died",
        within=LOST + SYNCED,
        every=1.0,
    )
    yield from whole(node, 2, on=0)
    done = yield from read(sysfs(node, "resync_start"))
    expect(done == "none", f"the resync of {node} came to {done} only, and nobody goes on")
    yield from comes_back(scene, node, written)


CASE = Case(
    "lost-in-resync",
    "A host dies while it resyncs it; the other ends the resync, and it comes back",
    steps,
    LOSING,
    limit=1800,
)
