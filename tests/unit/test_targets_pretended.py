"""Every refusal can be shown without a disk to lose: the pretended machine has one of each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from iotrial.errors import TargetRefused
from iotrial.execute.targets.loops import make_loop, plan_loop, unmake_loop
from iotrial.execute.targets.making import lay_out
from iotrial.hosts.fake import FakeHost
from iotrial.look import doctor
from iotrial.look.doctor import examine, overall
from iotrial.look.facts import gather, numbers
from iotrial.look.targets import ready, same
from iotrial.model.host import CompletedCommand
from iotrial.model.target import Target
from iotrial.model.tool import LoadAccess
from iotrial.tools import tool

READS = LoadAccess(reads=True, writes=False)
WRITES = LoadAccess(reads=True, writes=True)
MIB = 2**20


def device(name: str, destroy: str = "") -> Target:
    return Target("disk", "device", f"/dev/{name}", destroy=destroy)


@pytest.mark.parametrize(
    ("name", "serial", "evidence"),
    [
        ("fakesys", "FAKESYS", "fakesys1 (a partition of fakesys) is mounted on / (ext4)"),
        ("fakeswap", "FAKESWAP", "fakeswap is swap space (/dev/fakeswap)"),
        ("fakefs", "FAKEFS", "fakefs carries a xfs filesystem"),
        ("fakeleg", "FAKELEG", "dm-0 is built on fakeleg"),
    ],
)
@pytest.mark.parametrize("reach", [READS, WRITES], ids=["reads", "writes"])
def test_a_disk_in_use_is_refused_even_when_armed(
    name: str, serial: str, evidence: str, reach: LoadAccess
) -> None:
    with pytest.raises(TargetRefused, match="is in use") as caught:
        ready(FakeHost(), device(name, serial), reach)
    assert evidence in caught.value.evidence
    assert "destroy" not in caught.value.advice


def test_a_free_disk_is_armed_by_its_serial_or_wwid_only() -> None:
    host = FakeHost()
    for word in ("FAKE0000", "naa.600fa4e000000000", "0x600FA4E000000000"):
        same(host, ready(host, Target("disk", "device", "FAKE0000", destroy=word), WRITES))
    for word in ("", "FAKE0001", "fake0", "/dev/fake0"):
        with pytest.raises(TargetRefused, match=r"destroy|does not say so"):
            ready(host, Target("disk", "device", "FAKE0000", destroy=word), WRITES)


@pytest.mark.parametrize("word", ["FAKE0000", "naa.600fa4e000000000", "0x600FA4E000000000"])
def test_a_disk_is_found_by_its_id_without_udev(word: str) -> None:
    aim = ready(FakeHost(), Target("disk", "device", word), READS)
    assert (aim.path, aim.device) == ("/dev/fake0", "fake0")


def test_a_kernel_name_is_refused_and_the_lasting_one_offered() -> None:
    with pytest.raises(TargetRefused, match="is not a persistent name") as caught:
        ready(FakeHost(), device("fake0"), READS)
    assert 'device = "naa.600fa4e000000000"' in caught.value.advice


def test_an_id_that_no_disk_has_is_refused_with_those_there_are() -> None:
    with pytest.raises(TargetRefused, match="no disk here has") as caught:
        ready(FakeHost(), Target("disk", "device", "FAKE9999"), READS)
    assert any("FAKE0000" in line for line in caught.value.evidence)


def test_a_loop_device_is_made_and_unmade() -> None:
    host = FakeHost()
    before = host.list("/sys/block")
    target = Target("disk", "loop", "", 16 * MIB)
    plan = plan_loop(host, target, "t1")
    assert host.list("/sys/block") == before
    aim, doubts = make_loop(host, plan, target)
    assert doubts == ()
    same(host, aim)
    assert len(unmake_loop(host, plan)) == 3
    assert unmake_loop(host, plan) == []
    assert host.list("/sys/block") == before


def test_a_file_is_laid_out_on_the_disk_below_its_mount() -> None:
    host = FakeHost()
    target = Target("data", "file", "/home/f", 16 * MIB)
    aim = ready(host, target, WRITES)
    aim = lay_out(host, aim)
    same(host, aim)
    assert (aim.path, aim.device) == ("/home/f", "fakesys")
    with pytest.raises(TargetRefused, match="exists, and the load would write"):
        ready(host, target, WRITES)


def test_the_doctor_and_the_facts_work_there_too() -> None:
    checks = examine(FakeHost())
    assert overall(checks) == "warn"
    assert [check.name for check in checks if check.verdict != "ok"] == ["cpu-governor"]
    assert "tool-fio" in {check.name for check in checks}
    assert numbers(gather(FakeHost(), [], ["fio"]))["cpus"] >= 1


def test_a_load_tool_that_is_missing_is_bad_only_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {check.name: check for check in examine(FakeHost())}
    assert seen["tool-elbencho"].verdict == "ok"
    assert "is not installed; only some studies need it" in seen["tool-elbencho"].reason
    assert "elbencho" in seen["tool-elbencho"].remedy
    monkeypatch.setattr(doctor, "known_tools", lambda: {"elbencho": tool("elbencho")})
    seen = {check.name: check for check in examine(FakeHost())}
    assert seen["tool-elbencho"].verdict == "bad"


class WithoutBonnie(FakeHost):
    """A machine on which a tool is missing that is a package of Debian."""

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        if argv[0] == "bonnie++":
            return CompletedCommand(tuple(argv), 127, b"", b"bonnie++: command not found\n")
        return super().run(argv, stdin=stdin, timeout=timeout)


def test_a_load_tool_that_is_missing_comes_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {check.name: check for check in examine(WithoutBonnie())}
    assert seen["tool-bonnie++"].verdict == "ok"
    assert "is not installed; only some studies need it" in seen["tool-bonnie++"].reason
    assert "apt-get install bonnie++" in seen["tool-bonnie++"].remedy
    monkeypatch.setattr(doctor, "known_tools", lambda: {"bonnie++": tool("bonnie++")})
    seen = {check.name: check for check in examine(WithoutBonnie())}
    assert seen["tool-bonnie++"].verdict == "bad"
