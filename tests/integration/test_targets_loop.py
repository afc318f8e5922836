"""Loop devices that iotrial makes and removes again."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from conftest import new_loop
from iotrial.errors import OwedError, TargetRefused, TrialError
from iotrial.execute.targets.loops import (
    LoopInUse,
    LoopPlan,
    attached_to,
    make_loop,
    plan_loop,
    unmake_loop,
)
from iotrial.hosts.local import LocalHost
from iotrial.look.facts import gather, numbers
from iotrial.look.identity import identify
from iotrial.look.targets import doubts, same
from iotrial.look.usage import usages
from iotrial.model.host import CompletedCommand
from iotrial.model.target import Target

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("state")]

HOST = LocalHost()
MIB = 2**20


def planned(target: Target, token: str) -> LoopPlan:
    """With a number that no other program here will choose: a run takes another, these do not."""
    return dataclasses.replace(plan_loop(HOST, target, token), number=new_loop())


@pytest.fixture
def plan() -> Iterator[LoopPlan]:
    made = planned(loop(), "test-1")
    try:
        yield made
    finally:
        unmake_loop(HOST, made)


def loop(*, size: int = 3 * MIB + 1, folder: str = "") -> Target:
    return Target("disk", "loop", folder, size)


def queues(device: str) -> dict[str, str]:
    """Every readable file under queue/ of a loop device that nobody else has: others come and go
    with whoever else tests on this machine."""
    found = {}
    for path in Path("/sys/block").glob(f"{device}/queue/**/*"):
        if path.is_file() and path.stat().st_mode & 0o444:
            found[str(path)] = path.read_text()
    return found


def test_planning_changes_nothing_and_survives_the_journal(plan: LoopPlan, state: Path) -> None:
    assert not Path(plan.file).exists()
    assert not Path(plan.node).exists()
    assert Path(plan.file).is_relative_to(state)
    assert plan.size == 4 * MIB
    assert LoopPlan.from_dict(plan.as_dict()) == plan


def test_a_loop_device_is_made_whole_and_removed_without_a_trace(
    plan: LoopPlan, loop_device: str
) -> None:
    before = queues(loop_device)
    assert before
    aim, doubted = make_loop(HOST, plan, loop())
    sysfs = Path(f"/sys/block/loop{plan.number}")
    assert aim.path == plan.node
    assert aim.identity == identify(HOST, plan.node)
    assert (sysfs / "loop/dio").read_text() == "1\n"
    assert doubted == doubts(HOST, aim) == ()
    assert Path(plan.file).stat().st_blocks * 512 >= plan.size  # no holes
    same(HOST, aim)
    assert usages(HOST, identify(HOST, plan.node)) == ()
    assert unmake_loop(HOST, plan) == [
        f"detached {plan.node} from {plan.file}",
        f"removed {plan.node}",
        f"removed {plan.file}",
    ]
    assert not sysfs.exists()
    assert not Path(plan.node).exists()
    assert not Path(plan.file).parent.exists()
    assert queues(loop_device) == before


def test_removing_twice_is_once(plan: LoopPlan) -> None:
    make_loop(HOST, plan, loop())
    assert unmake_loop(HOST, plan)
    assert unmake_loop(HOST, plan) == []


def test_what_a_crash_left_half_made_is_removed(plan: LoopPlan) -> None:
    Path(plan.file).parent.mkdir()
    Path(plan.file).write_bytes(b"half")
    assert unmake_loop(HOST, plan) == [f"removed {plan.file}"]


def test_a_device_whose_file_was_unlinked_is_still_found(plan: LoopPlan) -> None:
    make_loop(HOST, plan, loop())
    Path(plan.file).unlink()
    assert attached_to(HOST, plan.file) == [plan.number]
    assert unmake_loop(HOST, plan)[0] == f"detached {plan.node} from {plan.file}"
    assert not Path(plan.node).exists()


def test_the_number_of_a_device_that_somebody_else_uses_is_not_removed(
    plan: LoopPlan, loop_device: str
) -> None:
    theirs = dataclasses.replace(plan, number=int(loop_device.removeprefix("loop")))
    assert unmake_loop(HOST, theirs) == []
    assert Path(f"/sys/block/{loop_device}/loop/backing_file").exists()


def test_an_open_device_is_owed(plan: LoopPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iotrial.execute.targets.loops._GONE_WITHIN", 0.2)
    make_loop(HOST, plan, loop())
    with Path(plan.node).open("rb"), pytest.raises(OwedError) as caught:
        unmake_loop(HOST, plan)
    assert caught.value.owed == (f"{plan.node} with {plan.file}",)
    assert Path(plan.file).exists()
    assert f"removed {plan.file}" in unmake_loop(HOST, plan)


def test_only_files_with_iotrials_own_name_are_removed(plan: LoopPlan, tmp_path: Path) -> None:
    precious = tmp_path / "precious.img"
    precious.write_bytes(b"x")
    with pytest.raises(OwedError, match="not a file created by iotrial"):
        unmake_loop(HOST, dataclasses.replace(plan, file=str(precious)))
    assert precious.exists()


def test_a_loop_target_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for target, why in (
        (loop(size=0), "needs a size"),
        (loop(size=2**60), "not enough space"),
        (loop(folder=str(tmp_path / "missing")), "does not exist"),
    ):
        with pytest.raises(TargetRefused, match=why):
            plan_loop(HOST, target, "test-2")
    with pytest.raises(TargetRefused, match="does not name a file"):
        plan_loop(HOST, loop(), "../../etc/passwd")


def test_a_loop_device_in_memory_is_made_and_doubted() -> None:
    plan = planned(loop(folder="/dev/shm"), "test-3")
    try:
        _, doubted = make_loop(HOST, plan, loop(folder="/dev/shm"))
        assert "target-memory" in {doubt.check for doubt in doubted}
    finally:
        unmake_loop(HOST, plan)
    assert not Path(plan.file).exists()


def test_detaching_by_hand_in_between_is_no_obstacle(plan: LoopPlan) -> None:
    make_loop(HOST, plan, loop())
    subprocess.run(["losetup", "--detach", plan.node], check=True, timeout=200)
    assert f"removed {plan.file}" in unmake_loop(HOST, plan)
    assert not Path(plan.node).exists()


def test_facts_tell_the_device_and_every_value_of_its_queue(plan: LoopPlan) -> None:
    aim, _ = make_loop(HOST, plan, loop())
    facts = gather(HOST, [aim], ["fio", "no-such-program"])
    device = facts["devices"][f"loop{plan.number}"]
    sysfs = Path(f"/sys/block/loop{plan.number}/queue")
    assert device["queue"]["scheduler"] == (sysfs / "scheduler").read_text().strip()
    assert device["queue"]["nr_requests"] == (sysfs / "nr_requests").read_text().strip()
    assert facts["targets"]["disk"]["identity"]["ids"]["backing_file"] == plan.file
    assert facts["programs"]["no-such-program"] == ""
    assert facts["kernel"] == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert numbers(facts)["cpus"] >= 1
    assert numbers(facts)["memory"] > 2**20


class Removed(LocalHost):
    """Where another program removes the new device just before losetup opens it, or just after."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self.said = said

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        if argv[0] == "losetup":
            said = f"losetup: {argv[-2]}: failed to set up loop device: {self.said}"
            return CompletedCommand(tuple(argv), 1, b"", said.encode())
        return super().run(argv, stdin=stdin, timeout=timeout)


