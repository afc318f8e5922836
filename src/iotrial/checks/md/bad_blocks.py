"""What cannot be read of a member is read from the other; what cannot be written is remembered.

Nobody above the array sees any of it.
"""

from dataclasses import replace

from iotrial.checks.arrays import MDADM, TWO, create, examined, scribble, still, sysfs, whole
from iotrial.checks.vocabulary import Doing, expect, read, run, undo
from iotrial.model.check import Case, Node, Scene, Script

ORDER = 71
_INTO = 8192
"""How many sectors of an array's data lie before the part that fails."""
_COUNT = 64
_MIB = 16
_ERRORS = (
    r"Buffer I/O error on dev(ice)? dm-\d+",
    r"I/O error, dev dm-\d+",
    r"md/raid1:.*(read error|redirecting|rescheduling)",
)


def _table(device: str, sectors: int, bad: int = 0) -> str:
    """A device-mapper table of a whole device, part of which fails (``bad`` 0: none does)."""
    if not bad:
        return f"0 {sectors} linear {device} 0\n"
    after = bad + _COUNT
    return (
        f"0 {bad} linear {device} 0\n"
        f"{bad} {_COUNT} error\n"
        f"{after} {sectors - after} linear {device} {after}\n"
    )


def _mapped(name: str, device: str) -> Doing[str]:
    sectors = yield from read(f"/sys/block/{device.removeprefix('/dev/')}/size")
    node = f"/dev/mapper/{name}"
    yield from undo("dmsetup", "remove", "--retry", name, at=node)
    yield from run("dmsetup", "create", name, stdin=_table(device, int(sectors)))
    return node


def steps(scene: Scene) -> Script:
    good, weak = scene.devices[:2]
    name = scene.name("weak")
    mapped = yield from _mapped(name, weak)
    pair = replace(scene, nodes=(Node("", scene.nodes[0].kernel, (good, mapped)),))
    node = yield from create(pair)
    written = yield from scribble(node, _MIB)
    yield from whole(node, TWO)
    sectors = yield from read(f"/sys/block/{weak.removeprefix('/dev/')}/size")
    bad = int((yield from examined(mapped))["Data Offset"].split()[0]) + _INTO
    yield from run("dmsetup", "suspend", name)
    yield from run("dmsetup", "load", name, stdin=_table(weak, int(sectors), bad))
    yield from run("dmsetup", "resume", name)
    yield from still(node, written, "with a part of a member that fails", _MIB)
    written = yield from scribble(node, _MIB)
    degraded = yield from read(sysfs(node, "degraded"))
    expect(degraded == "0", "one bad block cost the whole member")
    noted = yield from read(sysfs(node, "rd1/bad_blocks"))
    expect(noted, f"what cannot be written is not remembered: {mapped} has no bad blocks")
    log = yield from run("mdadm", "--examine-badblocks", mapped)
    expect("Bad-blocks on" in log.stdout, f"mdadm knows no bad blocks of {mapped}: {log.stdout}")
    yield from still(node, written, "with bad blocks on a member", _MIB)


CASE = Case(
    "bad-blocks",
    "Bad blocks of a member are read from the other, and remembered",
    steps,
    replace(MDADM, commands=("mdadm", "dmsetup"), modules=("raid1", "dm_mod")),
    announces=_ERRORS,
)
