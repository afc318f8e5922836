from __future__ import annotations

import pytest

from iotrial.errors import FileRefused, SettingLost, SettingRefused
from iotrial.execute.settings.tuning import apply, put_back, snapshot
from iotrial.hosts.fake import FakeHost
from iotrial.model.tunable import Setting, Tunable
from iotrial.tunables import tunable
from iotrial.tunables.nvme import TUNABLES

LOSS = "/sys/class/nvme/nvme0/ctrl_loss_tmo"


def test_every_row_says_whether_it_was_measured_and_when_it_cannot_matter() -> None:
    assert all("not measured" in row.source and row.moot for row in TUNABLES)


@pytest.mark.parametrize("row", TUNABLES, ids=lambda row: row.name)
def test_every_pretended_file_has_a_value_inside_its_domain(
    row: Tunable,
) -> None:
    host = FakeHost()
    names = ("fake1",) if row.scope in ("disk", "device") else ("nvme0", "nvme1")
    found = []
    for name in names:
        try:
            found.append(host.read(row.path.format(device=name)))
        except FileRefused:
            continue
    assert len(found) == 1
    assert row.domain(found[0]).refusal(row.observe(found[0]) or "") == ""


@pytest.mark.parametrize("name", ["nvme.queue_count", "nvme.sqsize", "nvme.kato"])
def test_what_is_agreed_at_a_reset_is_no_factor_and_says_where_it_is_set(name: str) -> None:
    assert any(word in tunable(name).reload for word in ("module nvme", "nvme connect"))


def test_off_is_written_as_minus_one() -> None:
    (act,) = tunable("nvme.ctrl_loss_tmo").acts("nvme0", "off")
    assert (act.path, act.data) == (LOSS, "-1")
    host = FakeHost()
    apply(host, [Setting("nvme0", "nvme.ctrl_loss_tmo", "off")])
    assert host.read(LOSS) == b"off\n"


def test_a_loss_timeout_that_is_no_whole_number_of_tries_is_lost() -> None:
    with pytest.raises(SettingLost, match="reads '70'"):
        apply(FakeHost(), [Setting("nvme0", "nvme.ctrl_loss_tmo", "61")])


def test_the_delay_moves_the_timeout_and_both_go_back() -> None:
    host = FakeHost()
    owed = snapshot(host, ["nvme.reconnect_delay"], "nvme0").owed
    assert [each.setting.value for each in owed] == ["10", "600"]
    apply(host, [Setting("nvme0", "nvme.reconnect_delay", "7")])
    assert host.read(LOSS) == b"420\n"
    apply(host, [Setting("nvme0", "nvme.ctrl_loss_tmo", "70")])
    assert put_back(host, owed) == ()
    assert host.read(LOSS) == b"600\n"


def test_power_saving_takes_words_and_numbers() -> None:
    domain = tunable("nvme.pm_qos_latency_tolerance_us").domain(b"100000\n")
    assert not any(domain.refusal(value) for value in ("any", "auto", "0", "25000"))
    assert domain.refusal("-1")
    assert domain.refusal("never")


def test_a_path_policy_that_the_kernel_lacks_is_refused() -> None:
    host = FakeHost()
    apply(host, [Setting("fake1", "nvme.iopolicy", "round-robin")])
    with pytest.raises(SettingRefused):
        apply(host, [Setting("fake1", "nvme.iopolicy", "fastest")])
