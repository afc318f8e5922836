"""/proc/mdstat tells of a resync while it goes on, and of its end."""

import re

from iotrial.checks.arrays import (
    MDADM,
    TWO,
    create,
    hurried,
    mdstat,
    section,
    slowed,
    sysfs,
    whole,
)
from iotrial.checks.vocabulary import Doing, expect, read, until, write
from iotrial.model.check import Case, Scene, Script

ORDER = 20
_KIB = 2000
_SHARE = re.compile(r"resync = *([0-9.]+)%")


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    yield from whole(node, TWO)
    # A repair is a resync that somebody asked for.  Slowly enough to be seen.
    yield from slowed(node, _KIB)
    yield from write(sysfs(node, "sync_action"), "repair")

    def share() -> Doing[float]:
        text = section((yield from mdstat()), node)
        found = _SHARE.search(text)
        return float(found[1]) if found else -1.0

    first = yield from until(share, lambda seen: seen >= 0, "no resync is told of", within=10)
    action = yield from read(sysfs(node, "sync_action"))
    expect(action != "idle", "/proc/mdstat tells of a resync, and sync_action is idle")
    yield from until(share, lambda seen: seen > first, "it does not go on", within=30)
    yield from hurried(node)
    yield from whole(node, TWO)


CASE = Case("mdstat", "/proc/mdstat shows a resync as it goes on, and its end", steps, MDADM)
