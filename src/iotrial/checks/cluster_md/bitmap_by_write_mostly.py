"""The way round what mdadm 4.2 refuses: members are write-mostly while it gets clustered."""

from iotrial.checks.arrays import sysfs
from iotrial.checks.cluster_md.bitmap import clustered_again, to_none_again
from iotrial.checks.clustered import ALONE, SLOTS
from iotrial.checks.vocabulary import expect, note, read, run, write
from iotrial.model.check import Case, Scene, Script

ORDER = 91


def steps(scene: Scene) -> Script:
    node, written = yield from to_none_again(scene)
    grow = ("mdadm", "--grow", node, "--bitmap=clustered", f"--nodes={SLOTS}")
    said = yield from run(*grow, exits=None)
    if said.exit:
        expect("write-mostly" in said.stderr, f"it is refused for another reason: {said.complaint}")
        yield from note("refused without write-mostly; now with it")
        states = [
            sysfs(node, f"dev-{each.removeprefix('/dev/')}/state") for each in scene.devices[:2]
        ]
        for state in states:
            yield from write(state, "writemostly")
        yield from run(*grow)
        for state in states:
            yield from write(state, "-writemostly")
            now = yield from read(state)
            expect("write_mostly" not in now, f"{state} is {now} still")
    yield from clustered_again(scene, node, written)


CASE = Case(
    "bitmap-by-write-mostly",
    "From no bitmap to a clustered one: where mdadm refuses it, with members write-mostly",
    steps,
    ALONE,
    limit=900,
    source="the way round what cluster-md/bitmap fails with under mdadm 4.2",
)
