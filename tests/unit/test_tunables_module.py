from __future__ import annotations

from collections.abc import Sequence

import pytest

from iotrial.errors import SettingRefused, UsageError
from iotrial.execute.settings.tuning import apply, observe, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.parts.kernel import HBA
from iotrial.look.refusals import control_file, modes, obstacle, understood
from iotrial.model.host import CompletedCommand
from iotrial.model.tunable import Setting
from iotrial.tunables import tunable
from iotrial.tunables.module import REFUSED, row, undoable


def test_any_parameter_of_any_module_is_a_tunable() -> None:
    assert tunable("module.8250.nr_uarts").file("") == "/sys/module/8250/parameters/nr_uarts"
    assert tunable("module.snd_hda_intel.power_save-x").scope == "host"


@pytest.mark.parametrize(
    "name",
    [
        "module.nvme",
        "module..x",
        "module.a/../b.c",
        "module.a.b.c",
        "module.a.{device}",
        "xmodule.a.b",
    ],
)
def test_no_other_name_is(name: str) -> None:
    assert row(name) is None


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_setting_to_try_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        tunable(name)


@pytest.mark.parametrize(
    ("raw", "value"), [(b"Y\n", "1"), (b"N\n", "0"), (b"7\n", "7"), (b"8,16\n", "8,16")]
)
def test_yes_and_no_read_as_they_are_written(raw: bytes, value: str) -> None:
    assert tunable("module.loop.anything").observe(raw) == value


@pytest.mark.parametrize("raw", [b"\n", b"(null)\n", b"[default] fast slow\n", b"a [b]\n"])
def test_what_could_not_be_written_back_takes_nothing(raw: bytes) -> None:
    assert undoable(raw).refusal("1")


@pytest.mark.parametrize("raw", [b"Y\n", b"0\n", b"eth[0-3]\n"])
def test_what_can_be_written_back_takes_anything(raw: bytes) -> None:
    assert undoable(raw).refusal("1") == ""


def test_a_policy_in_brackets_that_is_known_is_a_choice() -> None:
    knob = tunable("module.pcie_aspm.policy")
    raw = b"[default] performance powersave powersupersave \n"
    assert knob.observe(raw) == "default"
    assert knob.domain(raw).refusal("performance") == ""


# -- files that cannot be written -----------------------------------------------------------------


def test_a_parameter_that_is_read_only_is_no_factor_and_says_why() -> None:
    host = FakeHost()
    knobs = [tunable(f"module.fake_hba.{n}") for n in ("hba_queue_depth", "lun_queue_depth")]
    known = modes(host, [control_file(knob, "") for knob in knobs])
    why = obstacle(knobs[0], "", known)
    assert f"{HBA}/hba_queue_depth is read-only (mode 0444)" in why
    assert "modprobe.d" in why
    assert obstacle(knobs[1], "", known) == ""


def test_the_kernel_would_have_refused_it() -> None:
    with pytest.raises(SettingRefused):
        apply(FakeHost(), [Setting("", "module.fake_hba.hba_queue_depth", "7")])


def test_a_file_that_is_not_there_is_no_obstacle_and_hides_no_other() -> None:
    host = FakeHost()
    known = modes(host, ["/sys/module/none/parameters/x", "", f"{HBA}/debug"])
    assert known == {f"{HBA}/debug": 0o644}
    assert obstacle(tunable("module.none.x"), "", known) == ""


def test_many_files_are_asked_about_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    asked: list[Sequence[str]] = []
    run = FakeHost.run

    def counted(self: FakeHost, argv: Sequence[str]) -> CompletedCommand:
        asked.append(argv)
        return run(self, argv)

    monkeypatch.setattr(FakeHost, "run", counted)
    assert len(modes(host, [f"{HBA}/debug", f"{HBA}/path", f"{HBA}/debug"])) == 2
    assert len(asked) == 1


def test_what_is_set_by_commands_has_no_control_file() -> None:
    assert control_file(tunable("cpu.dma_latency"), "") == ""
    assert control_file(tunable("queue.nomerges"), "sda") == "/sys/block/sda/queue/nomerges"


def test_only_pairs_of_mode_and_path_are_understood() -> None:
    said = "444 /sys/a b\nstat: no\n\n644\n"
    assert understood(said) == {"/sys/a b": 0o444}


# -- on the fake machine --------------------------------------------------------------------------


def test_each_kind_of_parameter_is_set_and_given_back() -> None:
    host = FakeHost()
    before = host.settings()
    asked = {"lun_queue_depth": "64", "debug": "1", "link_speeds": "32"}
    group = snapshot(host, [f"module.fake_hba.{name}" for name in asked], "")
    apply(host, [Setting("", f"module.fake_hba.{name}", value) for name, value in asked.items()])
    assert observe(host, tunable("module.fake_hba.debug"), "") == "1"
    assert host.settings() != before
    assert put_back(host, group.owed) == ()
    assert host.settings() == before
