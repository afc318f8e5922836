"""Whether a disk is in use, told from trees that a test machine does not have."""

from __future__ import annotations

import pytest

from iotrial.errors import FileRefused, TargetRefused
from iotrial.look.identity import identify
from iotrial.look.targets import ready
from iotrial.look.usage import busy, parse_blkid, signature, usages
from iotrial.model.host import Host
from iotrial.model.target import Target
from iotrial.model.tool import LoadAccess
from machines import Written, answer, disk, hold, machine, partition

READS = LoadAccess(reads=True, writes=False)


def host_of(written: Written) -> Host:
    return written  # type: ignore[return-value]


def used(host: Written, name: str) -> tuple[str, ...]:
    who = identify(host_of(host), f"/dev/{name}")
    return usages(host_of(host), who)


def mount(host: Written, line: str, *, process: str = "self") -> None:
    path = f"/proc/{process}/mountinfo"
    host.files[path] = host.files.get(path, b"") + line.encode() + b"\n"


def test_a_free_disk_is_free() -> None:
    host = machine()
    disk(host, "sda", "8:0", {"device/wwid": "naa.1"})
    assert used(host, "sda") == ()


def test_the_system_disk_is_used_through_its_partition() -> None:
    assert used(machine(), "nvme0n1") == (
        "nvme0n1p2 is a partition of nvme0n1",
        "nvme0n1p2 (a partition of nvme0n1) is mounted on / (ext4)",
    )


def test_lvm_on_a_partition_is_followed_to_its_mount_and_swap() -> None:
    host = machine()
    disk(host, "sda", "8:0", {"device/wwid": "naa.1"})
    partition(host, "sda", 1, "8:1")
    disk(host, "dm-0", "253:0", {"dm/uuid": "LVM-abc", "dm/name": "vg-root"})
    disk(host, "dm-1", "253:1", {"dm/uuid": "LVM-def", "dm/name": "vg-swap"})
    hold(host, "sda1", "dm-0")
    hold(host, "sda1", "dm-1")
    host.links["/dev/mapper/vg-root"] = "/dev/dm-0"
    mount(host, "30 22 253:0 / /srv rw - xfs /dev/mapper/vg-root rw")
    host.add("/proc/swaps", "Filename Type Size Used Priority\n/dev/dm-1 partition 1000 0 -2")
    assert used(host, "sda") == (
        "sda1 is a partition of sda",
        "dm-0 is built on sda1: LVM-abc",
        "dm-1 is built on sda1: LVM-def",
        "dm-0 (built on sda1: LVM-abc) is mounted on /srv (xfs)",
        "dm-1 (built on sda1: LVM-def) is swap space (/dev/dm-1)",
    )


def test_a_multipath_leg_is_refused_and_the_upper_device_is_not() -> None:
    host = machine()
    for name, devno in (("sda", "8:0"), ("sdb", "8:16")):
        disk(host, name, devno, {"device/wwid": "naa.600508b4"})
    disk(host, "dm-0", "253:0", {"dm/uuid": "mpath-3600508b4", "dm/name": "mpatha"})
    hold(host, "sda", "dm-0")
    hold(host, "sdb", "dm-0")
    with pytest.raises(TargetRefused, match="Set the upper device") as caught:
        ready(host_of(host), Target("d", "device", "/dev/sda"), READS)
    assert "dm-0 is built on sda: mpath-3600508b4" in caught.value.evidence
    assert used(host, "dm-0") == ()


def test_another_path_to_the_same_disk_counts_with_all_that_is_on_it() -> None:
    host = machine()
    disk(host, "sda", "8:0", {"device/wwid": "naa.600508b4"})
    disk(host, "sdb", "8:16", {"device/wwid": "naa.600508b4"})
    mount(host, "30 22 8:16 / /data rw - ext4 /dev/sdb rw")
    assert used(host, "sda") == (
        "sdb is another path to naa.600508b4",
        "sdb (another path to naa.600508b4) is mounted on /data (ext4)",
    )


def test_the_hidden_paths_of_nvme_multipathing_are_the_disk_itself() -> None:
    host = machine()
    disk(host, "nvme1n1", "259:8", {"wwid": "eui.2"})
    disk(host, "nvme1c0n1", "259:9", {"wwid": "eui.2", "hidden": "1"})
    assert used(host, "nvme1n1") == ()


def test_a_member_of_an_array_is_held_by_it() -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    disk(host, "md127", "9:127", {"md/level": "raid1"})
    hold(host, "sda", "md127")
    assert used(host, "sda") == ("md127 is built on sda: raid1",)


def test_btrfs_has_a_number_of_its_own_and_is_found_by_its_source() -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    mount(host, "30 22 0:45 /@home /home rw shared:1 - btrfs /dev/sda rw,subvol=/@home")
    assert used(host, "sda") == ("sda is mounted on /home (btrfs)",)


@pytest.mark.parametrize("source", ["/dev/sda", "/tmp/mynode", "/dev/sdb:/tmp/mynode"])
def test_a_mount_with_a_number_of_its_own_is_found_by_whatever_node(source: str) -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    host.nodes["/tmp/mynode"] = "8:0"
    mount(host, f"30 22 0:45 / /pool rw - btrfs {source} rw")
    assert used(host, "sda") == ("sda is mounted on /pool (btrfs)",)


