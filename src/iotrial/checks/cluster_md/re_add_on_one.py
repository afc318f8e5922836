"""Members fail, are removed and come back, while one host of the cluster has the array."""

from iotrial.checks.arrays import FAILS_A_DISK
from iotrial.checks.cluster_md.re_add_everywhere import one_round
from iotrial.checks.clustered import ALONE, create, whole
from iotrial.model.check import Case, Scene, Script

ORDER = 101
TIMES = 3


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    for number in range(TIMES):
        yield from one_round(scene, node, scene.devices[number % 2], on=0)


CASE = Case(
    "re-add-on-one",
    "Members fail and come back, repeatedly, while one host has it",
    steps,
    ALONE,
    announces=FAILS_A_DISK,
    limit=1200,
    source="functional test of 2015, 2.10",
)
