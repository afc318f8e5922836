"""A resync keeps to its limits, those of the machine and those of the array."""

from dataclasses import replace

from iotrial.checks.arrays import MDADM, TWO, create, hurried, sysfs, whole
from iotrial.checks.vocabulary import Doing, expect, pause, read, run, undo, until, write
from iotrial.model.check import Case, Scene, Script

ORDER = 61
_KIB = 4000
_GLOBAL = ("dev.raid.speed_limit_max", "dev.raid.speed_limit_min")


def _speed(node: str) -> Doing[int]:
    """KiB/s over the last seconds; -1 while none is known."""
    text = yield from read(sysfs(node, "sync_speed"))
    return int(text) if text.isdigit() else -1


def _kept(node: str) -> Doing[None]:
    """A check of the array goes on, no faster than the limit and some."""
    yield from write(sysfs(node, "sync_action"), "check")
    yield from until(lambda: _speed(node), lambda seen: seen >= 0, "no check goes on", within=10)
    yield from pause(4)
    seen = yield from _speed(node)
    expect(0 <= seen <= 2 * _KIB, f"limited to {_KIB} KiB/s, it goes at {seen}")
    yield from write(sysfs(node, "sync_action"), "idle")


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    yield from whole(node, TWO)
    yield from write(sysfs(node, "sync_speed_min"), "1000")
    yield from write(sysfs(node, "sync_speed_max"), str(_KIB))
    limit = yield from read(sysfs(node, "sync_speed_max"))
    expect(limit.startswith(f"{_KIB} (local)"), f"sync_speed_max reads {limit!r}")
    yield from _kept(node)
    yield from hurried(node)
    for name in _GLOBAL:
        was = yield from read(f"/proc/sys/{name.replace('.', '/')}")
        yield from undo("sysctl", "-q", "-w", f"{name}={was}")
    yield from run("sysctl", "-q", "-w", "dev.raid.speed_limit_min=1000")
    yield from run("sysctl", "-q", "-w", f"dev.raid.speed_limit_max={_KIB}")
    limit = yield from read(sysfs(node, "sync_speed_max"))
    expect(limit.startswith(f"{_KIB} (system)"), f"sync_speed_max reads {limit!r}")
    yield from _kept(node)


CASE = Case(
    "resync-limits",
    "A resync keeps to the limits of the array and of the machine",
    steps,
    replace(MDADM, commands=("mdadm", "sysctl"), size=128 * 2**20),
)
