"""A path is lost under load: the kernel fails it, the others carry on, and no byte is wrong."""

from iotrial.checks.loads import begin, end
from iotrial.checks.paths import LOSES_PATHS, NEEDS, carries, done, mapped, noticed, offline, spared
from iotrial.model.check import Case, Scene, Script

ORDER = 10


def steps(scene: Scene) -> Script:
    there = yield from mapped(scene)
    lost, *others = there.paths
    load = yield from begin(scene, f"--filename={there.node}")
    yield from carries(lost)
    yield from offline(lost)
    yield from noticed(there, lost, "F")
    before = (yield from done(lost))[lost]
    yield from carries(*others)
    yield from spared(lost, before)
    yield from end(load)


CASE = Case(
    "path-loss",
    "A path is lost under load; the others carry on, and no byte is wrong",
    steps,
    NEEDS,
    announces=LOSES_PATHS,
    limit=900,
)
