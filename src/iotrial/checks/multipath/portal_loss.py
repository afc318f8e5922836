"""The portal of one path of iSCSI goes down at the target, under load, and comes back."""

from dataclasses import replace

from iotrial.checks.loads import begin, end
from iotrial.checks.paths import LOSES_PATHS, NEEDS, Map, carries, mapped, noticed
from iotrial.checks.vocabulary import Doing, run, undo
from iotrial.model.check import Case, NotHere, Scene, Script

ORDER = 30
_PORTAL = """\
device=$(readlink -f "/sys/block/$1/device")
session=${device%/target*}
cat "/sys/class/iscsi_connection/connection${session##*/session}:0/persistent_address"
"""
"""Argument: a disk.  Prints the address of the portal that it is reached by."""


def steps(scene: Scene) -> Script:
    there = yield from mapped(scene)
    interface = yield from _interface(there)
    lost, other = there.paths[:2]
    load = yield from begin(scene, f"--filename={there.node}")
    yield from carries(lost)
    yield from undo("ip", "link", "set", interface, "up", on=1)
    yield from run("ip", "link", "set", interface, "down", on=1)
    yield from noticed(there, lost, "F")
    yield from carries(other)
    yield from run("ip", "link", "set", interface, "up", on=1)
    yield from noticed(there, lost, "A")
    yield from carries(lost)
    yield from end(load)


def _interface(there: Map) -> Doing[str]:
    """The target's, behind the first path.  Raises NotHere where that is not on the second
    host."""
    said = yield from run("sh", "-c", _PORTAL, "iotrial-portal", there.paths[0], exits=None)
    address = said.stdout.strip()
    if not address:
        raise NotHere(f"{there.paths[0]} is not reached by iSCSI")
    listed = yield from run("ip", "-o", "-4", "address", "show", on=1)
    for line in listed.stdout.splitlines():
        words = line.split()
        if words[3].partition("/")[0] == address:
            return words[1]
    raise NotHere(f"the second host has not the address {address} of the target")


CASE = Case(
    "portal-loss",
    "A portal of the target goes down under load and comes back; no I/O fails",
    steps,
    # The target needs no disk: one is made for it, as each host gets what a case needs.
    replace(NEEDS, hosts=2, loses=True, disks=False, commands=(*NEEDS.commands, "ip")),
    announces=LOSES_PATHS,
    limit=900,
)
