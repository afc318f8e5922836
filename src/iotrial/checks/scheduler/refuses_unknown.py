"""A name that no scheduler has is refused, and changes nothing."""

from iotrial.checks.knob_round import put, values
from iotrial.checks.vocabulary import expect
from iotrial.model.check import Case, Needs, Scene, Script


def steps(scene: Scene) -> Script:
    node = scene.devices[0]
    before = yield from values(node)
    refused, after = yield from put(node, "scheduler", "iotrial-none")
    expect(refused, "a scheduler that does not exist was taken")
    changed = [name for name in before if after.get(name) != before[name]]
    expect(not changed, f"refusing an unknown scheduler changed {', '.join(changed)}")


CASE = Case(
    name="refuses-unknown",
    title="An unknown scheduler is refused, and nothing changes",
    steps=steps,
    needs=Needs(devices=1),
)
