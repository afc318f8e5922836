"""A member that is write-mostly is written, and not read."""

from iotrial.checks.arrays import (
    MDADM,
    TWO,
    checksum,
    create,
    mdstat,
    scribble,
    section,
    state_of,
    whole,
)
from iotrial.checks.vocabulary import Doing, expect, read
from iotrial.model.check import Case, Scene, Script

ORDER = 60
_MIB = 8
_SECTORS = 64
"""Of 512 bytes: what udev and the like may read of a device meanwhile."""


def _counted(device: str) -> Doing[tuple[int, int]]:
    """Sectors read from and written to a device (Documentation/block/stat.rst)."""
    words = (yield from read(f"/sys/block/{device.removeprefix('/dev/')}/stat")).split()
    return int(words[2]), int(words[6])


def steps(scene: Scene) -> Script:
    fast, slow = scene.devices[:2]
    node = yield from create(scene, members=(fast, "--write-mostly", slow))
    yield from whole(node, TWO)
    state = yield from state_of(node, slow)
    expect("write_mostly" in state, f"{slow} is to be write-mostly, and is {state}")
    text = section((yield from mdstat()), node)
    expect("(W)" in text, f"/proc/mdstat does not mark it: {text}")
    _, before = yield from _counted(slow)
    yield from scribble(node, _MIB)
    read_before, after = yield from _counted(slow)
    expect(after - before >= _MIB * 2048, f"{slow} was not written: {after - before} sectors")
    yield from checksum(node, _MIB)
    read_after, _ = yield from _counted(slow)
    expect(
        read_after - read_before <= _SECTORS,
        f"{slow} is write-mostly, and {read_after - read_before} sectors were read from it",
    )


CASE = Case("write-mostly", "A write-mostly member is written and not read", steps, MDADM)
