"""The first resync is shown by the host that does it, and as another's by the other; it ends."""

import re

from iotrial.checks.clustered import NEEDS, SPEED, SYNCED, assemble, create, shown, slowed, whole
from iotrial.checks.vocabulary import expect, until, write
from iotrial.model.check import Case, Scene, Script

ORDER = 30


def steps(scene: Scene) -> Script:
    before = yield from slowed(on=0)
    node = yield from create(scene)
    yield from assemble(scene, node, on=1)
    here = yield from shown(node, on=0)
    expect(re.search(r"resync = +[\d.]+%", here), f"the resync is not shown: {here}")
    yield from until(
        lambda: shown(node, on=1),
        lambda text: "resync=REMOTE" in text or "resync=PENDING" in text,
        f"the other host does not show that {node} is resynced elsewhere",
        within=20,
    )
    yield from write(SPEED, before)
    yield from until(
        lambda: shown(node, on=0),
        lambda text: "resync" not in text,
        f"the resync of {node} does not end",
        within=SYNCED,
    )
    for on in (0, 1):
        yield from whole(node, 2, on=on)


CASE = Case(
    "mdstat",
    "A resync is shown by the host that does it and, as another's, by the other",
    steps,
    NEEDS,
    limit=900,
    source="functional test of 2015, 2.3, which claims it and prints no resync",
)
