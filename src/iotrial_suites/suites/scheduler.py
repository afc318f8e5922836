"""I/O schedulers: every one takes every setting of its queue, and gives it back."""

from __future__ import annotations

from iotrial_suites.case import MIB, Needs, Scene, Script, case
from iotrial_suites.suites import suite_of
from iotrial_suites.suites.knob_round import offered, put, select, takes_every_setting, values
from iotrial_suites.suites.vocabulary import expect, join, note, run, start

BFQ = takes_every_setting("bfq")


KYBER = takes_every_setting("kyber")


MQ_DEADLINE = takes_every_setting("mq-deadline")


NONE = takes_every_setting("none")


@case(
    "refuses-unknown",
    "An unknown scheduler is refused, and nothing changes",
    Needs(devices=1),
)
def refuses_unknown_case(scene: Scene) -> Script:
    """A name that no scheduler has is refused, and changes nothing."""
    node = scene.devices[0]
    before = yield from values(node)
    refused, after = yield from put(node, "scheduler", "iotrial-none")
    expect(refused, "a scheduler that does not exist was taken")
    changed = [name for name in before if after.get(name) != before[name]]
    expect(not changed, f"refusing an unknown scheduler changed {', '.join(changed)}")


ROUNDS = 3
COUNT = 48
# The end of a pipe says nothing of what could not be read at its beginning: so the shell is ended.
_SUM = '{ dd if="$1" bs=1M count="$2" iflag=direct status=none || kill "$$"; } | sha256sum'
_REWRITE = """\
for round in 1 2 3 4; do
    at=0
    while [ "$at" -lt "$2" ]; do
        { dd if="$1" bs=1M skip="$at" count=8 iflag=direct status=none || kill "$$"; } |
            dd of="$1" bs=1M seek="$at" oflag=direct iflag=fullblock conv=notrunc status=none ||
            exit
        at=$((at + 8))
    done
done
"""
"""Arguments: a device, MiB.  Reads each part and writes it where it was: nothing may change."""


@case(
    "switch-under-load",
    "Schedulers are switched under load, and no byte is lost",
    Needs(devices=1, size=64 * MIB),
)
def switch_under_load_case(scene: Scene) -> Script:
    """Schedulers are switched while the device is read and written, and no byte is lost."""
    node = scene.devices[0]
    there = yield from offered(node)
    expect(there, f"no scheduler is offered for {node}")
    # What is written must not be all zeros: a lost write would look like one that was done.
    yield from run(
        "dd", "if=/dev/urandom", f"of={node}", "bs=1M", f"count={COUNT}", "oflag=direct",
        "status=none",
    )  # fmt: skip
    before = yield from run("sh", "-c", _SUM, "iotrial-sum", node, str(COUNT))
    load = yield from start("sh", "-c", _REWRITE, "iotrial-load", node, str(COUNT), within=600.0)
    for _ in range(ROUNDS):
        for scheduler in there:
            yield from select(node, scheduler)
    yield from join(load, within=600.0)
    after = yield from run("sh", "-c", _SUM, "iotrial-sum", node, str(COUNT))
    yield from note(f"{ROUNDS} rounds through {', '.join(there)}")
    expect(before.stdout == after.stdout, "what is on the device changed under the load")


SUITE = suite_of(__name__, "I/O schedulers take and give back every setting")
