from __future__ import annotations

import pytest

from iotrial.errors import FileRefused, SettingLost, SettingRefused, UsageError
from iotrial.execute.settings.tuning import apply, put_back, snapshot, snapshots
from iotrial.hosts.fake import FakeHost
from iotrial.model.tunable import Setting, Tunable
from iotrial.tunables import group, tunable
from iotrial.tunables.scsi import REFUSED, TUNABLES

PORT = "rport-3:0-0"
LOSS = f"/sys/class/fc_remote_ports/{PORT}/dev_loss_tmo"
FAIL = f"/sys/class/fc_remote_ports/{PORT}/fast_io_fail_tmo"


def test_every_row_says_whether_it_was_measured() -> None:
    for row in TUNABLES:
        assert "not measured" in row.source or "seen on 6.1" in row.source, row.name
        assert row.moot or row.reload, row.name


@pytest.mark.parametrize("row", TUNABLES, ids=lambda row: row.name)
def test_every_pretended_file_has_a_value_inside_its_domain(
    row: Tunable,
) -> None:
    names = {
        "disk": "fake0",
        "scsi-host": "host3",
        "remote-port": PORT,
        "iscsi-session": "session1",
    }
    raw = FakeHost().read(row.path.format(device=names[row.scope]))
    assert row.domain(raw).refusal(row.observe(raw) or "") == ""


def test_what_cannot_be_written_is_a_row_that_says_what_to_do_instead() -> None:
    host = FakeHost()
    for name in ("cmd_per_lun", "can_queue", "nr_hw_queues", "use_blk_mq", "lpfc_lun_queue_depth"):
        row = tunable(f"scsi.host.{name}")
        assert row.reload
        with pytest.raises(FileRefused):
            host.write(row.path.format(device="host3"), b"1")


def test_a_depth_that_is_cut_down_without_a_word_is_found_by_reading_back() -> None:
    with pytest.raises(SettingLost, match="reads '128'"):
        apply(FakeHost(), [Setting("fake0", "scsi.queue_depth", "254")])
    with pytest.raises(SettingRefused):
        apply(FakeHost(), [Setting("fake0", "scsi.queue_depth", "1024")])


def test_a_queue_type_is_taken_and_ignored_and_no_factor() -> None:
    assert "ignores it" in tunable("scsi.queue_type").reload
    with pytest.raises(SettingLost, match="'simple'"):
        apply(FakeHost(), [Setting("fake0", "scsi.queue_type", "none")])


@pytest.mark.parametrize(("loss", "fail"), [("500", "400"), ("3", "1"), ("4000000000", "600")])
def test_two_timeouts_are_set_in_the_order_that_their_values_need(loss: str, fail: str) -> None:
    host = FakeHost()
    owed = snapshot(host, ["scsi.dev_loss_tmo"], PORT).owed
    apply(
        host,
        [Setting(PORT, "scsi.fast_io_fail_tmo", fail), Setting(PORT, "scsi.dev_loss_tmo", loss)],
    )
    assert (host.read(LOSS), host.read(FAIL)) == (f"{loss}\n".encode(), f"{fail}\n".encode())
    assert put_back(host, owed) == ()
    assert (host.read(LOSS), host.read(FAIL)) == (b"60\n", b"5\n")


def test_a_pair_that_the_kernel_takes_in_one_order_only_is_given_back() -> None:
    host = FakeHost()
    host.meddle(LOSS, b"86400")
    host.meddle(FAIL, b"off")
    owed = snapshot(host, ["scsi.dev_loss_tmo"], PORT).owed
    apply(host, [Setting(PORT, "scsi.dev_loss_tmo", "30")])
    with pytest.raises(SettingRefused):
        apply(host, [Setting(PORT, "scsi.dev_loss_tmo", "86400")])
    assert put_back(host, owed) == ()
    assert (host.read(LOSS), host.read(FAIL)) == (b"86400\n", b"off\n")


def test_a_pair_that_the_kernel_takes_in_no_order_is_named_as_owed() -> None:
    host = FakeHost()
    host.meddle(FAIL, b"50")
    host.meddle(LOSS, b"20")
    owed = snapshot(host, ["scsi.dev_loss_tmo"], PORT).owed
    apply(host, [Setting(PORT, "scsi.fast_io_fail_tmo", "off")])
    assert [line.partition(" ")[0] for line in put_back(host, owed)] == ["scsi.fast_io_fail_tmo=50"]


def test_a_timeout_and_that_of_the_queue_are_one_value_and_the_finer_goes_back_last() -> None:
    host = FakeHost()
    host.meddle("/sys/block/fake0/queue/io_timeout", b"30500")
    owed = snapshots(host, {"fake0": ["scsi.timeout"]})[0].owed
    assert [each.setting.tunable for each in owed] == ["scsi.timeout", "nvme.io_timeout"]
    apply(host, [Setting("fake0", "scsi.timeout", "5")])
    assert host.read("/sys/block/fake0/queue/io_timeout") == b"5000\n"
    assert put_back(host, owed) == ()
    assert host.read("/sys/block/fake0/queue/io_timeout") == b"30500\n"


def test_any_attribute_of_an_adapter_is_a_tunable_but_not_its_acts() -> None:
    row = tunable("scsi.host.lpfc_cr_delay")
    assert row.file("host7") == "/sys/class/scsi_host/host7/lpfc_cr_delay"
    assert group([row.name]) == (row,)
    for attribute in REFUSED:
        with pytest.raises(UsageError, match=attribute):
            tunable(f"scsi.host.{attribute}")
    for name in ("scsi.host.", "scsi.host.a/b", "scsi.host.{x}"):
        with pytest.raises(UsageError):
            tunable(name)
