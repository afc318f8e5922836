"""A path that was lost is back: it is used again, by itself, under load."""

from iotrial.checks.loads import begin, end
from iotrial.checks.paths import (
    LOSES_PATHS,
    NEEDS,
    carries,
    mapped,
    noticed,
    offline,
    online,
)
from iotrial.model.check import Case, Scene, Script

ORDER = 20


def steps(scene: Scene) -> Script:
    there = yield from mapped(scene)
    load = yield from begin(scene, f"--filename={there.node}")
    for path in there.paths:
        yield from carries(path)
        yield from offline(path)
        yield from noticed(there, path, "F")
        yield from online(path)
        yield from noticed(there, path, "A")
        yield from carries(path)
    yield from end(load)


CASE = Case(
    "path-return",
    "Each path is lost and comes back under load, and is used again",
    steps,
    NEEDS,
    announces=LOSES_PATHS,
    limit=900,
)