@pytest.mark.parametrize("said", ["No such file or directory", "No such device or address"])
def test_a_device_that_another_program_removed_is_given_up(plan: LoopPlan, said: str) -> None:
    with pytest.raises(LoopInUse, match="was removed by another program"):
        make_loop(Removed(said), plan, loop())
    unmake_loop(HOST, plan)


def test_a_device_that_cannot_be_attached_is_no_matter_of_its_number(plan: LoopPlan) -> None:
    with pytest.raises(TrialError, match="could not attach") as caught:
        make_loop(Removed("Invalid argument"), plan, loop())
    assert not isinstance(caught.value, LoopInUse)
    unmake_loop(HOST, plan)


def test_a_number_that_another_program_took_is_given_up_and_not_touched(
    plan: LoopPlan, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs.img"
    theirs.write_bytes(b"\0" * MIB)
    subprocess.run(["losetup", plan.node, str(theirs)], check=True, timeout=200)
    try:
        with pytest.raises(LoopInUse):
            make_loop(HOST, plan, loop())
        again = planned(loop(), "test-1")
        assert again.number != plan.number
        assert make_loop(HOST, again, loop())[0].device == f"loop{again.number}"
        unmake_loop(HOST, again)
        unmake_loop(HOST, plan)
        assert attached_to(HOST, str(theirs)) == [plan.number]
    finally:
        subprocess.run(["losetup", "-d", plan.node], check=True, timeout=200)