def test_every_member_of_a_mounted_pool_is_used() -> None:
    host = machine()
    for name, devno in (("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")):
        disk(host, name, devno, {})
    for name in ("sda", "sdb"):
        host.links[f"/sys/fs/btrfs/1-2-3/devices/{name}"] = host.real(f"/sys/block/{name}")
    host.add("/sys/fs/btrfs/features/raid1c34", "0")
    mount(host, "30 22 0:45 / /pool rw - btrfs /dev/sda rw")
    assert "sdb belongs to a mounted btrfs" in used(host, "sdb")
    assert used(host, "sdc") == ()


GONE = "but that node no longer exists"


@pytest.mark.parametrize(
    ("node", "used_as"),
    [
        ("/tmp/mynode", "sda is swap space (/tmp/mynode)"),
        (
            "/tmp/gone\\040(deleted)",
            f"sda may be swap space: /tmp/gone (deleted) has its size, {GONE}",
        ),
    ],
)
def test_swap_is_found_by_whatever_node(node: str, used_as: str) -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    disk(host, "sdb", "8:16", {}, sectors=2**22)
    host.nodes["/tmp/mynode"] = "8:0"
    host.add("/proc/swaps", f"Filename Type Size Used Priority\n{node} partition 1048572 0 -2")
    assert used(host, "sda") == (used_as,)
    assert used(host, "sdb") == ()


@pytest.mark.parametrize(
    ("place", "how"),
    [
        ("/sys/kernel/config/nvmet/subsystems/a/namespaces/1/device_path", "NVMe target"),
        ("/sys/kernel/config/target/core/iblock_0/a/udev_path", "SCSI target"),
        ("/sys/kernel/config/usb_gadget/g/functions/f/lun.0/file", "USB disk"),
        ("/sys/block/zram0/backing_dev", "the store of"),
    ],
)
def test_what_the_kernel_serves_to_others_is_used(place: str, how: str) -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    host.nodes["/tmp/mynode"] = "8:0"
    host.scripts["iotrial-servers"] = f"{place}:/tmp/mynode\n"
    (line,) = used(host, "sda")
    assert how in line
    assert place in line


def test_a_mount_that_only_another_namespace_has_is_found() -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    mount(host, r"99 98 8:0 / /in\040a\040box rw - ext4 /dev/sda rw", process="4711")
    assert used(host, "sda") == ("sda is mounted on /in a box (ext4, seen by process 4711)",)
    assert busy(host_of(host), identify(host_of(host), "/dev/sda")) == ()


def test_a_partition_is_not_used_by_its_neighbour_but_by_what_holds_the_whole_disk() -> None:
    host = machine()
    partition(host, "nvme0n1", 3, "259:3")
    assert used(host, "nvme0n1p3") == ()
    disk(host, "dm-0", "253:0", {"dm/uuid": "mpath-1"})
    hold(host, "nvme0n1", "dm-0")
    assert used(host, "nvme0n1p3") == ("dm-0 is built on nvme0n1: mpath-1",)


def test_a_whole_disk_mounted_makes_its_partitions_used() -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    partition(host, "sda", 1, "8:1")
    mount(host, "30 22 8:0 / /data rw - ext4 /dev/sda rw")
    assert used(host, "sda1") == ("sda (the disk of sda1) is mounted on /data (ext4)",)


@pytest.mark.parametrize(
    ("exit_", "text", "stderr", "evidence"),
    [
        (0, "DEVNAME=/dev/sda\nTYPE=LVM2_member\nUSAGE=raid\n", b"", "a LVM2_member raid"),
        (0, "DEVNAME=/dev/sda\nPTTYPE=gpt\n", b"", "a gpt partition table"),
        (8, "", b"", "more than one signature"),
        (2, "", b"blkid: error: /dev/sda: Permission denied", "Permission denied"),
        (127, "", b"", "blkid is not installed"),
    ],
)
def test_what_blkid_says_or_cannot_say_is_evidence(
    exit_: int, text: str, stderr: bytes, evidence: str
) -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    command = ("blkid", "-p", "-o", "export", "/dev/sda")
    said = answer(command, text, exit_=exit_)
    host.answers[command] = type(said)(said.argv, said.exit, said.stdout, stderr)
    found = used(host, "sda")
    assert len(found) == 1
    assert evidence in found[0]


# blkid from util-linux 2.38.1, Debian 12, `blkid -p -o export` on an empty partition, and on one
# with ext4.
EMPTY_PARTITION = """\
DEVNAME=/dev/loop1366p1
PART_ENTRY_SCHEME=dos
PART_ENTRY_TYPE=0x83
PART_ENTRY_NUMBER=1
PART_ENTRY_OFFSET=2048
PART_ENTRY_SIZE=40960
PART_ENTRY_DISK=7:1366
"""
EXT4 = """\
DEVNAME=/dev/loop1366p1
UUID=47b00bc5-d6b5-4f7f-8712-8b559f82aefc
VERSION=1.0
BLOCK_SIZE=1024
TYPE=ext4
USAGE=filesystem
"""


def test_an_entry_in_a_partition_table_is_no_signature() -> None:
    assert signature(parse_blkid(EMPTY_PARTITION)) == ""
    assert signature(parse_blkid(EXT4 + EMPTY_PARTITION)) == "ext4 filesystem"


@pytest.mark.parametrize("table", ["/proc/self/mountinfo", "/proc/swaps"])
def test_without_the_kernels_tables_no_disk_is_free(table: str) -> None:
    host = machine()
    disk(host, "sda", "8:0", {})
    del host.files[table]
    with pytest.raises(FileRefused):
        used(host, "sda")
