"""The path selector of a map is changed under load, to every one there is, and back."""

from iotrial.checks.loads import begin, end
from iotrial.checks.paths import (
    NEEDS,
    carries,
    mapped,
    owe_table,
    reload,
    selectors,
    table,
    with_selector,
)
from iotrial.checks.vocabulary import expect, note, run
from iotrial.model.check import Case, Scene, Script

ORDER = 50
SELECTORS = {
    "queue-length": "dm_queue_length",
    "service-time": "dm_service_time",
    "round-robin": "dm_round_robin",
}
"""Selector → its module."""


def steps(scene: Scene) -> Script:
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


CASE = Case(
    "selector-under-load",
    "The path selector is changed under load, is in force, and no I/O fails",
    steps,
    NEEDS,
    limit=900,
)
