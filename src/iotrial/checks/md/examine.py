"""Each member says itself which array it belongs to."""

from iotrial.checks.arrays import MDADM, TWO, agrees, create, examined, whole
from iotrial.checks.vocabulary import expect, run
from iotrial.model.check import Case, Scene, Script

ORDER = 21


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    yield from whole(node, TWO)
    told = yield from agrees(node)
    roles = set()
    for device in scene.devices:
        own = yield from examined(device)
        expect(own.get("Magic") == "a92b4efc", f"{device} has no superblock of md: {own}")
        expect(
            own.get("Array UUID") == told.get("UUID"),
            f"{device} belongs to {own.get('Array UUID')}, and {node} is {told.get('UUID')}",
        )
        expect(own.get("Raid Devices") == "2", f"{device} knows of {own.get('Raid Devices')}")
        expect(own.get("State") in ("clean", "active"), f"{device} is {own.get('State')}")
        roles.add(own.get("Device Role"))
    expect(len(roles) == TWO, f"both members have one role: {roles}")
    scan = yield from run("mdadm", "--examine", "--brief", *scene.devices)
    expect(str(told.get("UUID")) in scan.stdout, "--examine --brief does not know its UUID")


CASE = Case("examine", "Each member's superblock says which array it belongs to", steps, MDADM)
