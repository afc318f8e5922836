"""The bitmap of an array is taken away and given back while it is in use."""

from iotrial.checks.arrays import MDADM, TWO, agrees, create, scribble, still, sysfs, whole
from iotrial.checks.vocabulary import expect, read, run
from iotrial.model.check import Case, Scene, Script

ORDER = 41


def steps(scene: Scene) -> Script:
    node = yield from create(scene, "--bitmap=internal")
    written = yield from scribble(node)
    yield from whole(node, TWO)
    for bitmap in ("none", "internal", "none", "internal"):
        yield from run("mdadm", "--grow", node, f"--bitmap={bitmap}")
        place = yield from read(sysfs(node, "bitmap/location"))
        there = place != "none"
        expect(there == (bitmap == "internal"), f"--bitmap={bitmap}, and it lies at {place!r}")
        told = yield from agrees(node)
        said = "Intent Bitmap" in told
        expect(said == there, f"mdadm says it has {'a' if said else 'no'} bitmap; kernel: {place}")
    bits = yield from run("mdadm", "--examine-bitmap", scene.devices[0])
    expect("bitmap is" in bits.stdout.lower() or "Bitmap :" in bits.stdout, "no bitmap is told of")
    yield from still(node, written, "after its bitmap came and went")


CASE = Case("grow-bitmap", "The bitmap goes and comes back (none, internal) in use", steps, MDADM)
