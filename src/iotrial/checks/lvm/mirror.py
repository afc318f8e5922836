"""An old-style mirror (dm-mirror): made with its log in memory, in sync, and turned into one leg.

Its log on disk would need a third device on which nothing else lies.
"""

from dataclasses import replace

from iotrial.checks.vocabulary import expect
from iotrial.checks.volumes import LVM, group, healthy, in_sync, kept, lvm, report, status, written
from iotrial.model.check import Case, Scene, Script

ORDER = 10


def steps(scene: Scene) -> Script:
    vg = yield from group(scene)
    yield from lvm(
        scene, "lvcreate", "-y", "-q", "--type", "mirror", "-m1", "--mirrorlog", "core",
        "-L", "16m", "-n", "mirror", vg,
    )  # fmt: skip
    sum_ = yield from written(vg, "mirror")
    yield from in_sync(scene, vg, "mirror")
    line = yield from status(vg, "mirror")
    expect(healthy(line) == "AA", f"both legs are to be alive: {line}")
    yield from kept(vg, "mirror", sum_, "in sync")
    yield from lvm(scene, "lvconvert", "-y", "-q", "-m0", f"{vg}/mirror")
    kind = yield from report(scene, vg, "mirror", "segtype")
    expect(kind == "linear", f"with -m0 it is to be linear, and is {kind}")
    yield from kept(vg, "mirror", sum_, "on one leg")
    yield from lvm(
        scene, "lvconvert", "-y", "-q", "--type", "mirror", "-m1", "--mirrorlog", "core",
        f"{vg}/mirror",
    )  # fmt: skip
    yield from in_sync(scene, vg, "mirror")
    yield from kept(vg, "mirror", sum_, "as a mirror again")


CASE = Case(
    "mirror",
    "A mirror (dm-mirror) gets in sync, becomes linear and a mirror again",
    steps,
    replace(LVM, modules=("dm_mod", "dm_mirror")),
)
