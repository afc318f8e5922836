"""The superblock of each member says, to every host, that it is clustered, and of which cluster."""

from iotrial.checks.arrays import examined
from iotrial.checks.clustered import NEEDS, cluster_name, everywhere, made_everywhere
from iotrial.checks.vocabulary import expect
from iotrial.model.check import Case, Scene, Script

ORDER = 80
_BITMAP, _CLUSTERED = 0x1, 0x100
"""MD_FEATURE_BITMAP_OFFSET, MD_FEATURE_CLUSTERED: include/uapi/linux/raid/md_p.h."""


def steps(scene: Scene) -> Script:
    yield from made_everywhere(scene)
    name = yield from cluster_name()
    for on in everywhere(scene):
        for device in scene.nodes[on].devices[:2]:
            said = yield from examined(device, on=on)
            where = f"{device} of {scene.nodes[on].name}"
            features = int(said.get("Feature Map", "0"), 16)
            wanted = _BITMAP | _CLUSTERED
            expect(features & wanted == wanted, f"{where}: features {features:#x}")
            expect(
                said.get("Cluster Name") == name, f"{where}: {said.get('Cluster Name')!r}: {name}"
            )
            expect("correct" in said.get("Checksum", ""), f"{where}: {said.get('Checksum')}")


CASE = Case(
    "examine",
    "Each member's superblock says to every host that it is clustered, and of which cluster",
    steps,
    NEEDS,
    limit=900,
    source="functional test of 2015, 2.8",
)
