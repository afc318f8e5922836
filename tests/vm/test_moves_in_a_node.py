"""What kernels of Debian move is what the catalogue declares: its own, and that of its backports,
on disks of every bus, and under every scheduler."""

from __future__ import annotations

import pytest

from iotrial.errors import FileRefused
from iotrial.execute.settings.moves import measure_moves
from iotrial.tunables import all_tunables, tunable
from nodes import Node

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1800)]

QUEUE = [row.name for row in all_tunables() if row.name.startswith("queue.")]
PLACES = [
    *(("a", scheduler) for scheduler in ("none", "mq-deadline", "kyber", "bfq")),
    ("virtio", "mq-deadline"),
    ("nvme", "none"),
]
"""Disks and schedulers.  A disk takes minutes where processors are emulated."""


def undeclared(node: Node, disk: str, scheduler: str) -> list[tuple[str, str]]:
    """(knob, what its write moves and the catalogue does not know)."""
    device = node.disk(disk)
    node.host.write(f"/sys/block/{device}/queue/scheduler", scheduler.encode())
    before = state(node, device)
    measured = measure_moves(node.host, device, QUEUE)
    assert state(node, device) == before
    assert any(measured.values()), "nothing was measured"
    return [
        (mover, moved)
        for mover, found in measured.items()
        for moved in found
        if not tunable(moved).moved_by(tunable(mover))
    ]


def state(node: Node, device: str) -> dict[str, bytes | int]:
    seen: dict[str, bytes | int] = {}
    for name in QUEUE:
        try:
            seen[name] = node.host.read(tunable(name).file(device))
        except FileRefused as refused:
            seen[name] = refused.errno
    return seen


@pytest.mark.parametrize(("disk", "scheduler"), PLACES)
@pytest.mark.parametrize("kernel", ["node", "newer_node"])
def test_what_a_write_moves_is_declared(
    request: pytest.FixtureRequest, kernel: str, disk: str, scheduler: str
) -> None:
    node: Node = request.getfixturevalue(kernel)
    found = undeclared(node, disk, scheduler)
    assert found == [], node.do("uname", "-r")
