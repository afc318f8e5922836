"""An array is given to another cluster: this one cannot start it any more; and is given back."""

from iotrial.checks.arrays import checksum, examined, scribble
from iotrial.checks.clustered import ALONE, assemble, cluster_name, create, stop, whole
from iotrial.checks.vocabulary import expect, run
from iotrial.model.check import Case, Scene, Script

ORDER = 70


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    yield from whole(node, 2, on=0)
    written = yield from scribble(node, on=0)
    home = yield from cluster_name()
    other = f"other{scene.token}"
    yield from stop(node, on=0)
    words = ("--update=home-cluster", f"--home-cluster={other}")
    yield from run("mdadm", "--assemble", node, *words, *scene.devices[:2], exits=None)
    for device in scene.devices[:2]:
        said = (yield from examined(device)).get("Cluster Name", "")
        expect(said == other, f"{device} is of cluster {said!r}, not of {other}")
    state = yield from run(
        "cat", f"/sys/block/{node.removeprefix('/dev/')}/md/array_state", exits=None
    )
    running = state.exit == 0 and state.stdout.strip() not in ("inactive", "clear")
    expect(not running, f"{node} is of another cluster, and runs here")
    yield from run("mdadm", "--stop", node, exits=None)
    yield from assemble(
        scene, node, "--update=home-cluster", f"--home-cluster={home}", on=0, again=True
    )
    said = (yield from examined(scene.devices[0])).get("Cluster Name", "")
    expect(said == home, f"it is of cluster {said!r} again, not of {home}")
    expect((yield from checksum(node, on=0)) == written, "it holds other bytes")


CASE = Case(
    "home-cluster",
    "It is given to another cluster, where this one cannot start it, and back",
    steps,
    ALONE,
    announces=(r"md\d+: Could not setup cluster service", r"Cluster name mismatch"),
    limit=900,
    source="functional test of 2015, 2.7, where the name was not changed",
)
