"""Schedulers are switched while the device is read and written, and no byte is lost."""

from iotrial.checks.knob_round import offered, select
from iotrial.checks.vocabulary import expect, join, note, run, start
from iotrial.model.check import MIB, Case, Needs, Scene, Script

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


def steps(scene: Scene) -> Script:
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


CASE = Case(
    name="switch-under-load",
    title="Schedulers are switched under load, and no byte is lost",
    steps=steps,
    needs=Needs(devices=1, size=64 * MIB),
)
