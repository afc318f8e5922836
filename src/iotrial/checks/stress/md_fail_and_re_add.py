"""Members of a mirror fail and come back under a load that compares; after it they are alike."""

from dataclasses import replace

from iotrial.checks.arrays import (
    FAILS_A_DISK,
    MDADM,
    SYNCED,
    TWO,
    create,
    fail,
    look,
    remove,
    synced,
    sysfs,
    whole,
)
from iotrial.checks.loads import begin, end
from iotrial.checks.vocabulary import expect, pause, read, run, until, write
from iotrial.model.check import Case, Scene, Script

ORDER = 10
TIMES = 4


def steps(scene: Scene) -> Script:
    node = yield from create(scene, "--bitmap=internal")
    yield from whole(node, TWO)
    load = yield from begin(scene, f"--filename={node}", size="24m")
    yield from pause(3)
    for number in range(TIMES):
        device = scene.devices[number % 2]
        yield from fail(node, device)
        yield from pause(2)  # written to one member alone
        yield from remove(node, device)
        yield from run("mdadm", node, "--re-add", device)
        yield from until(
            lambda: look(node),
            lambda seen: seen.files.get("degraded") == "0",
            f"{device} came back, and {node} still lacks a member",
            within=SYNCED,
        )
    yield from end(load)
    yield from whole(node, TWO)
    yield from write(sysfs(node, "sync_action"), "check")
    yield from synced(node)
    found = yield from read(sysfs(node, "mismatch_cnt"))
    expect(found == "0", f"members that came back differ in {found} sectors")


CASE = Case(
    "md-fail-and-re-add",
    "Members of a mirror fail and come back under load; no byte is wrong, and they are alike",
    steps,
    replace(MDADM, commands=("mdadm", "fio")),
    announces=FAILS_A_DISK,
)
