"""Two hosts have the array at once, and each reads what the other writes."""

from iotrial.checks.arrays import scribble
from iotrial.checks.clustered import NEEDS, everywhere, made_everywhere, same_everywhere, stop
from iotrial.model.check import Case, Scene, Script

ORDER = 20


def steps(scene: Scene) -> Script:
    node = yield from made_everywhere(scene)
    for on in everywhere(scene):
        written = yield from scribble(node, on=on, at=8 * on)
        who = scene.nodes[on].name
        yield from same_everywhere(scene, node, written, f"after {who} wrote them", at=8 * on)
    for on in everywhere(scene):
        yield from stop(node, on=on)


CASE = Case(
    "assemble",
    "Two hosts assemble it, and each reads what the other writes",
    steps,
    NEEDS,
    limit=900,
    source="functional test of 2015, 2.2",
)
