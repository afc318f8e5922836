"""Paths of a multipath map are lost and come back, round after round, under a file system."""

from dataclasses import replace

from iotrial.checks.loads import begin, end
from iotrial.checks.paths import LOSES_PATHS, NEEDS, mapped, noticed, offline, online
from iotrial.checks.vocabulary import mount, pause, run
from iotrial.model.check import Case, Scene, Script

ORDER = 20
ROUNDS = 2


def steps(scene: Scene) -> Script:
    there = yield from mapped(scene)
    yield from run("mkfs.ext4", "-q", "-F", there.node)
    point = yield from mount(there.node, "ext4", "errors=remount-ro")
    load = yield from begin(scene, f"--directory={point}", size="24m")
    for _ in range(ROUNDS):
        for path in there.paths:
            yield from offline(path)
            yield from noticed(there, path, "F")
            yield from pause(2)
            yield from online(path)
            yield from noticed(there, path, "A")
    yield from end(load)
    yield from run("umount", point)
    yield from run("e2fsck", "-f", "-n", there.node)


CASE = Case(
    "path-loss",
    "Paths are lost and come back under a file system; no byte is wrong, and it is sound",
    steps,
    replace(NEEDS, commands=(*NEEDS.commands, "mkfs.ext4", "e2fsck")),
    announces=LOSES_PATHS,
    limit=900,
)
