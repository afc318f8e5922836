"""All paths are lost: where the map queues, I/O waits and ends well; where not, it fails."""

from iotrial.checks.paths import (
    LOSES_PATHS,
    NEEDS,
    Map,
    features,
    mapped,
    noticed,
    offline,
    online,
    table,
)
from iotrial.checks.vocabulary import Doing, expect, join, pause, run, start, undo, until
from iotrial.model.check import Case, NotHere, Scene, Script

ORDER = 40
_QUEUES = "queue_if_no_path"
_WAITS = 8.0
_WRITE = """\
dd if=/dev/urandom of="$2" bs=64k count=1 status=none &&
    dd if="$2" of="$1" bs=64k count=1 oflag=direct conv=notrunc status=none
status=$?
echo "$status" >"$2.status"
exit "$status"
"""
"""Arguments: a device, a file that gets what is written.  Beside it appears when that has ended."""
_SUMS = 'sha256sum <"$2" && dd if="$1" bs=64k count=1 iflag=direct status=none | sha256sum'


def steps(scene: Scene) -> Script:
    there = yield from mapped(scene)
    if _QUEUES not in features((yield from table(there))):
        raise NotHere(f"{there.name} does not queue: no_path_retry is to be queue, for one")
    copy = f"/run/{scene.name('bytes')}"
    write = ("sh", "-c", _WRITE, "iotrial-write", there.node, copy)
    yield from undo("rm", "-f", copy, f"{copy}.status")

    yield from _gone(there)
    writing = yield from start(*write, within=300)
    yield from pause(_WAITS)
    ended = yield from run("test", "-e", f"{copy}.status", exits=None)
    expect(ended.exit, f"{there.name} is to queue; a write did not wait though no path was there")
    yield from _back(there)
    yield from join(writing, within=120)
    sums = yield from run("sh", "-c", _SUMS, "iotrial-sums", there.node, copy)
    expect(len(set(sums.stdout.split("\n")[:2])) == 1, "what was queued is not what is there now")

    # multipathd is told, not the kernel: it would set right what it has not done itself.
    yield from undo("multipathd", "restorequeueing", "map", there.name, at=there.node)
    yield from run("multipathd", "disablequeueing", "map", there.name)
    yield from _queueing(there, so=False)
    yield from _gone(there)
    said = yield from run(*write, exits=None, within=90)
    expect(said.exit, "without queueing, a write succeeded though no path was there")
    yield from run("multipathd", "restorequeueing", "map", there.name)
    yield from _queueing(there, so=True)
    yield from _back(there)
    yield from run(*write, within=90)


def _queueing(there: Map, *, so: bool) -> Doing[None]:
    """Wait until the kernel queues for it, or does not."""
    yield from until(
        lambda: table(there),
        lambda line: (_QUEUES in features(line)) is so,
        f"multipathd was told, and {there.name} is{' not' if so else ''} queueing",
        every=1.0,
    )


def _gone(there: Map) -> Doing[None]:
    for path in there.paths:
        yield from offline(path)
    for path in there.paths:
        yield from noticed(there, path, "F")


def _back(there: Map) -> Doing[None]:
    for path in there.paths:
        yield from online(path)
    for path in there.paths:
        yield from noticed(there, path, "A")


CASE = Case(
    "all-paths-down",
    "With no path left a queueing map waits and loses nothing; another fails at once",
    steps,
    NEEDS,
    announces=(*LOSES_PATHS, r"I/O error, dev dm-", r"Buffer I/O error on dev dm-"),
    limit=900,
)
