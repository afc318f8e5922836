"""Who a disk is, on hardware of every kind, and which words of a study arm it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import TargetRefused
from iotrial.look.identity import arms, disks, identify, ids_from, normal, password, portrait, sight
from iotrial.look.reading import parse_status
from iotrial.look.targets import changed, ready
from iotrial.look.usage import busy
from iotrial.model.host import CompletedCommand, Host
from iotrial.model.step import Step, StepResult
from iotrial.model.target import DeviceIdentity, Target
from iotrial.model.tool import LoadAccess
from machines import Written, disk, hold, machine, partition

WRITES = LoadAccess(reads=True, writes=True)

# A VPD page 0x80: peripheral, page, length (2 bytes), then the serial, padded by the vendor.
VPD_80 = b"\x00\x80\x00\x14  S3Z1NB0K123456  \x00\x00"


@pytest.mark.parametrize(
    ("said", "ids"),
    [
        (
            {"device/wwid": b"naa.5002538e40a1b2c3\n", "device/vpd_pg80": VPD_80},
            {"wwid": "naa.5002538e40a1b2c3", "serial": "S3Z1NB0K123456"},
        ),
        (
            {"device/wwid": b"t10.ATA     Samsung SSD 860      S3Z1\n"},
            {"wwid": "t10.ATA     Samsung SSD 860      S3Z1"},
        ),
        (
            {"wwid": b"eui.0025388b71b2d3f1\n", "device/serial": b"S4X1N0      \n"},
            {"wwid": "eui.0025388b71b2d3f1", "serial": "S4X1N0"},
        ),
        ({"serial": b"virtio-7"}, {"serial": "virtio-7"}),
        ({"serial": b"\n"}, {}),
        (
            {"dm/uuid": b"mpath-3600508b4\n", "dm/name": b"mpatha\n"},
            {"dm_uuid": "mpath-3600508b4"},
        ),
        ({"dm/uuid": b"\n", "dm/name": b"by-hand\n"}, {"dm_name": "by-hand"}),
        (
            {"md/uuid": b"01234567-89ab-cdef-0123-456789abcdef\n"},
            {"md_uuid": "01234567-89ab-cdef-0123-456789abcdef"},
        ),
        ({"md/uuid": b"00000000-0000-0000-0000-000000000000\n"}, {}),
        (
            {"loop/backing_file": b"/a b.img (deleted)\n", "loop/offset": b"0\n"},
            {"backing_file": "/a b.img (deleted)"},
        ),
        (
            {"loop/backing_file": b"/a.img\n", "loop/offset": b"1048576\n"},
            {"backing_file": "/a.img", "backing_offset": "1048576"},
        ),
        ({}, {}),
    ],
    ids=[
        *("scsi", "blanks", "nvme", "virtio", "virtio-without", "multipath", "dm-by-hand"),
        *("md", "md-without", "deleted", "offset", "nothing"),
    ],
)
def test_ids_from_what_sysfs_says(said: dict[str, bytes], ids: dict[str, str]) -> None:
    assert dict(ids_from(said)) == ids


def test_a_partition_is_itself_but_has_the_ids_of_its_disk() -> None:
    host = machine()
    who = identify(host_of(host), "/dev/nvme0n1p2")
    assert (who.kernel_name, who.devno, who.size) == ("nvme0n1p2", "259:2", 2**20)
    assert dict(who.ids) == {
        "wwid": "eui.0025388b71b2d3f1",
        "serial": "S4X1N0",
        "partition": "2@2048",
    }
    assert sight(host_of(host), "/dev/nvme0n1p2").disk_name == "nvme0n1"


def test_an_array_without_a_uuid_is_known_by_its_members() -> None:
    host = machine()
    disk(host, "sda", "8:0", {"device/wwid": "naa.1"})
    disk(host, "sdb", "8:16", {"device/wwid": "naa.2"})
    disk(host, "md0", "9:0", {"md/array_state": "clean"})
    hold(host, "sdb", "md0")
    hold(host, "sda", "md0")
    who = identify(host_of(host), "/dev/md0")
    assert dict(who.ids) == {"md_legs": "naa.1 naa.2"}


def test_a_link_of_links_is_followed() -> None:
    host = machine()
    disk(host, "sda", "8:0", {"device/wwid": "naa.1"})
    host.links["/dev/mapper/x"] = "/dev/disk/y"
    host.links["/dev/disk/y"] = "/dev/sda"
    assert identify(host_of(host), "/dev/mapper/x").kernel_name == "sda"


def test_a_node_without_a_device_behind_it_is_refused() -> None:
    host = machine()
    host.nodes["/dev/sdz"] = "65:144"
    with pytest.raises(TargetRefused, match="no block device has number 65:144"):
        identify(host_of(host), "/dev/sdz")


def known(**ids: str) -> DeviceIdentity:
    return DeviceIdentity("sda", "8:0", 1000, tuple(ids.items()))


@pytest.mark.parametrize(
    ("destroy", "identity", "kind"),
    [
        ("naa.5002538e40a1b2c3", known(wwid="naa.5002538e40a1b2c3"), "wwid"),
        ("0x5002538E40A1B2C3", known(wwid="naa.5002538e40a1b2c3"), "wwid"),
        ("wwn-0x5002538e40a1b2c3", known(wwid="naa.5002538e40a1b2c3"), "wwid"),
        ("t10.ATA Samsung SSD", known(wwid="t10.ATA     Samsung SSD  "), "wwid"),
        ("S4X1N0", known(wwid="eui.1", serial="S4X1N0"), "serial"),
        ("3600508b4", known(dm_uuid="mpath-3600508b4"), "dm_uuid"),
        ("/var/a.img", known(backing_file="/var/a.img"), "backing_file"),
        ("/var/A.img", known(backing_file="/var/a.img"), ""),
        ("", known(serial=""), ""),
        ("", known(), ""),
        ("sda", known(serial="S4X1N0"), ""),
        ("/dev/sda", known(serial="S4X1N0"), ""),
        ("1:2", known(backing_file="/x", backing_inode="1:2"), ""),
        ("1@2048", known(wwid="naa.1", partition="1@2048"), ""),
        ("S4X1N", known(serial="S4X1N0"), ""),
    ],
)
def test_what_arms_a_disk(destroy: str, identity: DeviceIdentity, kind: str) -> None:
    assert arms(destroy, identity) == kind


@given(st.text(max_size=20), st.text(max_size=20))
def test_only_the_disk_itself_is_armed(destroy: str, serial: str) -> None:
    armed = bool(arms(destroy, known(serial=serial)))
    assert armed == (normal(destroy) == normal(serial) and normal(destroy) != "")


@given(st.text(min_size=1, max_size=30).filter(lambda text: bool(normal(text))))
def test_the_word_that_a_refusal_offers_arms(wwid: str) -> None:
    assert arms(password(known(wwid=wwid)), known(wwid=wwid)) == "wwid"


def test_the_surest_id_is_offered() -> None:
    assert password(known(serial="S", wwid="naa.1")) == "naa.1"
    assert password(known()) == ""
    assert portrait(known(serial="S")) == "sda: 1000 B, serial S"


def test_a_serial_that_two_disks_share_arms_neither() -> None:
    host = machine()
    disk(host, "nvme0n2", "259:5", {"wwid": "eui.0025388b71b2d3f2", "device/serial": "S4X1N0"})
    with pytest.raises(TargetRefused, match="does not name one disk: nvme0n1") as caught:
        ready(
            host_of(host), Target("d", "device", "eui.0025388b71b2d3f2", destroy="S4X1N0"), WRITES
        )
    assert "wwid" in caught.value.advice
    by_wwid = Target("d", "device", "eui.0025388b71b2d3f2", destroy="eui.0025388b71b2d3f2")
    assert ready(host_of(host), by_wwid, WRITES).device == "nvme0n2"


def test_a_disk_that_nothing_names_cannot_be_armed() -> None:
    host = machine()
    disk(host, "ram0", "1:0", {})
    with pytest.raises(TargetRefused, match="the study does not permit it") as caught:
        ready(host_of(host), Target("d", "device", "/dev/ram0"), WRITES)
    assert "for a safe identification" in caught.value.advice


@pytest.mark.parametrize(
    ("before", "now", "another"),
    [
        (known(wwid="naa.1"), known(wwid="naa.1"), False),
        (known(wwid="naa.1"), known(wwid="naa.2"), True),
        (known(wwid="naa.1"), None, True),
        (None, known(wwid="naa.1"), True),
        (None, None, False),
        (known(), DeviceIdentity("sda", "8:0", 2000), True),
        (known(wwid="naa.1"), DeviceIdentity("sdb", "8:16", 1000, (("wwid", "naa.1"),)), False),
    ],
)
def test_another_disk_is_one_with_other_ids_or_size(
    before: DeviceIdentity | None, now: DeviceIdentity | None, *, another: bool
) -> None:
    assert changed(before, now) is another


@given(st.text(max_size=60))
def test_a_line_that_stat_did_not_write_is_no_status(line: str) -> None:
    assert line.count("|") == 7 or parse_status(line) is None


def host_of(written: Written) -> Host:
    """The looking part is all that is asked here."""
    return written  # type: ignore[return-value]


def test_partitions_are_named_as_the_kernel_names_them() -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    assert partition(host, "sda", 1, "8:1") == "sda1"
    assert partition(host, "nvme0n1", 3, "259:3") == "nvme0n1p3"


@dataclass
class Counting(Written):
    """Counts the round trips that a link would make."""

    trips: int = 0

    def read(self, path: str) -> bytes:
        self.trips += 1
        return super().read(path)

    def list(self, path: str) -> list[str]:
        self.trips += 1
        return super().list(path)

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0
    ) -> CompletedCommand:
        self.trips += 1
        return super().run(argv, stdin=stdin, timeout=timeout)

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        before = self.trips
        answers = super().batch(steps)
        self.trips = before + 1
        return answers


def trips(number: int) -> int:
    """Round trips to find a disk among so many by its id, and to see that nobody uses it."""
    host = Counting(**vars(machine()))
    for each in range(number):
        disk(host, f"sd{each}", f"8:{each}", {"device/wwid": f"naa.{each}"})
    there = disks(host_of(host))
    assert len(there) == number + 1
    assert all(each.size > 0 for each in there.values())
    assert busy(host_of(host), identify(host_of(host), "/dev/sd0")) == ()
    return host.trips


def test_a_host_with_many_disks_is_asked_no_more_often_than_one_with_few() -> None:
    assert trips(200) == trips(2)
