"""multipath: paths of a disk are lost and come back, and what is written to it is not hurt.

The map is handed over, by the UUID that device-mapper has for it: ``--devices mpath-WWID``.
"""

from __future__ import annotations

from dataclasses import replace

from iotrial_suites.case import CaseContext, CaseNotRun, Script, case
from iotrial_suites.suites import suite_of
from iotrial_suites.suites.paths import (
    LOSES_PATHS,
    NEEDS,
    MultipathMap,
    carries,
    done,
    features,
    mapped,
    noticed,
    offline,
    online,
    owe_table,
    reload,
    selectors,
    spared,
    table,
    with_selector,
)
from iotrial_suites.suites.vocabulary import (
    Doing,
    begin,
    end,
    expect,
    join,
    note,
    pause,
    run,
    start,
    undo,
    until,
)


@case(
    "path-loss",
    "A path is lost under load; the others carry on, and no byte is wrong",
    NEEDS,
    announces=LOSES_PATHS,
    limit=900,
)
def path_loss_case(scene: CaseContext) -> Script:
    """A path is lost under load: the kernel fails it, the others carry on, and no byte is wrong."""
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


@case(
    "path-return",
    "Each path is lost and comes back under load, and is used again",
    NEEDS,
    announces=LOSES_PATHS,
    limit=900,
)
def path_return_case(scene: CaseContext) -> Script:
    """A path that was lost is back: it is used again, by itself, under load."""
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


_PORTAL = """\
device=$(readlink -f "/sys/block/$1/device")
session=${device%/target*}
cat "/sys/class/iscsi_connection/connection${session##*/session}:0/persistent_address"
"""
"""Argument: a disk.  Prints the address of the portal that it is reached by."""


@case(
    "portal-loss",
    "A portal of the target goes down under load and comes back; no I/O fails",
    replace(NEEDS, hosts=2, loses=True, disks=False, commands=(*NEEDS.commands, "ip")),
    announces=LOSES_PATHS,
    limit=900,
)
def portal_loss_case(scene: CaseContext) -> Script:
    """The portal of one path of iSCSI goes down at the target, under load, and comes back."""
    there = yield from mapped(scene)
    interface = yield from _interface(there)
    lost, other = there.paths[:2]
    load = yield from begin(scene, f"--filename={there.node}")
    yield from carries(lost)
    yield from undo("ip", "link", "set", interface, "up", on=1)
    yield from run("ip", "link", "set", interface, "down", on=1)
    yield from noticed(there, lost, "F")
    yield from carries(other)
    yield from run("ip", "link", "set", interface, "up", on=1)
    yield from noticed(there, lost, "A")
    yield from carries(lost)
    yield from end(load)


def _interface(there: MultipathMap) -> Doing[str]:
    """The target's, behind the first path.  Raises NotHere where that is not on the second
    host."""
    said = yield from run("sh", "-c", _PORTAL, "iotrial-portal", there.paths[0], exits=None)
    address = said.stdout.strip()
    if not address:
        raise CaseNotRun(f"{there.paths[0]} is not reached by iSCSI")
    listed = yield from run("ip", "-o", "-4", "address", "show", on=1)
    for line in listed.stdout.splitlines():
        words = line.split()
        if words[3].partition("/")[0] == address:
            return words[1]
    raise CaseNotRun(f"the second host has not the address {address} of the target")


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


@case(
    "all-paths-down",
    "With no path left a queueing map waits and loses nothing; another fails at once",
    NEEDS,
    announces=(*LOSES_PATHS, r"I/O error, dev dm-", r"Buffer I/O error on dev dm-"),
    limit=900,
)
def all_paths_down_case(scene: CaseContext) -> Script:
    """All paths are lost: where the map queues, I/O waits and ends well; where not, it fails."""
    there = yield from mapped(scene)
    if _QUEUES not in features((yield from table(there))):
        raise CaseNotRun(f"{there.name} does not queue: no_path_retry is to be queue, for one")
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


def _queueing(there: MultipathMap, *, so: bool) -> Doing[None]:
    """Wait until the kernel queues for it, or does not."""
    yield from until(
        lambda: table(there),
        lambda line: (_QUEUES in features(line)) is so,
        f"multipathd was told, and {there.name} is{' not' if so else ''} queueing",
        every=1.0,
    )


def _gone(there: MultipathMap) -> Doing[None]:
    for path in there.paths:
        yield from offline(path)
    for path in there.paths:
        yield from noticed(there, path, "F")


def _back(there: MultipathMap) -> Doing[None]:
    for path in there.paths:
        yield from online(path)
    for path in there.paths:
        yield from noticed(there, path, "A")


SELECTORS = {
    "queue-length": "dm_queue_length",
    "service-time": "dm_service_time",
    "round-robin": "dm_round_robin",
}
"""Selector → its module."""


@case(
    "selector-under-load",
    "The path selector is changed under load, is in force, and no I/O fails",
    NEEDS,
    limit=900,
)
def selector_under_load_case(scene: CaseContext) -> Script:
    """The path selector of a map is changed under load, to every one there is, and back."""
    there = yield from mapped(scene)
    before = yield from table(there)
    yield from owe_table(there, before)
    load = yield from begin(scene, f"--filename={there.node}")
    tried = 0
    for selector, module in SELECTORS.items():
        if (yield from run("modprobe", module, exits=None)).exit:
            yield from note(f"this kernel has no {selector}")
            continue
        tried += 1
        yield from reload(there, with_selector(before, selector))
        now = selectors((yield from table(there)))
        expect(set(now) == {selector}, f"its selector is to be {selector}, and is {now}")
        yield from carries(*there.paths)
    expect(tried, "no selector could be tried")
    yield from end(load)


SUITE = suite_of(__name__, "multipath: paths are lost and come back under load", ("multipath",))
