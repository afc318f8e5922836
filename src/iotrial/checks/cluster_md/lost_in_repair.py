"""A host dies while it repairs the array: what the other writes meanwhile gets done."""

from iotrial.checks.arrays import sysfs
from iotrial.checks.clustered import (
    CRASH,
    LOSING,
    LOST,
    given_up,
    made_everywhere,
    members,
    quorate,
    shown,
)
from iotrial.checks.vocabulary import (
    back,
    expect,
    join,
    lose,
    note,
    pause,
    run,
    start,
    until,
    write,
)
from iotrial.model.check import Case, Scene, Script

ORDER = 112
_ENOUGH = 30
"""Seconds for a write, once the host that was in its way has been given up."""
_LOOK = 'for pid in $(pgrep -f "$1"); do cat "/proc/$pid/stack"; done'


def steps(scene: Scene) -> Script:
    node = yield from made_everywhere(scene)
    yield from write(sysfs(node, "sync_speed_max"), "1000", on=1)
    yield from write(sysfs(node, "sync_action"), "repair", on=1)
    yield from until(
        lambda: shown(node, on=0),
        lambda text: "REMOTE" in text,
        f"{node} is not shown to be repaired by another host",
        within=60,
    )
    before = yield from members()
    yield from lose(*CRASH, on=1)
    # Its place is one that the other host had asked to be left alone.
    writing = yield from start(
        *("dd", "if=/dev/urandom", f"of={node}", "bs=1M", "count=8", "oflag=direct"),
        within=600,
    )
    yield from given_up(before)
    yield from pause(_ENOUGH)
    ours = f"^dd .*of={node} "
    waits = (yield from run("pgrep", "-f", ours, exits=None)).exit == 0
    if waits:
        where = yield from run("sh", "-c", _LOOK, "iotrial-stack", ours, exits=None)
        yield from note(f"the write still waits: {where.stdout}")
        yield from run("dd", f"if={node}", "of=/dev/null", "bs=4k", "count=1", "iflag=direct")
    yield from join(writing, within=LOST)
    yield from back(1, within=600)
    yield from quorate(scene)
    expect(
        not waits,
        "a write waited for a host that had been given up, until a read of the array woke it",
    )


CASE = Case(
    "lost-in-repair",
    "A host dies while it repairs it; what the other writes there gets done",
    steps,
    LOSING,
    limit=1800,
)
