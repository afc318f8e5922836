"""Boots of a study on the machine made up: every moment of death, its own boot afterwards.

The controller dies at each operation of a life of two levels and the way back, or the power goes;
then the machine is brought back as ``iotrial restore`` does it.  What the unit on a real machine
does by itself, without anybody, is tried in ``tests/vm/test_boots_in_nodes.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from deaths import killed, length, share_of
from iotrial.execute.boot import Boots, bring_back
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.boots import OTHER
from iotrial.look.boots import boot_debt, boot_means
from iotrial.model.study import StudyHost

TREATED = {"boot.kernel", "boot.nvme.poll_queues"}
PLACE = StudyHost("box", "root@box")
LEVELS = (
    (("boot.kernel", OTHER), ("boot.nvme.poll_queues", "2")),
    (("boot.nvme.poll_queues", "4"),),
)


def live(host: FakeHost) -> None:
    boots = Boots(lambda _place: nullcontext(host), Path("/nowhere"), in_turn=True)
    for block, changes in enumerate(LEVELS, 1):
        assert boots.boot({"box": PLACE}, block, {"box": changes}) == {}
        assert boots.problems(["box"]) == {}
        means = boot_means(host)
        assert means.level
        for name, value in changes:
            said = means.release if name == "boot.kernel" else means.command_line
            assert value in said
    assert boots.back() == {}


def test_wherever_the_controller_dies_the_machine_returns_to_its_own_boot(
    times: Callable[[int], int],
) -> None:
    before = FakeHost().settings()
    host = FakeHost()
    live(host)
    assert host.settings() == before
    operations = length(FakeHost, live)
    crashes = 0
    for at, power in share_of((at, cut) for at in range(1, operations + 1) for cut in ("", "cut")):
        host = killed(FakeHost, live, at, "after")
        if power:
            host.power_cut()
        bring_back(lambda _place, host=host: nullcontext(host), PLACE, within=1.0)
        assert boot_debt(host) == ()
        assert host.settings() == before, f"died at operation {at}, power {power}"
        crashes += 1
    assert crashes >= times(2 * operations)
